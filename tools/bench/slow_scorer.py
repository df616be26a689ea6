#!/usr/bin/env python3
"""A step with a reward function that takes as long as generation, beside one that answers at once: the quickstart
on two ranks, in turns.

    tools/bench/slow_scorer.py [--rounds 2] [rollout.max_num_seqs=32 ...]
"""
import argparse
import json
import os
import statistics
import subprocess
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
REWARD = """
import os, time
def compute_score(data_source, solution_str, ground_truth, extra_info=None):
    time.sleep(float(os.environ["SCORER_SLEEPS"]))
    return float(solution_str.split("=")[-1].strip() == ground_truth.split("=")[-1].strip())
"""
WORKERS, RESPONSES = 2, 128  # of a rank
SETTINGS = ["sft.max_steps=60", "sft.stop_at_accuracy=0", "trainer.total_training_steps=14", "trainer.test_freq=-1",
            "data.arithmetic.num_val=16", f"reward.scorer.num_workers={WORKERS}"]


def run(folder, sleep, more):
    with open(os.path.join(folder, "reward.py"), "w") as file:
        file.write(REWARD)
    run_dir = tempfile.mkdtemp(dir=folder)
    subprocess.run([os.path.join(HERE, "../../build/cpu/bin/trireme"), "run",
                    os.path.join(HERE, "../../configs/quickstart.toml"), "--run-dir", run_dir, *SETTINGS,
                    "reward.function.path=" + os.path.join(folder, "reward.py"), *more],
                   env=dict(os.environ, SCORER_SLEEPS=str(sleep)), check=True, capture_output=True)
    with open(os.path.join(run_dir, "metrics.jsonl")) as file:
        rows = [json.loads(line)["metrics"] for line in file]
    rows = [row for row in rows if "timing_s/gen" in row][3:]
    return {stage: statistics.median(row["timing_s/" + stage] for row in rows) for stage in ("step", "gen", "reward")}


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--rounds", type=int, default=2)
parser.add_argument("settings", nargs="*")
options = parser.parse_args()
with tempfile.TemporaryDirectory() as folder:
    for _ in range(options.rounds):
        quick = run(folder, 0, options.settings)
        sleep = quick["gen"] * WORKERS / RESPONSES
        slow = run(folder, sleep, options.settings)
        print(f"at once: step {quick['step']:.3f} s, generation {quick['gen']:.3f}; {1000 * sleep:.1f} ms a response: "
              f"step {slow['step']:.3f}, of it waiting {slow['reward']:.3f}; ratio {slow['step'] / quick['step']:.2f}",
              flush=True)
