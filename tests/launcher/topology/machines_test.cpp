// Each file of machines/ holds a machine and, after the line `plan`, what must be decided for it:
//   rank I gpu=BUS-ID port=P distance=D cpus=LIST node=N
//   drop P BEGINNING-OF-THE-REASON        warn BEGINNING        set NAME=VALUE
// Nothing else may be dropped, warned of or set.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "launcher/topology/cpu_list.h"
#include "launcher/topology/host_plan.h"
#include "tests/launcher/topology/fake_machine.h"

namespace trireme::topology {
namespace {

namespace fs = std::filesystem;

fs::path machines() {
  const char* source = std::getenv("TRIREME_SOURCE_DIR");
  // build/PRESET/tests/bin/THIS
  const auto here = fs::read_symlink("/proc/self/exe").parent_path();
  return (source ? fs::path(source) : here / "../../../..") / "tests/launcher/topology/machines";
}

std::vector<std::string> names() {
  std::vector<std::string> found;
  std::error_code error;
  for (fs::directory_iterator it(machines(), error), end; !error && it != end; it.increment(error))
    found.push_back(it->path().stem());
  std::sort(found.begin(), found.end());
  return found;
}

struct Recorded {
  std::string table;
  std::vector<std::string> plan;
};

Recorded read(const std::string& name) {
  Recorded recorded;
  std::ifstream in(machines() / (name + ".txt"));
  bool in_plan = false;
  for (std::string line; std::getline(in, line);) {
    if (line == "plan")
      in_plan = true;
    else if (!in_plan)
      recorded.table += line + "\n";
    else if (!line.empty())
      recorded.plan.push_back(line);
  }
  return recorded;
}

std::vector<std::string> lines_of(const Machine& machine, const HostPlan& plan) {
  std::vector<std::string> lines;
  for (size_t i = 0; i < plan.ranks.size(); ++i) {
    const auto& rank = plan.ranks[i];
    lines.push_back(fmt::format("rank {} gpu={} port={} distance={} cpus={} node={}", i,
                                rank.binding.gpu < 0 ? "-" : machine.gpus[rank.binding.gpu].bus_id,
                                rank.port ? port_name(machine, *rank.port) : "-",
                                rank.port ? to_string(rank.to_port.distance) : "-",
                                format_cpu_list(rank.binding.cpus), rank.binding.memory_node));
  }
  for (const auto& dropped : plan.choice.dropped)
    lines.push_back(fmt::format("drop {} {}", port_name(machine, dropped.port), dropped.reason));
  for (const auto& warning : plan.choice.warnings) lines.push_back("warn " + warning);
  for (const auto& variable : plan.variables)
    lines.push_back(fmt::format("set {}={}", variable.name, variable.value));
  return lines;
}

// Whether an expected line is there: whole, or the beginning where it is a reason.
bool matches(const std::string& line, const std::string& expected) {
  const bool is_reason = expected.starts_with("drop ") || expected.starts_with("warn ");
  return is_reason ? line.starts_with(expected) : line == expected;
}

class Machines : public ::testing::TestWithParam<std::string> {};

TEST_P(Machines, GetThePlanThatStandsBesideThem) {
  const auto recorded = read(GetParam());
  ASSERT_FALSE(recorded.plan.empty()) << GetParam() << ".txt has no plan";
  const FakeRoot root(recorded.table);
  const auto machine = discover(SysFiles(root.path()));
  const auto plan = plan_host(machine, {}, {}, std::max<int>(1, static_cast<int>(machine.gpus.size())));
  auto found = lines_of(machine, plan);
  for (const auto& expected : recorded.plan) {
    const auto it = std::find_if(found.begin(), found.end(),
                                 [&](const std::string& line) { return matches(line, expected); });
    if (it == found.end())
      ADD_FAILURE() << "missing: " << expected;
    else
      found.erase(it);
  }
  for (const auto& line : found) ADD_FAILURE() << "not expected: " << line;
}

// What --save writes is all that is needed to decide the same elsewhere.
TEST_P(Machines, CanBeSavedAndReadAgain) {
  const FakeRoot root(read(GetParam()).table);
  const SysFiles files(root.path());
  const auto machine = discover(files);
  const auto path = fs::path(root.path()) / "saved";
  std::ofstream(path) << files.record();
  const auto again = discover(SysFiles(path));
  EXPECT_EQ(tree_text(again), tree_text(machine));
  EXPECT_EQ(matrix_text(again), matrix_text(machine));
  const auto plan = [](const Machine& m) { return plan_text(m, plan_host(m, {}, {.num_hosts = 2}, 4)); };
  EXPECT_EQ(plan(again), plan(machine));
  EXPECT_LT(fs::file_size(path), 100'000u);
}

TEST_P(Machines, GiveEachCpuToOneRank) {
  const FakeRoot root(read(GetParam()).table);
  const auto machine = discover(SysFiles(root.path()));
  std::map<int, int> owners;
  for (const auto& binding : bind(machine, std::max<int>(1, static_cast<int>(machine.gpus.size())), true, 0))
    for (const int cpu : binding.cpus) ++owners[cpu];
  for (const auto& [cpu, count] : owners) EXPECT_EQ(count, 1) << "CPU " << cpu;
}

INSTANTIATE_TEST_SUITE_P(All, Machines, ::testing::ValuesIn(names()),
                         [](const auto& info) { return info.param; });

TEST(MachineFiles, AreThere) {
  EXPECT_GE(names().size(), 18u) << machines();
}

}  // namespace
}  // namespace trireme::topology
