"""Runs a reward function for Trireme: JSON lines in on standard input, JSON lines out on standard output.

Arguments: file, function, more arguments of the function (JSON), time limit of an async call in seconds.
"""

import asyncio
import importlib.util
import inspect
import json
import math
import os
import sys
import traceback


def take_over_standard_streams():
    """The lines keep their descriptors to themselves: what the function prints goes to standard error."""
    requests, answers = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(2, 1)

    def forget():
        for descriptor in (requests, answers):
            try:
                os.close(descriptor)
            except OSError:
                pass

    os.register_at_fork(after_in_child=forget)
    return requests, answers


REQUESTS, ANSWERS = take_over_standard_streams()


def say(answer):
    line = json.dumps(answer).encode() + b"\n"
    while line:
        line = line[os.write(ANSWERS, line):]


def load(path, name):
    folder = os.path.dirname(os.path.abspath(path))
    sys.path.insert(0, folder)
    spec = importlib.util.spec_from_file_location("reward_function", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["reward_function"] = module
    spec.loader.exec_module(module)
    function = getattr(module, name, None)
    if function is None:
        others = [n for n, v in vars(module).items() if inspect.isfunction(v) and v.__module__ == "reward_function"]
        raise AttributeError(f"{path} has no function {name}; it has {', '.join(others) or 'none'}")
    if not callable(function):
        raise TypeError(f"{name} in {path} is no function, but {type(function).__name__}")
    return function


def number(value):
    """A float of whatever counts as one (bool, numpy's and torch's scalars among them); None of the rest."""
    if isinstance(value, (bool, int, float)):
        return float(value)
    if hasattr(value, "item"):
        try:
            return float(value.item())
        except (TypeError, ValueError, RuntimeError):
            return None
    return None


def answer_of(result):
    extras = {}
    pred = None
    value = result
    if isinstance(result, dict):
        if "score" not in result:
            raise KeyError(f"the dict that the reward function returned has no 'score', only {list(result)}")
        value = result["score"]
        extras = {k: number(v) for k, v in result.items() if k not in ("score", "pred")}
        pred = result.get("pred")
    elif isinstance(result, (tuple, list)) and result:
        value = result[0]
    score = number(value)
    if score is None:
        raise TypeError(f"the reward function returned {value!r:.200}, which is no number")
    if not math.isfinite(score):
        raise ValueError(f"the reward function returned {score}")
    return {
        "score": score,
        "extras": {str(k): v for k, v in extras.items() if v is not None and math.isfinite(v)},
        "pred": "" if pred is None else str(pred),
    }


def arguments_of(request, more):
    return dict(
        data_source=request["data_source"],
        solution_str=request["solution_str"],
        ground_truth=request["ground_truth"],
        extra_info=request["extra_info"],
        **more,
    )


def check_signature(function, more):
    try:
        signature = inspect.signature(function)
    except ValueError:  # some that are not written in Python have none
        return
    names = dict.fromkeys(("data_source", "solution_str", "ground_truth", "extra_info"))
    try:
        signature.bind(**arguments_of(names, more))
    except TypeError as error:
        raise TypeError(
            f"the reward function cannot be called with {', '.join([*names, *more])}: {error}; it takes {signature}"
        ) from None


def failure(error):
    # Frames of this file say nothing to whoever wrote the function.
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename == failure.__code__.co_filename:
        trace = trace.tb_next
    text = "".join(traceback.format_exception(type(error), error, trace))
    return {"error": traceback.format_exception_only(type(error), error)[-1].strip(), "traceback": text[-8000:]}


def lines():
    rest = b""
    while True:
        block = os.read(REQUESTS, 1 << 16)
        if not block:
            return
        parts = (rest + block).split(b"\n")
        rest = parts.pop()
        yield from parts


def serve(function, more):
    for line in lines():
        request = json.loads(line)
        try:
            answer = answer_of(function(**arguments_of(request, more)))
        except MemoryError as error:
            # What is left of this process may be of no use.
            say({"id": request["id"], **failure(error), "no_memory": True})
            os._exit(1)
        except Exception as error:
            answer = failure(error)
        answer["id"] = request["id"]
        say(answer)


async def serve_concurrently(function, more, limit):
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=1 << 30)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(os.dup(REQUESTS), "rb"))
    os.set_blocking(ANSWERS, True)
    running = set()

    async def call(request):
        try:
            answer = answer_of(await asyncio.wait_for(function(**arguments_of(request, more)), limit))
        except asyncio.TimeoutError as error:
            answer = {"timeout": True, **failure(error)}
        except Exception as error:
            answer = failure(error)
        answer["id"] = request["id"]
        say(answer)

    while line := await reader.readline():
        task = asyncio.create_task(call(json.loads(line)))
        running.add(task)
        task.add_done_callback(running.discard)


def main():
    path, name, more, limit = sys.argv[1], sys.argv[2], json.loads(sys.argv[3]), float(sys.argv[4])
    try:
        function = load(path, name)
        concurrent = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
            getattr(function, "__call__", None)
        )
        check_signature(function, more)
    except BaseException as error:
        say({"failed": failure(error)["traceback"]})
        return 1
    say({"ready": True, "concurrent": concurrent})
    if concurrent:
        asyncio.run(serve_concurrently(function, more, limit))
    else:
        serve(function, more)
    return 0


sys.exit(main())
