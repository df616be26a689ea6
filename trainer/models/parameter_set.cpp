#include "trainer/models/parameter_set.h"

#include <xxhash.h>

#include <cmath>
#include <numbers>

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include "runtime/base/counter_random.h"
#include "runtime/base/error.h"

namespace trireme::models {
namespace {

double uniform(uint64_t key, uint64_t counter) {  // in (0, 1)
  return (static_cast<double>(mix_bits(key ^ mix_bits(counter)) >> 11) + 0.5) * 0x1.0p-53;
}

// Keyed by the parameter and the element: no state, so order and threads do not matter.
void fill_normal(const at::Tensor& view, uint64_t key, double std) {
  float* data = view.data_ptr<float>();
  const int64_t count = view.numel();
  for (int64_t i = 0; i < count; i += 2) {
    const double radius = std::sqrt(-2.0 * std::log(uniform(key, i)));
    const double angle = 2.0 * std::numbers::pi * uniform(key, i + 1);
    data[i] = static_cast<float>(std * radius * std::cos(angle));
    if (i + 1 < count) data[i + 1] = static_cast<float>(std * radius * std::sin(angle));
  }
}

}  // namespace

ParameterSet::ParameterSet(std::vector<ParameterSpec> specs, at::Device device, at::ScalarType dtype)
    : specs_(std::move(specs)) {
  TRIREME_CHECK(dtype == at::kFloat || dtype == at::kBFloat16, "parameters are fp32 or bf16, not {}",
                c10::toString(dtype));
  for (size_t i = 0; i < specs_.size(); ++i) {
    offsets_.push_back(num_parameters_);
    TRIREME_CHECK(index_.emplace(specs_[i].name, i).second, "two parameters are named {}", specs_[i].name);
    num_parameters_ += specs_[i].numel();
  }
  flat_ = at::empty({num_parameters_}, at::TensorOptions().dtype(dtype).device(device));
  for (size_t i = 0; i < specs_.size(); ++i)
    views_.push_back(flat_.narrow(0, offsets_[i], specs_[i].numel()).view(specs_[i].shape));
}

size_t ParameterSet::index_of(const std::string& name) const {
  const auto found = index_.find(name);
  TRIREME_CHECK(found != index_.end(), "no parameter is named {}", name);
  return found->second;
}

void ParameterSet::enable_gradients() {
  TRIREME_CHECK(dtype() == at::kFloat, "only fp32 parameters are trained, these are {}",
                c10::toString(dtype()));
  if (!gradient_.defined()) gradient_ = at::zeros({num_parameters_}, flat_.options());
}

void ParameterSet::zero_gradients() {
  TRIREME_CHECK(gradient_.defined(), "zero_gradients before enable_gradients");
  gradient_.zero_();
}

void ParameterSet::initialize(uint64_t seed, const DecoderShape& shape, double embedding_std) {
  const double std = shape.initializer_range;
  using Kind = ParameterSpec::Kind;
  // Drawn in fp32 on the host: bf16 sets and other devices get the same numbers, rounded.
  const bool in_place = flat_.is_cpu() && dtype() == at::kFloat;
  const at::Tensor host = in_place ? flat_ : at::empty({num_parameters_}, at::kFloat);
  for (size_t i = 0; i < specs_.size(); ++i) {
    const ParameterSpec& spec = specs_[i];
    const at::Tensor view = host.narrow(0, offsets_[i], spec.numel());
    const uint64_t key = mix_bits(mix_bits(seed) + i);
    switch (spec.kind) {
      case Kind::norm:
        view.fill_(1.0);
        break;
      case Kind::bias:
        view.zero_();
        break;
      case Kind::embedding:
        fill_normal(view, key, embedding_std > 0 ? embedding_std : (std > 0 ? std : 0.02));
        break;
      default: {
        const double matrix_std = std > 0 ? std : 1.0 / std::sqrt(static_cast<double>(spec.shape.back()));
        const bool residual = spec.kind == Kind::residual_output;
        fill_normal(view, key,
                    residual ? matrix_std / std::sqrt(2.0 * static_cast<double>(shape.num_hidden_layers))
                             : matrix_std);
      }
    }
  }
  if (!in_place) flat_.copy_(host);
}

uint64_t ParameterSet::checksum() const {
  const at::Tensor host = flat_.cpu();
  return XXH3_64bits(host.const_data_ptr(), host.nbytes());
}

}  // namespace trireme::models
