// The configuration in words: what a run will use and where each value comes from, what a key means, and all
// keys as a document.
#pragma once

#include <string>

#include "trainer/config/load.h"

namespace trireme::config {

/// Every key with its value and, behind a #, its origin; TOML that can be copied.
std::string show(const LoadedConfig& loaded);

/// What a key does, what it may be, its default, how to set it; for a table, its keys.
/// Throws invalid_config, with the nearest name, if there is neither.
std::string explain(const std::string& key_or_table);

/// docs/configuration.md, whole.
std::string configuration_markdown();

}  // namespace trireme::config
