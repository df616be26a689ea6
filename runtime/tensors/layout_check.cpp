// Which layouts are refused, and which would do instead.
#include <algorithm>
#include <functional>
#include <set>

#include "runtime/tensors/layout.h"

namespace trireme::tensors {
namespace {

int64_t units_of(const TensorSpec& tensor, const Split& split) {
  return (tensor.dims[split.dim] + split.unit - 1) / split.unit;
}

bool fits(const TensorSpec& tensor, const Split& split, int tp) {
  if (split.dim == Split::kWhole) return split.owner < tp;
  if (split.fit == Fit::uneven) return true;
  const int64_t units = units_of(tensor, split);
  if (split.fit == Fit::repeat && units < tp) return tp % units == 0;
  return units % tp == 0;
}

// The dim and unit of a split that means something for its tensor.
bool well_formed(const TensorSpec& tensor, const Split& split) {
  if (split.dim == Split::kWhole) return split.owner >= Split::kEverybody;
  if (split.owner != Split::kEverybody) return false;
  if (split.dim < 0 || split.dim >= static_cast<int>(tensor.dims.size()) || split.unit < 1) return false;
  return split.fit == Fit::uneven || tensor.dims[split.dim] % split.unit == 0;
}

std::string list(const std::vector<int>& numbers) {
  return numbers.empty() ? "none" : fmt::format("{}", fmt::join(numbers, ", "));
}

void check_tensors(const std::vector<TensorSpec>& tensors, Mistakes& mistakes) {
  std::set<std::string> names;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const TensorSpec& tensor = tensors[i];
    std::vector<std::string> own = tensor.tied_names;
    own.push_back(tensor.name);
    for (const std::string& name : own)
      if (!names.insert(name).second) mistakes.add(name, "two tensors have this name");
    if (tensor.dims.size() > kMaxDims)
      mistakes.add(tensor.name, fmt::format("has {} dims, {} are the most", tensor.dims.size(), kMaxDims));
    for (const int64_t size : tensor.dims)
      if (size < 1) mistakes.add(tensor.name, fmt::format("has a dim of {}; each must be at least 1", size));
    const int before = i == 0 ? -1 : tensors[i - 1].block;
    if (tensor.block != before && tensor.block != before + 1)
      mistakes.add(tensor.name,
                   fmt::format("is in block {} behind block {}; blocks are numbered 0, 1, ... along "
                               "the list",
                               tensor.block, before));
    if (tensor.joins_previous && (i == 0 || tensor.block != before))
      mistakes.add(tensor.name, "joins the tensor before it, which its block does not have");
  }
}

void check_mesh(const Layout& layout, int num_ranks, Mistakes& mistakes) {
  const Mesh& mesh = layout.mesh;
  const int64_t replica = int64_t{mesh.pp} * mesh.cp * mesh.tp;
  if (mesh.dp < 1 || mesh.pp < 1 || mesh.cp < 1 || mesh.tp < 1) {
    mistakes.add(layout.role, fmt::format("{}: each axis must be at least 1", mesh.text()));
  } else if (static_cast<size_t>(mesh.dp * replica) != mesh.ranks.size()) {
    const int ranks = static_cast<int>(mesh.ranks.size());
    mistakes.add(layout.role, fmt::format("{} needs {} ranks, and {} are placed; {}", mesh.text(),
                                          mesh.dp * replica, ranks,
                                          ranks > 0 && ranks % replica == 0
                                              ? fmt::format("with this replica, dp is {}", ranks / replica)
                                              : fmt::format("pp x cp x tp must divide the number of ranks")));
  }
  std::set<int> seen;
  for (const int rank : mesh.ranks) {
    if (rank < 0 || rank >= num_ranks)
      mistakes.add(layout.role, fmt::format("rank {} does not exist: there are {}, 0 to {}", rank, num_ranks,
                                            num_ranks - 1));
    if (!seen.insert(rank).second) mistakes.add(layout.role, fmt::format("rank {} is placed twice", rank));
  }
  if (layout.alignment < 1)
    mistakes.add(layout.role, fmt::format("an alignment of {} elements; 1 is none", layout.alignment));
}

// Every block on some stage, each stage's ascending.
void check_stages(const std::vector<TensorSpec>& tensors, const Layout& layout, Mistakes& mistakes) {
  const auto& stages = layout.blocks_of_stages;
  if (stages.empty() && layout.mesh.pp == 1) return;
  const int num_blocks = tensors.empty() ? 0 : tensors.back().block + 1;
  if (static_cast<int>(stages.size()) != layout.mesh.pp)
    mistakes.add(layout.role,
                 fmt::format("says what {} stages hold, and pp = {}", stages.size(), layout.mesh.pp));
  std::set<int> held;
  for (size_t p = 0; p < stages.size(); ++p) {
    if (std::adjacent_find(stages[p].begin(), stages[p].end(), std::greater_equal<>()) != stages[p].end())
      mistakes.add(layout.role, fmt::format("the blocks of stage {} do not ascend: {}", p, list(stages[p])));
    held.insert(stages[p].begin(), stages[p].end());
  }
  for (const int block : held)
    if (block < 0 || block >= num_blocks)
      mistakes.add(layout.role, fmt::format("a stage holds block {}; there are {}", block, num_blocks));
  for (int block = 0; block < num_blocks; ++block)
    if (!held.contains(block)) mistakes.add(layout.role, fmt::format("no stage holds block {}", block));
}

void check_split(const TensorSpec& tensor, const Split& split, const Layout& layout,
                 const std::string& would_fit, Mistakes& mistakes) {
  if (split.owner != Split::kEverybody && (split.dim != Split::kWhole || split.owner < 0)) {
    mistakes.add(tensor.name, fmt::format("{}: tp rank {} cannot own it alone; what is split has no owner",
                                          layout.role, split.owner));
  } else if (split.owner >= layout.mesh.tp) {
    mistakes.add(tensor.name, fmt::format("{}: its owner is tp rank {}, and tp = {}", layout.role,
                                          split.owner, layout.mesh.tp));
  } else if (!well_formed(tensor, split)) {
    mistakes.add(tensor.name, fmt::format("of dims [{}] cannot be split along dim {} in units of {}",
                                          fmt::join(tensor.dims, ", "), split.dim, split.unit));
  } else if (layout.mesh.tp >= 1 && !fits(tensor, split, layout.mesh.tp)) {
    const char* rule =
        split.fit == Fit::repeat ? "does not divide, and is no multiple of," : "does not divide";
    mistakes.add(tensor.name,
                 fmt::format("{}: tp = {} {} its {} units of {}; {}", layout.role, layout.mesh.tp, rule,
                             units_of(tensor, split), split.unit, would_fit));
  }
}

}  // namespace

std::vector<int> tp_sizes_that_fit(const std::vector<TensorSpec>& tensors, const std::vector<Split>& splits,
                                   int num_ranks) {
  std::vector<int> sizes;
  for (int tp = 1; tp <= num_ranks; ++tp) {
    bool all = num_ranks % tp == 0;
    for (size_t i = 0; all && i < tensors.size() && i < splits.size(); ++i)
      all = well_formed(tensors[i], splits[i]) && fits(tensors[i], splits[i], tp);
    if (all) sizes.push_back(tp);
  }
  return sizes;
}

Mistakes check(const std::vector<TensorSpec>& tensors, const Layout& layout, int num_ranks) {
  Mistakes mistakes;
  check_tensors(tensors, mistakes);
  check_mesh(layout, num_ranks, mistakes);
  check_stages(tensors, layout, mistakes);
  if (layout.splits.size() != tensors.size()) {
    mistakes.add(layout.role, fmt::format("has {} splits for {} tensors; each needs one",
                                          layout.splits.size(), tensors.size()));
    return mistakes;
  }
  const int ranks = static_cast<int>(layout.mesh.ranks.size());
  const std::string would_fit = fmt::format("on {} ranks these tp sizes fit all tensors: {}", ranks,
                                            list(tp_sizes_that_fit(tensors, layout.splits, ranks)));
  for (size_t i = 0; i < tensors.size(); ++i)
    check_split(tensors[i], layout.splits[i], layout, would_fit, mistakes);
  return mistakes;
}

}  // namespace trireme::tensors
