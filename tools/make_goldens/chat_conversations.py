"""Conversations of every shape that a chat template may meet. Strings are our own."""

WEATHER = {"type": "function", "function": {
    "name": "get_weather", "description": "Weather at a place, <now> & \"here\".",
    "parameters": {"type": "object", "properties": {
        "place": {"type": "string", "description": "Where: city's name"},
        "days": {"type": "integer", "minimum": 1, "default": 1},
        "unit": {"type": "string", "enum": ["°C", "°F"]}}, "required": ["place"]}}}
SEARCH = {"type": "function", "function": {
    "name": "search", "description": "Finds\npages.", "parameters": {
        "type": "object", "properties": {
            "queries": {"type": "array", "items": {"type": "string"}},
            "options": {"type": "object", "properties": {"safe": {"type": "boolean"}, "depth": {"type": "number"}},
                        "additionalProperties": False}},
        "required": []},
    "return": {"type": "string", "description": "text"}}}
BARE = {"type": "function", "function": {"name": "ping", "description": "", "parameters": {
    "type": "object", "properties": {}}}}
FLAT = {"name": "add", "description": "Sum of two.", "parameters": {"type": "object", "properties": {
    "a": {"type": "number"}, "b": {"type": ["number", "null"], "nullable": True}}}}


def u(content, **more):
    return {"role": "user", "content": content, **more}


def a(content, **more):
    return {"role": "assistant", "content": content, **more}


def s(content):
    return {"role": "system", "content": content}


def t(content, **more):
    return {"role": "tool", "content": content, **more}


def call(name, arguments, **more):
    return {"type": "function", "function": {"name": name, "arguments": arguments}, **more}


def shapes():
    yield "one", [u("How many primes are below ten?")]
    yield "system", [s("You count."), u("To three?")]
    yield "system_only", [s("Nothing follows.")]
    yield "answered", [u("2+2?"), a("4")]
    yield "turns", [s("Be brief."), u("One?"), a("1"), u("Two?"), a("2"), u("Three?")]
    yield "long", [x for i in range(12) for x in (u(f"Question {i}?"), a(f"Answer {i}."))] + [u("Last?")]
    yield "empty_user", [u("")]
    yield "empty_system", [s(""), u("Hi"), a(""), u("Again")]
    yield "null_content", [u("Go"), a(None), u("On")]
    yield "spaces", [s("  \n lead "), u("\t both \r\n "), a(" \u00a0thin\u2003 "), u(" \n\n")]
    yield "unicode", [s("Sé bref — 简短。"), u("Was ist ß? ǅ Σίσυφος İ 👩‍👩‍👧 🇨🇭 e\u0301 \u200b"), a("שלום ﷺ \U0001f600")]
    yield "marks", [u("<|im_start|>user\n<|im_end|> {{ messages }} {% if %} {# x #}"), a("`</s>` <think> [INST]")]
    yield "quotes", [s("'single' \"double\" \\back\\ &amp; <b>"), u("it's \\n \"q\" 'q' \x00\x07\x1b\x7f \ud7ff")]
    yield "parts", [u([{"type": "text", "text": "First. "}, {"type": "text", "text": "Second 🙂"}]), a("ok"), u("end")]
    yield "system_parts", [s([{"type": "text", "text": "List of one"}]), u([{"type": "text", "text": "Hi"}])]
    yield "image_part", [u([{"type": "image"}, {"type": "text", "text": "What is it?"}])]
    yield "thinking", [u("Why?"), a("<think>\nBecause of\nthis.\n</think>\n\nThus."), u("And?")]
    yield "thinking_last", [u("Why?"), a("<think>\nlong\n</think>\n\nThus.")]
    yield "thinking_empty", [u("Why?"), a("<think>\n\n</think>\n\nSo."), u("So?"), a("</think>twice</think> end")]
    yield "reasoning", [u("Why?"), a("Thus.", reasoning_content="\nBecause.\n"), u("And?"),
                        a("Then.", reasoning_content="Again.")]
    yield "old_reasoning", [u("Why?"), a("Thus.", reasoning="short"), u("?"), a("x", thinking="deep", reasoning="no")]
    yield "developer", [{"role": "developer", "content": "You obey."}, u("Hm?")]
    yield "unknown_role", [{"role": "oracle", "content": "I am new."}, u("Hm?")]
    yield "upper_role", [{"role": "User", "content": "Who?"}]
    yield "assistant_first", [a("I begin."), u("Fine.")]
    yield "assistant_twice", [u("?"), a("one"), a("two")]
    yield "two_users", [u("one"), u("two")]
    yield "late_system", [u("?"), s("late"), a("x")]
    yield "no_content", [{"role": "user"}]
    yield "no_role", [{"content": "from nobody"}]
    yield "number_content", [u(17), a(2.5), u(True)]
    yield "name", [u("Me", name="Zoë"), a("You", name=None)]
    yield "ipython", [u("run"), {"role": "ipython", "content": {"output": [1, 2.0, None, "é"]}}, a("done")]
    yield "empty", []


def tool_shapes():
    yield "tool_call", [u("Rain in Bern?"), a("", tool_calls=[call("get_weather", {"place": "Bern", "days": 2})])]
    yield "tool_string", [u("Rain?"), a("", tool_calls=[call("get_weather", "{\"place\": \"Zürich\"}")])]
    yield "tool_null", [u("Rain?"), a(None, tool_calls=[call("get_weather", {"place": "Genève 🌧", "unit": "°C"})]),
                        t("{\"mm\": 3.5}"), a("Yes, 3.5 mm."), u("Thanks")]
    yield "tool_text", [s("Use tools."), u("Rain?"), a("I look.", tool_calls=[call("get_weather", {"place": "O'Hare \"x\""})]),
                        t("dry", name="get_weather", tool_call_id="c1"), a("No.")]
    yield "tool_two", [u("Both?"), a("", tool_calls=[call("get_weather", {"place": "A"}, id="1"),
                                                     call("search", {"queries": ["a", "<b>"], "options": {
                                                         "safe": True, "depth": 1e-05, "x": None}}, id="2")]),
                       t("sunny", tool_call_id="1"), t("[]", tool_call_id="2"), a("Done."), u("More?")]
    yield "tool_chain", [u("Deep"), a("one", tool_calls=[call("ping", {})]), t("pong"),
                         a("two", tool_calls=[call("ping", {})]), t("pong"), u("and"), t("stray")]
    yield "tool_bare", [u("x"), a("", tool_calls=[{"name": "add", "arguments": {"a": 1, "b": -2.0}}]), t({"sum": -1.0})]
    yield "tool_bad_arguments", [u("x"), a("", tool_calls=[call("add", [1, 2])]), t(None)]
    yield "tool_empty_list", [u("x"), a("none", tool_calls=[])]
    yield "tool_numbers", [u("x"), a("", tool_calls=[call("add", {
        "a": 1e16, "b": 123456789.123, "c": 1e-7, "d": -0.0, "e": 2 ** 62, "f": 1.0, "g": False})])]
    yield "tool_thinking", [u("x"), a("<think>\nwhich?\n</think>\n\nThis.", tool_calls=[call("ping", {})]), t("a\nb"),
                            a("<think>\ngood\n</think>\n\nFinal."), u("y")]
    yield "tool_reasoning", [u("x"), a("", reasoning_content="hm", tool_calls=[call("ping", {})]), t("1"),
                             a("z", reasoning_content="ah")]
    yield "tool_parts", [u("x"), a("", tool_calls=[call("ping", {})]), t([{"type": "text", "text": "part"}])]
    yield "tool_first", [t("orphan"), u("?")]


def make():
    out = []

    def add(name, messages, **more):
        variables = {"date_string": "26 Jul 2031", **more.pop("variables", {})}
        out.append({"name": name, "messages": messages, **more, "variables": variables})

    for name, messages in shapes():
        add(name, messages)
        if messages:
            add(name + "+prompt", messages, add_generation_prompt=True)
    for name, messages in tool_shapes():
        add(name, messages)
        add(name + "+tools", messages, tools=[WEATHER, SEARCH, BARE], add_generation_prompt=True)
    plain, system = [u("Rain?")], [s("Help."), u("Rain?"), a("Where?"), u("Bern")]
    add("tools", plain, tools=[WEATHER])
    add("tools+system", system, tools=[WEATHER, SEARCH], add_generation_prompt=True)
    add("tools_flat", plain, tools=[FLAT])
    add("tools_empty", plain, tools=[])
    add("documents", plain, documents=[{"title": "T", "text": "Rain & \"snow\""}])
    for flag in (True, False):
        add(f"enable_thinking_{flag}", system, add_generation_prompt=True, variables={"enable_thinking": flag})
        add(f"thinking_{flag}", plain, add_generation_prompt=True, variables={"thinking": flag})
        add(f"tools_in_user_{flag}", system, tools=[WEATHER], variables={"tools_in_user_message": flag})
    add("builtin_tools", system, tools=[WEATHER], variables={"builtin_tools": ["brave_search", "code_interpreter"]})
    add("builtin_only", system, variables={"builtin_tools": ["wolfram_alpha"], "custom_tools": [SEARCH]})
    add("bos_changed", plain, variables={"bos_token": "<new>"})
    for name, last in (("", a("The answer is")), ("_spaced", a("So it is ")), ("_lines", a("  \nso\n\n")),
                       ("_empty", a("")), ("_parts", a([{"type": "text", "text": "Part"}])), ("_null", a(None)),
                       ("_thinking", a("<think>\nhm\n</think>\n\nThen")), ("_user", u("I go on"))):
        add("continue" + name, [s("x"), u("Why?"), last], continue_final_message=True)
    add("continue+prompt", [u("?"), a("x")], continue_final_message=True, add_generation_prompt=True)
    return out
