// What takes a compiler longest: parsed once for all that use tensors (cmake/TriremeTargets.cmake). Sources
// include what they use none the less: -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON builds without this.
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>
