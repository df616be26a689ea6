// Whether a configuration makes sense as a whole: values that must fit each other, files that must exist.
#pragma once

#include <string>

#include "trainer/config/written.h"

namespace trireme::config {

/// Adds what does not fit to `written.mistakes`, at the place where the key was written. Keys that are in
/// doubt already are passed over.
void check_values(Written& written);
/// The part of it that is about rollout.steps_ahead, likewise.
void check_steps_ahead(Written& written);
/// About rollout.stream.
void check_stream(Written& written);
/// Files and folders that are named but do not exist. Relative ones start at the working directory.
void check_paths(Written& written);
/// What keeps the folder from being a reward model, as a sentence that begins with it; empty if nothing does.
std::string reward_model_mistake(const std::string& folder, bool needs_tokenizer);

}  // namespace trireme::config
