#!/usr/bin/env python3
"""Writes tests/trainer/data/goldens: small Parquet files and, as JSON, the rows that pyarrow reads in them.

Usage: tools/make_goldens/data.py [FOLDER]     needs pyarrow 26
"""

import datetime
import decimal
import json
import pathlib
import sys

import pyarrow as pa
import pyarrow.parquet as pq

TEXTS = ["Wie viel ist 6 · 7?", "", "東京は?", "tab\tnew\nline \\ \"quoted\"", "🙂🏽", "x" * 300, "a", "{prompt}"]


def verl_rows(count):
    """Rows in the schema that verl's preparation scripts write."""
    return [
        {
            "data_source": "openai/gsm8k" if i % 3 else "mine",
            "prompt": ([{"content": "Be brief.", "role": "system"}] if i % 4 == 0 else [])
            + [{"content": f"{i}: {TEXTS[i % len(TEXTS)]}", "role": "user"}],
            "ability": "math",
            "reward_model": {"ground_truth": str(i * 7), "style": "rule"},
            "extra_info": {"answer": f"so {i}\n#### {i * 7}", "index": i, "question": None if i % 5 == 0 else "?",
                           "split": "train", "tags": ["a", "b", "c"][: i % 4], "weight": i / 8},
        }
        for i in range(count)
    ]


VERL_SCHEMA = pa.schema([
    ("data_source", pa.string()),
    ("prompt", pa.list_(pa.struct([("content", pa.string()), ("role", pa.string())]))),
    ("ability", pa.string()),
    ("reward_model", pa.struct([("ground_truth", pa.string()), ("style", pa.string())])),
    ("extra_info", pa.struct([("answer", pa.string()), ("index", pa.int64()), ("question", pa.string()),
                              ("split", pa.string()), ("tags", pa.list_(pa.string())), ("weight", pa.float64())])),
])


def all_types():
    """One column of each type that has a form in JSON, with nulls."""
    second = datetime.datetime(2024, 2, 29, 12, 30, 1)
    map_type = pa.map_(pa.string(), pa.int32())
    return pa.table({
        "bool": pa.array([True, None, False]),
        "int8": pa.array([-128, None, 127], pa.int8()),
        "int32": pa.array([-(2**31), None, 2**31 - 1], pa.int32()),
        "int64": pa.array([-(2**63), None, 2**63 - 1], pa.int64()),
        "uint16": pa.array([0, None, 2**16 - 1], pa.uint16()),
        "uint64": pa.array([0, None, 2**64 - 1], pa.uint64()),
        "float": pa.array([0.1, None, -2.5], pa.float32()),
        "double": pa.array([0.1, None, 1e300]),
        "string": pa.array(["", None, "ü"]),
        "large_string": pa.array(["l", None, "L"], pa.large_string()),
        "string_view": pa.array(["v", None, "a view of more than twelve bytes"], pa.string_view()),
        "dictionary": pa.array(["x", None, "x"]).dictionary_encode(),
        "binary": pa.array([b"bytes", None, b""], pa.binary()),
        "fixed_binary": pa.array([b"abc", None, b"xyz"], pa.binary(3)),
        "list": pa.array([[1, None, 3], None, []], pa.list_(pa.int32())),
        "large_list": pa.array([["a"], None, []], pa.large_list(pa.string())),
        "fixed_list": pa.array([[1, 2], None, [3, 4]], pa.list_(pa.int64(), 2)),
        "lists": pa.array([[[1], []], None, [None, [2, 3]]], pa.list_(pa.list_(pa.int8()))),
        "map": pa.array([[("a", 1), ("b", None)], None, []], map_type),
        "struct": pa.array([{"a": 1, "b": {"c": "d"}}, None, {"a": None, "b": None}],
                           pa.struct([("a", pa.int64()), ("b", pa.struct([("c", pa.string())]))])),
        "decimal": pa.array([decimal.Decimal("1.50"), None, decimal.Decimal("-0.05")], pa.decimal128(10, 2)),
        "date": pa.array([second.date(), None, datetime.date(1970, 1, 1)], pa.date32()),
        "timestamp": pa.array([second, None, datetime.datetime(1969, 12, 31)], pa.timestamp("ms")),
        "null": pa.nulls(3),
    })


def plain(value, kind):
    """A value of pyarrow's as json writes it, in the form that the reader promises."""
    if value is None:
        return None
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, datetime.datetime):
        return value.isoformat(sep=" ", timespec="milliseconds")
    if isinstance(value, (decimal.Decimal, datetime.date)):
        return str(value)
    if pa.types.is_float32(kind):
        return float(str(pa.scalar(value, pa.float32()).as_py().__format__(".7g")))
    if pa.types.is_map(kind):
        return {key: plain(item, kind.item_type) for key, item in value}
    if pa.types.is_struct(kind):
        return {field.name: plain(value[field.name], field.type) for field in kind}
    if isinstance(value, list):
        return [plain(item, kind.value_type) for item in value]
    return value


def rows_of(table):
    return [{field.name: plain(row[field.name], field.type) for field in table.schema} for row in table.to_pylist()]


def main():
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "tests/trainer/data/goldens")
    folder.mkdir(parents=True, exist_ok=True)
    verl = pa.Table.from_pylist(verl_rows(40), schema=VERL_SCHEMA)
    expected = {}

    def write(name, table, **options):
        pq.write_table(table, folder / f"{name}.parquet", **options)
        read = pq.read_table(folder / f"{name}.parquet")
        assert read.num_rows == table.num_rows
        expected[name] = "verl" if table is verl else rows_of(read)

    for codec in ("snappy", "zstd", "gzip", "none", "brotli", "lz4"):
        write(f"verl-{codec}", verl, compression=codec, row_group_size=16)
    write("verl-v2-pages", verl, data_page_version="2.0", version="2.6", data_page_size=256, row_group_size=40)
    write("verl-plain-checksums", verl, use_dictionary=False, compression="none", write_page_checksum=True,
          data_page_size=512)
    write("verl-old", verl, version="1.0", store_schema=False, compression="snappy")
    write("types", all_types(), compression="zstd")
    delta = {name: "DELTA_BINARY_PACKED" for name in ("int8", "int32", "int64")}
    delta |= {"string": "DELTA_BYTE_ARRAY", "large_string": "DELTA_LENGTH_BYTE_ARRAY", "double": "BYTE_STREAM_SPLIT"}
    write("types-delta", all_types(), use_dictionary=False, column_encoding=delta)
    write("no-rows", verl.slice(0, 0))
    write("question-answer", pa.table({"question": ["6*7?", "1+1?"], "answer": ["42\n#### 42", "#### 2"],
                                       "half": pa.array([1, 2], pa.float16())}))
    pq.write_table(pa.table({
        "prompt": pa.array([[{"role": "user", "content": "fine"}], None, [], [{"role": "user", "content": None}],
                            [{"role": "user", "content": "no answer"}]], VERL_SCHEMA.field("prompt").type),
        "reward_model": pa.array([{"ground_truth": "1", "style": "rule"}] * 4 + [None], VERL_SCHEMA.field("reward_model").type),
        "image": pa.array([b"\xff\xfe"] * 5, pa.binary()),
    }), folder / "bad-rows.parquet")
    pq.write_table(pa.table({"prompt": pa.array([b"ok", b"\xff"], pa.binary()), "answer": ["a", "b"]}),
                   folder / "not-utf8.parquet")
    expected["verl"] = rows_of(verl)
    (folder / "rows.json").write_text(json.dumps(expected, ensure_ascii=False, separators=(",", ":")) + "\n")
    size = sum(path.stat().st_size for path in folder.iterdir())
    print(f"{len(list(folder.iterdir()))} files, {size} bytes in {folder}")


if __name__ == "__main__":
    main()
