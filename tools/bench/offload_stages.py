#!/usr/bin/env python3
"""Most memory of every stage of a step, with nothing offloaded and with each role's state and the KV cache.

    tools/bench/offload_stages.py
"""
import json
import os
import subprocess
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
MODEL = ["hidden_size=512", "intermediate_size=1536", "num_hidden_layers=8", "num_attention_heads=8",
         "num_key_value_heads=4"]
SETTINGS = ["model.init." + field for field in MODEL] + [
    "model.dtype=bf16", "sft.warm_start=false", "trainer.total_training_steps=3", "trainer.test_freq=-1",
    "trainer.val_before_train=false", "trainer.save_freq=-1", "data.arithmetic.num_val=8", "data.train_batch_size=8",
    "rollout.n=4", "rollout.kv_cache_memory_gb=0.25", "model.enable_gradient_checkpointing=true",
    "actor.optim.lr_warmup_steps=1"]
CRITIC = ["critic.optim.lr_warmup_steps=1", "trainer.critic_warmup=0"]
KV, REFERENCE = ["rollout.free_cache_engine=true"], ["reference.param_offload=true"]
OPTIMIZER, PARAMS = ["actor.optimizer_offload=true"], ["actor.param_offload=true"]
RUNS = [("nothing", "quickstart", []), ("keys and values", "quickstart", KV), ("reference", "quickstart", REFERENCE),
        ("actor's moments", "quickstart", OPTIMIZER), ("actor's masters, gradients", "quickstart", PARAMS),
        ("all of them", "quickstart", KV + REFERENCE + OPTIMIZER + PARAMS), ("nothing, PPO", "quickstart-ppo", CRITIC),
        ("critic", "quickstart-ppo", CRITIC + ["critic.param_offload=true", "critic.optimizer_offload=true"])]

stages = ["gen", "ref", "values", "update_critic", "update_actor"]
print("| offloaded |" + "".join(f" {stage} |" for stage in stages) + " step |")
print("| --- |" + " --: |" * (len(stages) + 1))
with tempfile.TemporaryDirectory() as folder:
    for name, config, more in RUNS:
        run_dir = tempfile.mkdtemp(dir=folder)
        subprocess.run([os.path.join(HERE, "../../build/cpu/bin/trireme"), "run",
                        os.path.join(HERE, f"../../configs/{config}.toml"), "--run-dir", run_dir, "-n", "1", *SETTINGS,
                        *more], check=True, capture_output=True)
        with open(os.path.join(run_dir, "metrics.jsonl")) as file:
            rows = [json.loads(line)["metrics"] for line in file]
        last = [row for row in rows if "timing_s/gen" in row][-1]
        held = [last.get("memory_gb/" + stage) for stage in stages]
        print(f"| {name} |" + "".join(" |" if gb is None else f" {gb:.3f} |" for gb in held) +
              f" {last['timing_s/step']:.2f} s |", flush=True)
