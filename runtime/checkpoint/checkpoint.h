// Folders that are complete or absent: written aside, synced, renamed, with a manifest of sizes and
// checksums written last. Knows nothing of what is in them.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace trireme::checkpoint {

/// Writes folder `final_path` through `fill(temporary_folder)`, then the manifest (manifest.json: size and
/// XXH3 of every file), then renames. An existing final_path is replaced only after all that.
/// Local: one rank calls it.
void write_folder(const std::string& final_path, const std::function<void(const std::string& folder)>& fill);

/// Throws corrupt_data naming the first file that is missing, short or changed.
void verify_folder(const std::string& path);

/// runs/x/checkpoints/step_N: the newest that is complete, or nothing.
std::optional<std::string> latest(const std::string& checkpoints_folder);
std::string step_folder(const std::string& checkpoints_folder, int64_t step);
/// Deletes the oldest complete checkpoints until `keep` are left (0: keeps all).
void prune(const std::string& checkpoints_folder, int64_t keep);

}  // namespace trireme::checkpoint
