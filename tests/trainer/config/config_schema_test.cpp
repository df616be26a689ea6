#include "trainer/config/schema.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <limits>
#include <random>
#include <regex>
#include <set>

#include "runtime/base/files.h"
#include "tests/trainer/config/written_file.h"
#include "trainer/config/show.h"
#include "trainer/config/written.h"

namespace trireme::config {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

std::string source(const std::string& path) {
  const char* root = std::getenv("TRIREME_SOURCE_DIR");
  return files::read(std::string(root ? root : ".") + "/" + path);
}

std::vector<std::string> configs() {
  const char* root = std::getenv("TRIREME_SOURCE_DIR");
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator(std::string(root ? root : ".") + "/configs"))
    if (entry.path().extension() == ".toml") paths.push_back(entry.path().string());
  return paths;
}

TEST(Schema, HasEveryTableExplainedAndItsKeysTogether) {
  std::set<std::string> names, closed;
  std::string table;
  for (const Key& key : keys()) {
    EXPECT_TRUE(names.insert(key.name).second) << key.name << " twice";
    EXPECT_TRUE(find_table(key.table())) << key.name;
    if (key.table() != table) {
      EXPECT_TRUE(closed.insert(key.table()).second) << key.table() << " stands in two places";
      table = key.table();
    }
  }
  // A table has keys, or tables that do.
  for (const Table& t : tables()) {
    const auto within = closed.lower_bound(t.name);
    EXPECT_TRUE(within != closed.end() && (*within == t.name || within->rfind(t.name + ".", 0) == 0))
        << t.name << " has no keys";
  }
}

TEST(Schema, ExplainsEveryKeyInSentencesAndHasDefaultsWithinItsRanges) {
  const RunConfig defaults;
  for (const Key& key : keys()) {
    EXPECT_GT(key.explanation.size(), 15u) << key.name;
    EXPECT_EQ(key.explanation.back(), '.') << key.name;
    EXPECT_EQ(rule_violation(key, defaults), "") << key.name;
  }
}

// Every field of every struct has its key: one for each, three for the optimizer's, which stand in three
// tables.
TEST(Schema, LeavesNoFieldOut) {
  std::multiset<std::string> fields;
  const std::regex field(
      R"(^  (?:u?int64_t|double|bool|std::string|std::vector<std::string>) (\w+)(?: = [^;]*)?;)");
  for (const char* header :
       {"config/run_config.h", "algorithms/algorithm_config.h", "data/data_config.h",
        "evaluation/evaluation_config.h", "losses/loss_config.h", "losses/preference_config.h",
        "models/model_config.h", "optim/optim_config.h", "optim/optim_config.h", "optim/optim_config.h",
        "rewards/reward_config.h", "rollout/rollout_config.h", "sharding/sharding_config.h",
        "steps/step_config.h"}) {
    std::istringstream text(source(std::string("trainer/") + header));
    std::smatch found;
    for (std::string line; std::getline(text, line);)
      if (std::regex_search(line, found, field)) fields.insert(found[1]);
  }
  for (const char* of_critic : {"tp", "pp", "cp", "zero_stage", "reduce"}) fields.insert(of_critic);
  for (const char* of_reader : {"tp", "pp", "cp"}) {  // of three that only read their model
    fields.insert(of_reader);
    fields.insert(of_reader);
  }
  // What is offloaded (memory/offload_config.h) has longer names in a configuration.
  for (const char* offload : {"param_offload", "param_offload", "param_offload", "optimizer_offload",
                              "optimizer_offload", "enable_activation_offload", "offload_dir"})
    fields.insert(offload);
  std::multiset<std::string> leaves;
  for (const Key& key : keys()) leaves.insert(key.leaf());
  EXPECT_EQ(fields, leaves);
}

// Writing through one key changes that key and no other.
TEST(Schema, HasAPlaceOfItsOwnForEveryKey) {
  for (const Key& key : keys()) {
    RunConfig config;
    std::visit(
        [&](auto accessor) {
          auto& value = accessor(config);
          using T = std::decay_t<decltype(value)>;
          if constexpr (std::is_same_v<T, bool>)
            value = !value;
          else if constexpr (std::is_arithmetic_v<T>)
            value = static_cast<T>(value + 1);
          else if constexpr (std::is_same_v<T, std::string>)
            value += "x";
          else
            value.push_back("x");
        },
        key.field);
    EXPECT_FALSE(config == RunConfig{}) << key.name;
    int changed = 0;
    for (const Key& other : keys()) changed += value_text(other, config) != default_text(other);
    EXPECT_EQ(changed, 1) << key.name;
  }
}

// ---- round trips

RunConfig reread(const RunConfig& config) {
  const Written written = read_toml(to_toml(config), "config.toml", {});
  EXPECT_THAT(written.mistakes.lines(), IsEmpty());
  EXPECT_EQ(written.origins.size(), keys().size());
  return written.config;
}

TEST(ToToml, ReadsBackAsTheSameForDefaults) {
  EXPECT_TRUE(reread(RunConfig{}) == RunConfig{});
}

class RandomValues {
 public:
  explicit RandomValues(uint64_t seed) : random_(seed) {}

  RunConfig draw() {
    RunConfig config;
    for (const Key& key : keys())
      std::visit([&](auto accessor) { accessor(config) = value(key.rule, accessor(config)); }, key.field);
    return config;
  }

 private:
  bool coin() { return random_() & 1; }

  bool value(const Rule&, bool) { return coin(); }
  uint64_t value(const Rule&, uint64_t) { return random_() >> 1; }

  int64_t value(const Rule& rule, int64_t) {
    if (rule.or_value && coin()) return *rule.or_value;
    const auto low = static_cast<int64_t>(rule.min.value_or(-1e18));
    const auto high = static_cast<int64_t>(rule.max.value_or(1e18));
    return std::uniform_int_distribution<int64_t>(low, high)(random_);
  }

  // Any bits that are a number within the range.
  double value(const Rule& rule, double) {
    const double low = rule.min.value_or(-std::numeric_limits<double>::max());
    const double high = rule.max.value_or(std::numeric_limits<double>::max());
    for (int tries = 0; tries < 1000; ++tries) {
      double number =
          std::ldexp(static_cast<double>(random_() >> 11), static_cast<int>(random_() % 200) - 150);
      if (coin()) number = -number;
      if (coin()) number = std::round(number * 1000) / 1000;
      if (number > low && number < high) return number;
    }
    return (low + high) / 2;
  }

  std::string value(const Rule& rule, const std::string&) {
    if (!rule.choices.empty()) return rule.choices[random_() % rule.choices.size()];
    static const std::vector<std::string> kPieces{
        "a", "B",  "0", " ",      "\"",      "\\", "\n",   "\t",   "\r",          "'",  "#",
        "=", "[",  "]", "{",      "}",       ",",  "\x01", "\x1f", "\x7f",        "\b", "\f",
        "ü", "漢", "🎲", "\"\"\"", "\\u0041", "$",  "%",    "null", "\xE2\x80\xA8"};
    std::string text;
    for (size_t left = random_() % 12; left > 0; --left) text += kPieces[random_() % kPieces.size()];
    return text;
  }

  std::vector<std::string> value(const Rule& rule, const std::vector<std::string>&) {
    std::vector<std::string> list(random_() % 4);
    for (std::string& item : list) item = value(rule, item);
    return list;
  }

  std::mt19937_64 random_;
};

TEST(ToToml, ReadsBackAsTheSameForAnyValues) {
  RandomValues random(1);
  for (int i = 0; i < 300; ++i) {
    const RunConfig config = random.draw();
    const RunConfig back = reread(config);
    for (const Key& key : keys()) ASSERT_EQ(value_text(key, config), value_text(key, back)) << key.name;
    ASSERT_TRUE(back == config);
    ASSERT_EQ(to_toml(back), to_toml(config));
  }
}

TEST(Overrides, SetEveryKeyToAnyValue) {
  RandomValues random(2);
  for (int i = 0; i < 30; ++i) {
    const RunConfig config = random.draw();
    std::vector<std::string> overrides;
    for (const Key& key : keys()) overrides.push_back(key.name + "=" + value_text(key, config));
    const Written written = read_toml("", "empty.toml", overrides);
    ASSERT_THAT(written.mistakes.lines(), IsEmpty());
    ASSERT_TRUE(written.config == config);
  }
}

TEST(Load, ReadsWhatItWroteForEveryConfigurationOfOurs) {
  ASSERT_GE(configs().size(), 5u);
  for (const std::string& path : configs()) {
    SCOPED_TRACE(path);
    const RunConfig config = load(path, {}, Paths::ignore);
    EXPECT_NO_THROW(check_ranks(config, config.run.ranks == 0 ? 1 : static_cast<int>(config.run.ranks)));
    const WrittenFile resolved(to_toml(config), "config.toml");
    EXPECT_TRUE(load(resolved.path(), {}, Paths::ignore) == config);
  }
}

// ---- in words

TEST(Show, TellsTheOriginOfEveryValueAndCanBeReadBack) {
  const WrittenFile file(kGood);
  const LoadedConfig loaded = load_with_origins(file.path(), {"rollout.top_k=5"}, Paths::ignore);
  const std::string text = show(loaded);
  const auto line_of = [&](const std::string& setting) {
    const size_t at = text.find("\n" + setting);
    EXPECT_NE(at, std::string::npos) << setting;
    return text.substr(at + 1, text.find('\n', at + 1) - at - 1);
  };
  EXPECT_THAT(line_of("n = 8 "), HasSubstr("# " + file.path() + ":10"));
  EXPECT_THAT(line_of("top_k = 5"), HasSubstr("# command line"));
  EXPECT_THAT(line_of("top_p = 1.0"), HasSubstr("# default"));
  const WrittenFile again(text);
  EXPECT_TRUE(load(again.path(), {}, Paths::ignore) == loaded.config);
}

TEST(Explain, CoversEveryKeyAndTable) {
  for (const Key& key : keys()) {
    EXPECT_THAT(explain(key.name), HasSubstr(default_text(key))) << key.name;
    EXPECT_THAT(explain(key.table()), HasSubstr("  " + key.leaf() + " "));
  }
  for (const Table& table : tables()) EXPECT_EQ(explain(table.name), explain("[" + table.name + "]"));
  EXPECT_THAT(explain("actor"), HasSubstr("[actor.optim]"));
  EXPECT_THAT(explain("actor.ppo_max_token_len_per_rank"), HasSubstr("actor.ppo_max_token_len_per_gpu"));
}

TEST(Explain, NamesTheNearestForAnUnknownKey) {
  try {
    explain("rollout.temprature");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_config);
    EXPECT_EQ(error.message(),
              "there is no key or table rollout.temprature: did you mean rollout.temperature?");
  }
}

TEST(ConfigurationDocument, IsTheOneInDocs) {
  EXPECT_TRUE(configuration_markdown() == source("docs/configuration.md"))
      << "docs/configuration.md is out of date: trireme docs configuration > docs/configuration.md";
}

}  // namespace
}  // namespace trireme::config
