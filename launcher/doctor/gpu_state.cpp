#include "launcher/doctor/gpu_state.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <sstream>

namespace trireme::doctor {
namespace {

constexpr size_t kFields = 12;

std::string trimmed(const std::string& text) {
  const auto begin = text.find_first_not_of(" \t\r"), end = text.find_last_not_of(" \t\r");
  return begin == std::string::npos ? "" : text.substr(begin, end - begin + 1);
}

// nvidia-smi writes "00000000:3B:00.0".
std::string bus_id_of(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text.size() > 12 ? text.substr(text.size() - 12) : text;
}

bool yes(const std::string& text) {
  return text == "Yes" || text == "Active" || text == "Enabled" || (std::atoi(text.c_str()) > 0);
}

}  // namespace

std::string nvidia_smi_command() {
  return "nvidia-smi --format=csv,noheader,nounits --query-gpu=pci.bus_id,name,memory.used,memory.total,"
         "ecc.errors.uncorrected.volatile.total,remapped_rows.pending,remapped_rows.failure,"
         "clocks_throttle_reasons.hw_slowdown,clocks_throttle_reasons.hw_thermal_slowdown,"
         "pcie.link.width.current,pcie.link.width.max,mig.mode.current";
}

std::vector<GpuState> gpu_states(const std::string& said) {
  std::vector<GpuState> states;
  std::istringstream lines(said);
  for (std::string line; std::getline(lines, line);) {
    std::vector<std::string> fields;
    std::istringstream in(line);
    for (std::string field; std::getline(in, field, ',');) fields.push_back(trimmed(field));
    if (fields.size() != kFields) continue;
    const auto number = [&](size_t i) { return std::strtod(fields[i].c_str(), nullptr); };
    states.push_back({.bus_id = bus_id_of(fields[0]),
                      .name = fields[1],
                      .used_mib = number(2),
                      .total_mib = number(3),
                      .uncorrected_errors = number(4),
                      .remap_pending = yes(fields[5]),
                      .remap_failed = yes(fields[6]),
                      .slowed_by_hardware = yes(fields[7]),
                      .slowed_by_heat = yes(fields[8]),
                      .link_width = number(9),
                      .link_width_max = number(10),
                      .mig = yes(fields[11])});
  }
  return states;
}

}  // namespace trireme::doctor
