// All problems of a run, read from files or generated, with every mistake in them found at once.
#pragma once

#include <cstdint>
#include "trainer/chat/chat_template.h"
#include "trainer/data/data_config.h"
#include "trainer/data/learned_columns.h"
#include "trainer/data/problem.h"

namespace trireme::data {

/// Files: one problem per row (Parquet, JSONL, or a JSON array), columns by the configuration's keys. In a
/// worked answer, the ground truth is what follows the last "####". Without val_files, val_fraction of the
/// training problems is set aside, chosen by the seed. *_max_samples then keep the first ones.
/// `chat_template` writes conversations as text; null where the model has none. task = "arithmetic":
/// make_arithmetic(config.arithmetic, seed). Throws invalid_config with all mistakes, "file:line: ..." (at
/// most 20, and the number of the others).
ProblemSet load_problems(const DataConfig& config, const LearnedColumns& learned, uint64_t seed,
                         const chat::ChatTemplate* chat_template = nullptr);

}  // namespace trireme::data
