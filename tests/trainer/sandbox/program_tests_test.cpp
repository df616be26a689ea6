#include <gtest/gtest.h>

#include "trainer/sandbox/program_tests.h"

namespace trireme::sandbox {
namespace {

const Sandbox& sandbox() {
  static const Sandbox instance("python3");
  return instance;
}

TestResults results(const std::string& source, const std::string& truth, int64_t first = 10) {
  const ProgramTests tests = read_tests(truth);
  EXPECT_EQ(tests.mistake, "") << truth;
  Limits limits;
  limits.time = std::chrono::milliseconds(3000);
  return run_tests(sandbox(), source, tests, limits, first);
}

TEST(ProgramTests, AreStandardInputAndOutput) {
  const std::string truth = R"({"inputs": ["1 2\n", "3 4\n", "5 6"], "outputs": ["3\n", "7", "11\n\n"]})";
  EXPECT_TRUE(results("print(sum(map(int, input().split())))", truth).all_passed);
  const auto two = results("a = sum(map(int, input().split()))\nprint(a if a != 7 else 8)", truth);
  EXPECT_FALSE(two.all_passed);
  EXPECT_EQ(two.passed, 2);
  EXPECT_EQ(two.run, 3);
  EXPECT_DOUBLE_EQ(two.fraction(), 2.0 / 3);
}

TEST(ProgramTests, StopAtAFailureAfterTheFirst) {
  const std::string truth = R"({"inputs": ["1", "2", "3", "4"], "outputs": ["1", "0", "3", "0"]})";
  const auto stopped = results("print(input())", truth, 1);
  EXPECT_EQ(stopped.passed, 1);
  EXPECT_EQ(stopped.run, 2);
  const auto slow = results("import time\ntime.sleep(60)", truth, 3);
  EXPECT_TRUE(slow.timed_out);
  EXPECT_EQ(slow.run, 3);
  EXPECT_EQ(slow.fraction(), 0.0);
}

TEST(ProgramTests, CallAFunction) {
  const std::string truth =
      R"({"fn_name": "scale", "inputs": ["[1, 2]\n3", [[4], 0.5]], "outputs": ["[3, 6]", [2.0]]})";
  EXPECT_TRUE(
      results("class Solution:\n  def scale(self, xs: List[int], k):\n    return [x * k for x in xs]", truth)
          .all_passed);
  EXPECT_TRUE(results("def scale(xs, k): return tuple(x * k for x in xs)", truth).all_passed);
  EXPECT_EQ(results("def scale(xs, k): return xs", truth).passed, 0);
}

TEST(ProgramTests, AreAssertions) {
  for (const char* truth : {R"(["assert twice(2) == 4", "assert twice(-1) == -2"])",
                            R"({"assert_case": ["assert twice(2) == 4", "assert twice(-1) == -2"]})"}) {
    EXPECT_TRUE(results("def twice(x): return 2 * x", truth).all_passed);
    EXPECT_EQ(results("def twice(x): return x * x", truth).passed, 1);
  }
  EXPECT_TRUE(results("def twice(x): return 2 * x", "assert twice(2) == 4\nassert twice(0) == 0").all_passed);
  const std::string human = R"({"test": "def check(f):\n    assert f(1) == 2\n", "entry_point": "twice"})";
  EXPECT_TRUE(results("def twice(x): return 2 * x", human).all_passed);
  EXPECT_FALSE(results("def twice(x): return 3 * x", human).all_passed);
}

TEST(ProgramTests, AreThoseOfLiveCodeBench) {
  EXPECT_TRUE(results("print(int(input()) + 1)", R"([{"input": "1\n", "output": "2", "testtype": "stdin"}])")
                  .all_passed);
  EXPECT_TRUE(
      results("class Solution:\n  def inc(self, x): return x + 1",
              R"({"fn_name": "inc", "tests": [{"input": "1", "output": "2", "testtype": "functional"}]})")
          .all_passed);
}

TEST(ProgramTests, SayWhatIsWrongWithThem) {
  EXPECT_NE(read_tests("42").mistake, "");
  EXPECT_NE(read_tests("").mistake, "");
  EXPECT_NE(read_tests("{}").mistake, "");
  EXPECT_NE(read_tests("[]").mistake, "");
  EXPECT_NE(read_tests(R"({"inputs": ["1"], "outputs": []})").mistake, "");
  EXPECT_NE(read_tests(R"({"fn_name": "f", "inputs": ["not json"], "outputs": ["1"]})").mistake, "");
  EXPECT_NE(read_tests(R"([1, 2])").mistake, "");
  EXPECT_EQ(read_tests(R"("[\"assert f(1) == 1\"]")").tests.size(), 1U);  // JSON within JSON
}

TEST(ProgramInResponse, IsTheLastPythonBlock) {
  bool fenced = false;
  EXPECT_EQ(program_in("So:\n```python\na = 1\n```\nor\n```python\na = 2\n```\nDone.", fenced), "a = 2\n");
  EXPECT_TRUE(fenced);
  EXPECT_EQ(program_in("```py\na = 1\n```\n```\noutput\n```", fenced), "a = 1\n");
  EXPECT_EQ(program_in("```\na = 1\n```", fenced), "a = 1\n");
  EXPECT_EQ(program_in("```python\na = 1", fenced), "a = 1");  // cut off
  EXPECT_EQ(program_in("a = 1", fenced), "a = 1");
  EXPECT_FALSE(fenced);
}

TEST(Outputs, AgreeUpToSpaceAndRounding) {
  EXPECT_TRUE(same_output("1 2\n3\n", "1 2 3"));
  EXPECT_TRUE(same_output("0.3333333\n", "0.33333334"));
  EXPECT_TRUE(same_output("", " \n"));
  EXPECT_TRUE(same_output("Yes", "Yes\n"));
  EXPECT_FALSE(same_output("YES", "Yes"));
  EXPECT_FALSE(same_output("1 2", "1 2 3"));
  EXPECT_FALSE(same_output("1000000000001", "1000000000002"));
  EXPECT_FALSE(same_output("0.33", "0.3333"));
  EXPECT_FALSE(same_output("nan", "1"));
  EXPECT_TRUE(same_result("[1, 2.0, null]", "[1, 2, null]"));
  EXPECT_TRUE(same_result("5", "[5]"));
  EXPECT_FALSE(same_result("[5]", "5"));
  EXPECT_TRUE(same_result(R"({"a": 1.0000001})", R"({"a": 1.0})"));
  EXPECT_FALSE(same_result(R"({"a": 1})", R"({"b": 1})"));
  EXPECT_FALSE(same_result("", "1"));
}

}  // namespace
}  // namespace trireme::sandbox
