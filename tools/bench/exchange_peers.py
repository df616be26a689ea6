"""Data between processes, beside Ray's object store: a batch that one process deals out to four and gathers
again (64 MB in eight columns, as NumPy arrays and as torch tensors), and 4,096 ragged sequences that change
processes. Both sides in one run, in turns.

    cmake --build build/cpu --target exchange_bench
    peers/bin/pip install ray torch==2.11.0 numpy
    peers/bin/python tools/bench/exchange_peers.py
"""

import argparse
import json
import os
import statistics
import subprocess
import time

import numpy
import ray
import torch

COLUMNS = 8


@ray.remote(num_cpus=0)
class Worker:
    """Of Ray: what it gets lies in shared memory (NumPy) or is unpickled (torch); what it returns is written
    there."""

    def work(self, chunk):
        first = next(iter(chunk.values()))
        if not isinstance(first, numpy.ndarray):
            first[0] += 1
            return chunk
        return {name: column + 0 if column is first else column for name, column in chunk.items()}

    def make(self, rank, ranks, count):
        """The sequences of this process, as NumPy arrays and as torch tensors."""
        lengths = numpy.random.default_rng(1).integers(64, 2048, count)
        self.sequences = [
            {"id": i, "tokens": numpy.full(n, i, numpy.int32), "log_probs": numpy.full(n, 0.5, numpy.float32),
             "advantages": numpy.full(n, 1.5, numpy.float32)}
            for i, n in enumerate(lengths) if i % ranks == rank]
        self.as_tensors = [{name: torch.from_numpy(value.copy()) if name != "id" else value
                            for name, value in sequence.items()} for sequence in self.sequences]
        return [len(s["tokens"]) for s in self.sequences]

    def give(self, owners, ranks, tensors):
        """One object for each destination."""
        sequences = self.as_tensors if tensors else self.sequences
        return [[s for s, owner in zip(sequences, owners) if owner == d] for d in range(ranks)]

    def give_all(self):
        return self.sequences

    def take(self, *parts):
        arrived = [s for part in parts for s in part]
        return len(arrived), all(s["tokens"][-1] == s["id"] for s in arrived)


def seconds_of(work):
    begin = time.perf_counter()
    result = work()
    return time.perf_counter() - begin, result


def ray_scatter_gather(workers, batch):
    parts = len(workers)
    cat = numpy.concatenate if isinstance(next(iter(batch.values())), numpy.ndarray) else torch.cat
    length = len(next(iter(batch.values()))) // parts
    chunks = [{name: column[r * length:(r + 1) * length] for name, column in batch.items()} for r in range(parts)]
    back = ray.get([w.work.remote(ray.put(chunk)) for w, chunk in zip(workers, chunks)])
    return {name: cat([part[name] for part in back]) for name in batch}


def owners_of(lengths, ranks):
    """Balanced: the longest first, each to the one with the least."""
    flat = sorted(((n, r, k) for r, own in enumerate(lengths) for k, n in enumerate(own)), reverse=True)
    load, owners = [0] * ranks, [[0] * len(own) for own in lengths]
    for n, r, k in flat:
        d = load.index(min(load))
        owners[r][k], load[d] = d, load[d] + n
    return owners


def ray_exchange(workers, lengths, tensors=False):
    """From worker to worker; the driver sees references."""
    ranks = len(workers)
    owners = owners_of(lengths, ranks)
    parts = [w.give.options(num_returns=ranks).remote(owners[r], ranks, tensors) for r, w in enumerate(workers)]
    return ray.get([w.take.remote(*[parts[s][d] for s in range(ranks)]) for d, w in enumerate(workers)])


def ray_exchange_by_driver(workers, lengths):
    """Through the driver, as controllers do that hold the batch."""
    ranks = len(workers)
    owners = owners_of(lengths, ranks)
    every = ray.get([w.give_all.remote() for w in workers])
    parts = [[] for _ in workers]
    for own, where in zip(every, owners):
        for sequence, d in zip(own, where):
            parts[d].append(sequence)
    return ray.get([w.take.remote(part) for w, part in zip(workers, parts)])


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--bench", default="build/cpu/bin/exchange_bench")
    options.add_argument("--ranks", type=int, default=4)
    options.add_argument("--mib", type=int, default=64)
    options.add_argument("--sequences", type=int, default=4096)
    options.add_argument("--turns", type=int, default=3)
    options.add_argument("--rounds", type=int, default=5)
    args = options.parse_args()

    environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                       OMPI_MCA_btl_vader_single_copy_mechanism="none")
    ours = ["mpirun", "-np", str(args.ranks), "--oversubscribe", "--bind-to", "none", args.bench, str(args.rounds),
            str(args.mib), str(args.sequences)]
    ray.init(num_cpus=args.ranks, include_dashboard=False, object_store_memory=2 << 30, log_to_driver=False)
    workers = [Worker.remote() for _ in range(args.ranks)]
    length = (args.mib << 20) // 4 // COLUMNS
    arrays = {f"column {c}": numpy.full(length, c + 1, numpy.float32) for c in range(COLUMNS)}
    tensors = {name: torch.from_numpy(column.copy()) for name, column in arrays.items()}
    lengths = ray.get([w.make.remote(r, args.ranks, args.sequences) for r, w in enumerate(workers)])
    found = {name: [] for name in ("scatter_gather", "exchange", "numpy", "torch", "direct", "direct torch", "driver")}
    contests = [("numpy", lambda: ray_scatter_gather(workers, arrays)),
                ("torch", lambda: ray_scatter_gather(workers, tensors)),
                ("direct", lambda: ray_exchange(workers, lengths)),
                ("direct torch", lambda: ray_exchange(workers, lengths, tensors=True)),
                ("driver", lambda: ray_exchange_by_driver(workers, lengths))]
    for _, work in contests:
        work()
    for _ in range(args.turns):
        for name, values in json.loads(subprocess.run(ours, env=environment, check=True, capture_output=True,
                                                      text=True).stdout).items():
            found[name] += values
        for name, work in contests:
            for _ in range(args.rounds):
                seconds, result = seconds_of(work)
                found[name].append(seconds)
                if name in ("direct", "direct torch", "driver"):
                    assert sum(n for n, _ in result) == args.sequences and all(right for _, right in result)
    ray.shutdown()

    def line(what, peer, mine):
        a, b = found[peer], found[mine]
        print(f"{what:<52} {statistics.median(b) * 1e3:8.1f} {statistics.median(a) * 1e3:8.1f} "
              f"{statistics.median(a) / statistics.median(b):6.1f}x {min(a) / min(b):6.1f}x")

    print(f"{args.ranks} processes, Ray {ray.__version__}" + " " * 28 + "ours ms   Ray ms  median    best")
    line(f"scatter and gather, {args.mib} MiB, NumPy columns", "numpy", "scatter_gather")
    line(f"scatter and gather, {args.mib} MiB, torch tensors", "torch", "scatter_gather")
    line(f"exchange, {args.sequences} sequences, from actor to actor", "direct", "exchange")
    line(f"exchange, {args.sequences} sequences, torch tensors", "direct torch", "exchange")
    line(f"exchange, {args.sequences} sequences, through the driver", "driver", "exchange")


if __name__ == "__main__":
    main()
