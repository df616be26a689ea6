#include "trainer/steps/batch.h"

#include <cstring>
#include <filesystem>

#include "runtime/base/error.h"
#include "runtime/base/files.h"

namespace trireme::steps {

using placement::Role;
namespace fs = std::filesystem;

namespace {

// Of the batch's replica `part`: texts, each behind its length; the first is the metrics, the others groups.
std::string path_of(const std::string& folder, int64_t step, int64_t part) {
  return (fs::path(folder) / fmt::format("step_{}.{}.bin", step, part)).string();
}

void put(std::string& bytes, const std::string& text) {
  const auto length = static_cast<int64_t>(text.size());
  bytes.append(reinterpret_cast<const char*>(&length), sizeof length);
  bytes += text;
}

std::vector<std::string> texts_of(const std::string& bytes, const std::string& path) {
  std::vector<std::string> texts;
  for (size_t at = 0; at < bytes.size();) {
    int64_t length = -1;
    if (bytes.size() - at >= sizeof length) std::memcpy(&length, bytes.data() + at, sizeof length);
    at += sizeof length;
    if (length < 0 || bytes.size() < at || bytes.size() - at < static_cast<size_t>(length))
      fail(ErrorCode::corrupt_data, "{} ends in the middle of a group", path);
    texts.push_back(bytes.substr(at, static_cast<size_t>(length)));
    at += static_cast<size_t>(length);
  }
  if (texts.empty()) fail(ErrorCode::corrupt_data, "{} is empty", path);
  return texts;
}

}  // namespace

void save_batches(const std::string& folder, const Batches& batches, const session::Session& session) {
  if (!session.has(Role::rollout) || !session.speaks_for_replica(Role::rollout)) return;
  fs::create_directories(folder);
  for (const Batch& batch : batches) {
    std::string bytes;
    put(bytes, batch.metrics.to_lines());
    for (const Group& group : batch.groups) put(bytes, pack(group));
    files::write_atomically(path_of(folder, batch.step, session.place_in(Role::rollout).d), bytes);
  }
}

void load_batches(const std::string& folder, Batches& batches, const session::Session& session) {
  const int64_t replicas = session.roles().mesh(Role::rollout).dp;
  for (Batch& batch : batches) {
    if (!fs::exists(path_of(folder, batch.step, 0)))
      fail(ErrorCode::corrupt_data, "{} is missing: the checkpoint says that step {}'s responses are there",
           path_of(folder, batch.step, 0), batch.step + 1);
    for (int64_t part = session.place_in(Role::rollout).d; fs::exists(path_of(folder, batch.step, part));
         part += replicas) {
      const std::string path = path_of(folder, batch.step, part);
      const std::vector<std::string> texts = texts_of(files::read(path), path);
      if (session.speaks_for_replica(Role::rollout))
        batch.metrics.add(StepMetrics::from_lines(texts.front()));
      for (size_t i = 1; i < texts.size(); ++i) batch.groups.push_back(unpack(texts[i]));
    }
  }
}

}  // namespace trireme::steps
