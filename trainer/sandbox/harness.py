# Runs one program inside the sandbox, on one test. What it runs comes as JSON on descriptor 3; what a function
# returned, or that all assertions held, goes to standard output behind a token that the program is not told.
import os
import resource
import sys

MEGABYTE = 1 << 20

# What solutions take for granted without importing it, as the judges of programming contests do.
COMMON = {
    "typing": "List Dict Set Tuple Optional Union Any Callable Iterable Iterator Generator Deque DefaultDict",
    "collections": "deque defaultdict Counter OrderedDict namedtuple",
    "heapq": "heapify heappush heappop heappushpop heapreplace nlargest nsmallest",
    "bisect": "bisect_left bisect_right insort insort_left insort_right",
    "itertools": "accumulate chain combinations permutations product groupby zip_longest islice cycle pairwise",
    "functools": "lru_cache cache reduce cmp_to_key partial",
    "math": "inf gcd lcm ceil floor sqrt isqrt comb factorial",
    "string": "ascii_lowercase ascii_uppercase ascii_letters digits",
    "copy": "deepcopy",
    "": "math collections heapq bisect itertools functools string re sys os random copy json operator datetime typing io",
}


def limit(task):
    for what, most in (
        (resource.RLIMIT_AS, task["memory_mb"] * MEGABYTE),
        (resource.RLIMIT_FSIZE, task["files_mb"] * MEGABYTE),
        (resource.RLIMIT_CPU, task["cpu_s"]),
        (resource.RLIMIT_NOFILE, 64),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_STACK, 64 * MEGABYTE),
    ):
        resource.setrlimit(what, (most, most))
    if task["processes"] > 0:
        resource.setrlimit(resource.RLIMIT_NPROC, (task["processes"], task["processes"]))
    sys.setrecursionlimit(600000)


def names_of(code):
    names = set(code.co_names)
    for constant in code.co_consts:
        if hasattr(constant, "co_names"):
            names |= names_of(constant)
    return names


def add_common(scope, used):
    import importlib

    for module, names in COMMON.items():
        for name in used.intersection(names.split()):
            if module:
                scope[name] = getattr(importlib.import_module(module), name)
            else:
                scope[name] = importlib.import_module(name)


def run(source, name):
    code = compile(source, "solution.py", "exec", dont_inherit=True)
    used = names_of(code)
    if any(used_name not in sys.stdlib_module_names for used_name in imported(source)):
        import site

        site.main()
    scope = {"__name__": name, "__builtins__": __builtins__}
    add_common(scope, used)
    exec(code, scope)
    return scope


def imported(source):
    import re

    return re.findall(r"^\s*(?:import|from)\s+([A-Za-z_]\w*)", source, re.MULTILINE)


def main():
    # Not the json module: it is slow to import, and most programs do without.
    with os.fdopen(3, "rb") as pipe:
        task = eval(pipe.read().decode("utf-8"), {"__builtins__": {}}, {"true": True, "false": False, "null": None})
    limit(task)
    if task["kind"] == "input":
        run(task["source"], "__main__")
        return
    import json

    # What the program prints is not what it is judged by.
    results = os.dup(1)
    silence = os.open("/dev/null", os.O_WRONLY)
    os.dup2(silence, 1)
    token = task.pop("token")
    scope = run(task["source"], "__main__" if task["kind"] == "assert" else "solution")
    answer = None
    if task["kind"] == "call":
        holder = scope["Solution"]() if "Solution" in scope else None
        name = task["function"]
        function = getattr(holder, name) if hasattr(holder, name) else scope[name]
        answer = function(*task["arguments"])
    text = token + json.dumps(answer)
    sys.stdout.flush()
    os.write(results, text.encode("utf-8"))


main()
