#!/usr/bin/env python3
"""Writes tests/trainer/algorithms/goldens/advantages.json and tests/trainer/losses/goldens/{policy,value,kl}.json:
batches of responses, random and at the edges, with what the formulas of the papers (and verl's, where they say
more) make of them. Responses are rows of padded matrices here, and gradients central differences in fp64.

Usage: tools/make_goldens/objectives.py      needs numpy
"""
import json
from pathlib import Path

import numpy as np

TESTS = Path(__file__).resolve().parents[2] / "tests/trainer"
EPS = 1e-6


# --- Advantages: R [S] whole rewards, r [S, T] by token, m [S, T] mask, V [S, T], g [S] greedy, id [S].

def per_group(R, ids, of):
    out = np.zeros_like(R)
    for group in np.unique(ids):
        out[ids == group] = of(R[ids == group])
    return out


def centred(R):
    return R - R.mean() if len(R) > 1 else R


def whiten(A, m):
    n = m.sum()
    if n < 2:
        return A * m
    mean = (A * m).sum() / n
    var = (((A - mean) * m) ** 2).sum() / (n - 1)
    return (A - mean) / np.sqrt(var + 1e-8) * m


def discounted(r, m, gamma):
    out = np.zeros_like(r)
    run = np.zeros(len(r))
    for t in reversed(range(r.shape[1])):
        new = r[:, t] + gamma * run
        out[:, t] = new * m[:, t]
        run = np.where(m[:, t] > 0, new, run)
    return out


def gae(r, m, V, gamma, lam):
    A = np.zeros_like(r)
    run, nxt = np.zeros(len(r)), np.zeros(len(r))
    for t in reversed(range(r.shape[1])):
        new = r[:, t] + gamma * nxt - V[:, t] + gamma * lam * run
        run = np.where(m[:, t] > 0, new, run)
        nxt = np.where(m[:, t] > 0, V[:, t], nxt)
        A[:, t] = run
    return A


def explained_variance(A, V, m):
    """Of returns A + V by values V."""
    if m.sum() < 2:
        return 0.0
    of = lambda x: x[m > 0].var(ddof=1)
    return 1 - of(A) / (of(A + V) + 1e-5)


def passk(R, by_std):
    out = np.zeros_like(R)
    if len(R) > 1:
        order = np.argsort(-R, kind="stable")
        out[order[0]] = (R[order[0]] - R[order[1]]) / (R.std(ddof=1) + EPS if by_std else 1)
    return out


def opo(R, lengths):
    if len(R) == 1 or lengths.sum() == 0:
        return R.copy()
    return R - (lengths * R).sum() / lengths.sum()


def estimate(name, c):
    R, r, m, V, g, ids = (c[k] for k in ("R", "r", "m", "V", "g", "ids"))
    row = m.sum(1)
    wide = lambda a: a[:, None] * m
    if name == "grpo":
        if c["by_std"]:
            return wide(per_group(R, ids, lambda x: centred(x) / ((x.std(ddof=1) if len(x) > 1 else 1) + EPS))), None
        return wide(per_group(R, ids, centred)), None
    if name == "dr_grpo":
        return wide(per_group(R, ids, centred)), None
    if name == "rloo":  # the mean of the others, spelled out
        loo = lambda x: np.array([v - np.delete(x, i).mean() for i, v in enumerate(x)]) if len(x) > 1 else x
        return wide(per_group(R, ids, loo)), None
    if name == "opo":
        out = np.zeros_like(R)
        for group in np.unique(ids):
            out[ids == group] = opo(R[ids == group], row[ids == group])
        return wide(out), None
    if name == "gpg":
        return wide(len(R) / max(1, np.count_nonzero(R)) * per_group(R, ids, centred)), None
    if name == "grpo_passk":
        return wide(per_group(R, ids, lambda x: passk(x, c["by_std"]))), None
    if name == "reinforce_plus_plus_baseline":
        return whiten(wide(per_group(R, ids, centred)), m), None
    if name == "reinforce_plus_plus":
        G = discounted(r, m, c["gamma"])
        return whiten(G, m), G
    if name == "remax":
        G = np.cumsum((r * m)[:, ::-1], 1)[:, ::-1] * m
        return (G - g[:, None]) * m, G
    if name == "gae":
        A = gae(r, m, V, c["gamma"], c["lam"])
        return whiten(A, m), (A + V) * m
    raise KeyError(name)


ESTIMATORS = ["grpo", "dr_grpo", "rloo", "reinforce_plus_plus", "reinforce_plus_plus_baseline", "remax", "opo",
              "gpg", "grpo_passk", "gae"]


def advantage_cases(rng):
    def case(groups, lengths, reward, holes=0.0, **more):
        S, T = len(lengths), max(max(lengths), 1)
        m = (np.arange(T)[None] < np.array(lengths)[:, None]).astype(float)
        inside = m.copy()
        m *= rng.random((S, T)) >= holes
        score = reward(S)
        r = rng.normal(0, 0.05, (S, T)) * m * more.pop("kl", 1.0)
        R = score + r.sum(1)
        for i, n in enumerate(lengths):
            if n:
                last = np.flatnonzero(m[i])
                r[i, last[-1] if len(last) else n - 1] += score[i]
        return {"R": R, "r": r, "m": m, "inside": inside, "V": rng.normal(0, 1, (S, T)) * inside, "g": rng.random(S),
                "ids": np.array(groups), "lengths": lengths, "by_std": more.get("by_std", True),
                "gamma": more.get("gamma", 1.0), "lam": more.get("lam", 1.0)}

    binary = lambda S: rng.integers(0, 2, S).astype(float)
    normal = lambda S: rng.normal(0, 2, S)
    masked_row = case([3, 3, 3, 4, 4], [4, 2, 5, 3, 3], normal)
    masked_row["m"][1] = 0
    return {
        "random": case(np.repeat(np.arange(5), 4), rng.integers(1, 9, 20).tolist(), normal, gamma=0.97, lam=0.9),
        "no-std": case(np.repeat(np.arange(5), 4), rng.integers(1, 9, 20).tolist(), normal, by_std=False),
        "binary": case(np.repeat(np.arange(6), 3), rng.integers(1, 7, 18).tolist(), binary, kl=0.0),
        "tool-tokens": case(np.repeat(np.arange(4), 3), rng.integers(5, 12, 12).tolist(), normal, 0.4, gamma=0.9,
                            lam=0.8),
        "one-sample-groups": case([0, 1, 2, 2, 5], [3, 1, 4, 2, 6], normal),
        "all-equal-rewards": case([0, 0, 0, 1, 1], [3, 1, 4, 2, 6], lambda S: np.full(S, 0.3), kl=0.0),
        "all-zero-rewards": case([0, 0, 1, 1], [3, 1, 4, 2], lambda S: np.zeros(S), kl=0.0),
        "fully-masked-row": masked_row,
        "zero-length-responses": case([0, 0, 0, 1, 1], [3, 0, 4, 0, 0], normal),
        "one-token": case([0], [1], normal),
        "no-tokens": case([0, 0], [0, 0], normal),
    }


def rows(matrix, lengths):
    return [[float(v) for v in matrix[i, :n]] for i, n in enumerate(lengths)]


def write_advantages():
    out = []
    for name, c in advantage_cases(np.random.default_rng(7)).items():
        n = c["lengths"]
        item = {"name": name, "groups": [int(i) for i in c["ids"]], "reward": c["R"].tolist(), "greedy": c["g"].tolist(),
                "rewards": rows(c["r"], n), "mask": [[int(v) for v in row] for row in rows(c["m"], n)],
                "values": rows(c["V"], n), "by_std": c["by_std"], "gamma": c["gamma"], "lam": c["lam"], "expected": {}}
        for estimator in ESTIMATORS:
            A, G = estimate(estimator, c)
            item["expected"][estimator] = {"advantages": rows(A, n)} | ({"returns": rows(G, n)} if G is not None else {})
        A = gae(c["r"], c["m"], c["V"], c["gamma"], c["lam"])
        item["explained_variance"] = float(explained_variance(A, c["V"], c["m"]))
        out.append(item)
    write("algorithms/goldens/advantages.json", out)


# --- Losses: l, o [S, T] new and old log-probabilities; f is l without gradient. All return [S, T] or [S].

def aggregate(L, m, mode, scale):
    n = m.sum(1)
    full = n > 0
    if mode == "token-mean":
        return (L * m).sum() / m.sum()
    if mode == "token-sum":
        return (L * m).sum()
    per_row = (L * m).sum(1)[full]
    if mode == "seq-mean-token-sum":
        return per_row.mean()
    if mode == "seq-mean-token-mean":
        return (per_row / n[full]).mean()
    if mode == "seq-mean-token-sum-norm":
        return per_row.mean() / scale
    raise KeyError(mode)


def row_mean(x, m):
    return (x * m).sum(1) / np.maximum(m.sum(1), 1)


def covariance(A, f, m):
    mean = lambda x: (x * m).sum() / m.sum()
    return np.where(m > 0, (A - mean(A)) * (f - mean(f)), -np.inf)


def policy(mode, l, f, o, A, m, w, c):
    """The loss at l, with everything that has no gradient taken at f."""
    lo, hi = 1 - c["clip_ratio_low"], 1 + c["clip_ratio_high"]
    ratio = np.exp(np.clip(l - o, -20, 20))
    plain, clipped = -A * ratio, -A * np.clip(ratio, lo, hi)
    agg = c["loss_agg_mode"]
    if mode == "vanilla":
        L = np.maximum(plain, clipped)
        L = np.where(A < 0, np.minimum(L, -A * c["clip_ratio_c"]), L)
    elif mode == "gspo":
        s = np.exp(np.minimum(l - f + row_mean(f - o, m)[:, None], 10))
        L = np.maximum(-A * s, -A * np.clip(s, lo, hi))
        agg = "seq-mean-token-mean"
    elif mode == "cispo":
        L = -np.clip(np.exp(np.clip(f - o, -20, 20)), lo, hi) * A * l
    elif mode == "sapo":
        tau = np.where(A > 0, c["tau_pos"], c["tau_neg"])
        L = -A * 4 / tau / (1 + np.exp(-tau * (ratio - 1)))
        agg = "seq-mean-token-mean"
    elif mode == "geo_mean":
        d = l - o
        k = np.clip(d, -c["clip_ratio_low"], c["clip_ratio_high"])
        d = np.where(A > 0, np.minimum(d, k), np.where(A < 0, np.maximum(d, k), 0))
        per_row = -row_mean(A, m) * np.exp(row_mean(d, m)) * np.exp(row_mean(np.log(w + 1e-10), m))
        return per_row[m.sum(1) > 0].mean()
    elif mode == "clip_cov":  # with a ratio that takes every eligible token
        fixed_plain = -A * np.exp(np.clip(f - o, -20, 20))
        fixed_clip = -A * np.clip(np.exp(np.clip(f - o, -20, 20)), lo, hi)
        cov = np.where(fixed_clip > fixed_plain, -np.inf, covariance(A, f, m))
        L = np.maximum(plain, clipped) * ~((cov > c["clip_cov_lb"]) & (cov < c["clip_cov_ub"]))
    elif mode == "kl_cov":
        cov = covariance(A, f, m).ravel()
        top = np.argsort(-cov, kind="stable")[:max(1, int(c["kl_cov_ratio"] * m.sum()))]
        held = np.isin(np.arange(cov.size), top).reshape(A.shape)
        L = plain + held * c["ppo_kl_coef"] * np.abs(np.clip(l - o, -20, 20))
    elif mode == "gpg":
        L = -A * l
    else:
        raise KeyError(mode)
    return aggregate(L * w, m, agg, c["scale"])


def gradient(of, x, m):
    out = np.zeros_like(x)
    for at in zip(*np.nonzero(m)):
        step = np.zeros_like(x)
        step[at] = 1e-6
        out[at] = (of(x + step) - of(x - step)) / 2e-6
    return out


MODES = ["vanilla", "gspo", "cispo", "sapo", "geo_mean", "clip_cov", "kl_cov", "gpg"]
AGGREGATIONS = ["token-mean", "token-sum", "seq-mean-token-sum", "seq-mean-token-mean", "seq-mean-token-sum-norm"]
CONSTANTS = {"clip_ratio_low": 0.2, "clip_ratio_high": 0.28, "clip_ratio_c": 3.0, "tau_pos": 1.0, "tau_neg": 1.05,
             "clip_cov_ratio": 1.0, "clip_cov_lb": 0.1, "clip_cov_ub": 3.0, "kl_cov_ratio": 0.2, "ppo_kl_coef": 0.5,
             "scale": 11}


def write_policy():
    rng = np.random.default_rng(11)
    out = []

    def case(name, lengths, spread, holes=0.0, importance=False, advantage=None, masked_rows=()):
        S, T = len(lengths), max(lengths)
        # fp32 numbers, so that what the code is given is what the formulas were.
        single = lambda x: x.astype(np.float32).astype(np.float64)
        inside = (np.arange(T)[None] < np.array(lengths)[:, None]).astype(float)
        m = inside * (rng.random((S, T)) >= holes)
        m[list(masked_rows)] = 0
        l = single(-rng.gamma(2, 0.6, (S, T)) * inside)
        o = single((l + rng.normal(0, spread, (S, T))) * inside)
        A = single((rng.normal(0, 1.5, (S, 1)) * np.ones((S, T)) if advantage is None else np.full((S, T), advantage)) * inside)
        w = single(np.exp(rng.normal(0, 0.3, (S, T)))) if importance else np.ones((S, T))
        item = {"name": name, "lengths": lengths, "log_probs": rows(l, lengths), "old": rows(o, lengths),
                "advantages": rows(A, lengths), "mask": [[int(v) for v in row] for row in rows(m, lengths)],
                "importance": rows(w, lengths) if importance else [], "expected": []}
        for mode in MODES:
            for agg in AGGREGATIONS if mode in ("vanilla", "cispo") else ["token-mean"]:
                c = CONSTANTS | {"loss_agg_mode": agg}
                of = lambda x: policy(mode, x, l, o, A, m, w, c)
                item["expected"].append({"mode": mode, "aggregation": agg, "loss": float(of(l)),
                                         "gradient": rows(gradient(of, l, m), lengths)})
        out.append(item)

    case("near", [5, 3, 7, 1, 4], 0.1)
    case("far", [5, 3, 7, 1, 4, 6], 1.2)
    case("corrected", [4, 6, 2, 5], 0.4, importance=True)
    case("tool-tokens", [6, 8, 5], 0.4, holes=0.4)
    case("fully-masked-row", [3, 4, 2], 0.4, masked_rows=[1])
    case("one-token", [1], 0.3)
    case("no-advantage", [3, 2], 0.4, advantage=0.0)
    case("same-policy", [3, 4], 0.0)
    write("losses/goldens/policy.json", {"constants": CONSTANTS, "cases": out})


def value(v, o, R, m, cliprange, agg, scale):
    kept = np.clip(v, o - cliprange, o + cliprange)
    return 0.5 * aggregate(np.maximum((v - R) ** 2, (kept - R) ** 2), m, agg, scale)


def write_value():
    rng = np.random.default_rng(17)
    cliprange, out = 0.5, []

    def case(name, lengths, spread, holes=0.0, masked_rows=(), off=1.0):
        S, T = len(lengths), max(lengths)
        single = lambda x: x.astype(np.float32).astype(np.float64)
        inside = (np.arange(T)[None] < np.array(lengths)[:, None]).astype(float)
        m = inside * (rng.random((S, T)) >= holes)
        m[list(masked_rows)] = 0
        o = single(rng.normal(0, 1, (S, T)) * inside)
        v = single((o + rng.normal(0, spread, (S, T))) * inside)
        R = single((o + rng.normal(0, off, (S, T))) * inside)
        further = (np.clip(v, o - cliprange, o + cliprange) - R) ** 2 > (v - R) ** 2
        item = {"name": name, "lengths": lengths, "values": rows(v, lengths), "old": rows(o, lengths),
                "returns": rows(R, lengths), "mask": [[int(x) for x in row] for row in rows(m, lengths)],
                "clipped": float((further * m).sum() / m.sum()), "mean": float((v * m).sum() / m.sum()), "expected": []}
        for agg in AGGREGATIONS:
            of = lambda x: value(x, o, R, m, cliprange, agg, CONSTANTS["scale"])
            item["expected"].append({"aggregation": agg, "loss": float(of(v)), "gradient": rows(gradient(of, v, m), lengths)})
        out.append(item)

    case("near", [5, 3, 7, 1, 4], 0.2)
    case("far", [5, 3, 7, 1, 4, 6], 1.5)
    case("far-off", [4, 6, 2, 5], 0.8, off=5.0)
    case("tool-tokens", [6, 8, 5], 0.8, holes=0.4)
    case("fully-masked-row", [3, 4, 2], 0.8, masked_rows=[1])
    case("one-token", [1], 0.3)
    case("first-update", [3, 4], 0.0)
    write("losses/goldens/value.json", {"cliprange": cliprange, "scale": CONSTANTS["scale"], "cases": out})


def kl(kind, l, f, ref):
    base = kind.rstrip("+")
    if kind.endswith("+") and base not in ("mse", "k2"):
        return kl(base, f, f, ref) + 0.5 * (l - ref) ** 2 - 0.5 * (f - ref) ** 2
    d = np.clip(ref - l, -20, 20)
    return {"kl": lambda: l - ref, "abs": lambda: np.abs(l - ref), "mse": lambda: 0.5 * (l - ref) ** 2,
            "low_var_kl": lambda: np.clip(np.exp(d) - d - 1, -10, 10)}[
                {"k1": "kl", "k2": "mse", "k3": "low_var_kl"}.get(base, base)]()


def write_kl():
    rng = np.random.default_rng(13)
    l = np.concatenate([-rng.gamma(2, 1, 24), [-1.0, -60.0, -0.5, -30.0]]).astype(np.float32).astype(float)
    ref = np.concatenate([-rng.gamma(2, 1, 24), [-1.0, -1.0, -40.0, -2.0]]).astype(np.float32).astype(float)
    kinds = [k + p for k in ("kl", "k1", "abs", "mse", "k2", "low_var_kl", "k3") for p in ("", "+")]
    expected = []
    for kind in kinds:
        slope = (kl(kind, l + 1e-6, l, ref) - kl(kind, l - 1e-6, l, ref)) / 2e-6
        expected.append({"type": kind, "value": kl(kind, l, l, ref).tolist(), "gradient": slope.tolist()})
    write("losses/goldens/kl.json", {"log_probs": l.tolist(), "reference": ref.tolist(), "expected": expected})


def write(path, value):
    file = TESTS / path
    file.parent.mkdir(parents=True, exist_ok=True)
    shorter = json.loads(json.dumps(value), parse_float=lambda text: float(f"{float(text):.10g}"))
    file.write_text(json.dumps(shorter, separators=(",", ":")) + "\n")
    print(file, file.stat().st_size)


if __name__ == "__main__":
    write_advantages()
    write_policy()
    write_value()
    write_kl()
