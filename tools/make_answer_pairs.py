#!/usr/bin/env python3
"""Makes the pairs of answers that tests hold trainer/answers to, and sets them beside math-verify's verdicts.

Usage: tools/make_answer_pairs.py GSM8K_TRAIN_JSONL > tests/trainer/answers/pairs.jsonl
       tools/make_answer_pairs.py --compare tests/trainer/answers/pairs.jsonl    (needs: pip install math-verify)

A line of the file: {"kind", "truth", "response", "same"}. The verdicts are ours to give: written by hand beside each
truth below, or true (false) by the way a form was made from GSM8K's answer. --compare prints, as a Markdown
table, each pair on which math-verify says otherwise.
"""

import json
import random
import sys

# kind -> [(truth, forms that mean the same, forms that do not)]; a form is what stands in \boxed{}.
PAIRS = {
    "numbers": [
        ("18", ["18", "18.0", "18.", "+18", "018", "$18", r"\$18", "18 dollars", r"18\text{ eggs}", "18.00"],
         ["17", "-18", "1.8", "180", "18.01", "81"]),
        ("-5", ["-5", "\u22125", "- 5", "-5.0", r"-\frac{5}{1}"], ["5", "-4", "-0.5"]),
        ("1000", ["1,000", "1{,}000", r"1,\!000", "1 000", "10^3", r"1 \times 10^3", "1e3", r"\$1,000.00"],
         ["100", "1.000", "10000", "1,00"]),
        ("1,234,567", ["1234567", "1,234,567", r"1{,}234{,}567"], ["1,234,568", "1234"]),
        ("0.5", ["0.5", ".5", "1/2", r"\frac{1}{2}", r"\frac12", r"\dfrac{1}{2}", r"2^{-1}", "0.50", r"5 \cdot 10^{-1}"],
         ["0.05", "5", "2", r"\frac{2}{1}", "0.51"]),
        ("0", ["0", "-0", "0.0", r"\frac{0}{5}", "5-5"], ["1", "0.1", "O"]),
        ("12345678901234567890", ["12345678901234567890", r"12345678901234567890.0"], ["12345678901234567891", "12345678901234567000"]),
        ("2^{100}", ["1267650600228229401496703205376", r"4^{50}", r"2^{100}"], ["1267650600228229401496703205377", "2^{99}"]),
        ("0.333333", [r"\frac{1}{3}", "0.333333"], ["0.33", "0.3"]),
        (r"\frac{1}{3}", ["0.333333", "1/3", r"\frac{2}{6}", "0.3333333333"], ["0.33", "0.333", "0.3", "0.334", "3"]),
        (r"6.02 \times 10^{23}", ["6.02e23", r"6.02 \cdot 10^{23}", "602000000000000000000000", r"6.02\times10^{23}"],
         [r"6.02 \times 10^{22}", "6.02", r"6.02 \times 10^{-23}"]),
    ],
    "percentages": [
        (r"25\%", ["25%", r"25\%", "25", "0.25", r"\frac{1}{4}", "25 percent", r"25\text{ percent}"], ["2.5%", "0.025", "75%"]),
        ("25", ["25%", "25"], ["0.25", "2500"]),
        ("0.25", ["25%", "0.25", "1/4"], ["2.5%"]),
        ("12.5%", ["12.5%", r"12.5\%", "0.125", "1/8"], ["1.25%", "12%"]),
    ],
    "fractions": [
        (r"\frac{3}{4}", ["3/4", "0.75", r"\dfrac{3}{4}", r"\tfrac34", r"\frac34", r"\frac{6}{8}", r"\frac{75}{100}", r"75\%", r"\cfrac{3}{4}"],
         ["4/3", "0.7", "3", "34", r"-\frac{3}{4}"]),
        (r"-\frac{2}{3}", [r"\frac{-2}{3}", r"\frac{2}{-3}", "-2/3", r"-\dfrac{4}{6}", r"-\left(\frac{2}{3}\right)"], [r"\frac{2}{3}", "-0.66", r"-\frac{3}{2}"]),
        (r"1\frac{1}{2}", ["3/2", "1.5", r"1\frac{1}{2}", "1 1/2", r"\frac{3}{2}", r"1 \frac{1}{2}"], ["1/2", "11/2", "1.12"]),
        (r"\frac{7}{3}", [r"2\frac{1}{3}", "7/3", "2 1/3"], [r"\frac{2}{3}", "21/3", "7"]),
        (r"\frac{1}{1{,}000}", ["0.001", r"\frac{1}{1000}", "10^{-3}", "1/1000"], ["0.01", "1000"]),
        (r"\frac{\sqrt{3}}{3}", [r"\frac{1}{\sqrt{3}}", r"\sqrt{\frac{1}{3}}", r"3^{-1/2}", r"\frac{\sqrt3}{3}"], [r"\frac{\sqrt{3}}{2}", r"\sqrt{3}", "0.577"]),
    ],
    "roots and powers": [
        (r"2\sqrt{3}", [r"\sqrt{12}", r"2 \cdot \sqrt{3}", r"\sqrt{3} \cdot 2", r"2*sqrt(3)", r"\sqrt{3}+\sqrt{3}", r"2\sqrt3", "2\u221a3"],
         [r"\sqrt{6}", r"3\sqrt{2}", r"2+\sqrt{3}", r"\sqrt[2]{3}"]),
        (r"\sqrt{2}+\sqrt{3}", [r"\sqrt{3}+\sqrt{2}", r"\sqrt{5+2\sqrt{6}}", r"\frac{1}{\sqrt{3}-\sqrt{2}}"], [r"\sqrt{5}", r"\sqrt{6}", r"\sqrt{2}-\sqrt{3}"]),
        (r"\sqrt[3]{2}", [r"2^{1/3}", r"2^{\frac{1}{3}}", r"\sqrt[3]{2}"], [r"\sqrt{2}", r"2^{3}", r"3\sqrt{2}"]),
        (r"\sqrt[3]{-8}", ["-2", r"-\sqrt[3]{8}"], ["2", "-8"]),
        (r"4", [r"\sqrt{16}", "2^2", "2**2", r"(-2)^2", r"8^{2/3}", r"\frac{\sqrt{32}}{\sqrt{2}}"], [r"-2^2", r"\sqrt{8}", r"2^{-2}"]),
        (r"8\pi", [r"\pi \cdot 8", "8pi", "8\u03c0", r"8 \pi", r"4 \cdot 2\pi"], ["8", r"\pi", r"8\pi^2", "25.13", r"\frac{8}{\pi}"]),
        (r"\frac{\pi}{6}", [r"\pi/6", r"\frac{1}{6}\pi", r"\frac{2\pi}{12}"], [r"\frac{6}{\pi}", r"\frac{\pi}{3}", "30"]),
        (r"3+4i", ["4i+3", r"3 + 4i", r"3+4 i"], ["3-4i", "7", "5", "4+3i"]),
        (r"e^2", [r"e^{2}", r"e \cdot e", r"\exp(2)"], ["2e", r"e^{-2}", "7.389"]),
        (r"\ln 2", [r"\ln(2)", r"\ln{2}", r"\frac{\ln 4}{2}", r"-\ln \frac{1}{2}"], [r"\ln 3", "2", r"\ln(2)^2"]),
        (r"\log_2 8", ["3", r"\log_{2} 8", r"\frac{\ln 8}{\ln 2}"], [r"\log_8 2", "8", "2"]),
        (r"\frac{1+\sqrt{5}}{2}", [r"\frac{\sqrt{5}+1}{2}", r"\frac12+\frac{\sqrt5}{2}", r"\frac{2}{\sqrt{5}-1}", r"(1+\sqrt{5})/2"], [r"\frac{1-\sqrt{5}}{2}", "1.618", r"1+\frac{\sqrt{5}}{2}"]),
        (r"\binom{5}{2}", ["10", r"\frac{5!}{2!3!}"], ["20", r"\frac{5}{2}"]),
        ("120", ["5!", r"5 \cdot 4!", "120"], ["5", "4!", "24"]),
        (r"\sin 30^\circ", [r"\frac{1}{2}", "0.5", r"\cos 60^\circ", r"\sin\left(\frac{\pi}{6}\right)"], [r"\cos 30^\circ", "30"]),
    ],
    "expressions": [
        ("x^2+2x+1", ["(x+1)^2", "1+2x+x^2", r"x^{2} + 2x + 1", "(x+1)(x+1)", "x(x+2)+1"], ["x^2+1", "(x-1)^2", "x^2+2x", "2x^2+2x+1"]),
        (r"\frac{x}{x+1}", [r"1-\frac{1}{x+1}", "x/(x+1)", r"\frac{2x}{2x+2}", r"\frac{x^2}{x^2+x}"], ["x/x+1", r"\frac{x+1}{x}", r"\frac{x}{x-1}"]),
        ("2a+3b", ["3b+2a", r"2 a + 3 b", r"2\cdot a+3\cdot b"], ["2b+3a", "5ab", "2a-3b"]),
        ("x^{-1}", [r"\frac{1}{x}", "1/x"], ["-x", "x"]),
        (r"\sin x \cos x", [r"\frac{1}{2}\sin(2x)", r"\cos x \sin x"], [r"\sin x + \cos x", r"\sin(2x)"]),
        ("n(n+1)/2", [r"\frac{n(n+1)}{2}", r"\frac{n^2+n}{2}", r"\frac12 n(n+1)"], ["n(n+1)", r"\frac{n(n-1)}{2}", r"\frac{m(m+1)}{2}"]),
        ("2^x", [r"2^{x}", r"2 \cdot 2^{x-1}"], ["x^2", "2x", "2^{x+1}"]),
        ("|x|", [r"\sqrt{x^2}", r"\left|x\right|", r"\lvert x \rvert"], ["x", "-x"]),
    ],
    "equations": [
        ("5", ["x = 5", "x=5", r"x = \frac{10}{2}", "5 = x", r"\text{Area} = 5"], ["x = 6", "x = -5"]),
        ("x = 5", ["5", "x=5.0", "x = 10/2"], ["y = 5", "x = 4", "4"]),
        ("y = 2x+3", ["y=3+2x", "2x+3", "2x - y + 3 = 0", r"y - 2x = 3", "y-3=2x", "4x-2y+6=0"], ["y = 2x-3", "y = 3x+2", "2x + y + 3 = 0", "2x-3"]),
        ("x^2+y^2=25", ["y^2+x^2=25", "x^2+y^2-25=0", "2x^2+2y^2=50"], ["x^2+y^2=5", "x^2-y^2=25", "25"]),
        ("f(x) = x^2", ["x^2", "f(x)=x^2", "y = x^2"], ["f(x) = x^3", "2x"]),
    ],
    "tuples, sets, lists": [
        ("(3, 4)", ["(3,4)", r"\left(3, 4\right)", "3, 4", r"(3.0, \frac{8}{2})", "(x,y) = (3,4)"], ["(4, 3)", "3", "(3, 4, 5)", "[3, 4)"]),
        (r"\{1, 2, 3\}", [r"\{3, 2, 1\}", r"\left\{1,2,3\right\}", "1, 2, 3", r"\{1, 2, 2, 3\}"], [r"\{1, 2\}", r"\{1, 2, 4\}", r"\{1, 2, 3, 4\}"]),
        ("1, -2", ["-2, 1", r"x = 1, x = -2", "x = 1 or x = -2", r"1 \text{ and } -2", r"1 \text{ or } -2", r"\{1, -2\}"], ["1", "1, 2", "-1, 2", "1, -2, 3"]),
        (r"\pm 3", ["3, -3", "-3, 3", r"\pm3", "\u00b13", r"x = \pm 3"], ["3", "-3", r"\pm 2"]),
        (r"2 \pm \sqrt{3}", [r"2+\sqrt{3}, 2-\sqrt{3}", r"2-\sqrt3 \text{ or } 2+\sqrt3"], [r"2+\sqrt{3}", r"3 \pm \sqrt{2}"]),
        (r"\emptyset", [r"\varnothing", r"\{\}", "\u2205"], ["0", r"\{0\}"]),
        (r"\begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix}",
         [r"\begin{bmatrix} 1 & 2 \\ 3 & 4 \end{bmatrix}", r"\begin{pmatrix}1&2\\3&\frac{8}{2}\end{pmatrix}", r"\left[\begin{array}{cc} 1 & 2 \\ 3 & 4 \end{array}\right]"],
         [r"\begin{pmatrix} 1 & 3 \\ 2 & 4 \end{pmatrix}", r"\begin{pmatrix} 1 & 2 & 3 & 4 \end{pmatrix}"]),
        (r"\begin{pmatrix} 1 \\ -2 \end{pmatrix}", ["(1, -2)", r"\begin{bmatrix} 1 \\ -2 \end{bmatrix}"], [r"\begin{pmatrix} -2 \\ 1 \end{pmatrix}", "(1, 2)", "-1"]),
        (r"(1, \frac{\pi}{2})", [r"\left(1, \frac{\pi}{2}\right)", r"(1, \pi/2)", r"(1, 0.5\pi)"], [r"(1, \pi)", r"(\frac{\pi}{2}, 1)"]),
    ],
    "intervals": [
        ("(1, 5]", ["(1,5]", "1 < x \\le 5", r"x \in (1, 5]", "1 < x <= 5", r"5 \ge x > 1", r"\left(1, 5\right]"], ["[1, 5]", "(1, 5)", "[1, 5)", "1 \\le x \\le 5", "(1, 6]"]),
        (r"(-\infty, 2)", ["x < 2", "2 > x", r"x \in (-\infty, 2)", "(-\u221e, 2)"], [r"(-\infty, 2]", r"(2, \infty)", "x > 2", r"x \le 2"]),
        (r"(-\infty, 1) \cup (5, \infty)", [r"(5, \infty) \cup (-\infty, 1)", "x < 1 or x > 5", r"x<1 \text{ or } x>5", r"x \in (-\infty,1)\cup(5,\infty)"],
         [r"(-\infty, 1] \cup [5, \infty)", "(1, 5)", r"(-\infty, 1)"]),
        ("[0, 1]", [r"0 \le x \le 1", r"[0,1]", r"[0, \frac{1}{2}] \cup [\frac{1}{2}, 1]"], ["(0, 1)", "[0, 2]"]),
        (r"\mathbb{R}", [r"(-\infty, \infty)", r"x \in \mathbb{R}"], [r"(0, \infty)", r"\mathbb{Z}"]),
    ],
    "traps": [
        ("10", ["10"], ["1", "100", "0", "x", "10x", "10y", r"10^{10^{10}}", r"\infty", "10, 11", "(10)!", r"10 \text{ or } 11"]),
        ("x+1", ["1+x", "x+1"], ["x-1", "y+1", "x", "1", "x+1=0", "x + 1 + y"]),
        ("(0, 1)", ["(0,1)", "0<x<1"], ["[0,1]", "0", "1", r"\{0, 1\}", "(0.1)"]),
        (r"\frac{1}{2}", [r"\frac{1}{2}"], [r"\frac{1}{20}", "1", "2", "12", r"\frac{2}{1}", "1:2", "0.4999"]),
        ("1.5", ["1.5", "3/2", r"1\frac12"], ["15", "1,5", "1.50001"]),
        (r"\sqrt{2}", [r"\sqrt2", r"2^{0.5}", "1.414214"], ["1.414", "1.4", "2"]),
        ("2023", ["2023", "2,023"], ["2023!", "2023, 2023", "20 23", "23"]),
        ("9^{99}", [r"3^{198}", "9^{99}"], ["9^{98}", "99^9", "9*99"]),
    ],
    "units and words": [
        (r"5 \text{ cm}", ["5", "5 cm", r"5\,\text{cm}", r"5 \mathrm{~cm}", "5 centimeters"], ["50", "5 m", "6 cm"]),
        (r"12\text{ cm}^2", ["12", r"12 \text{ cm}^2", r"12\text{ square centimeters}"], ["144", "21"]),
        (r"30^\circ", ["30", r"30^{\circ}", "30\u00b0", "30 degrees", r"30\text{ degrees}"], ["60", r"60^\circ"]),
        ("Tuesday", ["tuesday", r"\text{Tuesday}", r"\textbf{Tuesday}"], ["Monday", "Thursday"]),
        (r"\text{(C)}", ["C", "(C)", r"\textbf{C}", r"\text{C}"], ["B", "(A)", "c+1"]),
        (r"\text{even}", ["even", "Even", r"\text{Even}"], ["odd"]),
        ("Yes", ["yes", r"\text{Yes}"], ["no"]),
    ],
}

# Whole responses: where the answer stands.
RESPONSES = [
    ("72", r"She sold 48+24=72 clips. \boxed{72}", True),
    ("72", r"First \boxed{48}, then \boxed{72}.", True),
    ("48", r"First \boxed{48}, then \boxed{72}.", False),
    ("72", "The answer is 72.", True),
    ("72", "The answer is: **72** clips.", True),
    ("72", "Answer: 72", True),
    ("72", "So she sold $72$ clips.", True),
    ("72", "She sold 48 in April and 24 in May, so 72", True),
    ("24", "She sold 48 in April and 24 in May, so 72", False),
    (r"\frac{1}{2}", r"Hence \[ p = \frac{1}{2} \]", True),
    (r"\frac{1}{2}", r"The final answer is $\boxed{\frac{1}{2}}$. I hope it is correct.", True),
    ("7", r"<think>\boxed{3}</think> It is \boxed{7}.", True),
    ("3", r"<think>\boxed{3}</think> It is 7.", False),
    ("5", r"<think>x</think><answer>5</answer>", True),
    (r"\frac{3}{4}", r"\boxed{\dfrac{3}{4}}", True),
    ("3", r"\fbox{3}", True),
    ("2", r"\boxed{2", False),
    ("11", "#### 11", True),
    ("1,450", "Tom has $1,450 left.", True),
    ("-3", "x = -3", True),
]


def of_gsm8k(path):
    """Forms of GSM8K's own answers, chosen and changed at random but always alike."""
    random.seed(8)
    with open(path, encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    for row in random.sample(rows, 60):
        solution, truth = row["answer"].rsplit("####", 1)
        truth = truth.strip()
        number = int(truth.replace(",", ""))
        grouped = f"{number:,}"
        right = [
            f"{solution.strip()}\n#### {truth}",
            rf"\boxed{{{grouped}}}",
            rf"\boxed{{{number}.00}}",
            rf"So it is \(\boxed{{\${number}}}\).",
            f"The answer is {grouped}.",
            f"The answer is **{number}** in all.",
            rf"\boxed{{\frac{{{number * 6}}}{{6}}}}",
            rf"Therefore $x = {number}$.",
            f"Answer: {number}",
            rf"\boxed{{{number} \text{{ units}}}}",
        ]
        wrong = [
            f"The answer is {number + 1}.",
            rf"\boxed{{{number}1}}",
            rf"\boxed{{-{number}}}" if number != 0 else r"\boxed{-1}",
            rf"\boxed{{\frac{{{number}}}{{7}}}}" if number != 0 else r"\boxed{7}",
            f"#### {number * 10 if number else 10}",
        ]
        for form in random.sample(right, 2):
            yield truth, form, True
        yield truth, random.choice(wrong), False


def write(gsm8k):
    rows = []
    for kind, pairs in PAIRS.items():
        for truth, same, other in pairs:
            rows += [(kind, truth, rf"\boxed{{{form}}}", True) for form in same]
            rows += [(kind, truth, rf"\boxed{{{form}}}", False) for form in other]
    rows += [("responses", *row) for row in RESPONSES]
    rows += [("GSM8K", *row) for row in of_gsm8k(gsm8k)]
    for kind, truth, response, same in rows:
        print(json.dumps({"kind": kind, "truth": truth, "response": response, "same": same}))


def compare(path):
    import logging

    from math_verify import parse, verify

    logging.disable(logging.CRITICAL)
    with open(path, encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    other = 0
    print("| kind | truth | response | ours | math-verify |\n|---|---|---|---|---|")
    for row in rows:
        gold = parse("\\boxed{" + row["truth"] + "}")
        verdict = bool(verify(gold, parse(row["response"])))
        if verdict != row["same"]:
            other += 1
            response = row["response"] if len(row["response"]) < 80 else "..." + row["response"][-77:]
            cells = [row["kind"], f"`{row['truth']}`", f"`{response}`", "same" if row["same"] else "not",
                     "same" if verdict else "not"]
            print("| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |")
    print(f"\n{len(rows)} pairs, {len(rows) - other} alike, {other} not", file=sys.stderr)


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[1] == "--compare":
        compare(sys.argv[2])
    elif len(sys.argv) == 2 and not sys.argv[1].startswith("-"):
        write(sys.argv[1])
    else:
        sys.exit(__doc__)
