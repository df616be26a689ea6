"""Measures several ways of doing the same work, in turns, so that a busy neighbour hurts all alike."""

import json
import statistics
import subprocess


def in_turns(ways, rounds):
    """ways: name -> function that returns a figure, or a dict of figures. -> name -> list of them."""
    results = {name: [] for name in ways}
    for number in range(1, rounds + 1):
        for name, measure in ways.items():
            results[name].append(measure())
            print(f"  round {number}/{rounds}  {name}: {shown(results[name][-1])}", flush=True)
    return results


def shown(figure):
    if not isinstance(figure, dict):
        return f"{figure:.5g}"
    return "  ".join(f"{key} {value:.4g}" for key, value in figure.items())


def median(figures):
    return statistics.median(figures)


def output_of(command, **options):
    """What a command prints; what it says of its failure where it fails."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)}\nends with {done.returncode}:\n{done.stderr[-2000:] or done.stdout[-2000:]}")
    return done.stdout


def json_lines(text):
    """The JSON objects among a program's lines."""
    return [json.loads(line) for line in text.splitlines() if line.startswith('{"')]


def print_table(header, rows):
    rows = [[str(cell) for cell in row] for row in rows]
    widths = [max(len(row[i]) for row in [header, *rows]) for i in range(len(header))]
    for row in [header, *rows]:
        print("  ".join(cell.rjust(width) for cell, width in zip(row, widths)))
