// What the doctor says of recorded machines: nothing of the sound ones.
#include <gtest/gtest.h>

#include <filesystem>

#include "launcher/doctor/checks.h"
#include "runtime/base/files.h"
#include "tests/launcher/topology/fake_machine.h"

namespace trireme::doctor {
namespace {

using topology::FakeRoot;

std::string table(const std::string& name) {
  const char* source = std::getenv("TRIREME_SOURCE_DIR");
  const auto text =
      files::read(std::string(source ? source : ".") + "/tests/launcher/topology/machines/" + name + ".txt");
  return text.substr(0, text.find("\nplan\n") + 1);
}

// As `trireme doctor --sysfs-root` does.
Patients record(const FakeRoot& root) {
  topology::SysFiles files(root.path());
  read_for_checks(files);
  Patients patients;
  patients.push_back(Patient::from("m", topology::SysFiles::from_record(files.record(), "m")));
  return patients;
}

std::vector<Finding> findings_of(const Patients& patients) {
  std::vector<Finding> all;
  for (const auto& found :
       {check_ports(patients), check_pcie(patients), check_gpus(patients), check_limits(patients)})
    all.insert(all.end(), found.begin(), found.end());
  return sorted(all);
}

TEST(RecordedMachines, SoundOnesHaveNoFindings) {
  for (const char* name : {"azure_nd_a100_v4", "azure_nd_h100_v5", "dgx_a100_40gb", "dgx_h100_10_hcas",
                           "dgx_h100_12_hcas", "gpu4_hca1", "gpu8_hca4", "h20_roce_bonds", "mi300x", "no_hca",
                           "numa_minus_one", "only_a_bond", "rtx3090_x4", "virtual_functions"}) {
    const FakeRoot root(table(name));
    EXPECT_EQ(to_text(findings_of(record(root))), "") << name;
  }
}

TEST(RecordedMachines, MissesOnePortOfMany) {
  auto text = table("dgx_a100_40gb");  // two HCAs on each switch: the GPUs beside it still have another one
  const auto rate = text.find(" rate=200");
  ASSERT_NE(rate, std::string::npos);
  text.insert(rate, " state=DOWN");
  const FakeRoot root(text);
  const auto findings = findings_of(record(root));
  ASSERT_GE(findings.size(), 1U);
  EXPECT_NE(findings[0].what.find(" port 1 is down (state DOWN, link Polling)"), std::string::npos);
}

TEST(RecordedMachines, NamesPortsThatAreDownAndWhy) {
  const FakeRoot root(table("ports_down"));
  const auto findings = findings_of(record(root));
  ASSERT_EQ(findings.size(), 2U) << to_text(findings);
  EXPECT_EQ(findings[0].what, "mlx5_1 port 1 is down (state INIT, link LinkUp)");
  EXPECT_NE(findings[0].to_do.find("subnet manager"), std::string::npos);
  EXPECT_EQ(findings[1].what, "mlx5_2 port 1 is down (state DOWN, link Polling)");
  EXPECT_NE(findings[1].to_do.find("cable"), std::string::npos);
  EXPECT_EQ(findings[0].severity, Severity::error);
}

void write(const FakeRoot& root, const std::string& path, const std::string& text) {
  const auto file = std::filesystem::path(root.path()) / path;
  std::filesystem::create_directories(file.parent_path());
  std::filesystem::remove(file);
  files::write_atomically(file, text);
}

TEST(RecordedMachines, ReadsCountersLanesLimitsAndGpusErrors) {
  const FakeRoot root(table("mi300x"));
  const auto sound = record(root);
  ASSERT_FALSE(sound[0].machine.hcas.empty());
  const auto hca = sound[0].machine.hcas[0].name, gpu = sound[0].machine.gpus[2].bus_id;
  const auto port = "sys/class/infiniband/" + hca + "/ports/1/";
  write(root, port + "counters/symbol_error", "65535\n");
  write(root, port + "counters/link_downed", "3\n");  // three restarts of a switch are nothing
  write(root, port + "hw_counters/packet_seq_err", "123456\n");
  write(root, "sys/bus/pci/devices/" + gpu + "/current_link_width", "8\n");
  write(root, "sys/bus/pci/devices/" + gpu + "/max_link_width", "16\n");
  write(root, "sys/bus/pci/devices/" + gpu + "/ras/umc_err_count", "ue: 2\nce: 7\n");
  write(root, "proc/self/limits",
        "Limit  Soft Limit  Hard Limit  Units\nMax locked memory  8388608  8388608  bytes\n");
  const auto findings = findings_of(record(root));
  ASSERT_EQ(findings.size(), 5U) << to_text(findings);
  EXPECT_EQ(findings[0].what, "GPU " + gpu + " has seen errors of memory that ECC could not correct");
  EXPECT_EQ(findings[1].what, "a process may lock 8 MiB of memory");
  EXPECT_EQ(findings[2].what,
            hca + " port 1 counts 65535 bits that the line got wrong (counters/symbol_error)");
  EXPECT_EQ(findings[3].what,
            hca + " port 1 counts 123456 packets that were lost and sent again (hw_counters/packet_seq_err)");
  EXPECT_EQ(findings[4].what, "GPU " + gpu + " uses 8 of its 16 PCIe lanes");
}

TEST(RecordedMachines, ComparesHosts) {
  const FakeRoot one(table("dgx_h100_10_hcas")), other(table("ports_down"));
  Patients patients = record(one);
  patients.push_back(std::move(record(other)[0]));
  patients[1].host = "n";
  std::string text = to_text(check_ports(patients)) + to_text(check_gpus(patients));
  EXPECT_NE(text.find("4 GPUs, "), std::string::npos) << text;
  EXPECT_NE(text.find("NCCL pairs the ports of hosts"), std::string::npos) << text;
}

}  // namespace
}  // namespace trireme::doctor
