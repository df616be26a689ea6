// Lists of CPUs as the kernel writes them: "0-3,8".
#pragma once

#include <string>
#include <vector>

namespace trireme::topology {

/// "0-3,8\n" -> {0,1,2,3,8}; "" -> {}. Throws corrupt_data.
std::vector<int> parse_cpu_list(const std::string& text);
/// {0,1,2,3,8} -> "0-3,8"; expects ascending numbers.
std::string format_cpu_list(const std::vector<int>& cpus);

}  // namespace trireme::topology
