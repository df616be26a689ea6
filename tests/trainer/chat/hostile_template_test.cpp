// Templates that mean harm, or nothing: an error or an answer, in bounded time and memory.
#include <random>

#include "tests/trainer/chat/goldens.h"

namespace trireme::chat::tests {
namespace {

Conversation one_message() {
  Conversation conversation;
  conversation.messages = Json::array({{{"role", "user"}, {"content", "x"}}});
  return conversation;
}

// What rendering says: the text, or "!" and the message.
std::string outcome(const std::string& source, const Conversation& conversation = one_message()) {
  try {
    return ChatTemplate(source, Json::object(), "t").render(conversation).text;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_config) << error.what();
    return "!" + error.message();
  }
}

std::string repeated(const std::string& text, int times) {
  std::string out;
  for (int i = 0; i < times; ++i) out += text;
  return out;
}

TEST(HostileTemplate, EndsWithAnErrorWhereItWouldNotEnd) {
  const std::string loop = "{% for a in range(100000) %}";
  const std::string spaces = "{% set ns = namespace(x='ab', l=[]) %}";
  const std::pair<std::string, const char*> cases[] = {
      {loop + loop + "{{ a }}{% endfor %}{% endfor %}", "more than"},
      {"{{ range(10000000) }}", "range of more than"},
      {"{{ 'ab' * 1000000000000 }}", "repetition"},
      {"{{ [0] * 1000000000000 }}", "repetition"},
      {spaces + "{% for i in range(99) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}", "MB"},
      {spaces + "{% for i in range(99) %}{% set ns.l = ns.l + [1] + ns.l %}{% endfor %}", "MB"},
      {spaces + "{% for i in range(99) %}{% set ns.l = [ns.l, ns.l] %}{% endfor %}{{ ns.l }}", "MB"},
      {spaces + "{% set ns.x = [] %}{% for i in range(99) %}{% set ns.l = [ns.l, ns.l] %}{% set ns.x = "
                "[ns.x, ns.x] %}{% endfor %}{{ ns.l == ns.x }}",
       "more than"},
      {spaces + "{% for i in range(9999) %}{% set ns.l = [ns.l] %}{% endfor %}{{ ns.l }}", "nested"},
      {spaces + "{% for i in range(9999) %}{% set ns.l = [ns.l] %}{% endfor %}{{ ns.l | tojson }}", "nested"},
      {spaces + "{% for i in range(99999) %}{% set ns.l = (ns.l,) %}{% endfor %}{{ {ns.l: 1} }}", "nested"},
      {spaces + "{% set ns.l = ns %}{{ ns }}", "nested"},
      {spaces + "{% set ns.l = [ns] %}{{ ns.l }}", "nested"},
      {"{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "deep within itself"},
      {"{% macro f(x) %}{{ f([x]) }}{% endmacro %}{{ f(1) }}", "deep within itself"},
      {"{{ 'x'.replace('', 'y' * 16000000) }}", "too long"},
      {"{{ ('a' * 9000000).find('a' * 5000000 ~ 'b') }}", "more than"},
      {"{{ ('a' * 9000000) in ('a' * 5000000) }}", "more than"},
      {"{{ ('a' * 9000000).strip('b' * 2000) }}", "more than 1000"},
      {"{{ ('a ' * 4000000).rsplit() | length }}", ""},
      {"{{ ('a ' * 8000000).split(' ') }}", "apart"},
      {"{{ ('a' * 9000000) | list }}", "apart"},
      {"{{ messages | tojson(indent=1000000) }}", "indent"},
      {"{{ 2 ** 63 }}", "64 bits"},
      {"{{ -9223372036854775807 - 2 }}", "64 bits"},
      {"{{ (-9223372036854775807 - 1) // -1 }}", "64 bits"},
      {"{{ -(-9223372036854775807 - 1) }}", "64 bits"},
      {"{{ (-9223372036854775807 - 1) | abs }}", "64 bits"},
      {"{{ 1e300 | int }}", "64 bits"},
      {"{{ range(0, 9223372036854775807, 4611686018427387904)[1:5][::2] }}", ""},
      {"{{ 'abc'[::-9223372036854775807 - 1] ~ [1, 2][-9223372036854775807 - 1:] }}", "[1, 2]"},
      {repeated("(", 5000) + repeated(")", 5000), "("},
      {"{{ " + repeated("(", 5000) + "1" + repeated(")", 5000) + " }}", "nested more than"},
      {"{{ " + repeated("[", 5000) + "1" + repeated("]", 5000) + " }}", "nested more than"},
      {"{{ " + repeated("not ", 5000) + "1 }}", "nested more than"},
      {"{{ " + repeated("- ", 5000) + "1 }}", "nested more than"},
      {"{{ 1" + repeated(" + 1", 5000) + " }}", "within each other"},
      {"{{ x" + repeated(".x", 5000) + " }}", "within each other"},
      {"{{ x" + repeated("|string", 5000) + " }}", "within each other"},
      {"{{ 1" + repeated(" if 1 else 1", 5000) + " }}", "nested more than"},
      {repeated("{% if 1 %}", 5000), "nested more than"},
      {repeated("{% if 1 %}", 150) + "x" + repeated("{% endif %}", 150), "x"},
      {"{{ f" + repeated("(f", 5000) + repeated(")", 5000) + " }}", "nested more than"},
      {std::string(2 << 20, 'x'), "more than 1 MB"}};
  for (const auto& [source, expected] : cases)
    EXPECT_NE(outcome(source).find(expected), std::string::npos) << source.substr(0, 200) << "\n"
                                                                 << expected << "\n"
                                                                 << outcome(source).substr(0, 300);
}

TEST(HostileTemplate, OfManyVariablesOrBranchesIsReadQuickly) {
  std::string many, branches;
  for (int i = 0; i < 50000; ++i) many += "{% set v" + std::to_string(i) + " = 1 %}";
  EXPECT_NE(outcome(many).find("too many variables"), std::string::npos);
  for (int i = 0; i < 900; ++i) branches += "{% set v" + std::to_string(i) + " = 1 %}";
  EXPECT_NE(outcome(branches + repeated("{% if 1 %}{% endif %}", 40000)).find("too many"), std::string::npos);
  EXPECT_EQ(outcome(repeated("{% if 1 %}{% endif %}", 40000) + "x"), "x");
}

TEST(HostileTemplate, MemoryOfCapturesIsBounded) {
  std::string source = "{% set x = 'a' * 15000000 %}";
  for (int i = 0; i < 60; ++i) source += "{% set y %}{{ x }}";
  source += repeated("{% endset %}", 60);
  EXPECT_NE(outcome(source).find("MB"), std::string::npos);
}

TEST(HostileTemplate, DeepInputIsAnError) {
  Conversation conversation = one_message();
  Json deep = "x";
  for (int i = 0; i < 5000; ++i) deep = Json::array({std::move(deep)});
  conversation.messages[0]["content"] = std::move(deep);
  EXPECT_NE(outcome("{{ messages }}", conversation).find("nested"), std::string::npos);
}

// Pieces of templates cut, doubled, swapped, and bytes changed.
TEST(HostileTemplate, MutatedIsAnErrorOrAnAnswer) {
  std::vector<std::string> seeds;
  const Json expected = read_json(goldens_folder() + "expected.json");
  for (const auto& [name, results] : expected.items())
    seeds.push_back(files::read(goldens_folder() + "templates/" + name + ".jinja"));
  const Json snippets = read_json(goldens_folder() + "snippets.json");
  for (const Json& one : snippets.at("snippets")) seeds.push_back(one[0].get<std::string>());
  const Json goldens = read_json(goldens_folder() + "conversations.json");
  const Json& conversations = goldens.at("conversations");
  const char* count_text = std::getenv("TRIREME_FUZZ_COUNT");
  const int count = count_text ? std::atoi(count_text) : 3000;
  std::mt19937_64 random(17);
  const auto below = [&](size_t n) { return n ? static_cast<size_t>(random() % n) : 0; };
  static const char* const kPieces[] = {"{{",
                                        "}}",
                                        "{%",
                                        "%}",
                                        "-",
                                        "(",
                                        ")",
                                        "[",
                                        "]",
                                        "|",
                                        ".",
                                        "'",
                                        "\"",
                                        "\\",
                                        " in ",
                                        " if ",
                                        " else ",
                                        "not ",
                                        "{#",
                                        "#}",
                                        "**",
                                        "~",
                                        "[::-1]",
                                        "[-1]",
                                        "loop",
                                        "ns",
                                        "|tojson",
                                        "|list",
                                        "|join",
                                        "|sort",
                                        "|safe",
                                        "%s",
                                        "{}",
                                        "\xF0\x9F\x98\x80",
                                        "\xFF",
                                        "\xC3",
                                        "99999999999",
                                        "1e308",
                                        "none",
                                        ".items()",
                                        ".split('')",
                                        "is",
                                        "="};
  int answers = 0;
  for (int i = 0; i < count; ++i) {
    std::string source = seeds[i % 3 == 0 ? below(expected.size()) : below(seeds.size())];
    for (size_t edits = 1 + below(4); edits > 0; --edits) {
      const size_t at = below(source.size() + 1),
                   length = below(std::min<size_t>(source.size() - at, 40) + 1);
      switch (below(5)) {
        case 0:
          source.erase(at, length);
          break;
        case 1:
          source.insert(at, source.substr(at, length));
          break;
        case 2:
          source.insert(at, kPieces[below(std::size(kPieces))]);
          break;
        case 3: {
          const std::string& other = seeds[below(seeds.size())];
          source.insert(at, other.substr(below(other.size()), 60));
          break;
        }
        default:
          if (at < source.size()) source[at] = static_cast<char>(random());
      }
    }
    answers +=
        outcome(source, to_conversation(conversations[below(conversations.size())])).substr(0, 1) != "!";
  }
  RecordProperty("answers", answers);
  EXPECT_GT(answers, count / 20);
}

}  // namespace
}  // namespace trireme::chat::tests
