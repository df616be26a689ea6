// Whether a configuration makes sense as a whole: values that must fit each other, files that must exist.
#pragma once

#include "trainer/config/written.h"

namespace trireme::config {

/// Adds what does not fit to `written.mistakes`, at the place where the key was written. Keys that are in
/// doubt already are passed over.
void check_values(Written& written);
/// Files and folders that are named but do not exist. Relative ones start at the working directory.
void check_paths(Written& written);

}  // namespace trireme::config
