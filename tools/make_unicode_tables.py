#!/usr/bin/env python3
"""Writes trainer/text/unicode_tables.inc: letters, numbers, white space, word characters (Unicode 16.0) and
canonical (de)composition (Unicode 9.0): the versions that Hugging Face's tokenizers 0.23 has, so that ids are
the same. Also characters younger than PCRE2 10.42 (Unicode 14.0), each with an older one of its kind.

    pip install unicodedata2==16.0.0          # under Python 3.11: its own unicodedata is Unicode 14.0
    tools/make_unicode_tables.py > trainer/text/unicode_tables.inc
"""
import sys
import unicodedata as unicode_14

import unicodedata2 as unicode

# PropList.txt, White_Space: Python knows it only mixed with other properties.
WHITE_SPACE = [(0x9, 0xD), (0x20, 0x20), (0x85, 0x85), (0xA0, 0xA0), (0x1680, 0x1680), (0x2000, 0x200A),
               (0x2028, 0x2029), (0x202F, 0x202F), (0x205F, 0x205F), (0x3000, 0x3000)]
# Word characters (\\w of Rust's regular expressions) that are no letter, mark, decimal or letter number, or
# connector: joiners, and the enclosed letters that are alphabetic.
MORE_WORD = [(0x200C, 0x200D), (0x24B6, 0x24E9), (0x1F130, 0x1F149), (0x1F150, 0x1F169), (0x1F170, 0x1F189)]
# Characters younger than Unicode 9.0 that have a combining class or a decomposition. Those of older ones
# never change (the standard's stability policy), so 16.0 without these is 9.0.
AFTER_9 = [(0x7FD, 0x7FD), (0x897, 0x89F), (0x8CA, 0x8D3), (0x9FE, 0x9FE), (0xC3C, 0xC3C), (0xD3B, 0xD3C),
           (0xEBA, 0xEBA), (0x1715, 0x1715), (0x1ABF, 0x1ACE), (0x1DF6, 0x1DFA), (0xA82C, 0xA82C),
           (0x105C9, 0x105C9), (0x105E4, 0x105E4), (0x10D24, 0x10D27), (0x10D69, 0x10D6D), (0x10EAB, 0x10EAC),
           (0x10EFD, 0x10EFF), (0x10F46, 0x10F50), (0x10F82, 0x10F85), (0x11070, 0x11070), (0x1133B, 0x1133B),
           (0x11383, 0x11391), (0x113C5, 0x113D0), (0x1145E, 0x1145E), (0x11839, 0x1183A), (0x11938, 0x11943),
           (0x119E0, 0x119E0), (0x11A34, 0x11A34), (0x11A47, 0x11A47), (0x11A99, 0x11A99), (0x11D42, 0x11D45),
           (0x11D97, 0x11D97), (0x11F41, 0x11F42), (0x16121, 0x1612F), (0x16D68, 0x16D6A), (0x16FF0, 0x16FF1),
           (0x1E08F, 0x1E08F), (0x1E130, 0x1E136), (0x1E2AE, 0x1E2AE), (0x1E2EC, 0x1E2EF), (0x1E4EC, 0x1E4EF),
           (0x1E5EE, 0x1E5EF)]
HANGUL = range(0xAC00, 0xD7A4)  # composed by arithmetic
CODES = [c for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF]
NFC_CODES = [c for c in CODES if not any(first <= c <= last for first, last in AFTER_9)]


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


def is_word(code):
    category = unicode.category(chr(code))
    return category[0] in "LM" or category in ("Nd", "Nl", "Pc") or any(a <= code <= b for a, b in MORE_WORD)


def stand_ins():
    """[first, last, code]: characters whose category Unicode 14.0 does not know as 16.0 does, and one of that
    category, that length in UTF-8 and, of the scripts that patterns name, that script."""
    def kind(code, category):
        script = unicode.name(chr(code), " ").split(" ")[0]
        return category, len(chr(code).encode()), script in ("CJK", "HIRAGANA", "KATAKANA") and script

    # PCRE2 takes U+180E for white space; it is a format character since Unicode 6.3.
    younger = [c for c in CODES if unicode.category(chr(c)) != unicode_14.category(chr(c))] + [0x180E]
    kinds = {kind(c, unicode.category(chr(c))) for c in younger}
    stand_in = {}
    # The last in a plane's order: not one that a pattern is likely to name.
    for code in CODES:
        category = unicode.category(chr(code))
        if category == unicode_14.category(chr(code)) and code != 0x180E and kind(code, category) in kinds:
            stand_in[kind(code, category)] = code
    rows = []
    for code in sorted(younger):
        to = stand_in[kind(code, unicode.category(chr(code)))]
        if rows and rows[-1][1] == code - 1 and rows[-1][2] == to:
            rows[-1][1] = code
        else:
            rows.append([code, code, to])
    return rows


def main():
    if unicode.unidata_version != "16.0.0" or unicode_14.unidata_version != "14.0.0":
        sys.exit(f"this needs Unicode 16.0.0 and 14.0.0, not {unicode.unidata_version} and "
                 f"{unicode_14.unidata_version}")
    print("// Made by tools/make_unicode_tables.py from Unicode 16.0 and 9.0. clang-format off")
    write("kLetters", "Range", ranges(c for c in CODES if unicode.category(chr(c))[0] == "L"))
    write("kNumbers", "Range", ranges(c for c in CODES if unicode.category(chr(c))[0] == "N"))
    write("kSpaces", "Range", WHITE_SPACE)
    write("kWord", "Range", ranges(c for c in CODES if is_word(c)))
    write("kStandIns", "StandIn", stand_ins())

    classes = []
    for code in NFC_CODES:
        value = unicode.combining(chr(code))
        if value == 0:
            continue
        if classes and classes[-1][1] == code - 1 and classes[-1][2] == value:
            classes[-1][1] = code
        else:
            classes.append([code, code, value])
    write("kCombiningClasses", "ClassRange", classes)

    pairs, singles = [], []
    for code in NFC_CODES:
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
