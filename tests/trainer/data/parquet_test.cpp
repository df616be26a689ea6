// Parquet files by pyarrow (tools/make_goldens/data.py): read as pyarrow reads them, or refused by name.
#include "trainer/data/parquet_rows.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "runtime/base/files.h"

namespace trireme::data {
namespace {

std::string golden(const std::string& name) {
  const char* source = std::getenv("TRIREME_SOURCE_DIR");
  return std::string(source != nullptr ? source : ".") + "/tests/trainer/data/goldens/" + name;
}

void expect_in(const std::string& part, const std::string& text) {
  EXPECT_NE(text.find(part), std::string::npos) << "'" << part << "' is not in:\n" << text;
}

struct Read {
  std::vector<Row> rows;
  std::vector<std::string> places;
  RowMistakes mistakes;
};

Read read(const std::string& path, std::vector<std::string> keys = {}) {
  ParquetFile file(path);
  if (keys.empty()) keys = file.columns();
  Read all;
  file.for_each_row(keys, all.mistakes, [&](const Row& row, const std::string& where) {
    all.rows.push_back(row);
    all.places.push_back(where);
  });
  return all;
}

std::string message_of(const std::string& path, const std::vector<std::string>& keys = {}) {
  try {
    read(path, keys);
  } catch (const Error& error) {
    return error.message();
  }
  return "accepted";
}

class DamagedParquet : public testing::Test {
 protected:
  ~DamagedParquet() override { std::filesystem::remove(path_); }
  const std::string& write(const std::string& content) {
    std::filesystem::remove(path_);  // some file systems sync a file that is written over
    std::ofstream(path_, std::ios::binary) << content;
    return path_;
  }
  const std::string path_ = testing::TempDir() + "trireme_" +
                            testing::UnitTest::GetInstance()->current_test_info()->name() + ".parquet";
};

TEST(Parquet, RowsAreThoseThatPyarrowReads) {
  const Row expected = Row::parse(files::read(golden("rows.json")));
  int files = 0;
  for (const auto& [name, rows] : expected.items()) {
    if (name == "verl" || name == "question-answer") continue;
    SCOPED_TRACE(name);
    const Read got = read(golden(name + ".parquet"));
    const Row& wanted = rows.is_string() ? expected.at(rows.get<std::string>()) : rows;
    ASSERT_EQ(got.rows.size(), wanted.size());
    for (size_t i = 0; i < got.rows.size(); ++i)
      EXPECT_EQ(got.rows[i].dump(), wanted[i].dump()) << "row " << i;
    EXPECT_EQ(got.mistakes.count(), 0);
    ++files;
  }
  EXPECT_GE(files, 12);
}

TEST(Parquet, RowsAreNumberedThroughAllRowGroups) {
  const Read got = read(golden("verl-snappy.parquet"), {"ability"});  // groups of 16 rows
  ASSERT_EQ(got.places.size(), 40u);
  EXPECT_EQ(got.places[0], golden("verl-snappy.parquet") + ": row 1");
  EXPECT_EQ(got.places[39], golden("verl-snappy.parquet") + ": row 40");
}

TEST(Parquet, OnlyTheColumnsThatAreAskedForAreRead) {
  const std::string path = golden("verl-zstd.parquet");
  EXPECT_EQ(read(path, {"reward_model.ground_truth", "ability", "no such column"}).rows[3].dump(),
            R"({"ability":"math","reward_model":{"ground_truth":"21"}})");
  EXPECT_TRUE(read(path, {"nothing"}).rows.empty());
  // A column of a type that cannot be read is in nobody's way.
  EXPECT_EQ(read(golden("question-answer.parquet"), {"question"}).rows[0].dump(), R"({"question":"6*7?"})");
  expect_in("column 'half' is of type halffloat, which cannot be read",
            message_of(golden("question-answer.parquet")));
}

TEST(Parquet, ColumnsAreNamedWithTheFieldsOfStructs) {
  const ParquetFile file(golden("verl-old.parquet"));
  EXPECT_EQ(file.columns(),
            (std::vector<std::string>{"data_source", "prompt", "ability", "reward_model.ground_truth",
                                      "reward_model.style", "extra_info.answer", "extra_info.index",
                                      "extra_info.question", "extra_info.split", "extra_info.tags",
                                      "extra_info.weight"}));
  EXPECT_TRUE(file.has("reward_model") && file.has("reward_model.style") && file.has("prompt"));
  EXPECT_FALSE(file.has("reward") || file.has("reward_model.styl") || file.has("prompt.role"));
  EXPECT_EQ(file.num_rows(), 40);
}

TEST(Parquet, BytesThatAreNoTextAreMistakesOfTheirRow) {
  const Read got = read(golden("not-utf8.parquet"));
  ASSERT_EQ(got.rows.size(), 1u);
  EXPECT_EQ(got.rows[0].dump(), R"({"prompt":"ok","answer":"a"})");
  try {
    got.mistakes.throw_if_any("");
    FAIL();
  } catch (const Error& error) {
    expect_in("not-utf8.parquet: row 2: column 'prompt': 1 bytes that are not UTF-8 text (0xFF at byte 0)",
              error.message());
  }
}

TEST_F(DamagedParquet, WhatIsNoParquetFileIsRefused) {
  EXPECT_EQ(message_of("/no/such/file.parquet").rfind("/no/such/file.parquet: ", 0), 0u);
  for (const char* content : {"", "PAR1", "PAR1PAR1", "{\"prompt\": \"p\"}\n{\"prompt\": \"p\"}\n"})
    expect_in(path_ + ": ", message_of(write(content)));
}

TEST_F(DamagedParquet, EveryTruncationIsRefused) {
  const std::string whole = files::read(golden("verl-v2-pages.parquet"));
  for (size_t size = 0; size < whole.size(); size += 1 + size % 31)
    expect_in(path_ + ": ", message_of(write(whole.substr(0, size))));
}

TEST_F(DamagedParquet, ADamagedPageIsRefusedWithItsColumn) {
  std::string content = files::read(golden("verl-plain-checksums.parquet"));
  const size_t at = content.find("#### 70");  // in extra_info.answer
  ASSERT_NE(at, std::string::npos);
  content[at + 5] = '9';
  const auto text = message_of(write(content));
  expect_in("after row 0, column 'extra_info.answer': ", text);
  EXPECT_EQ(read(path_, {"prompt"}).rows.size(), 40u);
}

}  // namespace
}  // namespace trireme::data
