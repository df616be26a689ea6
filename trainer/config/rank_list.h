// A role's ranks as they are written: "0-3,6".
#pragma once

#include <string>
#include <vector>

namespace trireme::config {

struct RankList {
  std::vector<int> ranks;  // as written; empty means all
  std::string wrong;       // what is wrong with the text; empty if nothing is
};

RankList read_ranks(const std::string& text);

}  // namespace trireme::config
