#include "trainer/costs/kv_budget.h"

#include <algorithm>

#include "runtime/base/error.h"

namespace trireme::costs {
namespace {

constexpr double kGiB = 1024.0 * 1024 * 1024;

int64_t ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

void check(const rollout::RolloutConfig& config, int64_t max_model_len) {
  Mistakes mistakes;
  const auto at_least_one = [&](const char* key, int64_t value) {
    if (value < 1) mistakes.add(key, fmt::format("is {}, must be at least 1", value));
  };
  at_least_one("rollout.max_num_seqs", config.max_num_seqs);
  at_least_one("rollout.max_num_batched_tokens", config.max_num_batched_tokens);
  at_least_one("rollout.page_size", config.page_size);
  at_least_one("max_model_len", max_model_len);
  if (config.kv_cache_tokens < 0)
    mistakes.add("rollout.kv_cache_tokens",
                 fmt::format("is {}, must be 0 (as many as needed) or more", config.kv_cache_tokens));
  if (!(config.kv_cache_memory_gb >= 0))
    mistakes.add("rollout.kv_cache_memory_gb",
                 fmt::format("is {}, must be 0 (as much as needed) or more", config.kv_cache_memory_gb));
  if (!(config.gpu_memory_utilization > 0 && config.gpu_memory_utilization <= 1))
    mistakes.add("rollout.gpu_memory_utilization",
                 fmt::format("is {}, must be above 0 and at most 1", config.gpu_memory_utilization));
  mistakes.throw_if_any("the rollout engine cannot work with these settings");
}

}  // namespace

std::string KvBudget::text() const {
  return fmt::format("KV cache: {} tokens in {} pages, {:.2f} GiB, room for {} sequences of {} tokens",
                     tokens(), pages, static_cast<double>(bytes) / kGiB, sequences, max_model_len);
}

KvBudget plan_kv_cache(const rollout::RolloutConfig& config, int64_t max_model_len, int64_t bytes_per_token,
                       const DeviceMemory& memory) {
  check(config, max_model_len);
  const int64_t page_bytes = config.page_size * bytes_per_token;
  const int64_t pages_of_one = ceil_div(max_model_len, config.page_size);
  const auto pages_in = [&](double bytes) {
    return static_cast<int64_t>(std::clamp(bytes / static_cast<double>(page_bytes), 0.0, 1e15));
  };
  KvBudget budget;
  budget.page_size = config.page_size;
  budget.max_model_len = max_model_len;
  std::string short_of;  // what leaves too little room, and what to do
  if (config.kv_cache_tokens > 0) {
    budget.pages = ceil_div(config.kv_cache_tokens, config.page_size);
    short_of = fmt::format("rollout.kv_cache_tokens = {}: raise it to at least {}", config.kv_cache_tokens,
                           pages_of_one * config.page_size);
  } else if (config.kv_cache_memory_gb > 0) {
    budget.pages = pages_in(config.kv_cache_memory_gb * kGiB);
    short_of =
        fmt::format("rollout.kv_cache_memory_gb = {}: raise it to at least {:.3g}", config.kv_cache_memory_gb,
                    1.001 * static_cast<double>(pages_of_one * page_bytes) / kGiB + 0.0005);
  } else {
    const double share = config.gpu_memory_utilization * static_cast<double>(memory.total);
    const int64_t fitting = pages_in(share - static_cast<double>(memory.used));
    // Where samples share a partly filled page, each goes on on a page of its own: one more a sequence.
    const int64_t wanted = config.max_num_seqs * (pages_of_one + 1);
    budget.pages = std::min(wanted, fitting);
    budget.limited_by_memory = fitting < wanted;
    short_of = fmt::format(
        "rollout.gpu_memory_utilization = {} of this rank's {:.2f} GiB, where {:.2f} GiB are in use already: "
        "raise it, start fewer ranks on this host, or set rollout.kv_cache_memory_gb",
        config.gpu_memory_utilization, static_cast<double>(memory.total) / kGiB,
        static_cast<double>(memory.used) / kGiB);
  }
  if (budget.pages < pages_of_one)
    fail(ErrorCode::invalid_config,
         "the KV cache has room for {} tokens, and one sequence may need {} ({:.3f} GiB), by {}",
         budget.tokens(), max_model_len, static_cast<double>(pages_of_one * page_bytes) / kGiB, short_of);
  if (budget.pages > INT32_MAX / config.page_size)
    fail(ErrorCode::invalid_config,
         "the KV cache would hold {} pages of {} tokens, more than 2^31 tokens: lower rollout.max_num_seqs, "
         "rollout.kv_cache_tokens or rollout.kv_cache_memory_gb",
         budget.pages, config.page_size);
  budget.bytes = budget.pages * page_bytes;
  budget.sequences = budget.pages / pages_of_one;
  return budget;
}

}  // namespace trireme::costs
