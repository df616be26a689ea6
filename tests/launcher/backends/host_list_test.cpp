#include "launcher/backends/host_list.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "runtime/base/error.h"

namespace trireme::backends {
namespace {

using Names = std::vector<std::string>;
using Shares = std::vector<HostShare>;

std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.message();
  }
  return "nothing was thrown";
}

std::string hostfile(const std::string& text) {
  const auto path = std::filesystem::temp_directory_path() / "trireme_hostfile_test";
  std::ofstream(path) << text;
  return path;
}

HostChoice choose(const Shares& hosts, const HostRequest& request) {
  return choose_hosts(hosts, request, [](const HostShare&) { return 8; });
}

TEST(HostList, ReadsHostsWithAndWithoutRanks) {
  EXPECT_EQ(read_hosts("a:4,b.example.org,10.0.0.3:2"),
            (Shares{{"a", 4}, {"b.example.org", 0}, {"10.0.0.3", 2}}));
}

TEST(HostList, RefusesWhatIsNoHost) {
  EXPECT_NE(message_of([] { read_hosts("a,,b"); }).find("without a name"), std::string::npos);
  EXPECT_NE(message_of([] { read_hosts("a:0"); }).find("at least 1"), std::string::npos);
  EXPECT_NE(message_of([] { read_hosts("a:many"); }).find("'many'"), std::string::npos);
  EXPECT_NE(message_of([] { read_hosts("a:2,b,a:2"); }).find("names a twice"), std::string::npos);
}

TEST(HostList, ReadsHostfilesOfOpenMpiAndDeepSpeed) {
  const auto path = hostfile("# the rack\nn1 slots=4 max_slots=8\n\nn2 slots=2  # old\nn3:1\nn4\n");
  EXPECT_EQ(read_hostfile(path), (Shares{{"n1", 4}, {"n2", 2}, {"n3", 1}, {"n4", 0}}));
}

TEST(HostList, NamesTheLineOfAHostfileThatIsWrong) {
  EXPECT_NE(
      message_of([] { read_hostfile(hostfile("n1 slots=4\nn2 slot=4\n")); }).find(":2: what is 'slot=4'"),
      std::string::npos);
  EXPECT_NE(message_of([] { read_hostfile(hostfile("# nobody\n")); }).find("names no host"),
            std::string::npos);
}

TEST(HostList, ExpandsSlurmsLists) {
  EXPECT_EQ(expand_node_list("n[0-2,5],login,gpu-a[08-10]"),
            (Names{"n0", "n1", "n2", "n5", "login", "gpu-a08", "gpu-a09", "gpu-a10"}));
  EXPECT_EQ(expand_node_list("r[1-2]n[1-2]x"), (Names{"r1n1x", "r1n2x", "r2n1x", "r2n2x"}));
  EXPECT_NE(message_of([] { expand_node_list("n[2-1]"); }).find("'2-1'"), std::string::npos);
  EXPECT_NE(message_of([] { expand_node_list("n[1"); }).find("bracket"), std::string::npos);
}

TEST(HostList, TakesSlurmsTasksWhereTheyWereAskedFor) {
  std::map<std::string, std::string> set{
      {"SLURM_JOB_NODELIST", "n[1-4]"}, {"SLURM_TASKS_PER_NODE", "2(x3),1"}, {"SLURM_NTASKS", "7"}};
  const auto variable = [&](const std::string& name) {
    return set.contains(name) ? std::optional(set[name]) : std::nullopt;
  };
  EXPECT_EQ(slurm_hosts(variable), (Shares{{"n1", 2}, {"n2", 2}, {"n3", 2}, {"n4", 1}}));
  set.erase("SLURM_NTASKS");
  EXPECT_EQ(slurm_hosts(variable), (Shares{{"n1", 0}, {"n2", 0}, {"n3", 0}, {"n4", 0}}));
}

TEST(HostChoice, FillsHostsInTheirOrder) {
  const auto choice = choose({{"a", 4}, {"b", 4}, {"c", 4}}, {.num_ranks = 6});
  EXPECT_EQ(choice.used, (Shares{{"a", 4}, {"b", 2}}));
  EXPECT_EQ(choice.spare, (Names{"c"}));
}

TEST(HostChoice, KeepsHostsBeyondNnodesAsSpare) {
  const auto choice = choose({{"a", 0}, {"b", 0}, {"c", 0}}, {.num_hosts = 2, .ranks_per_host = 4});
  EXPECT_EQ(choice.used, (Shares{{"a", 4}, {"b", 4}}));
  EXPECT_EQ(choice.spare, (Names{"c"}));
}

TEST(HostChoice, SpreadsRanksWhereNothingElseIsSaid) {
  EXPECT_EQ(choose({{"a", 0}, {"b", 0}}, {.num_ranks = 6}).used, (Shares{{"a", 3}, {"b", 3}}));
  const auto few = choose({{"a", 0}, {"b", 0}, {"c", 0}}, {.num_ranks = 2});
  EXPECT_EQ(few.used, (Shares{{"a", 1}, {"b", 1}}));
  EXPECT_EQ(few.spare, (Names{"c"}));
  EXPECT_NE(message_of([] {
              choose({{"a", 0}, {"b", 0}}, {.num_ranks = 3});
            }).find("evenly"),
            std::string::npos);
}

TEST(HostChoice, AsksTheMachineWhereNobodySays) {
  EXPECT_EQ(choose({{"a", 0}, {"b", 2}}, {}).used, (Shares{{"a", 8}, {"b", 2}}));
}

TEST(HostChoice, RefusesWhatDoesNotFit) {
  EXPECT_NE(message_of([] {
              choose({{"a", 2}, {"b", 2}}, {.num_ranks = 5});
            }).find("places for 4"),
            std::string::npos);
  EXPECT_NE(message_of([] {
              choose({{"a", 2}}, {.num_hosts = 2});
            }).find("only 1 host is named"),
            std::string::npos);
  EXPECT_NE(message_of([] {
              choose({{"a", 0}, {"b", 0}}, {.num_ranks = 5, .num_hosts = 2, .ranks_per_host = 2});
            }).find("-n 5"),
            std::string::npos);
}

}  // namespace
}  // namespace trireme::backends
