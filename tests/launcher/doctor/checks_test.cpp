// The checks that need a program on the host, with what such a program would have said.
#include "launcher/doctor/checks.h"
#include "launcher/doctor/collective.h"

#include <gtest/gtest.h>

#include "runtime/base/error.h"

namespace trireme::doctor {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

Probe sound() {
  Probe probe;
  probe.versions = {{"torch", "2.11.0"}, {"MPI", "Open MPI v4.1.4"}};
  probe.folder = {.error = "", .sees_token = true, .free_bytes = int64_t{1} << 40, .write_seconds = 0.1};
  probe.shared_memory_bytes = probe.shared_memory_free = int64_t{8} << 30;
  return probe;
}

Patients sound_hosts(int count) {
  Patients patients;
  for (int i = 0; i < count; ++i) {
    patients.push_back(
        Patient::from(fmt::format("n{}", i), topology::SysFiles::from_record("# trireme machine 1\n", "n")));
    patients.back().probe = sound();
  }
  return patients;
}

std::vector<Link> links(int hosts, const std::function<Link(int, int)>& make) {
  std::vector<Link> all;
  for (int a = 0; a < hosts; ++a)
    for (int b = a + 1; b < hosts; ++b) {
      all.push_back(make(a, b));
      all.back().from = a;
      all.back().to = b;
    }
  return all;
}

Link good() {
  return {.error = "", .there = 1e9, .back = 1.2e9, .round_trip = 1e-4};
}

std::vector<std::string> names(int count) {
  std::vector<std::string> list;
  for (int i = 0; i < count; ++i) list.push_back(fmt::format("n{}", i));
  return list;
}

TEST(Checks, SayNothingOfSoundHosts) {
  const auto hosts = sound_hosts(4);
  for (const auto& findings :
       {check_versions(hosts), check_devices(hosts), check_shared_memory(hosts), check_files(hosts),
        check_folder(hosts, "/out", 1 << 30, 64 << 20), check_clocks(hosts, {0, kSecond, -kSecond, 5}),
        check_kernel_logs(hosts), check_settings(hosts), check_gpus(hosts), check_limits(hosts),
        check_links(names(4), links(4, [](int, int) { return good(); }))})
    EXPECT_EQ(to_text(findings), "");
}

TEST(Checks, NameTheHostWhoseVersionsDiffer) {
  auto hosts = sound_hosts(4);
  hosts[2].probe->versions["torch"] = "2.10.0";
  hosts[3].probe->versions.erase("MPI");
  const auto findings = check_versions(hosts);
  ASSERT_EQ(findings.size(), 2U);
  EXPECT_EQ(findings[0].hosts, (std::vector<std::string>{"n3"}));
  EXPECT_EQ(findings[0].what, "MPI is not the same everywhere: nothing on n3; Open MPI v4.1.4 on n0, n1, n2");
  EXPECT_EQ(findings[1].what, "torch is not the same everywhere: 2.10.0 on n2; 2.11.0 on n0, n1, n3");
}

TEST(Checks, TellAHostsOwnLinkFromThatOfAPair) {
  const auto slow_host = links(4, [](int a, int b) {
    auto link = good();
    if (a == 2 || b == 2) link.back = 1e7;
    return link;
  });
  auto findings = check_links(names(4), slow_host);
  ASSERT_EQ(findings.size(), 1U) << to_text(findings);
  EXPECT_EQ(findings[0].hosts, (std::vector<std::string>{"n2"}));
  EXPECT_EQ(findings[0].severity, Severity::warning);
  EXPECT_NE(findings[0].what.find("n0 and n2 move 1.00 GB/s to and 10.0 MB/s back"), std::string::npos)
      << findings[0].what;

  const auto cut_pair = links(4, [](int a, int b) {
    auto link = good();
    if (a == 1 && b == 3) link = {.error = "No route to host"};
    return link;
  });
  findings = check_links(names(4), cut_pair);
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].severity, Severity::error);
  EXPECT_EQ(findings[0].what, "n1 and n3 do not reach each other: No route to host");
}

TEST(Checks, JudgeACollective) {
  const std::string report =
      R"({"ranks":2,"device":"CPU","results":[{"busbw":0.001,"wrong":0},{"busbw":6.5,"wrong":0}]})";
  const auto good = collective_from("a warning\n" + report + "\n", 0, false);
  EXPECT_EQ(good.bytes_a_second, 6.5e9);
  EXPECT_TRUE(check_collective(names(2), good).empty());
  EXPECT_TRUE(check_collective(names(2), {}).empty()) << "nothing was tried";
  const auto failed = collective_from("[h1] unreachable\n-----\n", 1, false);
  EXPECT_EQ(check_collective(names(2), failed)[0].what,
            "an all-reduce between all hosts fails (status 1)\n  | [h1] unreachable");
  EXPECT_EQ(check_collective(names(2), collective_from("", 143, true))[0].what,
            "an all-reduce between all hosts does not end");
  auto wrong = good;
  wrong.wrong = 3;
  EXPECT_EQ(check_collective(names(2), wrong)[0].what,
            "an all-reduce between all hosts has 3 wrong elements");
}

TEST(Checks, NamePairsWhereNoHostIsToBlameAlone) {
  // Of two hosts nobody can say which; where all are cut off from all, neither.
  const auto cut = [](int, int) { return Link{.error = "refused"}; };
  EXPECT_EQ(check_links(names(2), links(2, cut)).size(), 1U);
  EXPECT_EQ(check_links(names(3), links(3, cut)).size(), 3U);
}

TEST(Checks, JudgeTheFolderOfCheckpoints) {
  auto hosts = sound_hosts(3);
  hosts[0].probe->folder.error = "Read-only file system";
  hosts[1].probe->folder.free_bytes = 1 << 20;
  hosts[2].probe->folder.sees_token = false;
  const auto findings = check_folder(hosts, "/out", int64_t{100} << 30, 64 << 20);
  ASSERT_EQ(findings.size(), 3U);
  EXPECT_EQ(findings[0].what, "nothing can be written into /out: Read-only file system");
  EXPECT_EQ(findings[1].what, "/out has 0.0 GB left; a checkpoint takes about 107.4 GB");
  EXPECT_EQ(findings[2].what, "/out is not the same folder here as on n0");
  hosts = sound_hosts(1);
  hosts[0].probe->folder.write_seconds = 6.4;  // 10 MB/s
  const auto slow = check_folder(hosts, "/out", int64_t{100} << 30, 64'000'000);
  ASSERT_EQ(slow.size(), 1U);
  EXPECT_EQ(slow[0].what, "/out takes 10 MB/s: a checkpoint of 107.4 GB takes about 179 minutes");
  EXPECT_TRUE(check_folder(hosts, "/out", 1 << 30, 64'000'000).empty()) << "a small one takes two minutes";
}

TEST(Checks, CompareClocksWithMostHosts) {
  const auto hosts = sound_hosts(3);
  const auto findings = check_clocks(hosts, {-600 * kSecond, -600 * kSecond, 0});
  ASSERT_EQ(findings.size(), 1U) << "it is not the doctor's clock that counts";
  EXPECT_EQ(findings[0].hosts, (std::vector<std::string>{"n2"}));
  EXPECT_EQ(findings[0].what, "its clock is 600.0 s ahead");
  EXPECT_EQ(findings[0].severity, Severity::error);
  EXPECT_EQ(check_clocks(hosts, {0, 0, -3 * kSecond})[0].severity, Severity::warning);
}

TEST(Checks, NameDevicesFilesAndSharedMemory) {
  auto hosts = sound_hosts(2);
  for (auto& host : hosts) host.probe->unreadable = {{"/models/q", "Permission denied"}};
  hosts[1].probe->closed = {{"/dev/nvidia3", "Operation not permitted"}};
  hosts[1].probe->shared_memory_bytes = 64 << 20;
  hosts[0].probe->shared_memory_free = 1 << 20;
  hosts[0].probe->kernel = {"NVRM: Xid (PCI:0000:3b:00): 63, a", "NVRM: Xid (PCI:0000:3b:00): 63, b"};
  const auto files = sorted(check_files(hosts));
  ASSERT_EQ(files.size(), 1U) << "the same on two hosts is one finding";
  EXPECT_EQ(files[0].hosts, names(2));
  EXPECT_EQ(check_devices(hosts)[0].what, "/dev/nvidia3 cannot be opened: Operation not permitted");
  const auto memory = check_shared_memory(hosts);
  ASSERT_EQ(memory.size(), 2U);
  EXPECT_EQ(memory[0].what, "/dev/shm has 1 MiB left of 8192 MiB");
  EXPECT_EQ(memory[1].what, "/dev/shm has 64 MiB");
  EXPECT_EQ(check_kernel_logs(hosts)[0].what,
            "the kernel complains: NVRM: Xid (PCI:0000:3b:00): 63, b (2 such lines)");
}

TEST(Checks, AreSortedAndWrittenForPeopleAndPrograms) {
  const auto findings = sorted(
      {{.severity = Severity::warning, .check = "w", .hosts = {"a"}, .what = "x", .why = "y", .to_do = "z"},
       {.severity = Severity::error, .check = "e", .hosts = {"b"}, .what = "1", .why = "2", .to_do = "3"}});
  EXPECT_EQ(to_text(findings),
            "error: b: 1\n  why it matters: 2\n  what to do: 3\n\nwarning: a: x\n  why it matters: y\n  what "
            "to do: "
            "z\n");
  EXPECT_NE(to_json(findings, {"a", "b"}).find("\"severity\": \"error\""), std::string::npos);
}

TEST(Checks, TravelAsJson) {
  auto probe = sound();
  probe.kernel = {"a \"quoted\" line\n"};
  probe.unreadable = {{"/x", "why"}};
  probe.clock_ns = 42;
  const auto after = probe_from(to_json(probe));
  EXPECT_EQ(after.kernel, probe.kernel);
  EXPECT_EQ(after.versions, probe.versions);
  EXPECT_EQ(after.unreadable, probe.unreadable);
  EXPECT_EQ(after.clock_ns, 42);
  EXPECT_EQ(after.folder.free_bytes, probe.folder.free_bytes);
  EXPECT_EQ(probe_request_from(to_json(ProbeRequest{.read = {"a", "b"}})).read,
            (std::vector<std::string>{"a", "b"}));
  EXPECT_THROW(probe_from("{}"), Error);
  EXPECT_THROW(probe_request_from("nonsense"), Error);
}

}  // namespace
}  // namespace trireme::doctor
