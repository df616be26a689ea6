#include "trainer/steps/group.h"

#include <algorithm>
#include <cstring>

#include "runtime/base/error.h"

namespace trireme::steps {
namespace {

class Writer {
 public:
  template <typename T>
  void put(const T& value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof(T));
  }
  template <typename T>
  void put_all(const std::vector<T>& values) {
    put(static_cast<int64_t>(values.size()));
    bytes_.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
  }
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

class Reader {
 public:
  explicit Reader(const std::string& bytes) : bytes_(bytes) {}
  template <typename T>
  T get() {
    T value;
    std::memcpy(&value, take(sizeof(T)), sizeof(T));
    return value;
  }
  template <typename T>
  std::vector<T> get_all() {
    const auto count = get<int64_t>();
    if (count < 0 || static_cast<uint64_t>(count) > bytes_.size())
      fail(ErrorCode::corrupt_data, "a packed group holds a list of {} elements", count);
    std::vector<T> values(static_cast<size_t>(count));
    if (count > 0) std::memcpy(values.data(), take(values.size() * sizeof(T)), values.size() * sizeof(T));
    return values;
  }
  bool is_at_end() const { return at_ == bytes_.size(); }
  void end() const {
    if (at_ != bytes_.size())
      fail(ErrorCode::corrupt_data, "a packed group has {} bytes too many", bytes_.size() - at_);
  }

 private:
  const char* take(size_t count) {
    if (bytes_.size() - at_ < count)
      fail(ErrorCode::corrupt_data, "a packed group ends after {} bytes", bytes_.size());
    const char* from = bytes_.data() + at_;
    at_ += count;
    return from;
  }
  const std::string& bytes_;
  size_t at_ = 0;
};

}  // namespace

int64_t Sample::counted() const {
  return mask.empty() ? length() : static_cast<int64_t>(std::count(mask.begin(), mask.end(), 1));
}

int64_t Group::num_rows() const {
  auto rows = static_cast<int64_t>(prompt.size());
  // The last token predicts nothing.
  for (const Sample& sample : samples) rows += std::max<int64_t>(0, sample.length() - 1);
  return rows;
}

int64_t Group::cost() const {
  // Attention adds one part in 4,096 per key to a row's cost: the ratio of a decoder of width 1,000 or so.
  int64_t pairs = static_cast<int64_t>(prompt.size() * prompt.size()) / 2;
  for (const Sample& sample : samples)
    pairs += sample.length() * (static_cast<int64_t>(prompt.size()) + sample.length() / 2);
  return num_rows() + pairs / 4096;
}

std::string pack(const Group& group) {
  Writer out;
  out.put(group.id);
  out.put(group.problem);
  out.put_all(group.prompt);
  out.put(group.greedy_score);
  out.put(static_cast<int64_t>(group.samples.size()));
  for (const Sample& sample : group.samples) {
    out.put_all(sample.tokens);
    out.put_all(sample.rollout_log_probs);
    out.put_all(sample.old_log_probs);
    out.put_all(sample.ref_log_probs);
    out.put(sample.model_score);
    out.put(sample.score);
    out.put(sample.reward);
    out.put_all(sample.values);
    out.put_all(sample.advantages);
    out.put_all(sample.returns);
    out.put_all(sample.importance);
    out.put_all(sample.mask);
    out.put(static_cast<uint8_t>(sample.correct));
    out.put(static_cast<uint8_t>(sample.stopped));
  }
  return out.take();
}

namespace {

Group read_group(Reader& in) {
  Group group;
  group.id = in.get<int64_t>();
  group.problem = in.get<int64_t>();
  group.prompt = in.get_all<int32_t>();
  group.greedy_score = in.get<double>();
  const auto count = in.get<int64_t>();
  for (int64_t i = 0; i < count; ++i) {
    Sample& sample = group.samples.emplace_back();
    sample.tokens = in.get_all<int32_t>();
    sample.rollout_log_probs = in.get_all<float>();
    sample.old_log_probs = in.get_all<float>();
    sample.ref_log_probs = in.get_all<float>();
    sample.model_score = in.get<double>();
    sample.score = in.get<double>();
    sample.reward = in.get<double>();
    sample.values = in.get_all<float>();
    sample.advantages = in.get_all<float>();
    sample.returns = in.get_all<float>();
    sample.importance = in.get_all<float>();
    sample.mask = in.get_all<uint8_t>();
    sample.correct = in.get<uint8_t>() != 0;
    sample.stopped = in.get<uint8_t>() != 0;
  }
  return group;
}

}  // namespace

Group unpack(const std::string& bytes) {
  Reader in(bytes);
  Group group = read_group(in);
  in.end();
  return group;
}

std::vector<Group> unpack_all(const std::string& bytes) {
  Reader in(bytes);
  std::vector<Group> groups;
  while (!in.is_at_end()) groups.push_back(read_group(in));
  return groups;
}

}  // namespace trireme::steps
