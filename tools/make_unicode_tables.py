#!/usr/bin/env python3
"""Writes trainer/data/unicode_tables.inc: letters, numbers, white space and canonical (de)composition.

    pip install unicodedata2==16.0.0
    tools/make_unicode_tables.py > trainer/data/unicode_tables.inc
"""
import sys

import unicodedata2 as unicode

# PropList.txt, White_Space: Python knows it only mixed with other properties.
WHITE_SPACE = [(0x9, 0xD), (0x20, 0x20), (0x85, 0x85), (0xA0, 0xA0), (0x1680, 0x1680), (0x2000, 0x200A),
               (0x2028, 0x2029), (0x202F, 0x202F), (0x205F, 0x205F), (0x3000, 0x3000)]
HANGUL = range(0xAC00, 0xD7A4)  # composed by arithmetic
CODES = [c for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF]


def ranges(codes):
    out = []
    for code in codes:
        if out and out[-1][1] == code - 1:
            out[-1][1] = code
        else:
            out.append([code, code])
    return out


def write(name, element, rows):
    items = ["{" + ",".join(f"0x{v:X}" for v in row) + "}" for row in rows]
    print(f"constexpr {element} {name}[] = {{")
    line = "   "
    for item in items:
        if len(line) + len(item) > 107:
            print(line)
            line = "   "
        line += " " + item + ","
    print(line + "\n};")


def main():
    if unicode.unidata_version != "16.0.0":
        sys.exit(f"this needs Unicode 16.0.0, not {unicode.unidata_version}")
    print("// Made by tools/make_unicode_tables.py from Unicode 16.0.0. clang-format off")
    write("kLetters", "Range", ranges(c for c in CODES if unicode.category(chr(c))[0] == "L"))
    write("kNumbers", "Range", ranges(c for c in CODES if unicode.category(chr(c))[0] == "N"))
    write("kSpaces", "Range", WHITE_SPACE)

    classes = []
    for code in CODES:
        value = unicode.combining(chr(code))
        if value == 0:
            continue
        if classes and classes[-1][1] == code - 1 and classes[-1][2] == value:
            classes[-1][1] = code
        else:
            classes.append([code, code, value])
    write("kCombiningClasses", "ClassRange", classes)

    pairs, singles = [], []
    for code in CODES:
        parts = unicode.decomposition(chr(code)).split()
        if not parts or parts[0].startswith("<") or code in HANGUL:
            continue
        parts = [int(part, 16) for part in parts]
        composes = unicode.normalize("NFC", chr(code)) == chr(code)
        if len(parts) == 1:
            assert not composes
            singles.append((code, parts[0]))
        else:
            pairs.append((code, parts[0], parts[1], int(composes)))
    write("kPairs", "PairDecomposition", pairs)
    write("kSingles", "SingleDecomposition", singles)


main()
