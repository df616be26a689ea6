#!/usr/bin/env python3
"""Verdicts of a made-up evaluation and the metrics that numpy computes of them, the way verl defines those.

Usage: tools/make_goldens/validation.py > tests/trainer/evaluation/goldens/validation.json    (needs numpy)
"""

import json

import numpy as np

DRAWS, SEED = 1000, 42


def judged():
    random = np.random.RandomState(5)
    problems = []
    for source, count, responses in (("openai/gsm8k", 12, 8), ("math", 7, 5), ("aime2024", 3, 1), ("two", 4, 2), ("many", 2, 33)):
        for _ in range(count):
            answers = [str(answer) for answer in random.randint(0, 4, responses)]
            acc = [float(answer == "0") for answer in answers]
            reward = [round(float(a + 0.1 * random.rand()), 6) for a in acc]
            length = [float(n) for n in random.randint(1, 500, responses)]
            problems.append({"data_source": source, "answers": answers,
                             "values": {"reward": reward, "acc": acc, "length": length}})
    problems.append({"data_source": "no votes", "answers": [], "values": {"reward": [0.0, 1.0, 0.5]}})
    return problems


def indices(count, size):
    np.random.seed(SEED)
    return np.random.choice(count, size=(DRAWS, size), replace=True)


def sizes(count):
    if count <= 1:
        return []
    return [2**k for k in range(1, 20) if 2**k < count] + [count]


def majority(answers, values):
    names, first, times = np.unique(answers, return_index=True, return_counts=True)
    # Of those given most often, the one that came first.
    winner = min(first[times == times.max()])
    return values[winner]


def statistics(values, answers):
    values, answers = np.array(values), np.array(answers)
    count = len(values)
    yield f"mean@{count}", values.mean()
    if count > 1:
        yield f"std@{count}", values.std()
    for size in sizes(count):
        drawn = indices(count, size)
        found = {"best": values[drawn].max(axis=1), "worst": values[drawn].min(axis=1)}
        if len(answers):
            found["maj"] = np.array([majority(answers[d], values[d]) for d in drawn])
        for name, each in found.items():
            yield f"{name}@{size}/mean", each.mean()
            yield f"{name}@{size}/std", each.std()


def main():
    problems = judged()
    collected = {}
    for problem in problems:
        for value, each in problem["values"].items():
            count = len(each)
            core = {f"mean@{count}"} | {f"{kind}@{count}/{what}" for kind in ("best", "maj") for what in ("mean", "std")}
            for name, number in statistics(each, problem["answers"]):
                section = "val-core" if value in ("reward", "acc") and name in core else "val-aux"
                collected.setdefault(f"{section}/{problem['data_source']}/{value}/{name}", []).append(number)
    metrics = {name: float(np.mean(numbers)) for name, numbers in collected.items()}
    print(json.dumps({"problems": problems, "metrics": metrics}))


main()
