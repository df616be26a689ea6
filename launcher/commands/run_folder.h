// The folder of one run: runs/NAME-20261121-004500, or one that is given and continued.
#pragma once

#include <string>

#include "trainer/config/run_config.h"

namespace trireme::commands {

struct RunFolder {
  std::string path;     // absolute
  bool exists = false;  // a run lies there already: it is continued
  int attempt = 0;      // 0, or one more than that run's last
};

/// Where the run will lie; makes nothing. `asked` is --run-dir, or empty. Throws invalid_config if a
/// folder is asked for that holds something else.
RunFolder find_run_folder(const config::RunConfig& config, const std::string& config_path,
                          const std::string& asked);

/// Makes it, with its logs folder. Throws io.
void make_run_folder(const RunFolder& folder);

}  // namespace trireme::commands
