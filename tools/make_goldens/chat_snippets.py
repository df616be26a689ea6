"""Small random templates and what Jinja makes of them, in the environment that transformers gives to chat templates.

Dropped are results that are no one's to repeat: addresses, and integers beyond 64 bits.
"""
import random
import re

from transformers.utils.chat_template_utils import render_jinja_template

VARIABLES = {
    "s": "  Hello, World </think> it's ", "u": "Grüße ΣΑΣ 😀\u3000ß\n", "q": "a\"b'c\\d\te", "empty": "",
    "n": 7, "m": -3, "zero": 0, "big": 2 ** 62, "f": 2.5, "g": -0.1, "h": 1e16, "t": True, "no": False, "z": None,
    "l": [3, 1, 2, 1], "ls": ["b", "A", "c", "a", ""], "lm": [1, "1", None, 2.0, True, [4], {"k": 5}], "el": [],
    "d": {"b": 1, "a": "x", "items": [5], "get": 6}, "ed": {}, "dn": {"role": "user", "content": {"p": [1, {"r": "é"}]}},
    "ld": [{"name": "x", "v": 3, "k": {"z": 1}}, {"name": "Y", "v": 1}, {"name": "a", "v": None}],
    "spaces": " \t\n\x0b\x85\u2003", "lines": "one\ntwo\r\nthree\u2028four\n", "num": " 1_0 ", "fl": "3.75e1",
    "html": "<a href=\"x\">&'</a>"}
NAMES = list(VARIABLES) + ["missing", "nope"]
STRINGS = ["a", "", " ", "l", "b", "\\n", "</think>", "\\'", "o, W", "é", "\\u00e9", "Σ", "x y", "role", "name", "items",
           "%", "{}", "\\x41", "\\q", "ss"]
TESTS = ["defined", "undefined", "none", "string", "mapping", "iterable", "sequence", "number", "integer", "float",
         "boolean", "true", "false", "odd", "even", "lower", "upper", "callable", "escaped"]
TESTS1 = ["equalto", "eq", "==", "ne", "in", "lt", "gt", "ge", "le", "divisibleby", "greaterthan", "lessthan", "equalto"]
FILTERS = ["length", "count", "first", "last", "upper", "lower", "trim", "string", "list", "int", "float", "tojson",
           "title", "capitalize", "sort", "sum", "min", "max", "abs", "dictsort", "safe",
           "join", "escape", "e", "default", "d", "indent"]
LAZY = ["map", "select", "reject", "unique", "items", "reverse"]  # used up at once: elsewhere they are not lazy
METHODS = ["upper()", "lower()", "strip()", "title()", "capitalize()", "split()", "items()", "keys()", "values()",
           "splitlines()", "isupper()", "islower()", "isspace()", "copy()", "rsplit()", "lstrip()", "rstrip()"]
METHODS1 = ["split", "startswith", "endswith", "strip", "lstrip", "rstrip", "find", "rfind", "count", "index", "get",
            "join", "rsplit", "removeprefix", "removesuffix", "partition", "rpartition", "append", "pop", "update"]
LITERALS = ["0", "1", "2", "-1", "3.0", "1.5", "1e3", "0x1F", "0b11", "1_000", "true", "False", "none", "None", "[]",
            "{}", "()", "1e-7", "123456789.125", "[1, 2]", "(1,)", "{'a': 1}", "0o17"]


class Maker:
    def __init__(self, seed):
        self.r = random.Random(seed)

    def pick(self, items):
        return self.r.choice(items)

    def string(self):
        quote = self.pick("'\"")
        return quote + self.pick(STRINGS).replace(quote, "") + quote

    def atom(self):
        x = self.r.random()
        if x < 0.6:
            return self.pick(NAMES)
        return self.string() if x < 0.8 else self.pick(LITERALS)

    def expression(self, depth):
        if depth <= 0:
            return self.atom()
        e = lambda: self.expression(depth - 1 - self.r.randrange(2))  # noqa: E731
        kind = self.r.randrange(26)
        if kind < 4:
            return f"{e()} {self.pick(['+', '-', '*', '/', '//', '%', '~', '~', '+'])} {e()}"
        if kind < 6:
            ops = [self.pick(["==", "!=", "<", "<=", ">", ">=", "in", "not in"]) for _ in range(self.pick([1, 1, 2]))]
            return e() + "".join(f" {op} {e()}" for op in ops)
        if kind == 6:
            return f"{e()} {self.pick(['and', 'or'])} {e()}"
        if kind == 7:
            return f"not {e()}"
        if kind == 8:
            return f"({e()} if {e()} else {e()})" if self.r.random() < 0.8 else f"({e()} if {e()})"
        if kind == 9:
            return self.pick(NAMES + ["(" + self.pick(NAMES) + " or " + e() + ")"]) + self.pick(["[0]", "[-1]", "[1:]", "[::-1]", "[:2]", "[-2:]", "['a']", "[9]", "[1:3:2]",
                                               "[::-2]", "[0:0]", "[none:1]", "[-5:5]", f"[{e()}]", f"[{e()}:{e()}]"])
        if kind == 10:
            return self.pick(["d", "ld[0]", "dn.content", "ed", "dn", "s", "l"]) + self.pick(
                [".a", ".b", ".name", ".k.z", ".p[1].r", ".items()", ".x", "['b']", ".v", ".update", ".upper()", ".0"])
        if kind < 14:
            return f"({e()})|{self.filter(depth)}"
        if kind < 17:
            return f"{self.pick(['(' + e() + ')', self.atom()])}|{self.filter(depth)}|{self.filter(depth)}"
        if kind == 17:
            return f"({e()}) is {self.pick(['', 'not '])}{self.pick(TESTS)}"
        if kind == 18:
            return f"({e()}) is {self.pick(TESTS1)}({e()})".replace(" is ==(", " is eq(")
        if kind < 22:
            return f"({self.pick(['s', 'u', 'q', 'd', 'l', 'lines', 'spaces', e()])}).{self.pick(METHODS)}"
        if kind < 24:
            return f"({self.pick(['s', 'u', 'q', 'd', 'l', 'lines', e()])}).{self.pick(METHODS1)}({self.pick([self.string(), e()])})"
        if kind == 24:
            return self.pick([f"[{e()}, {e()}]", f"({e()}, {e()})", f"{{'k': {e()}, {self.string()}: {e()}}}", f"{{{e()}: 1}}"])
        return self.pick([f"range({self.r.randrange(6)})", "range(1, 9, 3)", "-" + self.atom(), f"dict(a={e()})",
                          f"{self.atom()} ** {self.pick(['2', '-1', '3'])}", f"s.replace({self.string()}, {self.string()})",
                          f"u.replace({self.string()}, '-', 1)", "s.split('l', 1)", "s.rsplit('l', 1)", "'{} {0}'.format(1)",
                          "'{}-{}'.format(n, s)", "range(5)[1:]", "s.startswith(('a', ' '))", "lines.splitlines(true)",
                          "namespace(a=1).a", "'a' 'b'", "dict([(1, 2)])", "x is sameas none", "raise_exception('x')", "spaces.split()"])

    def used_up(self, *filters):
        return self.pick(filters) + self.pick(["|list", "|list", "|join('+')", "|sort", "|first", "|list|tojson"])

    def filter(self, depth):
        e = self.expression(depth - 2)
        if self.r.random() < 0.55:
            return self.pick(FILTERS)
        return self.pick([
            f"default({e})", f"default({e}, true)", f"join({self.string()})", "join('-', 'name')",
            self.used_up("map('string')", "map(attribute='name')", "map(attribute='v', default=9)", "map(attribute='k.z')",
                         "select('string')", "select('gt', 1)", "reject('none')", "selectattr('v')", "unique(true)",
                         "selectattr('name', 'eq', 'x')", "rejectattr('v', 'none')", "map('upper')", *LAZY), f"trim({self.string()})", f"replace({self.string()}, {self.string()})",
            "replace('l', 'L', 1)", "tojson(indent=2)", "tojson(ensure_ascii=true)", "tojson(sort_keys=true)",
            "tojson(separators=(',', ':'))", "tojson(indent=0)", "tojson(none, 1)", "sort(reverse=true)",
            "sort(attribute='name')", "sort(case_sensitive=true)", "dictsort(by='value')",
            "dictsort(false, 'key', true)", "sum(start=1)", "sum('v')", "min(attribute='v')", "int(5)", "float(1.5)",
            "indent(2, true)", "indent('>', blank=true)", "list", "list|tojson", "map('length')|list"])

    def spaced(self, tag, content):
        left = self.pick(["", "", "-", "+"]) if tag == "%" else self.pick(["", "", "-"])
        right = self.pick(["", "", "-", "+"]) if tag == "%" else self.pick(["", "", "-"])
        begin, end = ("{%", "%}") if tag == "%" else ("{{", "}}")
        return f"{begin}{left} {content} {right}{end}"

    def text(self):
        return self.pick(["", "", " ", "\n", " x ", "\n  ", "  \n", "a\n\n", "\t", "}", "{", "é\r\n", "# %"])

    def block(self, depth):
        b = lambda: self.body(depth - 1)  # noqa: E731
        e = lambda: self.expression(2)  # noqa: E731
        p = lambda content: self.spaced("%", content)  # noqa: E731
        kind = self.r.randrange(13)
        if kind < 3:
            other = self.pick(["", p("else") + b(), p(f"elif {e()}") + b() + p("else") + b()])
            return p(f"if {e()}") + b() + other + p("endif")
        if kind < 6:
            where = self.pick(["l", "ls", "d", "ld", "range(3)", "s[:4]", "d.items()", "el", "missing", "lm", e()])
            target = self.pick(["i", "i", "x", "k, v"]) if where != "d.items()" else "k, v"
            test = self.pick(["", "", f" if {self.pick(['i', 'loop', e()])}"])
            use = self.pick(["{{ i }}", "{{ loop.index }}{{ loop.last }}", "{{ x }}", "{{ k }}={{ v }}", "{{ loop.previtem }}",
                             "{{ loop.nextitem is defined }}", "{{ loop.revindex }}", "{% set x = i %}{{ x }}", "{{ loop.length }}",
                             "{% if loop.index > 1 %}{% break %}{% endif %}", "{% if i %}{% continue %}{% endif %}",
                             "{% set ns.c = ns.c + 1 %}", "{% set n = n + 1 %}{{ n }}", "{{ loop.cycle(1, 2) }}"])
            other = self.pick(["", "", p("else") + b()])
            return p(f"for {target} in {where}{test}") + use + b() + other + p("endfor")
        if kind < 8:
            return p(f"set {self.pick(['x', 'n', 'y', 'ns.c', 'x, y', 's'])} = {e()}") + "{{ x }}{{ ns.c }}"
        if kind == 8:
            return p(f"set {self.pick(['x', 'y'])}{self.pick(['', ' | upper', ' | trim | length'])}") + b() + p("endset") + "{{ x }}"
        if kind == 9:
            return (p(f"macro w(a, b={e()})") + self.pick(["{{ a }}", "{{ b }}", "{{ x }}{{ a }}", "{{ caller() }}", "{{ varargs }}{{ kwargs }}"])
                    + b() + p("endmacro") + self.pick(["{{ w(1) }}", "{{ w() }}", f"{{{{ w({e()}, {e()}) }}}}", "{{ w(b=2) }}",
                                                       "{{ w(1, 2, 3) }}", "{{ w(c=1) }}", "{% call w(1) %}in{% endcall %}"]))
        if kind == 10:
            return p(f"with x = {e()}, y = 2") + "{{ x }}{{ y }}" + b() + p("endwith")
        if kind == 11:
            return self.pick(["{# c #}", "{#- c -#}", "{# {{ x }} #}\n", "{% raw %}{{ x }}{% endraw %}", "{%- raw -%} {% x %} {%- endraw -%}\n",
                              "{% raw %}\n a\n {% endraw %}\n"])
        return p(f"filter {self.pick(['upper', 'trim', 'length', 'replace(1, 2)', 'title|trim'])}") + b() + p("endfilter")

    def body(self, depth):
        out = self.text()
        for _ in range(self.r.randrange(1, 3)):
            if depth > 0 and self.r.random() < 0.55:
                out += self.block(depth)
            else:
                out += self.spaced("{", self.expression(2))
            out += self.text()
        return out

    def template(self):
        if self.r.random() < 0.5:
            return "{{ " + self.expression(3) + " }}"
        return "{% set ns = namespace(c=0) %}" + self.body(2)


def result(template):
    try:
        (text,), _ = render_jinja_template([[{"role": "user"}]], chat_template=template, **VARIABLES)
        return text
    except Exception as error:
        return error


def make(count, seed):
    maker, cases, errors = Maker(seed), [], 0
    while len(cases) < count:
        template = maker.template()
        found = result(template)
        failed = isinstance(found, Exception)
        if failed and (errors + 1 > 0.35 * (len(cases) + 1)):
            continue
        if not failed and (" at 0x" in found.lower() or len(found) > 400 or re.search(r"\d{19,}", found)):
            continue
        errors += failed
        cases.append([template, None if failed else found])
    return {"variables": VARIABLES, "snippets": cases}
