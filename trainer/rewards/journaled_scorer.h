// A scorer whose judgements are kept, and heard again by a step that is done again.
#pragma once

#include <memory>
#include <string>

#include "trainer/rewards/scorer.h"

namespace trireme::rewards {

/// What `judge` says goes to `folder` under the name `writer`; what `source` (a folder of the kind) knows of the
/// very same response is not asked again.
std::unique_ptr<Scorer> journaled_scorer(std::unique_ptr<Scorer> judge, std::string folder, std::string source,
                                         std::string writer);

}  // namespace trireme::rewards
