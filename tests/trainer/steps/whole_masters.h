// A model that ranks share, put together for a test.
#pragma once

#include <gtest/gtest.h>

#include <cmath>

#include <ATen/TensorOperators.h>
#include <ATen/ops/zeros.h>

#include "runtime/comm/communicator.h"
#include "trainer/models/tensor_view.h"
#include "trainer/sharding/trained_parameters.h"

namespace trireme::steps {

/// The whole model's masters, on every rank; `mine` is null on ranks that hold none of it. Collective over:
/// `world`.
inline at::Tensor whole_masters(const sharding::TrainedParameters* mine, const models::DecoderShape& shape,
                                comm::Communicator& world) {
  const models::ParameterSet whole(models::parameter_specs(shape), at::kCPU);
  const at::Tensor values = at::zeros({whole.num_parameters()}, at::kFloat),
                   count = at::zeros({whole.num_parameters()}, at::kFloat);
  if (mine)
    for (const sharding::Stretch& stretch : mine->stretches())
      models::for_each_stretch(
          mine->weights().spec(stretch.parameter), stretch.begin, stretch.end,
          [&](int64_t in_whole, int64_t in_slice, int64_t length) {
            const int64_t to =
                whole.offset(static_cast<size_t>(mine->weights().spec(stretch.parameter).index)) + in_whole;
            values.narrow(0, to, length)
                .copy_(mine->masters().narrow(0, stretch.at + in_slice - stretch.begin, length));
            count.narrow(0, to, length).fill_(1);
          });
  // All holders have the same bits: the largest is the value, once nobody's zeros count.
  const at::Tensor largest = values.masked_fill(count.eq(0), -INFINITY),
                   least = values.masked_fill(count.eq(0), INFINITY);
  world.all_reduce(models::view_of(largest), comm::ReduceOp::max);
  world.all_reduce(models::view_of(least), comm::ReduceOp::min);
  EXPECT_TRUE(largest.equal(least)) << "replicas differ";
  return largest;
}

}  // namespace trireme::steps
