#!/usr/bin/env python3
"""Writes tests/trainer/text/goldens/: what Hugging Face's tokenizers say.

    pip install tokenizers==0.23.3
    tools/make_goldens/tokenizer.py FOLDER_WITH_TEST_DATA

Long inputs are not stored: both sides generate them from a seed (fuzz_text) and compare a CRC-32 of the
results, block by block.
"""
import array
import json
import pathlib
import sys
import zlib

import tokenizers
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests/trainer/text/goldens"
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
          r"|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace("{1,3}", "")
PATTERNS = {"gpt2": GPT2, "llama3": LLAMA3, "qwen2": QWEN2}

TEXT_ALPHABET = [[0x20, 0x7E], [0x61, 0x7A], [0x30, 0x39], [0x20, 0x20], [0xA0, 0x24F], [0x300, 0x36F],
                 [0x370, 0x5FF], [0x900, 0x97F], [0x1100, 0x11FF], [0x2000, 0x206F], [0x2150, 0x218F],
                 [0x3000, 0x30FF], [0x4E00, 0x4FFF], [0xAC00, 0xAFFF], [0x1F300, 0x1F64F], [0x1, 0x10FF],
                 "'s", "'S", "'\u017F", "'ll", "'Re", "'VE", "'m", "'D", "'t", "\n", "\r\n", "\n\n", "   ",
                 "\t", " \n ", "the", " and", "ing", "123456", "...", "\u00A0", "\u3000", "\u0085", "\u2028"]
TOKENS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|im_end", "<|"]
NFC_ALPHABET = [[0x41, 0x7A], [0x300, 0x36F], [0xC0, 0x24F], [0x900, 0x9FF], [0xB40, 0xBDF], [0xF40, 0xFBF],
                [0x1000, 0x10FF], [0x1100, 0x11FF], [0x1B00, 0x1B4F], [0x1DC0, 0x1DFF], [0x1E00, 0x1FFF],
                [0x3040, 0x30FF], [0xAC00, 0xD7A3], [0xF900, 0xFAFF], [0xFB1D, 0xFB4F], [0x105C0, 0x105FF],
                [0x11080, 0x110BF], [0x11130, 0x11135], [0x11380, 0x113D4], [0x16100, 0x1612F],
                [0x16D60, 0x16D6F], [0x1D15E, 0x1D1C0], [0x1E2AE, 0x1E2FF], [0x2F800, 0x2FA1D]]

TRAINING_TEXT = """
The rain had stopped by the time the train reached the station, and the people on the platform were waiting.
She has 12 apples and buys 7 more; how many apples does she have? He doesn't know, but they'll find out, won't
they? We've counted 1,234 of them, I'm sure. It's the number of the things that there are: 3 + 4 = 7, so the
answer is 7. "Nothing," he said, "is as simple as it seems to be." There is no reason to think that the other
one would be any better than this one. Das Wetter war schön, aber der Führer des Zuges hörte nichts. Où est la
gare? El niño está aquí. Съешь же ещё этих мягких французских булок. 東京都は日本の首都です。 한국어 문장입니다.
for (int i = 0; i < n; ++i) { sum += values[i]; }\n\n    return sum / n;  // the mean of the values
"""
SAMPLES = ["", " ", "  ", "\n", "\t\n ", "Hello, world!", "  leading and trailing  ", "it's IT'S don't WON'T we'll",
           "12345 1 22 333", "a1b2c3", "x = 3.14e-10;", "\r\n\r\nnew\rlines\n", "tabs\t\tand  spaces   here",
           "Führer Führer", "e\u0301\u0323 \u1e69 s\u0323\u0307", "각 각", "\u212b \u2126 \u00c5",
           "漢字かな交じり文", "مرحبا بالعالم", "नमस्ते दुनिया", "🦙🦙🏽👩‍👩‍👧", "\u00a0\u2003\u3000wide",
           "'\u017f '\u017ft", "½ ² ④ ५", "\U0001f3fb\u200d\ufe0f", "#### 1,234\n", "</s><s>[INST]",
           "<|im_start|>user\nhi<|im_end|>\n", "<|endoftext|><|endoftext|>", "a<|im_end|>b", "<|im_end",
           "<think>\nhm\n</think> yes", "  <mask>  x", "caf\u00e9 cafe\u0301 <\u1ea1> <a\u0323>",
           "a" * 100, "ab" * 200, " " * 50 + "x", "=" * 77, "the" * 60, "0" * 31, "\n" * 9 + "end",
           "\U00016126\U0001611e\U0001611e", "\u0000\u0001\u007f\u0080", "\ud7ff\ue000\ufffd\U0010ffff"]


def mix_bits(x):
    x = (x + 0x9E3779B97F4A7C15) & (2**64 - 1)
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 & (2**64 - 1)
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB & (2**64 - 1)
    return x ^ (x >> 31)


def random_below(seed, stream, counter, n):
    return mix_bits(mix_bits(mix_bits(seed) ^ stream) ^ counter) * n >> 64


def fuzz_text(alphabet, seed, index, longest=24):
    text = ""
    for i in range(1, 2 + random_below(seed, index, 0, longest)):
        item = alphabet[random_below(seed, index, 2 * i, len(alphabet))]
        if not isinstance(item, str):
            item = chr(item[0] + random_below(seed, index, 2 * i + 1, item[1] - item[0] + 1))
        text += item
    return text


def crc_of_ints(numbers):
    return zlib.crc32(array.array("I", numbers).tobytes())


def merge_patch(target, patch):
    """RFC 7396"""
    if not isinstance(patch, dict):
        return patch
    target = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            target.pop(key, None)
        else:
            target[key] = merge_patch(target.get(key), value)
    return target


def write(name, content):
    def dump(value, depth):
        if depth > 0 and isinstance(value, dict):
            rows = [f"{json.dumps(k)}: {dump(v, depth - 1)}" for k, v in value.items()]
            return "{\n" + ",\n".join(rows) + "\n}"
        if depth > 0 and isinstance(value, list):
            return "[\n" + ",\n".join(dump(v, depth - 1) for v in value) + "\n]"
        return json.dumps(value, separators=(",", ":"))

    path = OUT / name
    path.write_text(dump(content, 3) + "\n")
    print(f"{path.name}: {path.stat().st_size} bytes")


def make_unicode():
    """Normalization form C and the words of three patterns, for all code points and for mixtures."""
    nfc = normalizers.NFC()

    def normalized(text):
        return nfc.normalize_str(text).encode()

    codes = [[chr(c) for c in range(first, first + 0x1000) if not 0xD800 <= c < 0xE000]
             for first in range(0, 0x110000, 0x1000)]
    golden = {"nfc_codes": [zlib.crc32(b"".join(normalized(f"{c}a{c}\u0345{c}\u0334{c}\u1161\u11a8") for c in block))
                            for block in codes]}
    fuzz = b""
    hashes = []
    for index in range(20000):
        fuzz += normalized(fuzz_text(NFC_ALPHABET, 1, index)) + b"\n"
        if index % 1000 == 999:
            hashes.append(zlib.crc32(fuzz))
            fuzz = b""
    golden["nfc_fuzz"] = {"alphabet": NFC_ALPHABET, "seed": 1, "block": 1000, "hashes": hashes}

    for name, pattern in PATTERNS.items():
        splitter = pre_tokenizers.Split(Regex(pattern), "isolated")

        def sizes(text):
            return [len(word.encode()) for word, _ in splitter.pre_tokenize_str(text)]

        hashes = []
        for block in codes:
            numbers = []
            for c in block:
                numbers += sizes(f"a{c}b1{c}{c} {c}9\n{c}\n '{c}")
            hashes.append(crc_of_ints(numbers))
        golden[name + "_codes"] = hashes
        hashes, numbers = [], []
        for index in range(20000):
            numbers += sizes(fuzz_text(TEXT_ALPHABET, 2, index))
            if index % 1000 == 999:
                hashes.append(crc_of_ints(numbers))
                numbers = []
        golden[name + "_fuzz"] = {"alphabet": TEXT_ALPHABET, "seed": 2, "block": 1000, "hashes": hashes}
    write("unicode.json", golden)


def byte_level(**more):
    return {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False, **more}


def split(pattern):
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}


def added(id, content, **more):
    return {"id": id, "content": content, "single_word": False, "lstrip": False, "rstrip": False,
            "normalized": False, "special": True, **more}


def make_small():
    """A vocabulary of 512 tokens, and variants of its file as RFC 7396 patches."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(QWEN2), "isolated"), pre_tokenizers.ByteLevel(False, False, False)])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator([TRAINING_TEXT], trainers.BpeTrainer(
        vocab_size=509, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    tokenizer.add_special_tokens(["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    small = json.loads(tokenizer.to_str())
    write("small_tokenizer.json", small)

    base = small["added_tokens"]
    n = 512
    variants = {
        "qwen2": {},
        "gpt2": {"normalizer": None, "pre_tokenizer": None, "added_tokens": base},
        "llama3": {"pre_tokenizer": {"pretokenizers": [split(LLAMA3), byte_level()]},
                   "model": {"ignore_merges": True}},
        "other_regex": {"pre_tokenizer": {"pretokenizers": [split(r"\p{Lu}?\p{Ll}+|\d{1,2}|\s+"), byte_level()]}},
        "digits_then_words": {"pre_tokenizer": {"pretokenizers": [
            {"type": "Digits", "individual_digits": False}, split(r"[^\s]+|\s+"), byte_level()]}},
        "old_merges": {"model": {"merges": [" ".join(m) for m in small["model"]["merges"]]}},
        "added": {"added_tokens": base + [
            added(n, "<think>", special=False), added(n + 1, "</think>", special=False),
            added(n + 2, "<mask>", lstrip=True), added(small["model"]["vocab"]["the"], "the", special=False, normalized=True),
            added(n + 3, "<\u1ea1>", special=False, normalized=True),
            added(n + 4, "<|im_end|>b", rstrip=True), added(n + 5, "<s>", lstrip=True, rstrip=True)]},
    }
    variants["gpt2"]["pre_tokenizer"] = byte_level(use_regex=True)
    texts = SAMPLES + [fuzz_text(TEXT_ALPHABET + TOKENS, 3, i) for i in range(25)]
    golden = {"texts": texts, "variants": {}}
    for name, patch in variants.items():
        content = merge_patch(small, patch)
        # Merging a Split into a ByteLevel would leave keys of both: these two are replaced, not merged.
        if "pre_tokenizer" in patch and "type" in patch["pre_tokenizer"]:
            content["pre_tokenizer"] = patch["pre_tokenizer"]
        tokenizer = Tokenizer.from_str(json.dumps(content))
        ids = [tokenizer.encode(text, add_special_tokens=False).ids for text in texts]
        tokenizer.encode_special_tokens = True
        as_text = [tokenizer.encode(text, add_special_tokens=False).ids for text in texts]
        golden["variants"][name] = {
            "patch": patch, "ids": ids,
            "ids_as_text": {i: other for i, other in enumerate(as_text) if other != ids[i]},
            "decoded_crc": zlib.crc32("\n".join(tokenizer.decode(i, skip_special_tokens=True) for i in ids).encode())}
    write("small_ids.json", golden)


def make_qwen2(data):
    tokenizer = Tokenizer.from_file(str(data / "tokenizers/qwen2/tokenizer.json"))

    def encode(text):
        return tokenizer.encode(text, add_special_tokens=False).ids

    texts = SAMPLES + [fuzz_text(TEXT_ALPHABET + TOKENS, 4, i) for i in range(200)]
    hashes, numbers = [], []
    for index in range(10000):
        numbers += encode(fuzz_text(TEXT_ALPHABET + TOKENS, 5, index))
        if index % 500 == 499:
            hashes.append(crc_of_ints(numbers))
            numbers = []
    rows = [json.loads(line) for line in (data / "gsm8k/train.jsonl").read_text().splitlines()]
    gsm8k = [i for row in rows for text in (row["question"], row["answer"]) for i in encode(text)]
    decoded = b""
    for index in range(2000):
        ids = [random_below(6, index, i, tokenizer.get_vocab_size()) for i in range(12)]
        decoded += tokenizer.decode(ids, skip_special_tokens=True).encode() + b"\n"
    write("qwen2_ids.json", {
        "texts": [{"text": text, "ids": encode(text)} for text in texts],
        "fuzz": {"alphabet": TEXT_ALPHABET + TOKENS, "seed": 5, "block": 500, "hashes": hashes},
        "gsm8k": {"num_ids": len(gsm8k), "crc": crc_of_ints(gsm8k)},
        "decode": {"seed": 6, "num_texts": 2000, "length": 12, "crc": zlib.crc32(decoded)}})


def main():
    if tokenizers.__version__ != "0.23.3":
        sys.exit("this needs tokenizers==0.23.3")
    make_unicode()
    make_small()
    make_qwen2(pathlib.Path(sys.argv[1]))


if __name__ == "__main__":
    main()
