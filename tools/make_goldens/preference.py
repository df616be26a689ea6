#!/usr/bin/env python3
"""Writes tests/trainer/losses/goldens/preference.json: pairs of answers, random and at the edges, with what the
papers' formulas make of them. Gradients are central differences in extended precision.

Usage: tools/make_goldens/preference.py      needs numpy
"""
import json
from pathlib import Path

import numpy as np

FILE = Path(__file__).resolve().parents[2] / "tests/trainer/losses/goldens/preference.json"
LD = np.longdouble


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def nll(x):
    """-log of the logistic function, without overflow."""
    return np.where(x > 0, np.log1p(np.exp(-np.abs(x))), np.log1p(np.exp(-np.abs(x))) - x)


def loss(kind, c, r, nc, nr, beta, e):
    """c, r: log-ratios of the chosen and the rejected answer; nc, nr: their tokens."""
    if kind == "sigmoid":  # DPO, eq. 7; cDPO
        return (1 - e) * nll(beta * c - beta * r) + e * nll(beta * r - beta * c)
    if kind == "sigmoid_norm":  # Tulu 3, eq. 6
        return nll(beta * c / nc - beta * r / nr)
    if kind == "hinge":
        return np.maximum(0, 1 - beta * (c - r))
    if kind == "ipo":  # eq. 17, h by token
        return (c / nc - r / nr - 1 / beta / 2) ** 2
    if kind == "robust":  # the loss of flipped labels taken off
        return ((1 - e) * nll(beta * (c - r)) - e * nll(beta * (r - c))) / (1 - 2 * e)
    if kind == "exo_pair":  # KL(model || label)
        p = sigmoid(beta * (c - r))
        q = sigmoid(beta * (r - c))
        return p * (-nll(beta * (c - r)) - np.log(1 - e)) + q * (-nll(beta * (r - c)) - np.log(e))
    if kind == "nca_pair":
        return nll(beta * c) + nll(-beta * c) / 2 + nll(-beta * r) / 2
    if kind == "bco_pair":
        return nll(beta * c) + nll(-beta * r)
    if kind == "apo_zero":
        return sigmoid(-beta * c) + sigmoid(beta * r)
    if kind == "apo_down":
        return sigmoid(beta * c) + sigmoid(beta * (r - c))
    if kind == "sppo_hard":
        return (c - 1 / (2 * beta)) ** 2 + (r + 1 / (2 * beta)) ** 2
    raise KeyError(kind)


KINDS = ["sigmoid", "sigmoid_norm", "hinge", "ipo", "robust", "exo_pair", "nca_pair", "bco_pair", "apo_zero", "apo_down",
         "sppo_hard"]
SMOOTHED = {"sigmoid", "robust", "exo_pair"}


def main():
    rng = np.random.default_rng(17)
    cases = {
        "random": (rng.normal(0, 5, 12), rng.normal(-2, 5, 12), rng.integers(1, 60, 12), rng.integers(1, 60, 12)),
        # A policy that is the reference still; ties; answers of one token.
        "no-change": (np.zeros(3), np.zeros(3), [1, 7, 3], [1, 2, 9]),
        "ties": ([1.5, -3.0], [1.5, -3.0], [4, 1], [4, 8]),
        # So far apart that a plain exponential overflows or a probability is 0.
        "far": ([900.0, -900.0, 0.0, 1e4], [-900.0, 900.0, 5e3, -1e4], [300, 300, 1, 2000], [300, 1, 300, 2000]),
        # On the hinge: 1 - beta (c - r) is a whisker above and below 0.
        "at-the-hinge": ([10.001, 9.999], [0.0, 0.0], [10, 10], [10, 10]),
    }
    out = []
    for name, values in cases.items():
        c, r, nc, nr = (np.asarray(v, LD) for v in values)
        item = {"name": name, "chosen": c, "rejected": r, "chosen_tokens": nc, "rejected_tokens": nr, "expected": []}
        for kind in KINDS:
            for beta in (LD("0.1"), LD("0.5")):
                for e in (LD(0), LD("0.1"), LD("0.4")) if kind in SMOOTHED else (LD(0),):
                    if kind == "exo_pair" and e == 0:
                        continue
                    f = lambda c, r: loss(kind, c, r, nc, nr, beta, e)
                    h = LD("1e-5")
                    item["expected"].append({
                        "type": kind, "beta": float(beta), "label_smoothing": float(e), "losses": f(c, r),
                        "chosen_gradient": (f(c + h, r) - f(c - h, r)) / (2 * h),
                        "rejected_gradient": (f(c, r + h) - f(c, r - h)) / (2 * h)})
        out.append(item)
    numbers = lambda a: [float(f"{float(v):.12g}") for v in a]
    FILE.write_text(json.dumps(out, separators=(",", ":"), default=numbers) + "\n")
    print(FILE, FILE.stat().st_size)


if __name__ == "__main__":
    main()
