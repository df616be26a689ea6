#!/usr/bin/env python3
"""Loading and encoding with the Qwen2 vocabulary beside Hugging Face's tokenizers, in one run: CPU time of one
thread, all of GSM8K, the best of three each.

    pip install tokenizers==0.23.3
    tools/tokenizer_speed.py FOLDER_WITH_TEST_DATA [BUILD_FOLDER]
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
from tokenizers import Tokenizer  # noqa: E402  (reads the variable)


def theirs(data):
    begin = time.process_time()
    tokenizer = Tokenizer.from_file(str(data / "tokenizers/qwen2/tokenizer.json"))
    load = time.process_time() - begin
    rows = [json.loads(line) for line in (data / "gsm8k/train.jsonl").read_text().splitlines()]
    texts = [text for row in rows for text in (row["question"], row["answer"])]
    megabytes = sum(len(text.encode()) for text in texts) / 1e6
    speeds = []
    for encode in (lambda: [tokenizer.encode(text, add_special_tokens=False).ids for text in texts],
                   lambda: tokenizer.encode_batch_fast(texts, add_special_tokens=False)):
        begin = time.process_time()
        encode()
        speeds.append(megabytes / (time.process_time() - begin))
    return load, max(speeds)


def ours(data, build):
    root = pathlib.Path(__file__).resolve().parents[1]
    printed = subprocess.run([str(build / "tests/bin/tokenizer_speed_test")], check=True, text=True, capture_output=True,
                             env={**os.environ, "TRIREME_TEST_DATA": str(data), "TRIREME_SOURCE_DIR": str(root)}).stdout
    speeds = [float(speed) for speed in re.findall(r"^encode.*: ([\d.]+) MB/s", printed, re.M)]
    return float(re.search(r"^load: ([\d.]+) s", printed, re.M)[1]), max(speeds)


def main():
    data = pathlib.Path(sys.argv[1]).resolve()
    build = pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else "build/cpu").resolve()
    runs = {"Trireme": [], "tokenizers": []}
    for _ in range(3):  # in turns, so that a busy machine slows both
        runs["Trireme"].append(ours(data, build))
        runs["tokenizers"].append(theirs(data))
    best = {name: (min(load for load, _ in each), max(speed for _, speed in each)) for name, each in runs.items()}
    for name, (load, speed) in best.items():
        print(f"{name:10}  load {load:.3f} s   encode {speed:5.1f} MB/s a thread")
    print(f"{'ratio':10}  load {best['tokenizers'][0] / best['Trireme'][0]:.1f}        "
          f"encode {best['Trireme'][1] / best['tokenizers'][1]:.1f}")


main()
