#include "trainer/losses/aggregation.h"

#include "runtime/base/error.h"

namespace trireme::losses {

double token_weight(const std::string& mode, int64_t length, const BatchTotals& totals) {
  const auto sequences = static_cast<double>(totals.sequences);
  if (mode == "token-mean") return 1.0 / static_cast<double>(totals.tokens);
  if (mode == "token-sum") return 1.0;
  if (mode == "seq-mean-token-sum") return 1.0 / sequences;
  if (mode == "seq-mean-token-mean") return 1.0 / (sequences * static_cast<double>(length));
  if (mode == "seq-mean-token-sum-norm") return 1.0 / (sequences * static_cast<double>(totals.scale));
  fail(ErrorCode::invalid_config, "actor.loss_agg_mode '{}' is unknown", mode);
}

}  // namespace trireme::losses
