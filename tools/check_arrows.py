#!/usr/bin/env python3
"""Checks every #include, and every USES of a CMake library, against the arrows of docs/architecture.md.

Usage: tools/check_arrows.py [ROOT]      prints each wrong line as FILE:LINE: reason; exit 1 if there is any
"""

import pathlib
import re
import sys

# folder -> the folders that it may include, beside itself. In runtime/, what they may include follows along.
ALLOWED = {
    "runtime/base": [],
    "runtime/plan": ["runtime/base"],
    "runtime/observe": ["runtime/base"],
    "runtime/comm": ["runtime/plan", "runtime/observe"],
    "runtime/placement": ["runtime/comm"],
    "runtime/tensors": ["runtime/placement"],
    "runtime/checkpoint": ["runtime/tensors"],
    "runtime/pipeline": ["runtime/tensors"],
    "runtime/session": ["runtime/checkpoint", "runtime/pipeline"],
    # Leaves: what the launcher, or every other part, builds on.
    "trainer/config": ["runtime/base", "runtime/placement"],  # and the *_config.h of every other part
    "trainer/costs": ["runtime/base", "runtime/placement"],  # and the *_config.h of every other part
    "trainer/text": ["runtime/base"],
    "trainer/jinja": ["runtime/base"],
    "trainer/chat": ["runtime/base", "trainer/jinja"],
    "trainer/answers": [],
    "trainer/sandbox": ["runtime/base"],
    "trainer/data": ["runtime/base", "trainer/text", "trainer/chat"],
    "trainer/losses": ["runtime/base"],
    "trainer/algorithms": ["runtime/base", "trainer/losses"],
    "trainer/memory": ["runtime/base"],
    "trainer/models": ["runtime/*", "trainer/memory"],
    "trainer/sharding": ["runtime/*", "trainer/memory", "trainer/models"],
    "trainer/optim": ["runtime/*", "trainer/memory", "trainer/models", "trainer/sharding"],
    "trainer/weights": ["runtime/*", "trainer/models", "trainer/sharding"],
    "trainer/rollout": ["runtime/*", "trainer/memory", "trainer/models", "trainer/costs"],
    "trainer/rewards": ["runtime/*", "trainer/models", "trainer/answers", "trainer/sandbox"],
    "trainer/evaluation": ["runtime/*", "trainer/rollout", "trainer/rewards", "trainer/data", "trainer/text"],
    "trainer/steps": [
        "runtime/*", "trainer/algorithms", "trainer/losses", "trainer/rollout", "trainer/rewards",
        "trainer/evaluation", "trainer/optim", "trainer/weights", "trainer/models", "trainer/sharding",
        "trainer/memory",
        "trainer/data", "trainer/text",
    ],
    "trainer/commands": [
        "runtime/*", "trainer/config", "trainer/steps", "trainer/rollout", "trainer/rewards", "trainer/weights",
        "trainer/optim", "trainer/sharding", "trainer/costs", "trainer/models", "trainer/memory", "trainer/data", "trainer/text",
        "trainer/chat", "trainer/sandbox",
    ],
    "trainer": ["runtime/base", "trainer/commands"],
    "launcher/topology": ["runtime/base", "runtime/plan"],
    "launcher/console": ["runtime/base"],
    "launcher/backends": ["runtime/base", "runtime/plan"],
    "launcher/verl": ["runtime/base", "trainer/config"],
    "launcher/process": ["runtime/base", "runtime/plan", "launcher/backends", "launcher/console"],
    "launcher/doctor": ["runtime/base", "runtime/plan", "launcher/topology", "launcher/process"],
    "launcher/commands": [
        "runtime/base", "runtime/plan", "runtime/placement", "trainer/config", "trainer/costs", "trainer/sandbox", "launcher/topology", "launcher/console",
        "launcher/backends", "launcher/process", "launcher/verl", "launcher/doctor",
    ],
    "launcher": ["runtime/base", "launcher/commands"],
}

TORCH = re.compile(r"(torch|ATen|c10|caffe2)/")
MPI = re.compile(r"(mpi|mpi-ext)\.h$")
CUDA = re.compile(r"(cuda|nccl|rccl|cublas|cudnn|cub/|hip/|nvml)")
# Whose headers must not be seen from a folder, also not through others of our headers.
UNSEEN = [
    (re.compile(r"launcher(/|$)"), [("Torch", TORCH), ("MPI", MPI), ("CUDA", CUDA)]),
    (re.compile(r"runtime/(base|plan)$"), [("Torch", TORCH), ("MPI", MPI), ("CUDA", CUDA)]),
    (re.compile(r"runtime/(observe|comm|placement)$"), [("Torch", TORCH)]),
    (re.compile(r"trainer/(config|costs|text|jinja|chat|data|answers|sandbox)$"), [("Torch", TORCH), ("MPI", MPI), ("CUDA", CUDA)]),
]
# Headers that include everything: minutes of build time. <ATen/ops/NAME.h> is what is needed.
TOO_WIDE = {"torch/torch.h", "torch/extension.h", "torch/all.h", "ATen/ATen.h", "ATen/Functions.h"}

# Kernels are one source for NVIDIA and AMD, whose waves have 32 or 64 threads: what either vendor calls its own
# has one name in runtime/comm/gpu_device.h.
KERNEL = re.compile(r"\.cuh?$|_body\.inc$")
VENDOR = re.compile(r"\b(cuda[A-Z]\w*|hip[A-Z]\w*|warpSize|__(?:shfl|ballot|any|all|activemask|syncwarp)\w*|__CUDA_\w+|__HIP_\w+|asm)\b|<<<")

INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]')
SOURCES = {".h", ".cpp", ".cu", ".cuh", ".inc"}
FOLDERS = ("launcher", "runtime", "trainer")


def may_include(folder):
    """All folders that `folder` may include."""
    result = {folder}
    waiting = [folder]
    while waiting:
        current = waiting.pop()
        for name in ALLOWED[current]:
            names = [f for f in ALLOWED if f.startswith("runtime/")] if name == "runtime/*" else [name]
            for found in names:
                if found not in result:
                    result.add(found)
                    if found.startswith("runtime/"):
                        waiting.append(found)
    return result


class Tree:
    def __init__(self, root):
        self.root = pathlib.Path(root)
        self.includes = {}  # path -> [(line number, is quoted, name)]
        self.mistakes = []
        for folder in FOLDERS:
            for path in sorted((self.root / folder).rglob("*")):
                if path.suffix in SOURCES:
                    self.includes[path.relative_to(self.root).as_posix()] = self.read(path)

    @staticmethod
    def read(path):
        found = []
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            match = INCLUDE.match(line)
            if match:
                found.append((number, match.group(1) == '"', match.group(2)))
        return found

    def add(self, path, number, reason):
        self.mistakes.append(f"{path}:{number}: {reason}")

    def check(self):
        for path, includes in self.includes.items():
            folder = path.rpartition("/")[0]
            if folder not in ALLOWED:
                self.add(path, 1, f"the folder {folder} is not in the table of {pathlib.Path(__file__).name}")
                continue
            for number, quoted, name in includes:
                self.check_include(path, folder, number, quoted, name)
            self.check_unseen(path, folder)
            if KERNEL.search(path):
                self.check_kernel(path)
        for path in sorted(self.root.glob("*/**/CMakeLists.txt")):
            relative = path.relative_to(self.root).as_posix()
            if relative.startswith(FOLDERS):
                self.check_uses(relative, path.read_text(encoding="utf-8"))
        return self.mistakes

    def check_include(self, path, folder, number, quoted, name):
        if name in TOO_WIDE:
            self.add(path, number, f"<{name}> includes everything; take <ATen/core/Tensor.h> and <ATen/ops/...>")
        if not name.startswith(tuple(f + "/" for f in FOLDERS)):
            if quoted:
                self.add(path, number, f'"{name}": our own headers are included by their path from the root')
            return
        target = name.rpartition("/")[0]
        # NAME.in is what CMake makes NAME of.
        if name not in self.includes and not any((self.root / (name + end)).exists() for end in ("", ".in")):
            self.add(path, number, f"{name} does not exist")
        elif target not in may_include(folder):
            if folder in ("trainer/config", "trainer/costs") and name.startswith("trainer/") and name.endswith("_config.h"):
                return
            self.add(path, number, f"{folder} may not include {target}")

    def check_unseen(self, path, folder):
        """Follows our own headers: what a file sees, it sees also through them."""
        banned = [ban for pattern, bans in UNSEEN if pattern.match(folder) for ban in bans]
        seen, waiting = {path}, [(path, None, path)]
        while banned and waiting:
            current, first_line, through = waiting.pop()
            for number, _, name in self.includes.get(current, []):
                line = first_line or number
                for what, pattern in banned:
                    if pattern.match(name):
                        way = "" if through == path else f", through {through}"
                        self.add(path, line, f"{folder} is free of {what}, and this includes <{name}>{way}")
                if name in self.includes and name not in seen:
                    seen.add(name)
                    waiting.append((name, line, name))

    def check_kernel(self, path):
        for number, line in enumerate((self.root / path).read_text(encoding="utf-8").splitlines(), 1):
            match = VENDOR.search(line.partition("//")[0])
            if match:
                self.add(path, number, f"{match.group(0)} is one vendor's; runtime/comm/gpu_device.h has a name for both")

    def check_uses(self, path, text):
        for call in re.finditer(r"trireme_(library|program)\(\s*(\S+)([^)]*)\)", text):
            kind, name, arguments = call.groups()
            folder = name if kind == "library" else path.rpartition("/")[0]
            if folder not in ALLOWED:
                continue  # said once, at its sources
            words = arguments.split()
            if "USES" not in words:
                continue
            for word in words[words.index("USES") + 1:]:
                if word.isupper():
                    break
                if word not in may_include(folder):
                    number = text[: call.start() + call.group(0).index(word)].count("\n") + 1
                    self.add(path, number, f"{folder} may not use {word}")


def main(arguments):
    root = arguments[0] if arguments else pathlib.Path(__file__).resolve().parent.parent
    mistakes = Tree(root).check()
    for mistake in mistakes:
        print(mistake)
    if mistakes:
        print(f"{len(mistakes)} against the arrows; docs/architecture.md shows them, tools/check_arrows.py holds them")
    return 1 if mistakes else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
