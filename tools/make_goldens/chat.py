#!/usr/bin/env python3
"""Writes tests/trainer/chat/goldens/: what transformers makes of conversations by chat templates.

    pip install transformers==5.23.0 jinja2==3.1.6
    tools/make_goldens/chat.py --data FOLDER_WITH_TEST_DATA     # conversations, our own templates, Qwen2.5's
    tools/make_goldens/chat.py --snippets 1500                  # random small templates
    tools/make_goldens/chat.py --templates FOLDER               # expected.json beside other people's *.jinja
    tools/make_goldens/chat.py --show TEMPLATE CONVERSATION     # one rendering, to look at

A rendering is kept as CRC-32 and length of its UTF-8 bytes, then begin and end of each {% generation %} block in
bytes; a refused one as null. The conversations are in conversations.json, for both sides.
"""
import argparse
import json
import pathlib
import re
import sys
import zlib

from tokenizers import Tokenizer, models
from transformers import PreTrainedTokenizerFast
from transformers.utils import logging
from transformers.utils.chat_template_utils import render_jinja_template

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import chat_conversations  # noqa: E402
import chat_snippets  # noqa: E402

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests/trainer/chat/goldens"
SPECIAL = {"bos_token": "<|bos|>", "eos_token": "<|eos|>", "pad_token": "<|pad|>"}
logging.set_verbosity_error()
TOKENIZER = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.BPE()), **SPECIAL)


def render(template, conversation):
    """(text, [[begin, end], ...] in bytes)"""
    given = dict(conversation)
    given.pop("name", None)
    variables = given.pop("variables", {})
    messages = given.pop("messages")
    text = TOKENIZER.apply_chat_template(messages, chat_template=template, tokenize=False, **given, **variables)
    spans = []
    if re.search(r"{%-?\s*generation", template) and not given.get("continue_final_message"):
        messages = [{k: v for k, v in m.items() if v is not None} for m in messages]
        _, (found,) = render_jinja_template([messages], chat_template=template, return_assistant_tokens_mask=True,
                                            **given, **{**SPECIAL, **variables})
        spans = [[len(text[:i].encode()) for i in span] for span in found]
    return text, spans


def rendered(template, conversation):
    try:
        text, spans = render(template, conversation)
    except Exception:  # any refusal is one
        return None
    data = text.encode()
    return [zlib.crc32(data), len(data)] + [i for span in spans for i in span]


def write(path, value):
    """One line per member, or per item of a long one: a change shows."""
    def line(x):
        return json.dumps(x, ensure_ascii=False, separators=(",", ":"))
    members = [line(key) + ":" + (line(member) if isinstance(member, dict) else
                                  "[\n" + ",\n".join(map(line, member)) + "]") for key, member in value.items()]
    path.write_text("{" + ",\n".join(members) + "}\n")
    print(path, path.stat().st_size)


def results(paths, conversations):
    out = {}
    for path in sorted(paths):
        template = path.read_text()
        out[path.stem] = [rendered(template, c) for c in conversations]
        refused = sum(r is None for r in out[path.stem])
        print(f"{path.stem}: {len(conversations)} conversations, {refused} refused")
    return out


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=pathlib.Path)
    parser.add_argument("--templates", type=pathlib.Path)
    parser.add_argument("--snippets", type=int)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--show", nargs=2)
    args = parser.parse_args()
    conversations = chat_conversations.make()
    if args.show:
        text, spans = render(pathlib.Path(args.show[0]).read_text(),
                             next(c for c in conversations if c["name"] == args.show[1]))
        sys.stdout.write(text + "\n")
        print(spans)
    if args.data:
        write(OUT / "conversations.json", {"variables": SPECIAL, "conversations": conversations})
        write(OUT / "expected.json", results((OUT / "templates").glob("*.jinja"), conversations))
        write(OUT / "expected-qwen2.json",
              results([args.data / "tokenizers/qwen2/chat_template.jinja"], conversations))
    if args.templates:
        write(args.templates / "expected.json", results(args.templates.glob("*.jinja"), conversations))
    if args.snippets:
        write(args.out or OUT / "snippets.json", chat_snippets.make(args.snippets, args.seed))


if __name__ == "__main__":
    main()
