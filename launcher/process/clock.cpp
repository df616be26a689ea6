#include "launcher/process/clock.h"

#include <fstream>

namespace trireme::process {

std::string boot_id() {
  std::string id;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), id);
  return id;
}

}  // namespace trireme::process
