#!/usr/bin/env python3
"""Writes tests/trainer/data/goldens/assistant_turns.json: the tokens of conversations and which of them an assistant
wrote, as transformers says where a template marks it by {% generation %}, else turn by turn.

    pip install transformers==5.23.0 jinja2==3.1.6
    tools/make_goldens/assistant_turns.py [--data FOLDER_WITH_TEST_DATA] [--templates FOLDER --out FILE]

The conversations are those of tests/trainer/chat/goldens/conversations.json, with what they say last taken as it is.
For each template and conversation: null if no answer was found, else for each text its number of tokens, their
CRC-32 (as little-endian 32-bit numbers), and begin and end of each run of learned tokens.
"""
import argparse
import json
import pathlib
import re
import struct
import sys
import zlib

from transformers import PreTrainedTokenizerFast
from transformers.utils import logging

ROOT = pathlib.Path(__file__).resolve().parents[2]
TEMPLATES = ROOT / "tests/trainer/chat/goldens/templates"
OURS = ["headed_turns", "marked_turns", "rewritten_turns", "training_marks"]
SPECIAL = {"bos_token": "<|bos|>", "eos_token": "<|eos|>", "pad_token": "<|pad|>"}
logging.set_verbosity_error()


def tokenizer_of(path):
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(path))
    for name, text in SPECIAL.items():  # as text, which need not be one token
        setattr(tokenizer, name, text)
    return tokenizer


def by_marks(tokenizer, template, messages, given):
    found = tokenizer.apply_chat_template(messages, chat_template=template, tokenize=True, return_dict=True,
                                          return_assistant_tokens_mask=True, add_special_tokens=False, **given)
    ids, mask = found["input_ids"], found["assistant_masks"]
    return [(ids, mask)] if any(mask) else None


def by_turn(tokenizer, template, messages, given):
    """For every answer the rendering up to it; what the rendering before it, with a question, lacks is learned."""
    def text_of(count, asks):
        return tokenizer.apply_chat_template(messages[:count], chat_template=template, tokenize=False,
                                             add_generation_prompt=asks, **given)
    texts = []  # (text, [(begin, end), ...])
    for i, message in enumerate(messages):
        if message["role"] != "assistant":
            continue
        asked, answered = text_of(i, True), text_of(i + 1, False)
        if not answered.startswith(asked) or answered == asked:
            return None
        if texts and asked.startswith(texts[-1][0]):
            texts[-1] = (answered, texts[-1][1] + [(len(asked), len(answered))])
        else:
            texts.append((answered, [(len(asked), len(answered))]))
    out = []
    for text, turns in texts:
        found = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
        out.append((found["input_ids"],
                    [int(any(end > a and begin < b for a, b in turns)) for begin, end in found["offset_mapping"]]))
    return out or None


def summary(ids, mask):
    runs = [i for i in range(len(mask) + 1) if (mask[i] if i < len(mask) else 0) != (mask[i - 1] if i > 0 else 0)]
    return [len(ids), zlib.crc32(struct.pack(f"<{len(ids)}i", *ids))] + runs


def answers(tokenizer, template, conversation):
    given = {key: conversation[key] for key in ("tools", "documents") if key in conversation}
    given.update(conversation.get("variables", {}))
    marks = re.search(r"{%-?\s*generation", template)
    try:
        if not any(message["role"] == "assistant" for message in conversation["messages"]):
            return None
        found = (by_marks if marks else by_turn)(tokenizer, template, conversation["messages"], given)
    except Exception:  # any refusal is one
        return None
    return found and [summary(ids, mask) for ids, mask in found]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=pathlib.Path)
    parser.add_argument("--templates", type=pathlib.Path)
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "tests/trainer/data/goldens/assistant_turns.json")
    arguments = parser.parse_args()
    conversations = json.loads((TEMPLATES.parent / "conversations.json").read_text())["conversations"]
    small = tokenizer_of(ROOT / "tests/trainer/text/goldens/small_tokenizer.json")
    paths = sorted(arguments.templates.glob("*.jinja")) if arguments.templates else [
        TEMPLATES / f"{name}.jinja" for name in OURS]
    out = {}
    for path in paths:
        out[path.stem] = [answers(small, path.read_text(), c) for c in conversations]
    if arguments.data:
        folder = arguments.data / "tokenizers/qwen2"
        tokenizer, template = tokenizer_of(folder / "tokenizer.json"), (folder / "chat_template.jinja").read_text()
        out["qwen2"] = [answers(tokenizer, template, c) for c in conversations]
    for name, results in out.items():
        found = [r for r in results if r]
        print(f"{name}: {len(found)} of {len(results)} found, {sum(map(len, found))} texts", file=sys.stderr)
    arguments.out.write_text("{" + ",\n".join(
        json.dumps(name) + ":[\n" + ",\n".join(json.dumps(r, separators=(",", ":")) for r in results) + "]"
        for name, results in out.items()) + "}\n")


if __name__ == "__main__":
    main()
