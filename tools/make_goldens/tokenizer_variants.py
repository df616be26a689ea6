#!/usr/bin/env python3
"""Writes tests/trainer/text/goldens/small_variants.json: random pre-tokenizers, added tokens, normalizers and
post-processors on the small vocabulary, and a sum of what Hugging Face's tokenizers make of texts with them.

    pip install tokenizers==0.23.3
    tools/make_goldens/tokenizer_variants.py
    tools/make_goldens/tokenizer_variants.py --show VARIANT     # its texts and their ids, one a line
"""
import array
import json
import random
import sys
import unicodedata
import zlib

import tokenizers
from tokenizers import Tokenizer

from tokenizer import GPT2, LLAMA3, OUT, QWEN2, added, byte_level, fuzz_text, split
from tokenizer_proof import DEEPSEEK, O200K

NUM_VARIANTS, NUM_TEXTS, SEED = 64, 200, 21
REGEXES = [GPT2, LLAMA3, QWEN2, O200K, *DEEPSEEK, r"[\p{Han}]+", r"\s", r"\s+", r"a*", r"x?", r"|the", r"(?=\p{Lu})",
           r"^", r"$", r"[^\p{M}]\p{M}*", r"\p{P}", r"\d+", r"(?<=e)", r"e|\s+$", r"[\p{P}\p{S}]+", r".", r"\n\n+",
           r"\p{Sc}|\p{Cf}", r"\S+"]
BEHAVIORS = ["Isolated", "Removed", "MergedWithPrevious", "MergedWithNext", "Contiguous"]
CONTENTS = ["tok", "<m>", "tok_", "<|im_end|>b", "the", "é", "e\u0301x", "<\u1ea1>", "a\u0323", " s", " ", "\n", "x", "<|",
            "caf\u00e9", "Token", "ing", "_", "²", "漢", "\u0301x"]
ALPHABET = ["the", " the", "rain", "'s", "'S", "n't", "  ", "\n", "\r\n", "\t", " \n ", "123", "4", "1,234", ".", "...",
            "—", "é", "e\u0301", "E", "\u1ea1", "a\u0323", "ß", "漢字", "日本", "かな", "カ", "한국", "\u1100\u1161\u11a8", "🦙",
            "👩\u200d👩\u200d👧", "\u200d", "\ufe0f", "\u00a0", "\u3000", "\u2028", "\u0085", "\u180e", "\u1c89", "\U00031350",
            "\U0001e4f1", "\U00016d43", "\u0345", "\u0301", "_", "-", "$", "²", "Ⅷ", "٣", "a", "b", "e", "x", "<", "|>",
            "<|im_end|>", "<|im_start|>", "<|im_end", "<m>", "<m", "tok", "tok_", "Token", " s", "\ufffd", "\u0000", "Ⓐ", "ǅ",
            [0x20, 0x7E], [0xA0, 0x2FFF], [0xE000, 0x1FFFF]]


class Maker:
    def __init__(self, vocab, base):
        self.random, self.vocab, self.base = random.Random(SEED), vocab, base

    def chance(self, probability):
        return self.random.random() < probability

    def pre_tokenizer(self):
        parts = []
        for _ in range(self.random.choice([0, 0, 1, 1, 1, 2, 3])):
            kind = self.random.random()
            if kind < 0.15:
                parts.append({"type": "Digits", "individual_digits": self.chance(0.5)})
                continue
            part = split(self.random.choice(REGEXES))
            if kind < 0.3:
                part["pattern"] = {"String": self.random.choice([" ", "e", "the", "..", "\n", "漢", ".*"])}
            part["behavior"] = self.random.choice(["Isolated"] * 3 + BEHAVIORS)
            part["invert"] = self.chance(0.3)
            parts.append(part)
        last = byte_level(add_prefix_space=self.chance(0.2), use_regex=self.chance(0.3))
        return last if not parts else {"type": "Sequence", "pretokenizers": parts + [last]}

    def added_tokens(self):
        tokens, next_id, seen = list(self.base), 512, set()
        for content in self.random.sample(CONTENTS, self.random.choice([0, 2, 5, 8])):
            if unicodedata.normalize("NFC", content) in seen:
                continue
            seen.add(unicodedata.normalize("NFC", content))
            id = self.vocab.get(content, next_id)
            next_id += id == next_id
            tokens.append(added(id, content, single_word=self.chance(0.4), lstrip=self.chance(0.3),
                                rstrip=self.chance(0.3), normalized=self.chance(0.5), special=self.chance(0.4)))
        return tokens

    def post_processor(self):
        def template(before, after):
            token = [{"SpecialToken": {"id": name, "type_id": 0}} for name in before + after]
            text = {"Sequence": {"id": "A", "type_id": 0}}
            return {"type": "TemplateProcessing", "single": token[:len(before)] + [text] + token[len(before):],
                    "pair": [text, {"Sequence": {"id": "B", "type_id": 1}}],
                    "special_tokens": {"q": {"id": "q", "ids": [509, 3], "tokens": ["a", "b"]},
                                       "r": {"id": "r", "ids": [510], "tokens": ["a"]}}}

        around = self.random.choice([
            template("q", "r"), template("", "r"), template("rq", ""),
            {"type": "BertProcessing", "sep": ["x", 511], "cls": ["y", 510]},
            {"type": "RobertaProcessing", "sep": ["x", 7], "cls": ["y", 8], "trim_offsets": True,
             "add_prefix_space": False}])
        return self.random.choice([None, byte_level(), around, {"type": "Sequence", "processors": [byte_level(), around]},
                                   {"type": "Sequence", "processors": [around, byte_level()]}])

    def variant(self):
        return {"pre_tokenizer": self.pre_tokenizer(), "added_tokens": self.added_tokens(),
                "normalizer": self.random.choice([None, {"type": "NFC"}]), "post_processor": self.post_processor(),
                "ignore_merges": self.chance(0.3)}


def results(small, variant, index):
    """(text, ids, ids where special tokens are text, ids with special tokens around, decoded without and with)"""
    parts = {key: value for key, value in variant.items() if key in small}
    content = {**small, **parts, "model": {**small["model"], "ignore_merges": variant["ignore_merges"]}}
    tokenizer = Tokenizer.from_str(json.dumps(content))
    for i in range(NUM_TEXTS):
        text = fuzz_text(ALPHABET, SEED + index, i)
        tokenizer.encode_special_tokens = True
        as_text = tokenizer.encode(text, add_special_tokens=False).ids
        tokenizer.encode_special_tokens = False
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        yield (text, ids, as_text, tokenizer.encode(text).ids,
               *(tokenizer.decode(ids, skip_special_tokens=skip) for skip in (True, False)))


def main():
    if tokenizers.__version__ != "0.23.3":
        sys.exit("this needs tokenizers==0.23.3")
    small = json.loads((OUT / "small_tokenizer.json").read_text())
    maker = Maker(small["model"]["vocab"], small["added_tokens"])
    variants = [maker.variant() for _ in range(NUM_VARIANTS)]
    if sys.argv[1:2] == ["--show"]:
        for result in results(small, variants[int(sys.argv[2])], int(sys.argv[2])):
            print(json.dumps(result))
        return
    for index, variant in enumerate(variants):
        crc = 0
        for _, ids, as_text, surrounded, *decoded in results(small, variant, index):
            crc = zlib.crc32(array.array("I", [len(ids), *ids, *as_text, *surrounded]).tobytes(), crc)
            crc = zlib.crc32("\n".join(decoded).encode(), crc)
        variant["sum"] = crc
        variant["added_tokens"] = variant["added_tokens"][3:]  # without those of the small tokenizer
    path = OUT / "small_variants.json"
    golden = {"alphabet": ALPHABET, "seed": SEED, "num_texts": NUM_TEXTS}
    rows = ",\n".join(json.dumps(v, separators=(",", ":")) for v in variants)
    path.write_text(json.dumps(golden, separators=(",", ":"))[:-1] + ',"variants":[\n' + rows + "]}\n")
    print(f"{path.name}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
