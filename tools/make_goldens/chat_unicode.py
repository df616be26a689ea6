#!/usr/bin/env python3
"""Writes trainer/jinja/unicode_tables.inc: letter cases and printable code points as this Python has them.

Run: python3.11 tools/make_goldens/chat_unicode.py > trainer/jinja/unicode_tables.inc
"""
import sys
import unicodedata

POINTS = [c for c in range(0x80, 0x110000) if not 0xD800 <= c < 0xE000]


def runs(pairs):
    """[(code point, value)] with equal values at equal steps (1 or 2) -> [(first, last, step, value)]."""
    out = []
    for point, value in pairs:
        if out and out[-1][3] == value:
            first, last, step, _ = out[-1]
            gap = point - last
            if (first == last and gap <= 2) or gap == step:
                out[-1] = (first, point, gap, value)
                continue
        out.append((point, point, 1, value))
    return out


def table(name, pairs):
    print(f"constexpr Run {name}[] = {{")
    line = "   "
    for first, last, step, value in runs(pairs):
        item = f" {{0x{first:X}, 0x{last:X}, {step}, {value}}},"
        if len(line) + len(item) > 110:
            print(line)
            line = "   "
        line += item
    print(line + "\n};")


def mapping(name, change):
    single, several = [], []
    for c in POINTS:
        to = change(chr(c))
        if to == chr(c):
            continue
        if len(to) == 1:
            single.append((c, ord(to) - c))
        else:
            several.append((c, to))
    table(f"k{name}", single)
    print(f"constexpr Expansion k{name}Expansions[] = {{")
    for c, to in several:
        print(f'    {{0x{c:X}, U"' + "".join(f"\\U{ord(x):08X}" for x in to) + '"},')
    if not several:
        print('    {0, U""},')
    print("};")


print(f"// Made by tools/make_goldens/chat_unicode.py from Unicode {unicodedata.unidata_version}. Above ASCII only.")
mapping("Upper", str.upper)
mapping("Lower", lambda c: "σ" if c == "Σ" else c.lower())
mapping("Title", str.title)
table("kUppercase", [(c, 0) for c in POINTS if chr(c).isupper()])
table("kLowercase", [(c, 0) for c in POINTS if chr(c).islower()])
table("kTitlecase", [(c, 0) for c in POINTS if unicodedata.category(chr(c)) == "Lt"])
table("kUnprintable", [(c, 0) for c in POINTS if not chr(c).isprintable()])
# What may stand between a capital sigma and the letters that decide its form.
EVERY = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
CASED = {c for c in EVERY if chr(c).isupper() or chr(c).islower() or chr(c).istitle()}
table("kCaseIgnorable", [(c, 0) for c in EVERY if c not in CASED and ("AΣ" + chr(c) + "A").lower()[1] == "σ"])
