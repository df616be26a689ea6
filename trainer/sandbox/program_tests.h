// Tests that a program must pass, as data sets write them, and how many it passes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "trainer/sandbox/sandbox.h"

namespace trireme::sandbox {

struct Test {
  Program::Kind kind = Program::Kind::input;
  std::string input;      // kind input
  std::string arguments;  // kind call: a JSON list
  std::string expected;   // what it must print (input); JSON (call)
  std::string code;       // kind asserts: comes behind the program
};

struct ProgramTests {
  std::vector<Test> tests;
  std::string function;  // kind call
  std::string mistake;   // why the text is no tests; empty if it is
};

/// Reads tests from a ground truth:
///   {"inputs": [...], "outputs": [...]} and perhaps "fn_name" (APPS, TACO, PRIME): standard input and
///   output, or
///     the arguments of a function, a JSON value a line (or a list of them), and what it returns;
///   [{"input": ..., "output": ..., "testtype": "stdin" | "functional"}, ...] (LiveCodeBench), with "fn_name"
///   or
///     "metadata": {"func_name"} of the object that holds them as "tests", or of each;
///   {"assert_case": [...]}, ["assert ...", ...] (MBPP), {"test": ..., "entry_point": ...} (HumanEval), or
///   plain
///     Python with an assert in it.
ProgramTests read_tests(const std::string& ground_truth);

/// The program in a response: the last fenced block marked python, or else the last fenced block, or else all
/// of it. `is_fenced`: whether there was one.
std::string program_in(std::string_view response, bool& is_fenced);

struct TestResults {
  int64_t passed = 0, run = 0;
  bool all_passed = false;
  bool timed_out = false;  // one of them
  double fraction() const { return run > 0 ? static_cast<double>(passed) / static_cast<double>(run) : 0.0; }
};

/// Runs tests in their order, each in a sandbox of its own: the first `first` of them whatever becomes of
/// them, but none after one that took all its time; and then until one fails.
TestResults run_tests(const Sandbox& sandbox, const std::string& source, const ProgramTests& tests,
                      const Limits& limits, int64_t first);

/// Whether two outputs agree: word by word, numbers with a point within 1e-5 of each other, white space
/// aside.
bool same_output(std::string_view printed, std::string_view expected);
/// Whether two JSON values agree: numbers likewise; a list with the one value in it is that value.
bool same_result(const std::string& returned, const std::string& expected);

}  // namespace trireme::sandbox
