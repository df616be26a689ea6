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
/// XXH3 of every file), then renames. An existing final_path is replaced only after all that: at once where
/// the file system can exchange two names, else it is absent for a moment. What `fill` writes: files and
/// folders, no links. Leftovers of writers that died beside it are removed first. Local: one rank calls it,
/// and no two at a time for one final_path. Throws io, and what `fill` throws; then nothing is left behind
/// and an old final_path stands as it was.
void write_folder(const std::string& final_path, const std::function<void(const std::string& folder)>& fill);

/// Reads every file of the manifest. Throws corrupt_data naming the first that is missing, short or changed,
/// io if one cannot be read. Files beside those of the manifest are not looked at.
void verify_folder(const std::string& path);

/// runs/x/checkpoints/step_N: the newest that is complete, or nothing. Complete: the manifest is whole and
/// every file has its size (verify_folder looks at the bytes too). Throws io if the folder cannot be listed;
/// one that does not exist holds nothing.
std::optional<std::string> latest(const std::string& checkpoints_folder);
std::string step_folder(const std::string& checkpoints_folder, int64_t step);
/// Deletes the oldest complete checkpoints until `keep` are left (0: keeps all), and unfinished ones of
/// writers that died, on any host: only the run's one writer may call it. Damaged checkpoints stay. Throws
/// io.
void prune(const std::string& checkpoints_folder, int64_t keep);

}  // namespace trireme::checkpoint
