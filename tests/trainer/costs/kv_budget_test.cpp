#include "trainer/costs/kv_budget.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "runtime/base/error.h"
#include "trainer/costs/model_shape.h"
#include "trainer/models/decoder.h"

namespace trireme::costs {
namespace {

constexpr int64_t kGiB = int64_t{1} << 30;

rollout::RolloutConfig config_of(int64_t max_num_seqs) {
  rollout::RolloutConfig config;
  config.max_num_seqs = max_num_seqs;
  return config;
}

std::string refusal(const rollout::RolloutConfig& config, int64_t max_model_len, int64_t bytes,
                    DeviceMemory memory) {
  try {
    plan_kv_cache(config, max_model_len, bytes, memory);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_config);
    return error.message();
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

TEST(KvBudget, HasRoomForAllSequencesWhereMemorySuffices) {
  const KvBudget budget = plan_kv_cache(config_of(10), 100, 1024, {kGiB, 0});
  EXPECT_EQ(budget.pages, 10 * (7 + 1));
  EXPECT_EQ(budget.tokens(), 1280);
  EXPECT_EQ(budget.bytes, 1280 * 1024);
  EXPECT_EQ(budget.sequences, 11);
  EXPECT_FALSE(budget.limited_by_memory);
  EXPECT_EQ(budget.text(),
            "KV cache: 1280 tokens in 80 pages, 0.00 GiB, room for 11 sequences of 100 tokens");
}

TEST(KvBudget, TakesNoMoreThanItsShareOfTheMemoryLeaves) {
  rollout::RolloutConfig config = config_of(1 << 20);
  config.gpu_memory_utilization = 0.75;
  const KvBudget budget = plan_kv_cache(config, 2048, 4096, {8 * kGiB, 2 * kGiB});
  EXPECT_TRUE(budget.limited_by_memory);
  EXPECT_EQ(budget.bytes, 4 * kGiB);
  EXPECT_EQ(budget.sequences, 512);
}

TEST(KvBudget, TokensGoBeforeGibibytesAndThoseBeforeTheShare) {
  rollout::RolloutConfig config = config_of(4);
  config.kv_cache_memory_gb = 0.5;
  config.gpu_memory_utilization = 0.01;
  EXPECT_EQ(plan_kv_cache(config, 64, 1024, {kGiB, kGiB}).bytes, kGiB / 2);
  config.kv_cache_tokens = 100;
  EXPECT_EQ(plan_kv_cache(config, 64, 1024, {kGiB, kGiB}).tokens(), 112);
}

TEST(KvBudget, NamesWhatLeavesNoRoomForOneSequence) {
  rollout::RolloutConfig config = config_of(4);
  EXPECT_NE(
      refusal(config, 1000, 1 << 20, {kGiB, kGiB / 2 - 1000}).find("rollout.gpu_memory_utilization = 0.5"),
      std::string::npos);
  config.kv_cache_memory_gb = 0.1;
  const std::string message = refusal(config, 1000, 1 << 20, {});
  EXPECT_NE(message.find("one sequence may need 1000 (0.984 GiB)"), std::string::npos) << message;
  const size_t advice = message.find("raise it to at least ");
  ASSERT_NE(advice, std::string::npos) << message;
  config.kv_cache_memory_gb = std::stod(message.substr(advice + 21));
  EXPECT_EQ(plan_kv_cache(config, 1000, 1 << 20, {}).sequences, 1);  // the advice is good
  config.kv_cache_tokens = 999;
  config.page_size = 3;
  EXPECT_NE(
      refusal(config, 1000, 1 << 20, {}).find("rollout.kv_cache_tokens = 999: raise it to at least 1002"),
      std::string::npos);
}

TEST(KvBudget, NamesEverySettingOutOfRange) {
  const std::string message = refusal({.max_num_seqs = 0,
                                       .max_num_batched_tokens = -1,
                                       .page_size = 0,
                                       .kv_cache_tokens = -5,
                                       .kv_cache_memory_gb = -1,
                                       .gpu_memory_utilization = 1.5},
                                      0, 8, {});
  for (const char* key : {"max_num_seqs", "max_num_batched_tokens", "page_size", "kv_cache_tokens",
                          "max_model_len", "kv_cache_memory_gb", "gpu_memory_utilization"})
    EXPECT_NE(message.find(key), std::string::npos) << key;
  rollout::RolloutConfig config;
  config.kv_cache_memory_gb = 1 << 20;
  EXPECT_NE(refusal(config, 64, 8, {}).find("2^31"), std::string::npos);
}

TEST(KvBudget, PredictsWhatTheCacheTakes) {
  models::DecoderShape shape;
  shape.vocab_size = 259;
  shape.hidden_size = 64;
  shape.intermediate_size = 64;
  shape.num_hidden_layers = 5;
  shape.num_attention_heads = 4;
  shape.num_key_value_heads = 2;
  shape.head_dim = 32;
  shape.max_position_embeddings = 4096;
  models::ParameterSet parameters(models::parameter_specs(shape), at::Device(at::kCPU));
  models::ModelConfig model;
  model.init = {
      .hidden_size = 128, .num_hidden_layers = 5, .num_attention_heads = 4, .num_key_value_heads = 2};
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    const models::Decoder decoder(shape, parameters, dtype);
    model.dtype = dtype == at::kFloat ? "fp32" : "bf16";
    EXPECT_EQ(model_shape(model).kv_bytes_per_token(dtype == at::kFloat ? 4 : 2),
              decoder.kv_bytes_per_slot());
    rollout::RolloutConfig config;
    config.kv_cache_memory_gb = 0.25;
    const KvBudget budget = plan_kv_cache(config, 2048, decoder.kv_bytes_per_slot(), {});
    EXPECT_NEAR(static_cast<double>(budget.bytes), 0.25 * kGiB, 0.001 * kGiB);
    const int64_t before = resident_bytes();
    models::KvSlots slots = decoder.make_kv_slots(budget.tokens());
    for (models::LayerKv& layer : slots) {
      layer.keys.fill_(1);
      layer.values.fill_(1);
    }
    const auto grown = static_cast<double>(resident_bytes() - before);
    EXPECT_NEAR(grown, static_cast<double>(budget.bytes), 0.02 * static_cast<double>(budget.bytes));
  }
}

class FakeHost {
 public:
  FakeHost() : root_(testing::TempDir() + "fake_host_" + std::to_string(::getpid())) {
    write("proc/meminfo", "MemFree:  5 kB\nMemTotal:       16777216 kB\nMemAvailable: 7 kB\n");
    write("proc/self/statm", "1000 300 10 1 0 500 0\n");
  }
  ~FakeHost() { std::filesystem::remove_all(root_); }
  void write(const std::string& path, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(root_ + "/" + path).parent_path());
    std::ofstream(root_ + "/" + path) << text;
  }
  const std::string& root() const { return root_; }

 private:
  const std::string root_;
};

TEST(HostMemory, IsTheMachinesSharedEvenly) {
  const FakeHost host;
  EXPECT_EQ(host_memory(1, host.root()).total, 16 * kGiB);
  EXPECT_EQ(host_memory(4, host.root()).total, 4 * kGiB);
  EXPECT_EQ(host_memory(1, host.root()).used, 300 * ::getpagesize());
}

TEST(HostMemory, IsTheLeastLimitOfTheControlGroupsAround) {
  const FakeHost host;
  host.write("proc/self/cgroup", "0::/job/step/task\n");
  host.write("sys/fs/cgroup/job/step/task/memory.max", "max\n");
  host.write("sys/fs/cgroup/job/step/memory.max", std::to_string(6 * kGiB) + "\n");
  host.write("sys/fs/cgroup/job/memory.max", std::to_string(9 * kGiB) + "\n");
  EXPECT_EQ(host_memory(1, host.root()).total, 6 * kGiB);
  host.write("sys/fs/cgroup/memory.max", std::to_string(2 * kGiB) + "\n");  // as in a container
  EXPECT_EQ(host_memory(2, host.root()).total, kGiB);
}

TEST(HostMemory, ReadsControlGroupsOfVersionOne) {
  const FakeHost host;
  host.write("proc/self/cgroup", "7:cpu,cpuacct:/a\n5:memory:/slurm/job_7\n1:name=systemd:/b\n");
  host.write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  host.write("sys/fs/cgroup/memory/slurm/job_7/memory.limit_in_bytes", std::to_string(3 * kGiB) + "\n");
  EXPECT_EQ(host_memory(1, host.root()).total, 3 * kGiB);
}

TEST(HostMemory, SaysWhatCannotBeRead) {
  EXPECT_THROW(host_memory(1, "/nowhere"), Error);
  EXPECT_GT(host_memory(1).total, host_memory(1).used);
  EXPECT_GT(host_memory(1).used, 1 << 20);
}

}  // namespace
}  // namespace trireme::costs
