#include "trainer/data/problem_set.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>

#include "runtime/base/error.h"
#include "trainer/data/problem_reader.h"
#include "trainer/data/prompt_tokens.h"
#include "trainer/text/tokenizer.h"

namespace trireme::data {
namespace {

class LoadProblemsFromFiles : public testing::Test {
 protected:
  LoadProblemsFromFiles() {
    const auto* info = testing::UnitTest::GetInstance()->current_test_info();
    folder_ = testing::TempDir() + "trireme_problems_" + info->name() + "/";
    std::filesystem::create_directories(folder_);
    config_.val_fraction = 0;
  }
  ~LoadProblemsFromFiles() override { std::filesystem::remove_all(folder_); }

  std::string write(const std::string& name, const std::string& content) {
    std::ofstream(folder_ + name, std::ios::binary) << content;
    return folder_ + name;
  }

  ProblemSet load(const std::string& content, const std::string& response_key = "",
                  const std::string& name = "some.jsonl") {
    config_.train_files = {write(name, content)};
    return load_problems(config_, {response_key}, 1);
  }

  // The message of the error that loading throws, without the folder.
  std::string mistakes(const std::string& content, const std::string& name = "some.jsonl") {
    config_.train_files = {write(name, content)};
    return mistakes();
  }
  std::string mistakes() {
    try {
      load_problems(config_, {}, 1);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_config);
      std::string text = error.message();
      for (size_t at = text.find(folder_); at != std::string::npos; at = text.find(folder_))
        text.erase(at, folder_.size());
      return text;
    }
    ADD_FAILURE() << "accepted";
    return "";
  }

  std::string folder_;
  DataConfig config_;
};

std::string golden(const std::string& name) {
  const char* source = std::getenv("TRIREME_SOURCE_DIR");
  return std::string(source != nullptr ? source : ".") + "/tests/trainer/data/goldens/" + name;
}

void expect_in(const std::string& part, const std::string& text) {
  EXPECT_NE(text.find(part), std::string::npos) << "'" << part << "' is not in:\n" << text;
}

TEST_F(LoadProblemsFromFiles, ReadsGsm8kStyle) {
  config_.prompt_key = "question";
  const auto set = load(R"({"question": "6*7?", "answer": "6*7 = 42\n#### 1,042"})"
                        "\n",
                        "answer", "gsm8k.jsonl");
  ASSERT_EQ(set.train.size(), 1u);
  EXPECT_EQ(set.train[0].prompt, "6*7?");
  EXPECT_EQ(set.train[0].answer, "1,042");
  EXPECT_EQ(set.train[0].response, "6*7 = 42\n#### 1,042");
  EXPECT_EQ(set.train[0].data_source, "gsm8k");
  EXPECT_EQ(set.train[0].where, folder_ + "gsm8k.jsonl:1");
  EXPECT_TRUE(set.val.empty());
}

TEST_F(LoadProblemsFromFiles, TakesColumnsByTheirKeys) {
  config_.prompt_template = "Q: {prompt}\nA: ";
  const auto set =
      load(R"({"prompt": "say {prompt}", "answer": 4, "solution": "four", "data_source": "mine"})"
           "\r\n\n"
           R"({"prompt": "p", "answer": 2.50, "solution": "s"})",
           "solution");
  ASSERT_EQ(set.train.size(), 2u);
  EXPECT_EQ(set.train[0].prompt, "Q: say {prompt}\nA: ");
  EXPECT_EQ(set.train[0].answer, "4");
  EXPECT_EQ(set.train[0].response, "four");
  EXPECT_EQ(set.train[0].data_source, "mine");
  EXPECT_EQ(set.train[1].data_source, "some");
  EXPECT_EQ(set.train[1].where, folder_ + "some.jsonl:3");
  EXPECT_EQ(set.train[1].index, 1);
}

TEST_F(LoadProblemsFromFiles, LearnsNothingWithoutAResponseKey) {
  EXPECT_EQ(load(R"({"prompt": "p", "answer": "a"})").train[0].response, "");
}

TEST_F(LoadProblemsFromFiles, TakesASingleUserMessageAsPlainTextIfAsked) {
  config_.apply_chat_template = "never";
  const auto set = load(R"({"prompt": [{"role": "user", "content": "hi"}], "answer": "a"})");
  EXPECT_EQ(set.train[0].prompt, "hi");
}

TEST_F(LoadProblemsFromFiles, ConversationsNeedAChatTemplate) {
  const std::string row = R"({"prompt": [{"role": "user", "content": "hi"}], "answer": "a"})";
  const auto text = mistakes(row + "\n" + row);
  expect_in("1 mistakes", text);
  expect_in("some.jsonl:1: column 'prompt': conversations need a chat template", text);
  expect_in("data.apply_chat_template = \"never\"", text);
  config_.apply_chat_template = "always";
  expect_in("conversations need a chat template", mistakes(R"({"prompt": "p", "answer": "a"})"));
}

TEST_F(LoadProblemsFromFiles, TakesVerlsAnswerBeforeTheDefaultColumn) {
  const std::string row =
      R"({"prompt": "p", "answer": "worked", "reward_model": {"style": "rule", "ground_truth": "7"},)"
      R"( "extra_info": {"index": 3, "note": "\u00fc"}, "data_source": null})";
  const auto set = load(row, "answer");
  EXPECT_EQ(set.train[0].answer, "7");
  EXPECT_EQ(set.train[0].response, "worked");
  EXPECT_EQ(set.train[0].extra_info, "{\"index\":3,\"note\":\"\u00fc\"}");
  EXPECT_EQ(set.train[0].data_source, "some");
  config_.answer_key = "reward_model.style";
  EXPECT_EQ(load(row).train[0].answer, "rule");
  config_.answer_key = "extra_info.index";
  EXPECT_EQ(load(row).train[0].answer, "3");
  config_.answer_key = "extra_info";
  EXPECT_EQ(load(row).train[0].answer, "{\"index\":3,\"note\":\"\u00fc\"}");
  config_.answer_key = "reward_model.truth";
  expect_in("no column 'reward_model.truth' (data.answer_key)", mistakes(row));
}

TEST_F(LoadProblemsFromFiles, AColumnWhoseNameHasADotGoesBeforeNestedOnes) {
  config_.answer_key = "a.b";
  EXPECT_EQ(load(R"({"prompt": "p", "a.b": "flat", "a": {"b": "nested"}})").train[0].answer, "flat");
  EXPECT_EQ(load(R"({"prompt": "p", "a": {"b": "nested"}})").train[0].answer, "nested");
}

TEST_F(LoadProblemsFromFiles, ReadsFilesOfSeveralFormatsAsOneList) {
  config_.prompt_key = "question";
  config_.train_files = {golden("question-answer.parquet"),
                         write("more.jsonl", R"({"question": "3*3?", "answer": "9"})"),
                         golden("question-answer.parquet")};
  const auto set = load_problems(config_, {"answer"}, 1);
  ASSERT_EQ(set.train.size(), 5u);
  EXPECT_EQ(set.train[0].prompt, "6*7?");
  EXPECT_EQ(set.train[0].answer, "42");
  EXPECT_EQ(set.train[0].response, "42\n#### 42");
  EXPECT_EQ(set.train[0].data_source, "question-answer");
  EXPECT_EQ(set.train[1].where, golden("question-answer.parquet") + ": row 2");
  EXPECT_EQ(set.train[2].answer, "9");
  EXPECT_EQ(set.train[4].index, 4);
}

TEST_F(LoadProblemsFromFiles, ListsMistakesInParquetWithFileRowAndColumn) {
  config_.apply_chat_template = "never";
  config_.train_files = {golden("bad-rows.parquet"), golden("not-utf8.parquet"), golden("no-rows.parquet"),
                         golden("question-answer.parquet"), write("cut.parquet", "PAR1 and no more")};
  const auto text = mistakes();
  for (const char* part : {"bad-rows.parquet: row 2: column 'prompt': expected a string or a list of {role, "
                           "content}, found null",
                           "bad-rows.parquet: row 3: column 'prompt': the conversation is empty",
                           "bad-rows.parquet: row 4: column 'prompt': expected strings for role and content",
                           "bad-rows.parquet: row 5: no column 'answer'",
                           "not-utf8.parquet: row 2: column 'prompt': 1 bytes that are not UTF-8",
                           "no-rows.parquet: no problems in this file",
                           "question-answer.parquet: no column 'prompt' (data.prompt_key); the columns are: "
                           "question, answer, half",
                           "data.train_files: cut.parquet: "})
    expect_in(part, text);
}

TEST_F(LoadProblemsFromFiles, ReadsAnArrayWithEachElementsLine) {
  config_.apply_chat_template = "never";
  const auto set = load(
      "\xEF\xBB\xBF[\n {\"prompt\": \"a]},\\\"\",\n  \"answer\": \"1\"},\n {\"prompt\": [{\"role\":"
      "\"user\", \"content\": \"b\"}], \"answer\": \"2\"}\n]\n",
      "", "some.json");
  ASSERT_EQ(set.train.size(), 2u);
  EXPECT_EQ(set.train[0].prompt, "a]},\"");
  EXPECT_EQ(set.train[0].where, folder_ + "some.json:2");
  EXPECT_EQ(set.train[1].prompt, "b");
  EXPECT_EQ(set.train[1].where, folder_ + "some.json:4");
}

TEST_F(LoadProblemsFromFiles, ListsEveryMistakeWithFileAndLine) {
  config_.val_files = {folder_ + "absent.jsonl"};
  config_.apply_chat_template = "never";
  const auto text = mistakes(
      "{\"prompt\": \"fine\", \"answer\": \"1\"}\n"
      "{\"prompt\": \"x\", \"answer\": }\n"
      "{\"promt\": \"x\", \"answer\": \"1\"}\n"
      "{\"prompt\": 5, \"answer\": null}\n"
      "[1, 2]\n"
      "{\"prompt\": \"\xFF\", \"answer\": \"1\"}\n"
      "{\"prompt\": \"\", \"answer\": \"1\"}\n"
      "{\"prompt\": [{\"role\": \"system\", \"content\": \"s\"}, {\"role\": \"user\", \"content\": \"u\"}], "
      "\"answer\": \"1\"}\n"
      "{\"prompt\": [7], \"answer\": \"1\"}\n");
  expect_in("10 mistakes", text);
  expect_in("some.jsonl:2: column 27: bad JSON: ", text);
  expect_in(
      "some.jsonl:3: no column 'prompt' (data.prompt_key); the columns are: promt, answer; did you mean "
      "'promt'?",
      text);
  expect_in("some.jsonl:4: column 'prompt': expected a string or a list of {role, content}, found number",
            text);
  expect_in("some.jsonl:4: column 'answer': expected a string or a number, found null", text);
  expect_in("some.jsonl:5: column 1: expected an object with columns, found an array", text);
  expect_in("some.jsonl:6: column 13: byte 0xFF is not UTF-8", text);
  expect_in("some.jsonl:7: column 'prompt': the prompt is empty", text);
  expect_in(
      "some.jsonl:8: column 'prompt': a conversation of [system, user]; "
      "data.apply_chat_template = \"never\" takes only a single user message",
      text);
  expect_in("some.jsonl:9: column 'prompt': expected a list of {role, content}", text);
  expect_in("data.val_files: no file 'absent.jsonl'", text);
}

TEST_F(LoadProblemsFromFiles, ShowsTwentyMistakesAndCountsTheOthers) {
  std::string content;
  for (int i = 0; i < 50; ++i) content += "{}\n";
  const auto text = mistakes(content);  // two columns are missing in each line
  expect_in("some.jsonl:10: ", text);
  EXPECT_EQ(text.find("some.jsonl:11: "), std::string::npos);
  expect_in("... and 80 more mistakes", text);
}

TEST_F(LoadProblemsFromFiles, RefusesFilesWithoutProblems) {
  expect_in("some.jsonl: the file is empty", mistakes(""));
  expect_in("some.jsonl: no problems in this file", mistakes("\n \n"));
  expect_in("some.json: no problems in this file", mistakes("[ ]", "some.json"));
}

TEST_F(LoadProblemsFromFiles, RefusesBrokenArrays) {
  expect_in("some.json:2: column 1: an object is missing",
            mistakes("[{\"prompt\": \"p\", \"answer\": \"a\"},\n]", "some.json"));
  expect_in("closing ']' is missing", mistakes("[{\"prompt\": \"p\", \"answer\": \"a\"}", "some.json"));
  expect_in("some.json:3: column 3: bad JSON", mistakes("[\n{\"prompt\":\n  oops}]", "some.json"));
  expect_in("some.json:1: column 4: text after the array's end", mistakes("[] x", "some.json"));
  expect_in("bad JSON", mistakes("[{\"prompt\": \"p]", "some.json"));
}

TEST_F(LoadProblemsFromFiles, RefusesOtherFormatsAndFolders) {
  expect_in("cannot tell the format from the ending '.csv'", mistakes("a,b", "some.csv"));
  config_.train_files = {folder_};
  expect_in("is a folder", mistakes());
  config_.train_files = {};
  expect_in("data.train_files: no files are named", mistakes());
  config_.format = "jsonl";
  EXPECT_EQ(load(R"({"prompt": "p", "answer": "a"})", "", "lines.txt").train.size(), 1u);
}

TEST_F(LoadProblemsFromFiles, RefusesATemplateWithoutAPlaceForThePrompt) {
  config_.prompt_template = "Q: {question}";
  expect_in("data.prompt_template: the text has no {prompt}",
            mistakes("{\"prompt\": \"p\", \"answer\": \"a\"}"));
}

TEST_F(LoadProblemsFromFiles, SplitsValidationProblemsBySeed) {
  std::string content;
  for (int i = 0; i < 200; ++i) content += fmt::format("{{\"prompt\": \"p{}\", \"answer\": \"a\"}}\n", i);
  config_.val_fraction = 0.1;
  config_.train_files = {write("many.jsonl", content)};
  const auto indices = [&](uint64_t seed) {
    const auto set = load_problems(config_, {}, seed);
    EXPECT_EQ(set.train.size(), 180u);
    std::set<int64_t> val, train;
    for (const auto& p : set.val) val.insert(p.index);
    for (const auto& p : set.train) train.insert(p.index);
    for (const int64_t index : val) EXPECT_FALSE(train.contains(index));
    EXPECT_EQ(val.size() + train.size(), 200u);
    return val;
  };
  EXPECT_EQ(indices(1), indices(1));
  EXPECT_NE(indices(1), indices(2));
  config_.train_max_samples = 5;
  EXPECT_EQ(load_problems(config_, {}, 1).train.size(), 5u);
}

TEST_F(LoadProblemsFromFiles, ReadsValidationFiles) {
  config_.val_files = {write("val.jsonl", R"({"prompt": "v", "answer": "a"})")};
  config_.val_fraction = 0.5;
  const auto set = load(R"({"prompt": "p", "answer": "a"})");
  EXPECT_EQ(set.train.size(), 1u);
  ASSERT_EQ(set.val.size(), 1u);
  EXPECT_EQ(set.val[0].prompt, "v");
}

TEST_F(LoadProblemsFromFiles, ReadsAllOfGsm8k) {
  const char* data = std::getenv("TRIREME_TEST_DATA");
  const std::string path = std::string(data != nullptr ? data : "") + "/gsm8k/train.jsonl";
  if (data == nullptr || !std::filesystem::exists(path))
    GTEST_SKIP() << "gsm8k/train.jsonl: TRIREME_TEST_DATA does not name a folder that has it";
  config_.prompt_key = "question";
  config_.train_files = {path};
  config_.val_fraction = 0.05;
  const auto set = load_problems(config_, {"answer"}, 1);
  EXPECT_EQ(set.train.size() + set.val.size(), 7473u);
  EXPECT_EQ(set.val.size(), 374u);
  for (const auto* problems : {&set.train, &set.val})
    for (const auto& p : *problems) {
      EXPECT_LT(p.answer.size(), 20u) << p.where;
      EXPECT_EQ(p.answer.find_first_not_of("-0123456789,."), std::string::npos) << p.where << " " << p.answer;
    }
}

TEST(GroundTruth, IsWhatFollowsTheLastMark) {
  EXPECT_EQ(ground_truth_of("#### 1\nno\n####  1,234 \n"), "1,234");
  EXPECT_EQ(ground_truth_of(" 42\n"), "42");
  EXPECT_EQ(ground_truth_of(""), "");
  EXPECT_EQ(ground_truth_of("####"), "");
  const std::string tests = R"({"inputs": ["#### 1"], "outputs": ["1"]})",
                    code = "#### first\nassert f(1) == 1";
  EXPECT_EQ(ground_truth_of(tests), tests);
  EXPECT_EQ(ground_truth_of(code), code);
}

TEST_F(LoadProblemsFromFiles, RefusesJsonThatIsTooDeepOrHasNoNumber) {
  std::string deep;
  for (int i = 0; i < 200; ++i) deep += "[";
  expect_in("some.jsonl:1: column 1: nested deeper than 100", mistakes("{\"prompt\": " + deep));
  expect_in("some.jsonl:1: column 1: bad JSON: number overflow",
            mistakes(R"({"prompt": 1e999, "answer": "a"})"));
}

TEST(EncodePrompts, ChecksFiltersOrCuts) {
  std::vector<Problem> problems(3);
  problems[0].prompt = "1234";
  problems[1].prompt = "12345";
  problems[1].where = "f.jsonl:2";
  problems[2].prompt = "1";
  DataConfig config;
  config.max_prompt_length = 4;
  const auto tokenizer = text::Tokenizer::bytes();
  const auto encode = [&] {
    auto copy = problems;
    encode_prompts(copy, *tokenizer, config);
    return copy;
  };
  try {
    encode();
    FAIL() << "accepted";
  } catch (const Error& error) {
    expect_in("f.jsonl:2: the prompt has 5 tokens, data.max_prompt_length is 4", error.message());
    expect_in("data.filter_overlong_prompts", error.message());
    expect_in("data.truncation", error.message());
  }
  const auto ids_of = [](const char* text) { return text::Tokenizer::bytes()->encode(text); };
  config.truncation = "left";
  EXPECT_EQ(encode()[1].prompt_ids, ids_of("2345"));
  EXPECT_EQ(encode()[0].prompt_ids, ids_of("1234"));
  config.truncation = "right";
  EXPECT_EQ(encode()[1].prompt_ids, ids_of("1234"));
  config.truncation = "middle";
  EXPECT_EQ(encode()[1].prompt_ids, ids_of("1245"));
  config.max_prompt_length = 3;
  EXPECT_EQ(encode()[1].prompt_ids, ids_of("145"));  // of an odd length the end has more, as in verl
  config.max_prompt_length = 4;

  config.filter_overlong_prompts = true;
  EXPECT_EQ(encode_prompts(problems, *tokenizer, config), 1);
  ASSERT_EQ(problems.size(), 2u);
  EXPECT_EQ(problems[1].prompt_ids, ids_of("1"));
  config.max_prompt_length = 0;
  EXPECT_THROW(encode_prompts(problems, *tokenizer, config), Error);
}

TEST(EncodePrompts, DoesThousandsInTheirOrder) {
  std::vector<Problem> problems(5000);
  for (size_t i = 0; i < problems.size(); ++i) problems[i].prompt = std::to_string(i);
  encode_prompts(problems, *text::Tokenizer::bytes(), {});
  for (size_t i = 0; i < problems.size(); ++i)
    ASSERT_EQ(text::Tokenizer::bytes()->decode(problems[i].prompt_ids), std::to_string(i));
}

TEST(Fingerprint, ChangesWithAnythingThatTrainingSees) {
  std::vector<Problem> problems(2);
  problems[0].prompt = "ab";
  problems[1].answer = "c";
  std::set<uint64_t> seen{fingerprint(problems)};
  EXPECT_EQ(fingerprint(problems), *seen.begin());
  auto changed = problems;
  const auto is_new = [&] { return seen.insert(fingerprint(changed)).second; };
  std::swap(changed[0], changed[1]);
  EXPECT_TRUE(is_new());
  changed = problems;
  changed[0].prompt = "a";
  changed[0].answer = "b";  // the same letters, cut elsewhere
  EXPECT_TRUE(is_new());
  changed[0].prompt_ids = {1};
  EXPECT_TRUE(is_new());
  changed[1].extra_info = "{}";
  EXPECT_TRUE(is_new());
  changed.pop_back();
  EXPECT_TRUE(is_new());
}

}  // namespace
}  // namespace trireme::data
