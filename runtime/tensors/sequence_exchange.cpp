#include "runtime/tensors/sequence_exchange.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <new>
#include <numeric>
#include <utility>

#include "runtime/base/error.h"
#include "runtime/tensors/balance.h"

namespace trireme::tensors {
namespace {

// What every rank must know of a record to find its place without its bytes.
struct Label {
  int64_t id, cost, num_bytes, round;
};
constexpr int64_t kLabelWords = 4;
static_assert(sizeof(Label) == kLabelWords * sizeof(int64_t));

struct Labels {
  std::vector<Label> all;       // in rank order, each rank's in ascending id
  std::vector<int64_t> begins;  // of each rank's, and the end
};

Labels gather_labels(comm::Communicator& world, const std::vector<Outgoing>& records) {
  const int64_t mine = static_cast<int64_t>(records.size());
  std::vector<int64_t> counts(world.size());
  world.all_gather({&mine, 1, comm::DType::i64}, {counts.data(), world.size(), comm::DType::i64});
  Labels labels;
  labels.begins.resize(world.size() + 1);
  std::partial_sum(counts.begin(), counts.end(), labels.begins.begin() + 1);
  labels.all.resize(labels.begins.back());
  std::vector<Label> own;
  for (const Outgoing& record : records) own.push_back({record.id, record.cost, record.num_bytes, record.round});
  for (int64_t& count : counts) count *= kLabelWords;
  world.all_gather_v({own.data(), kLabelWords * mine, comm::DType::i64},
                     {labels.all.data(), kLabelWords * labels.begins.back(), comm::DType::i64}, counts);
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

void check(const std::vector<std::vector<int>>& replicas, int num_ranks) {
  TRIREME_CHECK(!replicas.empty(), "records have nowhere to go");
  std::vector<bool> seen(num_ranks);
  for (const std::vector<int>& replica : replicas) {
    TRIREME_CHECK(!replica.empty(), "a replica has no ranks");
    for (const int rank : replica) {
      TRIREME_CHECK(rank >= 0 && rank < num_ranks, "destination {} of {} ranks", rank, num_ranks);
      TRIREME_CHECK(!seen[rank], "rank {} is a destination twice", rank);
      seen[rank] = true;
    }
  }
}

// The replica of each record.
std::vector<int> assign_by_rounds(const std::vector<Label>& labels, size_t num_replicas) {
  std::map<int64_t, std::vector<size_t>> rounds;  // indices of labels
  for (size_t i = 0; i < labels.size(); ++i) rounds[labels[i].round].push_back(i);
  std::vector<int> assigned(labels.size());
  for (const auto& [round, indices] : rounds) {
    std::vector<std::pair<int64_t, int64_t>> id_and_cost;
    for (const size_t i : indices) id_and_cost.emplace_back(labels[i].id, labels[i].cost);
    const std::vector<int> parts = assign(id_and_cost, static_cast<int>(num_replicas));
    for (size_t k = 0; k < indices.size(); ++k) assigned[indices[k]] = parts[k];
  }
  return assigned;
}

// Fresh memory of this size costs its pages' faults more than what is done with it: large pages have few.
std::shared_ptr<char> allocate(int64_t bytes) {
  constexpr size_t kLargePage = size_t{2} << 20;
  const auto size = static_cast<size_t>(std::max<int64_t>(bytes, 1));
  if (size < 2 * kLargePage)
    return {static_cast<char*>(::operator new(size)), [](char* p) { ::operator delete(p); }};
  const size_t whole = (size + kLargePage - 1) / kLargePage * kLargePage;
  char* memory = static_cast<char*>(std::aligned_alloc(kLargePage, whole));
  if (!memory) throw std::bad_alloc();
  ::madvise(memory, whole, MADV_HUGEPAGE);  // where the machine has none, it is as it was
  return {memory, [](char* p) { std::free(p); }};
}

struct Bytes {
  std::shared_ptr<char> data;
  std::vector<int64_t> counts;  // to or from each rank; they lie in rank order

  explicit Bytes(std::vector<int64_t> counts_) : data(allocate(total(counts_))), counts(std::move(counts_)) {}
  static int64_t total(const std::vector<int64_t>& counts) {
    return std::accumulate(counts.begin(), counts.end(), int64_t{0});
  }
  comm::BufferView view() { return {data.get(), total(counts), comm::DType::u8}; }
};

// What this rank sends, bare: everybody knows from the labels who sends what to whom. `to` gives the ranks
// that the k-th record goes to.
template <typename Ranks>
Bytes pack(const std::vector<Outgoing>& records, int num_ranks, const Ranks& to) {
  std::vector<int64_t> counts(num_ranks);
  for (size_t k = 0; k < records.size(); ++k)
    for (const int rank : to(k)) counts[rank] += records[k].num_bytes;
  std::vector<int64_t> ends(num_ranks);
  std::exclusive_scan(counts.begin(), counts.end(), ends.begin(), int64_t{0});
  Bytes out(std::move(counts));
  for (size_t k = 0; k < records.size(); ++k)
    for (const int rank : to(k)) {
      records[k].write(out.data.get() + ends[rank]);
      ends[rank] += records[k].num_bytes;
    }
  return out;
}

}  // namespace

Arrivals exchange_in_place(comm::Communicator& world, std::vector<Outgoing> records,
                           const std::vector<std::vector<int>>& replicas) {
  check(replicas, world.size());
  std::sort(records.begin(), records.end(), [](const Outgoing& a, const Outgoing& b) { return a.id < b.id; });
  const Labels labels = gather_labels(world, records);
  check(labels);
  const std::vector<int> assigned = assign_by_rounds(labels.all, replicas.size());

  const int64_t mine = labels.begins[world.rank()];
  Bytes out = pack(records, world.size(), [&](size_t k) -> const std::vector<int>& {
    return replicas[assigned[mine + static_cast<int64_t>(k)]];
  });
  int own = -1;  // the replica of this rank
  for (int i = 0; i < static_cast<int>(replicas.size()); ++i)
    if (std::find(replicas[i].begin(), replicas[i].end(), world.rank()) != replicas[i].end()) own = i;
  std::vector<int64_t> counts(world.size()), arriving;  // arriving: indices of labels
  for (int source = 0; source < world.size(); ++source)
    for (int64_t i = labels.begins[source]; i < labels.begins[source + 1]; ++i)
      if (assigned[i] == own) {
        counts[source] += labels.all[i].num_bytes;
        arriving.push_back(i);
      }
  Bytes in(std::move(counts));
  world.all_to_all_v(out.view(), out.counts, in.view(), in.counts);
  out.data.reset();

  Arrivals result;
  const char* next = in.data.get();
  for (const int64_t i : arriving) {
    const Label& label = labels.all[i];
    result.records.push_back({label.id, label.cost, {next, static_cast<size_t>(label.num_bytes)}});
    next += label.num_bytes;
  }
  result.memory = std::move(in.data);
  std::sort(result.records.begin(), result.records.end(),
            [](const auto& a, const auto& b) { return a.id < b.id; });
  return result;
}

std::vector<Record> exchange(comm::Communicator& world, std::vector<Record> records,
                             const std::vector<std::vector<int>>& replicas) {
  std::vector<Outgoing> outgoing;
  for (const Record& record : records)
    outgoing.push_back({record.id, record.cost, static_cast<int64_t>(record.bytes.size()),
                        [&](char* to) { std::memcpy(to, record.bytes.data(), record.bytes.size()); },
                        record.round});
  std::vector<Record> result;
  const Arrivals arrivals = exchange_in_place(world, std::move(outgoing), replicas);
  for (const auto& [id, cost, bytes] : arrivals.records) result.push_back({id, cost, std::string(bytes)});
  return result;
}

}  // namespace trireme::tensors
