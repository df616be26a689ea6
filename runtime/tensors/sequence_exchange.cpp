#include "runtime/tensors/sequence_exchange.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <queue>
#include <tuple>
#include <utility>

#include "runtime/base/error.h"

namespace trireme::tensors {
namespace {

// What every rank must know of a record to find its place without its bytes.
struct Label {
  int64_t id, cost, num_bytes;
};
static_assert(sizeof(Label) == 3 * sizeof(int64_t));

struct Labels {
  std::vector<Label> all;       // in rank order, each rank's in ascending id
  std::vector<int64_t> begins;  // of each rank's, and the end
};

Labels gather_labels(comm::Communicator& world, const std::vector<Record>& records) {
  const int64_t mine = static_cast<int64_t>(records.size());
  std::vector<int64_t> counts(world.size());
  world.all_gather({&mine, 1, comm::DType::i64}, {counts.data(), world.size(), comm::DType::i64});
  Labels labels;
  labels.begins.resize(world.size() + 1);
  std::partial_sum(counts.begin(), counts.end(), labels.begins.begin() + 1);
  labels.all.resize(labels.begins.back());
  std::vector<Label> own;
  for (const Record& record : records)
    own.push_back({record.id, record.cost, static_cast<int64_t>(record.bytes.size())});
  for (int64_t& count : counts) count *= 3;
  world.all_gather_v({own.data(), 3 * mine, comm::DType::i64},
                     {labels.all.data(), 3 * labels.begins.back(), comm::DType::i64}, counts);
  return labels;
}

// All ranks see the same labels, so all throw or none does.
void check(const Labels& labels) {
  std::vector<int64_t> ids;
  for (const Label& label : labels.all) {
    TRIREME_CHECK(label.cost >= 0, "record {} has cost {}", label.id, label.cost);
    ids.push_back(label.id);
  }
  std::sort(ids.begin(), ids.end());
  const auto twice = std::adjacent_find(ids.begin(), ids.end());
  TRIREME_CHECK(twice == ids.end(), "two records have id {}", *twice);
}

void check_destinations(const std::vector<int>& destinations, int num_ranks) {
  TRIREME_CHECK(!destinations.empty(), "records have nowhere to go");
  std::vector<bool> seen(num_ranks);
  for (const int rank : destinations) {
    TRIREME_CHECK(rank >= 0 && rank < num_ranks, "destination {} of {} ranks", rank, num_ranks);
    TRIREME_CHECK(!seen[rank], "rank {} is a destination twice", rank);
    seen[rank] = true;
  }
}

}  // namespace

std::vector<int> assign(const std::vector<std::pair<int64_t, int64_t>>& id_and_cost, int num_destinations) {
  TRIREME_CHECK(num_destinations > 0, "records have nowhere to go");
  std::vector<size_t> order(id_and_cost.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    const auto& [id_a, cost_a] = id_and_cost[a];
    const auto& [id_b, cost_b] = id_and_cost[b];
    return cost_a != cost_b ? cost_a > cost_b : id_a < id_b;
  });
  // The least loaded first; among equals the one with fewer records (costs may be 0), then the lower.
  using Load = std::tuple<int64_t, int64_t, int>;
  std::priority_queue<Load, std::vector<Load>, std::greater<>> loads;
  for (int d = 0; d < num_destinations; ++d) loads.emplace(0, 0, d);
  std::vector<int> assigned(id_and_cost.size());
  for (const size_t i : order) {
    const auto [load, count, destination] = loads.top();
    loads.pop();
    assigned[i] = destination;
    loads.emplace(load + id_and_cost[i].second, count + 1, destination);
  }
  return assigned;
}

std::vector<Record> exchange(comm::Communicator& world, std::vector<Record> records,
                             const std::vector<int>& destinations) {
  check_destinations(destinations, world.size());
  std::sort(records.begin(), records.end(), [](const Record& a, const Record& b) { return a.id < b.id; });
  const Labels labels = gather_labels(world, records);
  check(labels);
  std::vector<std::pair<int64_t, int64_t>> id_and_cost;
  for (const Label& label : labels.all) id_and_cost.emplace_back(label.id, label.cost);
  const std::vector<int> assigned = assign(id_and_cost, static_cast<int>(destinations.size()));
  const auto goes_to = [&](int64_t i) { return destinations[assigned[i]]; };

  // Everybody knows who sends what to whom: the bytes travel bare.
  std::vector<int64_t> sent(world.size()), received(world.size());
  std::vector<std::string> parts(world.size());
  const int64_t mine = labels.begins[world.rank()];
  for (size_t k = 0; k < records.size(); ++k) {
    const int to = goes_to(mine + static_cast<int64_t>(k));
    parts[to] += records[k].bytes;
    sent[to] += static_cast<int64_t>(records[k].bytes.size());
  }
  records.clear();
  std::string out;
  for (std::string& part : parts) {
    out += part;
    std::string().swap(part);
  }
  std::vector<Record> result;
  std::vector<int64_t> sizes;
  for (int source = 0; source < world.size(); ++source)
    for (int64_t i = labels.begins[source]; i < labels.begins[source + 1]; ++i) {
      if (goes_to(i) != world.rank()) continue;
      received[source] += labels.all[i].num_bytes;
      result.push_back({labels.all[i].id, labels.all[i].cost, {}});
      sizes.push_back(labels.all[i].num_bytes);
    }
  std::string in(std::accumulate(received.begin(), received.end(), int64_t{0}), '\0');
  world.all_to_all_v({out.data(), static_cast<int64_t>(out.size()), comm::DType::u8}, sent,
                     {in.data(), static_cast<int64_t>(in.size()), comm::DType::u8}, received);
  size_t begin = 0;
  for (size_t k = 0; k < result.size(); ++k) {
    result[k].bytes = in.substr(begin, static_cast<size_t>(sizes[k]));
    begin += static_cast<size_t>(sizes[k]);
  }
  std::sort(result.begin(), result.end(), [](const Record& a, const Record& b) { return a.id < b.id; });
  return result;
}

}  // namespace trireme::tensors
