#!/usr/bin/env python3
"""Writes tests/trainer/text/goldens/tokenizer_proof.json: sums over millions of texts, as Hugging Face's
tokenizers encode and decode them, with the Qwen2 vocabulary and the pre-tokenizers of several families.

    pip install tokenizers==0.23.3
    tools/make_goldens/tokenizer_proof.py FOLDER_WITH_TEST_DATA                       # ten minutes or so
    tools/make_goldens/tokenizer_proof.py FOLDER_WITH_TEST_DATA --show SECTION VARIANT BLOCK > block.jsonl

Both sides generate the texts; a block's sum is the CRC-32 of all that was made of its texts. Where a sum
differs in the test, --show writes the block's texts and what is expected of them, one a line; the test run
with TRIREME_TOKENIZER_BLOCK=block.jsonl names the first text that differs.
"""
import array
import json
import pathlib
import sys
import zlib

import tokenizers
from tokenizers import Tokenizer

from tokenizer import GPT2, LLAMA3, OUT, QWEN2, byte_level, mix_bits, random_below, split

DEEPSEEK = [r"\p{N}{1,3}", r"[一-龥぀-ゟ゠-ヿ]+",
            r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
            r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"]
O200K = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
PRE_TOKENIZERS = {
    "qwen2": [split(QWEN2)], "llama3": [split(LLAMA3)], "gpt2": [], "deepseek": [split(p) for p in DEEPSEEK],
    "o200k": [split(O200K)], "smollm": [{"type": "Digits", "individual_digits": True}]}

# Ranges of code points, strings, and numbers of random bytes (what is not UTF-8 becomes U+FFFD).
RANDOM_ALPHABET = [
    1, 2, 4, 7, [0x20, 0x7E], [0x61, 0x7A], [0x41, 0x5A], [0x30, 0x39], [0x20, 0x20], [0xA0, 0x24F], [0x300, 0x36F],
    [0x370, 0x5FF], [0x600, 0x6FF], [0x900, 0xDFF], [0xE00, 0xFFF], [0x1100, 0x11FF], [0x1AB0, 0x1AFF],
    [0x1DC0, 0x1DFF], [0x1E00, 0x1FFF], [0x2000, 0x206F], [0x20D0, 0x21FF], [0x2460, 0x24FF], [0x3000, 0x30FF],
    [0x4E00, 0x9FFF], [0xAC00, 0xD7A3], [0xF900, 0xFFFD], [0x10000, 0x1FFFF], [0x1F300, 0x1FAFF], [0x20000, 0x323AF],
    [0xE0000, 0x10FFFF], "'s", "'S", "'\u017F", "'ll", "'Re", "'VE", "'m", "'D", "'t", "\n", "\r\n", "\n\n", "   ", "\t",
    " \n ", "the", " and", "ing", " The", "123456", "3.14", "...", " = ", "\u00A0", "\u3000", "\u0085", "\u2028", "e\u0301",
    "a\u0323\u0302", "\u1112\u1161\u11AB", "\U0001F468\u200D\U0001F469\u200D\U0001F467", "\U0001F3F3\uFE0F\u200D\U0001F308",
    "\U0001F44D\U0001F3FD", "\U0001F1E9\U0001F1EA", "<|endoftext|>", "<|im_start|>", "<|im_end|>", " <|im_end|> ",
    "<|im_end|>\n", "<|im_start|>assistant", "<|im_end", "<|", "|>"]
SEED, NUM_RANDOM, RANDOM_BLOCK = 11, 200_000, 2_000
DECODE_SEED, NUM_DECODED, DECODED_BLOCK, MAX_ID = 12, 20_000, 2_000, 152_000


def random_text(index):
    text = b""
    for i in range(1, 2 + random_below(SEED, index, 0, 24)):
        item = RANDOM_ALPHABET[random_below(SEED, index, 2 * i, len(RANDOM_ALPHABET))]
        bits = mix_bits(mix_bits(mix_bits(SEED) ^ index) ^ (2 * i + 1))
        if isinstance(item, int):
            text += bits.to_bytes(8, "little")[:item]
        elif isinstance(item, str):
            text += item.encode()
        else:
            code = item[0] + (bits * (item[1] - item[0] + 1) >> 64)
            text += chr(code).encode("utf-8", "surrogatepass")
    return text.decode("utf-8", "replace")


def codes(block):
    return [chr(c) for c in range(block * 0x1000, (block + 1) * 0x1000) if not 0xD800 <= c < 0xE000]


def pairs_of(block):
    """Every code point of the block alone and beside a letter, a digit and a space."""
    return [text for c in codes(block) for text in (c, c + "a", "a" + c, c + "1", "1" + c, c + " ", " " + c)]


def mixtures_of(block):
    return [f"a{c}b1{c}{c} {c}9\n{c}\n '{c}" for c in codes(block)]


def gsm8k(data):
    rows = [json.loads(line) for line in (data / "gsm8k/train.jsonl").read_text().splitlines()]
    return [text for row in rows for text in (row["question"], row["answer"])]


def id_sequences(block):
    """Random ids, some of no token; in the last block, one by one."""
    if block == NUM_DECODED // DECODED_BLOCK:
        return [[i] for i in range(MAX_ID)]
    return [[random_below(DECODE_SEED, index, i, MAX_ID) for i in range(1, 2 + random_below(DECODE_SEED, index, 0, 16))]
            for index in range(block * DECODED_BLOCK, (block + 1) * DECODED_BLOCK)]


class Variant:
    def __init__(self, data, name):
        content = json.loads((data / "tokenizers/qwen2/tokenizer.json").read_text())
        content["pre_tokenizer"] = {"type": "Sequence", "pretokenizers":
                                    PRE_TOKENIZERS[name] + [byte_level(use_regex=name in ("gpt2", "smollm"))]}
        self.tokenizer = Tokenizer.from_str(json.dumps(content))

    def encode(self, texts):
        """(text, ids, ids where special tokens are text, decoded ids)"""
        def ids_of(some, as_text):
            self.tokenizer.encode_special_tokens = as_text
            return [e.ids for e in self.tokenizer.encode_batch_fast(some, add_special_tokens=False)]

        ids = ids_of(texts, False)
        as_text = dict(enumerate(ids))  # the same where there is no special token: all begin with "<"
        places = [i for i, text in enumerate(texts) if "<" in text]
        as_text.update(zip(places, ids_of([texts[i] for i in places], True)))
        decoded = self.tokenizer.decode_batch(ids, skip_special_tokens=False)
        return zip(texts, ids, as_text.values(), decoded)

    def decode(self, sequences):
        """(ids, text without special tokens, text with them)"""
        return zip(sequences, *(self.tokenizer.decode_batch(sequences, skip_special_tokens=skip)
                                for skip in (True, False)))


def crc_of_texts(results):
    crc = 0
    for _, ids, as_text, decoded in results:
        numbers = array.array("I", [len(ids), *ids, *as_text])
        crc = zlib.crc32(decoded.encode(), zlib.crc32(numbers.tobytes(), crc))
    return crc


def crc_of_sequences(results):
    crc = 0
    for _, without, text in results:
        crc = zlib.crc32((without + "\n" + text + "\n").encode(), crc)
    return crc


def sections(data):
    """name -> (number of blocks, the block's inputs, the variants it is for)"""
    texts = gsm8k(data)
    return {"pairs": (0x110, pairs_of, ["qwen2", "llama3", "gpt2"]),
            "mixtures": (0x110, mixtures_of, ["deepseek", "o200k", "smollm"]),
            "random": (NUM_RANDOM // RANDOM_BLOCK,
                       lambda b: [random_text(i) for i in range(b * RANDOM_BLOCK, (b + 1) * RANDOM_BLOCK)],
                       list(PRE_TOKENIZERS)),
            "gsm8k": ((len(texts) + 999) // 1000, lambda b: texts[b * 1000:(b + 1) * 1000], list(PRE_TOKENIZERS)),
            "decode": (NUM_DECODED // DECODED_BLOCK + 1, id_sequences, ["qwen2"])}


def show(data, section, name, block):
    _, inputs, _ = sections(data)[section]
    variant = Variant(data, name)
    if section == "decode":
        for ids, without, text in variant.decode(inputs(block)):
            print(json.dumps({"variant": name, "ids": ids, "without_special": without, "decoded": text}))
        return
    for text, ids, as_text, decoded in variant.encode(inputs(block)):
        print(json.dumps({"variant": name, "text": text, "ids": ids, "ids_as_text": as_text, "decoded": decoded}))


def main():
    if tokenizers.__version__ != "0.23.3":
        sys.exit("this needs tokenizers==0.23.3")
    data = pathlib.Path(sys.argv[1])
    if len(sys.argv) == 6 and sys.argv[2] == "--show":
        return show(data, sys.argv[3], sys.argv[4], int(sys.argv[5]))
    golden = {"pre_tokenizers": PRE_TOKENIZERS, "use_regex": ["gpt2", "smollm"], "alphabet": RANDOM_ALPHABET,
              "seed": SEED, "random_block": RANDOM_BLOCK, "decode_seed": DECODE_SEED,
              "decoded_block": DECODED_BLOCK, "max_id": MAX_ID, "sums": {}, "num_inputs": {}}
    for name in PRE_TOKENIZERS:
        variant = Variant(data, name)
        for section, (num_blocks, inputs, variants) in sections(data).items():
            if name not in variants:
                continue
            sums = []
            for block in range(num_blocks):
                some = inputs(block)
                golden["num_inputs"][section] = golden["num_inputs"].get(section, 0) + len(some)
                sums.append(crc_of_sequences(variant.decode(some)) if section == "decode"
                            else crc_of_texts(variant.encode(some)))
            golden["sums"].setdefault(section, {})[name] = sums
            print(f"{name} {section}: {num_blocks} blocks", file=sys.stderr, flush=True)
    path = OUT / "tokenizer_proof.json"
    path.write_text(json.dumps(golden, separators=(",", ":")).replace("],", "],\n") + "\n")
    print(f"{path.name}: {path.stat().st_size} bytes; inputs: {golden['num_inputs']}")


if __name__ == "__main__":
    main()
