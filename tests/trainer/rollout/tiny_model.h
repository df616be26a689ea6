// A tiny random decoder, its tokens by recomputing every history, and random requests to it.
#pragma once

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <set>
#include <vector>

#include "trainer/models/decoder.h"
#include "trainer/rollout/philox.h"
#include "trainer/rollout/request.h"

namespace trireme::rollout {

inline models::DecoderShape tiny_shape(int64_t vocab_size) {
  models::DecoderShape shape;
  shape.vocab_size = vocab_size;
  shape.hidden_size = 32;
  shape.intermediate_size = 64;
  shape.num_hidden_layers = 2;
  shape.num_attention_heads = 4;
  shape.num_key_value_heads = 2;
  shape.head_dim = 8;
  shape.max_position_embeddings = 1024;
  shape.initializer_range = 0.4;  // wide enough that the next token depends on the history
  return shape;
}

class TinyModel {
 public:
  explicit TinyModel(int64_t vocab_size = 97, at::ScalarType dtype = at::kFloat)
      : shape_(tiny_shape(vocab_size)),
        parameters_(models::parameter_specs(shape_), at::Device(at::kCPU)),
        decoder_(shape_, parameters_, dtype) {
    parameters_.initialize(3, shape_);
    decoder_.refresh();
  }
  const models::Decoder& decoder() const { return decoder_; }
  models::ParameterSet& parameters() { return parameters_; }

  models::ForwardBatch history(const std::vector<int32_t>& tokens) const {
    models::ForwardBatch batch;
    const auto length = static_cast<int32_t>(tokens.size());
    batch.tokens = tokens;
    batch.positions.resize(length);
    std::iota(batch.positions.begin(), batch.positions.end(), 0);
    batch.slots = batch.positions;
    batch.segments.push_back({0, length, 0, {{0, length}}});
    return batch;
  }

  /// One response, token by token, in fp64 from the logits of the packed forward.
  std::vector<int32_t> expected_tokens(const Request& request, int64_t sample,
                                       const std::set<int32_t>& stop) const {
    std::vector<int32_t> tokens = request.prompt, response;
    while (static_cast<int64_t>(response.size()) < request.max_new_tokens) {
      const models::ForwardBatch batch = history(tokens);
      const std::vector<int32_t> last = {static_cast<int32_t>(tokens.size()) - 1};
      const at::Tensor logits = decoder_.logits(decoder_.forward_packed(batch), last).contiguous();
      const float* x = logits.const_data_ptr<float>();
      const double u = sampling_uniform(sampling_key(request.seed, request.step), request.id, sample,
                                        static_cast<int64_t>(response.size()));
      response.push_back(request.greedy ? argmax(x) : draw(x, request.sampling.temperature, u));
      if (stop.count(response.back())) break;
      tokens.push_back(response.back());
    }
    return response;
  }

 private:
  int32_t argmax(const float* x) const {
    return static_cast<int32_t>(std::max_element(x, x + shape_.vocab_size) - x);
  }
  int32_t draw(const float* x, double temperature, double uniform) const {
    const double most = x[argmax(x)];
    double total = 0;
    for (int64_t i = 0; i < shape_.vocab_size; ++i) total += std::exp((x[i] - most) / temperature);
    double left = uniform * total;
    for (int32_t i = 0; i < shape_.vocab_size; ++i) {
      left -= std::exp((x[i] - most) / temperature);
      if (left < 0) return i;
    }
    return static_cast<int32_t>(shape_.vocab_size) - 1;
  }

  models::DecoderShape shape_;
  models::ParameterSet parameters_;
  models::Decoder decoder_;
};

inline std::vector<Request> random_requests(uint32_t seed, int count, int64_t vocab_size = 97) {
  std::mt19937 random(seed);
  std::vector<Request> requests(count);
  for (int r = 0; r < count; ++r) {
    requests[r].id = 1000 + r;
    requests[r].seed = seed;
    requests[r].step = 4;
    requests[r].n = 1 + random() % 4;
    requests[r].greedy = random() % 4 == 0;
    requests[r].sampling.temperature = random() % 2 ? 1.0 : 0.7;
    requests[r].max_new_tokens = 1 + random() % 14;
    requests[r].prompt.resize(1 + random() % 30);
    for (int32_t& token : requests[r].prompt) token = static_cast<int32_t>(random() % vocab_size);
    if (r > 0 && random() % 2) {  // begins as another one does
      const auto& other = requests[random() % r].prompt;
      auto& prompt = requests[r].prompt;
      std::copy_n(other.begin(), random() % (std::min(other.size(), prompt.size()) + 1), prompt.begin());
    }
  }
  return requests;
}

}  // namespace trireme::rollout
