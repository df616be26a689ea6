// Whole files, read and written so that nothing partial ever lies under a final name.
#pragma once

#include <string>
#include <string_view>

namespace trireme::files {

/// Throws io, with the path and the system's reason.
std::string read(const std::string& path);
/// Writes aside, syncs, renames. Throws io.
void write_atomically(const std::string& path, std::string_view content);
/// Syncs a folder's entries (after renames in it). Throws io.
void sync_folder(const std::string& path);

}  // namespace trireme::files
