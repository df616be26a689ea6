#include "trainer/sandbox/program_tests.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <optional>

namespace trireme::sandbox {
namespace {

using Json = nlohmann::json;

constexpr double kRelative = 1e-5, kAbsolute = 1e-8;

bool is_close(double a, double b) {
  return a == b || std::abs(a - b) <= kAbsolute + kRelative * std::abs(b);
}

Json parse(const std::string& text) {
  return Json::parse(text, nullptr, false);
}

// A string as it is; a list of strings as lines; any other value as JSON.
std::string text_of(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_array()) return value.dump();
  std::string text;
  for (const Json& line : value) text += (text.empty() ? "" : "\n") + text_of(line);
  return text;
}

// The arguments of a call: a list as it is; of a text each line is a JSON value.
std::optional<std::string> arguments_of(const Json& input) {
  if (!input.is_string()) return input.is_array() ? input.dump() : Json::array({input}).dump();
  Json arguments = Json::array();
  const auto text = input.get<std::string>();
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string line = text.substr(begin, end - begin);
    begin = end + 1;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    Json value = parse(line);
    if (value.is_discarded()) return std::nullopt;
    arguments.push_back(std::move(value));
  }
  return arguments.dump();
}

ProgramTests mistaken(std::string mistake) {
  ProgramTests tests;
  tests.mistake = std::move(mistake);
  return tests;
}

bool add_test(ProgramTests& tests, const Json& input, const Json& output) {
  Test test;
  if (tests.function.empty()) {
    test.input = text_of(input);
    test.expected = text_of(output);
  } else {
    test.kind = Program::Kind::call;
    const auto arguments = arguments_of(input);
    const Json expected = output.is_string() ? parse(output.get<std::string>()) : output;
    if (!arguments) {
      tests.mistake = "an input of the function is not JSON, a value a line: " + text_of(input).substr(0, 60);
      return false;
    }
    test.arguments = *arguments;
    // An output that is no JSON is the text itself.
    test.expected = (expected.is_discarded() ? output : expected).dump();
  }
  tests.tests.push_back(std::move(test));
  return true;
}

std::string function_of(const Json& object) {
  for (const char* key : {"fn_name", "func_name", "function"})
    if (const auto found = object.find(key); found != object.end() && found->is_string())
      return found->get<std::string>();
  if (const auto metadata = object.find("metadata"); metadata != object.end()) {
    const Json inner = metadata->is_string() ? parse(metadata->get<std::string>()) : *metadata;
    if (inner.is_object()) return function_of(inner);
  }
  return "";
}

ProgramTests asserting(const std::vector<std::string>& codes) {
  ProgramTests tests;
  for (const std::string& code : codes) {
    Test test;
    test.kind = Program::Kind::asserts;
    test.code = code;
    tests.tests.push_back(std::move(test));
  }
  return tests;
}

ProgramTests read_list(const Json& list, const std::string& function) {
  ProgramTests tests;
  tests.function = function;
  if (!list.empty() && std::all_of(list.begin(), list.end(), [](const Json& one) { return one.is_string(); }))
    return asserting(list.get<std::vector<std::string>>());
  for (const Json& one : list) {
    if (!one.is_object() || !one.contains("input") || !one.contains("output"))
      return mistaken("a list of tests must hold texts with assert, or objects with input and output");
    if (tests.function.empty() && one.value("testtype", "stdin") != "stdin")
      tests.function = function_of(one);
    if (!add_test(tests, one["input"], one["output"])) return tests;
  }
  return tests;
}

ProgramTests read_object(const Json& object) {
  if (object.contains("inputs") || object.contains("outputs")) {
    if (!object.contains("inputs") || !object.contains("outputs") || !object["inputs"].is_array() ||
        !object["outputs"].is_array() || object["inputs"].size() != object["outputs"].size())
      return mistaken("inputs and outputs must be two lists of the same length");
    ProgramTests tests;
    tests.function = function_of(object);
    for (size_t i = 0; i < object["inputs"].size(); ++i)
      if (!add_test(tests, object["inputs"][i], object["outputs"][i])) return tests;
    return tests;
  }
  for (const char* key : {"assert_case", "test_list", "asserts"})
    if (const auto found = object.find(key); found != object.end() && found->is_array())
      return read_list(*found, "");
  if (const auto found = object.find("tests"); found != object.end() && found->is_array())
    return read_list(*found, function_of(object));
  if (const auto test = object.find("test"); test != object.end() && test->is_string()) {
    const std::string entry = object.value("entry_point", "");
    return asserting({test->get<std::string>() + (entry.empty() ? "" : "\ncheck(" + entry + ")\n")});
  }
  return mistaken("no inputs and outputs, no tests, no assert_case and no test in it");
}

std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  constexpr std::string_view kSpace = " \t\n\r\f\v";
  for (size_t begin = text.find_first_not_of(kSpace); begin != std::string_view::npos;) {
    const size_t end = std::min(text.find_first_of(kSpace, begin), text.size());
    words.push_back(text.substr(begin, end - begin));
    begin = text.find_first_not_of(kSpace, end);
  }
  return words;
}

std::optional<double> number_of(std::string_view word) {
  const std::string text(word);
  if (text.find_first_not_of("0123456789+-.eE") != std::string::npos) return std::nullopt;
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  return end == text.c_str() + text.size() && std::isfinite(value) ? std::optional(value) : std::nullopt;
}

bool same_word(std::string_view a, std::string_view b) {
  if (a == b) return true;
  const bool whole =
      a.find_first_of(".eE") == std::string_view::npos && b.find_first_of(".eE") == std::string_view::npos;
  if (whole) return false;
  const auto x = number_of(a), y = number_of(b);
  return x && y && is_close(*x, *y);
}

bool same_json(const Json& a, const Json& b) {
  if (a.is_number() && b.is_number()) {
    if (a.is_number_integer() && b.is_number_integer()) return a == b;
    return is_close(a.get<double>(), b.get<double>());
  }
  if (a.is_array() && b.is_array()) return std::equal(a.begin(), a.end(), b.begin(), b.end(), same_json);
  if (a.is_object() && b.is_object())
    return a.size() == b.size() && std::all_of(a.items().begin(), a.items().end(), [&](const auto& item) {
             return b.contains(item.key()) && same_json(item.value(), b[item.key()]);
           });
  return a == b;
}

}  // namespace

ProgramTests read_tests(const std::string& ground_truth) {
  const Json json = parse(ground_truth);
  ProgramTests tests;
  if (json.is_string()) return read_tests(json.get<std::string>());
  if (json.is_object()) {
    tests = read_object(json);
  } else if (json.is_array()) {
    tests = read_list(json, "");
  } else if (ground_truth.find("assert") != std::string::npos) {
    tests = asserting({ground_truth});
  } else {
    return mistaken("neither JSON with tests nor Python with an assert in it");
  }
  if (tests.mistake.empty() && tests.tests.empty()) tests.mistake = "there is no test in it";
  return tests;
}

std::string program_in(std::string_view response, bool& is_fenced) {
  constexpr std::string_view kFence = "```";
  struct Block {
    std::string_view code;
    bool is_python;
  };
  std::optional<Block> chosen;
  for (size_t begin = response.find(kFence); begin != std::string_view::npos;) {
    const size_t line = response.find('\n', begin);
    if (line == std::string_view::npos) break;
    const std::string_view language = response.substr(begin + kFence.size(), line - begin - kFence.size());
    const size_t end = response.find(kFence, line);
    const std::string_view code =
        response.substr(line + 1, end == std::string_view::npos ? end : end - line - 1);
    const bool is_python = language.starts_with("py") || language.starts_with("Py");
    if (!chosen || is_python || !chosen->is_python) chosen = Block{code, is_python};
    begin = end == std::string_view::npos ? end : response.find(kFence, end + kFence.size());
  }
  is_fenced = chosen.has_value();
  return std::string(chosen ? chosen->code : response);
}

TestResults run_tests(const Sandbox& sandbox, const std::string& source, const ProgramTests& tests,
                      const Limits& limits, int64_t first) {
  TestResults results;
  for (const Test& test : tests.tests) {
    if (results.timed_out || (results.run >= first && results.passed < results.run)) break;
    Program program;
    program.kind = test.kind;
    program.source = test.code.empty() ? source : source + "\n" + test.code;
    program.input = test.input;
    program.function = tests.function;
    if (test.kind == Program::Kind::call) program.arguments = test.arguments;
    const Outcome outcome = sandbox.run(program, limits);
    const bool done = outcome.end == Outcome::End::done;
    const bool passed =
        done && (test.kind == Program::Kind::asserts ||
                 (test.kind == Program::Kind::input ? same_output(outcome.output, test.expected)
                                                    : same_result(outcome.output, test.expected)));
    results.timed_out = outcome.end == Outcome::End::timed_out;
    ++results.run;
    results.passed += passed ? 1 : 0;
  }
  const auto count = static_cast<int64_t>(tests.tests.size());
  results.all_passed = results.passed == count && count > 0;
  // What was not reached because of a timeout failed too.
  if (results.timed_out) results.run = std::max(results.run, std::min(first, count));
  return results;
}

bool same_output(std::string_view printed, std::string_view expected) {
  const auto a = words_of(printed), b = words_of(expected);
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), same_word);
}

bool same_result(const std::string& returned, const std::string& expected) {
  const Json a = parse(returned), b = parse(expected);
  if (a.is_discarded() || b.is_discarded()) return false;
  return same_json(a, b) || (b.is_array() && b.size() == 1 && same_json(a, b[0]));
}

}  // namespace trireme::sandbox
