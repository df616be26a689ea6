// For one history a row's hidden state, logits and log-probability are the same bits in the training forward,
// alone, among any others, in any chunking of the prompt and in decode, for any number of threads. The
// tolerance is zero.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include "trainer/models/decoder.h"

namespace trireme::models {
namespace {

// Sums as long as those of Qwen2.5-0.5B's down projection.
DecoderShape wide_shape() {
  DecoderShape shape;
  shape.vocab_size = 301;
  shape.hidden_size = 64;
  shape.intermediate_size = 4864;
  shape.num_hidden_layers = 2;
  shape.num_attention_heads = 4;
  shape.num_key_value_heads = 2;
  shape.head_dim = 16;
  shape.max_position_embeddings = 256;
  shape.qkv_bias = true;
  shape.initializer_range = 0.2;
  return shape;
}

struct History {
  std::vector<int32_t> tokens;
  at::Tensor hidden;  // [length, D], by the packed forward of all histories at once
  at::Tensor logits;  // [length, V]
  int32_t done = 0;   // rows computed in the paged cache
};

class Exactness : public testing::TestWithParam<at::ScalarType> {
 protected:
  static constexpr int32_t kPage = 8, kPagesEach = 16;

  Exactness() : parameters_(parameter_specs(wide_shape()), at::kCPU) {
    parameters_.initialize(11, wide_shape());
    decoder_ = std::make_unique<Decoder>(wide_shape(), parameters_, GetParam());
    for (const int32_t length : {1, 5, 64, 65, 90, 128, 37, 100}) {
      History& history = histories_.emplace_back();
      for (int32_t i = 0; i < length; ++i) history.tokens.push_back(below(301));
    }
    const ForwardBatch batch = packed(histories_);
    const at::Tensor hidden = decoder_->forward_packed(batch);
    const at::Tensor logits = decoder_->logits(hidden, all_rows(hidden));
    int64_t row = 0;
    for (History& history : histories_) {
      const auto length = static_cast<int64_t>(history.tokens.size());
      history.hidden = hidden.narrow(0, row, length);
      history.logits = logits.narrow(0, row, length);
      row += length;
    }
  }
  ~Exactness() override { at::set_num_threads(1); }

  int32_t below(int32_t limit) { return static_cast<int32_t>(random_() % static_cast<uint32_t>(limit)); }

  static ForwardBatch packed(const std::vector<History>& histories) {
    ForwardBatch batch;
    for (const History& history : histories) {
      const auto row = static_cast<int32_t>(batch.tokens.size()),
                 length = static_cast<int32_t>(history.tokens.size());
      batch.segments.push_back({row, length, 0, {{row, length}}});
      for (int32_t i = 0; i < length; ++i) {
        batch.tokens.push_back(history.tokens[static_cast<size_t>(i)]);
        batch.positions.push_back(i);
        batch.slots.push_back(row + i);
      }
    }
    return batch;
  }

  static std::vector<int32_t> all_rows(const at::Tensor& hidden) {
    std::vector<int32_t> rows(static_cast<size_t>(hidden.size(0)));
    for (size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<int32_t>(i);
    return rows;
  }

  // Pages of one history lie backwards and among the others'.
  int32_t slot_of(size_t history, int32_t position) const {
    const auto number = static_cast<int32_t>(histories_.size());
    return ((kPagesEach - 1 - position / kPage) * number + static_cast<int32_t>(history)) * kPage +
           position % kPage;
  }

  // The next `lengths[h]` rows of each history (0: none), as one paged batch.
  ForwardBatch next(const std::vector<int32_t>& lengths) const {
    ForwardBatch batch;
    for (size_t h = 0; h < histories_.size(); ++h) {
      const int32_t done = histories_[h].done, length = lengths[h];
      if (length == 0) continue;
      Segment segment{static_cast<int32_t>(batch.tokens.size()), length, done, {}};
      for (int32_t first = 0; first < done + length; first += kPage)
        segment.spans.push_back({slot_of(h, first), std::min(kPage, done + length - first)});
      batch.segments.push_back(segment);
      for (int32_t i = done; i < done + length; ++i) {
        batch.tokens.push_back(histories_[h].tokens[static_cast<size_t>(i)]);
        batch.positions.push_back(i);
        batch.slots.push_back(slot_of(h, i));
      }
    }
    return batch;
  }

  static bool same_bits(const at::Tensor& a, const at::Tensor& b) {
    if (a.nbytes() == 0) return b.nbytes() == 0;
    return a.nbytes() == b.nbytes() &&
           std::memcmp(a.contiguous().const_data_ptr(), b.contiguous().const_data_ptr(), a.nbytes()) == 0;
  }

  const at::NoGradGuard no_gradients_;
  std::mt19937 random_{17};
  ParameterSet parameters_;
  std::unique_ptr<Decoder> decoder_;
  std::vector<History> histories_;
};

TEST_P(Exactness, AloneAsAmongOthers) {
  for (const History& history : histories_) {
    const ForwardBatch batch = packed({history});
    const at::Tensor hidden = decoder_->forward_packed(batch);
    EXPECT_TRUE(same_bits(hidden, history.hidden)) << history.tokens.size() << " tokens";
    EXPECT_TRUE(same_bits(decoder_->logits(hidden, all_rows(hidden)), history.logits));
  }
}

TEST_P(Exactness, InAnyScheduleOfChunksAndDecodingSteps) {
  for (int schedule = 0; schedule < 6; ++schedule) {
    at::set_num_threads(schedule == 5 ? 2 : 1);
    for (History& history : histories_) history.done = 0;
    KvSlots kv = decoder_->make_kv_slots(static_cast<int64_t>(histories_.size()) * kPagesEach * kPage);
    const int32_t largest = schedule == 0 ? 1 : 1 << schedule;  // decoding only, or chunks of up to this
    for (;;) {
      std::vector<int32_t> lengths;
      for (const History& history : histories_) {
        const int32_t left = static_cast<int32_t>(history.tokens.size()) - history.done;
        lengths.push_back(below(3) == 0 ? 0 : std::min(left, 1 + below(largest)));
      }
      const ForwardBatch batch = next(lengths);
      if (batch.tokens.empty()) {
        const bool finished = std::all_of(histories_.begin(), histories_.end(), [](const History& h) {
          return h.done == static_cast<int32_t>(h.tokens.size());
        });
        if (finished) break;
        continue;
      }
      const at::Tensor hidden = decoder_->forward_paged(batch, kv);
      const at::Tensor logits = decoder_->logits(hidden, all_rows(hidden));
      int64_t row = 0;
      for (size_t h = 0; h < histories_.size(); ++h) {
        History& history = histories_[h];
        ASSERT_TRUE(
            same_bits(hidden.narrow(0, row, lengths[h]), history.hidden.narrow(0, history.done, lengths[h])))
            << "schedule " << schedule << ", history " << h << " from " << history.done << ", "
            << batch.num_rows() << " rows";
        ASSERT_TRUE(
            same_bits(logits.narrow(0, row, lengths[h]), history.logits.narrow(0, history.done, lengths[h])));
        history.done += lengths[h];
        row += lengths[h];
      }
    }
  }
}

TEST_P(Exactness, LogProbsAreThoseOfTheSameLogits) {
  const ForwardBatch batch = packed(histories_);
  const at::Tensor hidden = decoder_->forward_packed(batch);
  std::vector<int32_t> rows = all_rows(hidden), tokens;
  for (size_t i = 0; i < rows.size(); ++i) tokens.push_back(below(301));
  const LogProbs all = decoder_->token_log_probs(hidden, rows, tokens, 0.7);
  for (const int32_t row : {0, 1, 70, 255, 400}) {
    const std::vector<int32_t> token{tokens[static_cast<size_t>(row)]};
    const LogProbs one = decoder_->token_log_probs(hidden, std::vector<int32_t>{row}, token, 0.7);
    EXPECT_TRUE(same_bits(one.log_probs_N, all.log_probs_N.narrow(0, row, 1)));
    EXPECT_TRUE(same_bits(one.entropy_N, all.entropy_N.narrow(0, row, 1)));
  }
}

INSTANTIATE_TEST_SUITE_P(, Exactness, testing::Values(at::kFloat, at::kBFloat16), [](const auto& info) {
  return info.param == at::kFloat ? std::string("fp32") : std::string("bf16");
});

}  // namespace
}  // namespace trireme::models
