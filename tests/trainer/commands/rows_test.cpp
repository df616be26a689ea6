// tokenize, score and generate through the real command, on one rank and on two.
#include <cmath>
#include <numeric>

#include "tests/trainer/commands/model_folder.h"
#include "trainer/weights/tensors.h"

namespace trireme::commands {
namespace {

namespace fs = std::filesystem;

class Rows : public ModelFolderTest {
 protected:
  static std::vector<int32_t> bytes(const std::string& text) {
    std::vector<int32_t> ids;
    for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
    return ids;
  }
  static std::vector<Json> texts() {
    return {{{"text", "one"}, {"id", 7}},     {{"text", ""}},
            {{"text", "größer 3 < 4"}},       {{"text", "x"}},
            {{"text", "fünf\n\nsechs"}},      {{"ids", {104, 105}}},
            {{"text", std::string(120, 'a')}}};
  }
};

TEST_F(Rows, TokenizeGivesIdsOfTextsAndTextsOfIds) {
  const auto answers = answer("tokenize", make_model("model"), texts());
  ASSERT_EQ(answers.size(), texts().size());
  EXPECT_EQ(answers[0].dump(), R"({"id":7,"text":"one","ids":[111,110,101]})");
  EXPECT_EQ(answers[1].dump(), R"({"text":"","ids":[]})");
  EXPECT_EQ(answers[2]["ids"], Json(bytes("größer 3 < 4")));
  EXPECT_EQ(answers[5]["text"], "hi");
}

TEST_F(Rows, AFolderMayHoldATokenizerAlone) {
  fs::create_directory(folder_ / "tokenizer");
  text::Tokenizer::bytes()->save(folder_ / "tokenizer");
  EXPECT_EQ(answer("tokenize", folder_ / "tokenizer", {{{"text", "ab"}}})[0]["ids"], Json({97, 98}));
}

TEST_F(Rows, ConversationsGoThroughTheTemplate) {
  const Json row{
      {"messages", {{{"role", "user"}, {"content", "hi"}}, {{"role", "assistant"}, {"content", "yo"}}}}};
  const std::string model = make_model("model");
  const auto plain = answer("tokenize", model, {row});
  EXPECT_EQ(plain[0]["text"], "<|im_start|>user\nhi<|im_end|><|im_start|>assistant\nyo<|im_end|>");
  EXPECT_EQ(plain[0]["ids"][0], 257);
  EXPECT_EQ(answer("tokenize", model, {row}, {"--add-generation-prompt"})[0]["text"],
            plain[0]["text"].get<std::string>() + "<|im_start|>assistant\n");
  EXPECT_EQ(answer("tokenize", model, {row}, {"--continue-final-message"})[0]["text"],
            "<|im_start|>user\nhi<|im_end|><|im_start|>assistant\nyo");
  EXPECT_EQ(answer("tokenize", model, {{{"text", "<|im_end|>"}}}, {"--no-parse-special"})[0]["ids"],
            Json(bytes("<|im_end|>")));
}

// The log-probabilities of transformers' own logits.
TEST_F(Rows, ScoresAreThoseOfTransformers) {
  const std::string golden =
      source_folder() + "/tests/trainer/weights/goldens-decoder/qwen3-one-kv-yarn-bias";
  const auto expected = weights::read_tensors(golden + "/expected.safetensors");
  const at::Tensor tokens = expected.at("tokens"), rows = expected.at("rows"), logits = expected.at("logits");
  const int32_t* ids = tokens.const_data_ptr<int32_t>();
  const std::vector<int32_t> text(ids, ids + tokens.numel());
  const auto answers = answer("score", golden, {{{"ids", text}}}, {"--dtype", "float32"});
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_FALSE(answers[0].contains("text"));  // there is no tokenizer
  const Json& log_probs = answers[0]["logprobs"];
  ASSERT_EQ(log_probs.size(), text.size());
  EXPECT_TRUE(log_probs[0].is_null());
  const int64_t vocab = logits.size(1);
  for (int64_t i = 0; i < rows.numel(); ++i) {
    const auto row = static_cast<size_t>(rows.const_data_ptr<int32_t>()[i]);
    if (row + 1 >= text.size()) continue;
    const float* values = logits.const_data_ptr<float>() + i * vocab;
    double sum = 0;
    for (int64_t v = 0; v < vocab; ++v) sum += std::exp(static_cast<double>(values[v]));
    EXPECT_NEAR(log_probs[row + 1].get<double>(), values[text[row + 1]] - std::log(sum), 1e-4) << row;
  }
}

TEST_F(Rows, TheNumberOfRanksAndOfTokensAtATimeChangeNothing) {
  const std::string model = make_model("model");
  const auto alone = answer("score", model, texts());
  ASSERT_EQ(alone.size(), texts().size());
  EXPECT_EQ(alone[0]["id"], 7);
  EXPECT_EQ(alone[1]["logprobs"], Json::array());
  EXPECT_EQ(alone[3]["logprobs"], Json::array({nullptr}));
  EXPECT_EQ(answer("score", model, texts(), {"-n", "2"}), alone);
  EXPECT_EQ(answer("score", model, texts(), {"--max-batched-tokens", "5"}), alone);
}

TEST_F(Rows, WhatIsGeneratedIsScoredTheSame) {
  const std::string model = make_model("model");
  const std::vector<Json> prompts{{{"text", "abc"}, {"id", "x"}}, {{"ids", {1, 2, 3, 4}}}, {{"text", "q"}}};
  const std::vector<std::string> sampled{"--temperature",    "1", "--samples", "3",
                                         "--max-new-tokens", "9", "--seed",    "5"};
  const auto answers = answer("generate", model, prompts, sampled);
  ASSERT_EQ(answers.size(), 9u);
  auto on_two_ranks = sampled;
  on_two_ranks.push_back("-n2");
  EXPECT_EQ(answer("generate", model, prompts, on_two_ranks), answers);

  std::vector<Json> whole;
  for (size_t i = 0; i < answers.size(); ++i) {
    EXPECT_EQ(answers[i]["index"], i / 3);
    EXPECT_EQ(answers[i]["sample"], i % 3);
    EXPECT_EQ(answers[i]["ids"].size(), answers[i]["logprobs"].size());
    EXPECT_EQ(answers[i]["finish_reason"], answers[i]["ids"].back() == 256 ? "stop" : "length");
    Json ids = i < 3 ? Json(bytes("abc")) : i < 6 ? Json({1, 2, 3, 4}) : Json(bytes("q"));
    for (const Json& id : answers[i]["ids"]) ids.push_back(id);
    whole.push_back({{"ids", ids}});
  }
  EXPECT_EQ(answers[0]["id"], "x");
  EXPECT_NE(answers[0]["ids"], answers[1]["ids"]);
  const auto scored = answer("score", model, whole);
  for (size_t i = 0; i < answers.size(); ++i) {
    const size_t prompt = scored[i]["ids"].size() - answers[i]["ids"].size();
    for (size_t k = 0; k < answers[i]["ids"].size(); ++k)
      EXPECT_NEAR(scored[i]["logprobs"][prompt + k].get<double>(), answers[i]["logprobs"][k].get<double>(),
                  1e-5);
  }
}

TEST_F(Rows, AStopStringEndsAnAnswerAndItsText) {
  const std::string model = make_model("model");
  const std::vector<Json> prompts{{{"text", "abc"}}};
  std::vector<std::string> options{"--temperature", "1", "--max-new-tokens", "100", "--ignore-eos"};
  const Json free = answer("generate", model, prompts, options)[0];
  const auto ids = free["ids"].get<std::vector<int32_t>>();
  const auto stop = std::find_if(ids.begin() + 1, ids.end(), [](int32_t id) { return id > 32 && id < 127; });
  ASSERT_NE(stop, ids.end());
  const std::string text(1, static_cast<char>(*stop));
  const auto first = std::find(ids.begin(), ids.end(), *stop);

  for (const std::string& option : {std::string("--stop=no,such,text"), "--stop=" + text})
    options.push_back(option);
  const Json stopped = answer("generate", model, prompts, options)[0];
  EXPECT_EQ(stopped["ids"], Json(std::vector<int32_t>(ids.begin(), first + 1)));
  EXPECT_EQ(stopped["finish_reason"], "stop");
  EXPECT_EQ(stopped["stop_reason"], text);
  EXPECT_EQ(stopped["text"], text::Tokenizer::bytes()->decode(std::vector<int32_t>(ids.begin(), first)));
  EXPECT_FALSE(free.contains("stop_reason"));

  options.resize(5);
  options.push_back("--stop-token-ids=300," + std::to_string(*stop));
  EXPECT_EQ(answer("generate", model, prompts, options)[0]["ids"], stopped["ids"]);
}

TEST_F(Rows, MinPOfOneIsGreedy) {
  const std::string model = make_model("model");
  const std::vector<Json> prompts{{{"text", "abc"}}};
  EXPECT_EQ(answer("generate", model, prompts,
                   {"--temperature", "2", "--min-p", "1", "--max-new-tokens", "20"})[0]["ids"],
            answer("generate", model, prompts, {"--max-new-tokens", "20"})[0]["ids"]);
}

TEST_F(Rows, GreedyAnswersAreThoseOfTransformers) {
  const std::string golden = source_folder() + "/tests/trainer/weights/goldens-decoder/llama-group7-llama3";
  const auto expected = weights::read_tensors(golden + "/expected.safetensors");
  const int32_t* ids = expected.at("tokens").const_data_ptr<int32_t>();
  const int32_t* greedy = expected.at("greedy").const_data_ptr<int32_t>();
  const auto answers = answer("generate", golden, {{{"ids", std::vector<int32_t>(ids, ids + 70)}}},
                              {"--max-new-tokens", "64", "--dtype", "float32"});
  EXPECT_EQ(answers.at(0)["ids"], Json(std::vector<int32_t>(greedy, greedy + 64)));
  EXPECT_EQ(answers[0]["finish_reason"], "length");
}

TEST_F(Rows, AnAssistantsLastMessageIsContinued) {
  const std::string model = make_model("model");
  const Json user{{"role", "user"}, {"content", "hi"}}, begun{{"role", "assistant"}, {"content", "yo"}};
  const auto of = [&](const Json& row) {
    return answer("generate", model, {row}, {"--max-new-tokens", "4"})[0]["ids"];
  };
  EXPECT_EQ(of({{"messages", {user}}}),
            of({{"text", "<|im_start|>user\nhi<|im_end|><|im_start|>assistant\n"}}));
  EXPECT_EQ(of({{"messages", {user, begun}}}),
            of({{"text", "<|im_start|>user\nhi<|im_end|><|im_start|>assistant\nyo"}}));
}

TEST_F(Rows, EveryMistakeIsNamedWithItsLineAndNothingIsWritten) {
  const std::string model = make_model("model");
  const std::string input =
      file("bad.jsonl",
           "{\"text\": \"fine\"}\n{\"txt\": 1}\n{\"text\": 1}\nnothing\n{\"ids\": [-1]}\n"
           "{\"messages\": []}\n{\"messages\": [{\"role\": \"user\"}], \"text\": \"x\"}\n");
  for (const char* ranks : {"1", "2"}) {
    const auto result = command({"score", "-n", ranks, "--model", model, "-i", input, "-o", "out.jsonl"});
    EXPECT_EQ(result.status, 2);
    for (const int line : {2, 3, 4, 5, 6, 7}) {
      const std::string where = input + ":" + std::to_string(line) + ": ";
      const size_t at = result.err.find(where);
      EXPECT_NE(at, std::string::npos) << where << "\n" << result.err;
      EXPECT_EQ(result.err.find(where, at + 1), std::string::npos) << "told twice\n" << result.err;
    }
    EXPECT_EQ(result.err.find(input + ":1:"), std::string::npos);
    EXPECT_FALSE(fs::exists(folder_ / "out.jsonl"));
  }
}

TEST_F(Rows, WhatCannotBeDoneIsSaid) {
  const std::string model = make_model("model"), input = file("in.jsonl", "{\"text\": \"hi\"}\n");
  fs::create_directory(folder_ / "empty");
  const std::string ids = file("ids.jsonl", "{\"ids\": [3, 300]}\n"),
                    chat = file("chat.jsonl", "{\"messages\": [{\"role\": \"user\", \"content\": \"x\"}]}\n"),
                    longer = file("long.jsonl", "{\"text\": \"" + std::string(129, 'a') + "\"}\n");
  fs::remove(folder_ / "model/chat_template.jinja");
  const std::vector<std::pair<std::vector<std::string>, std::string>> wrong{
      {{"score", "-i", input}, "no model is named"},
      {{"score", "--model", "nowhere", "-i", input}, "'nowhere' does not exist"},
      {{"score", "--model", "empty", "-i", input}, "tokenizer.json is missing"},
      {{"score", "--model", model, "-i", "nothing.jsonl"}, "cannot read nothing.jsonl"},
      {{"score", "--model", model, "-i", ids}, "ids.jsonl:1: id 300 is none of the model's"},
      {{"score", "--model", model, "-i", longer}, "129 tokens; the model takes at most 128"},
      {{"score", "--model", model, "-i", chat}, "has no chat template"},
      {{"score", "--model", model, "-i", input, "--dtype", "int8"}, "none of auto, float32, bfloat16"},
      {{"score", "--modle", model}, "did you mean --model?"},
      {{"score", "-n", "0", "--model", model}, "a number of ranks"},
      {{"score", "-n"}, "how many ranks?"},
      {{"score", "-n", "2", "--model", model}, "cannot share standard input"},
      {{"generate", "--model", model, "-i", input, "--temperature", "-1"}, "--temperature -1"},
      {{"generate", "--model", model, "-i", input, "--max-new-tokens", "127"}, "more than the model takes"},
      {{"generate", "--model", model, "-i", input, "--max-new-tokens", "4", "--temperature", "1", "--min-p",
        "2"},
       "--min-p 2: it must be between 0 and 1"},
      {{"generate", "--model", model, "-i", input, "--max-new-tokens", "4", "--stop", ""},
       "--stop: an empty text"},
      {{"generate", "--model", model, "-i", file("none.jsonl", "{\"text\": \"\"}\n")},
       "the prompt has no tokens"},
      {{"tokenize", "--model", model, "-i", input, "--chat-template-kwargs", "[]"}, "is not a JSON object"},
      {{"tokenize", "--model", model, "-i", input, "surplus"}, "'surplus' belongs to no option"},
      {{"tokenize", "--model", model, "-i", input, "-o", "nowhere/x"}, "cannot write nowhere/x"}};
  for (const auto& [arguments, message] : wrong) {
    const auto result = command(arguments);
    EXPECT_NE(result.status, 0) << arguments[0];
    EXPECT_NE(result.err.find(message), std::string::npos) << message << "\n" << result.err;
    EXPECT_LE(std::count(result.err.begin(), result.err.end(), '\n'), 2) << result.err;
  }
}

TEST_F(Rows, HelpShowsAnExample) {
  for (const char* name : {"tokenize", "score", "generate", "export"}) {
    for (const auto& arguments : {std::vector<std::string>{name, "--help"}, {"help", name}}) {
      const auto result = command(arguments);
      EXPECT_EQ(result.status, 0);
      EXPECT_NE(result.out.find(std::string("trireme ") + name + " "), std::string::npos) << result.out;
    }
  }
}

}  // namespace
}  // namespace trireme::commands
