// manifest.json of a folder: every file's path, size and XXH3-64. Written last, so its presence says
// "complete".
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace trireme::checkpoint {

inline constexpr const char* kManifestFile = "manifest.json";

struct ManifestEntry {
  std::string path;  // relative to the folder, with '/'
  uint64_t size = 0;
  uint64_t xxh3_64 = 0;
};

/// XXH3-64 of a file's bytes. Throws io.
uint64_t checksum_of_file(const std::string& path);

/// Reads, sums and syncs every file of `folder` and the folders themselves. Throws io; internal for links and
/// other things that are neither file nor folder.
std::vector<ManifestEntry> sum_and_sync(const std::string& folder);
void write_manifest(const std::string& folder, const std::vector<ManifestEntry>& entries);
/// Throws corrupt_data if it is absent or makes no sense, io if it cannot be read.
std::vector<ManifestEntry> read_manifest(const std::string& folder);

}  // namespace trireme::checkpoint
