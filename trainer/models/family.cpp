#include "trainer/models/family.h"

namespace trireme::models {

extern const Family kLlama, kQwen2, kQwen3;

std::span<const Family* const> families() {
  static constexpr const Family* kFamilies[] = {&kQwen2, &kQwen3, &kLlama};
  return kFamilies;
}

const Family* find_family(const std::string& model_type) {
  for (const Family* family : families())
    if (family->model_type == model_type) return family;
  return nullptr;
}

}  // namespace trireme::models
