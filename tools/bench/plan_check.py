#!/usr/bin/env python3
"""What `trireme plan` predicts, beside what runs on this machine's CPUs take.

    tools/bench/plan_check.py --memory          # most memory and state, over layouts and offloads
    tools/bench/plan_check.py --time            # steps of shapes that were not calibrated on

Run it on a machine that does nothing else: a table of GitHub's kind goes to standard output.
"""
import argparse
import json
import os
import subprocess
import tempfile

SHAPES = {
    "qwen2-59M": dict(model_type="qwen2", hidden_size=512, intermediate_size=1536, num_hidden_layers=12,
                      num_attention_heads=8, num_key_value_heads=4, vocab_size=16000, tie_word_embeddings=False),
    "qwen3-81M": dict(model_type="qwen3", hidden_size=640, intermediate_size=1920, num_hidden_layers=14,
                      num_attention_heads=10, num_key_value_heads=2, head_dim=64, vocab_size=16000,
                      tie_word_embeddings=True),
    "llama-22M": dict(model_type="llama", hidden_size=384, intermediate_size=1152, num_hidden_layers=8,
                      num_attention_heads=6, num_key_value_heads=2, vocab_size=8000, tie_word_embeddings=False),
    "llama-150M": dict(model_type="llama", hidden_size=768, intermediate_size=2304, num_hidden_layers=16,
                       num_attention_heads=12, num_key_value_heads=4, vocab_size=16000, tie_word_embeddings=True),
}
ARCHITECTURES = {"qwen2": "Qwen2ForCausalLM", "qwen3": "Qwen3ForCausalLM", "llama": "LlamaForCausalLM"}

# Shape, ranks, options. Two ranks on two cores at most at a time have a core each.
MEMORY = [
    ("qwen2-59M", "bfloat16", 1, ""),
    ("qwen2-59M", "bfloat16", 1, "--recompute"),
    ("qwen2-59M", "bfloat16", 2, "--zero-stage 1 --recompute"),
    ("qwen2-59M", "bfloat16", 2, "--zero-stage 3"),
    ("qwen2-59M", "bfloat16", 2, "--tp 2"),
    ("qwen2-59M", "bfloat16", 2, "--pp 2 --micro-batches 4"),
    ("qwen2-59M", "float32", 2, "--cp 2 --recompute"),
    ("qwen2-59M", "float32", 2, "--reduce exact"),
    ("qwen3-81M", "bfloat16", 1, ""),
    ("qwen3-81M", "bfloat16", 2, ""),
    ("qwen3-81M", "bfloat16", 2, "--tp 2 --recompute"),
    ("qwen3-81M", "float32", 2, "--zero-stage 2"),
    ("qwen3-81M", "float32", 2, "--zero-stage 3 --recompute"),
    ("qwen3-81M", "float32", 2, "--pp 2 --micro-batches 4 --recompute"),
    ("llama-150M", "bfloat16", 1, "--recompute"),
    ("llama-150M", "bfloat16", 2, "--zero-stage 2 --recompute"),
    ("llama-150M", "float32", 2, "--tp 2"),
    ("llama-150M", "float32", 4, "--tp 2 --zero-stage 1"),
    ("llama-150M", "bfloat16", 1, "--recompute --offload optimizer"),
    ("llama-150M", "bfloat16", 1, "--recompute --offload params"),
    ("llama-150M", "bfloat16", 1, "--recompute --offload params,optimizer"),
    ("llama-150M", "bfloat16", 2, "--zero-stage 1 --recompute --offload optimizer"),
]

CALIBRATION, OTHERS = ("llama-22M", "llama-150M"), ("qwen2-59M", "qwen3-81M")
TIME = [(1, ""), (1, "--recompute"), (2, ""), (2, "--zero-stage 2"), (2, "--tp 2"), (2, "--cp 2"),
        (2, "--pp 2 --micro-batches 8")]


def bench(program, shape, dtype, ranks, options, more):
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        config = dict(SHAPES[shape], architectures=[ARCHITECTURES[SHAPES[shape]["model_type"]]], hidden_act="silu",
                      rms_norm_eps=1e-6, rope_theta=10000.0, max_position_embeddings=4096, torch_dtype="bfloat16")
        json.dump(config, file)
        file.flush()
        command = [program, "bench", "train-step", "--shape", file.name, "--dtype", dtype, "--threads", "1", *more]
        command += ["--batch", "4" if "--memory" in more else "8"]
        command += ["-n", str(ranks)] if ranks > 1 else []
        done = subprocess.run(command + options.split(), capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(" ".join(command + options.split()) + "\n" + done.stdout + done.stderr)
    return json.loads(done.stdout[done.stdout.index("{"):])


def memory(program):
    print("| model | | ranks | | most | predicted | ratio | between updates | predicted | best step |")
    print("| --- | --- | --: | --- | --: | --: | --: | --: | --: | --: |")
    worst = 0.0
    for shape, dtype, ranks, options in MEMORY:
        run = bench(program, shape, dtype, ranks, options, ["--memory", "--json", "--context", "256"])
        ratio = run["predicted_training_gb"] / run["training_gb"]
        worst = max(worst, abs(ratio - 1))
        print(f"| {shape} | {dtype} | {ranks} | `{options}` | {run['training_gb']:.3f} GB |"
              f" {run['predicted_training_gb']:.3f} GB | {ratio:.3f} | {run['state_gb']:.3f} GB |"
              f" {run['predicted_state_gb']:.3f} GB | {run['best_step_ms']:.0f} ms |", flush=True)
    print(f"\nThe worst is {100 * worst:.1f} % off.")


def time(program, dtype, rounds):
    best = {}
    for _ in range(rounds):  # in turns: what disturbs one disturbs all
        for shape in CALIBRATION + OTHERS:
            for ranks, options in TIME:
                run = bench(program, shape, dtype, ranks, options, ["--observe", "--context", "256", "--repeats", "2"])
                key = shape, ranks, options
                if key not in best or run["stated"]["update_actor"] < best[key]["stated"]["update_actor"]:
                    best[key] = run
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
        for (shape, ranks, options), run in best.items():
            run["use"] = "fit" if shape in CALIBRATION and not options and ranks == 1 else "predict"
            run["name"] = f"{shape}, {ranks} rank{'s'[:ranks > 1]} `{options}`"
            file.write(json.dumps(run) + "\n")
        file.flush()
        done = subprocess.run([program, "plan", "--against", file.name, "--fit"], capture_output=True, text=True)
    print(done.stdout + done.stderr)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--time", action="store_true")
    parser.add_argument("--dtype", default="bfloat16", help="of --time")
    parser.add_argument("--rounds", type=int, default=1, help="of --time")
    parser.add_argument("--program", default=os.path.join(os.path.dirname(__file__), "../../build/cpu/bin/trireme"))
    options = parser.parse_args()
    os.environ.update(OMP_NUM_THREADS="1")
    if options.memory:
        memory(options.program)
    if options.time:
        time(options.program, options.dtype, options.rounds)
