// All problems of a run, read from files or generated, with every mistake in them found at once.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trainer/data/data_config.h"
#include "trainer/data/problem.h"

namespace trireme::data {

class Tokenizer;

/// Files: one problem per object (JSONL, or a JSON array), columns by the configuration's keys. In a
/// worked answer, the ground truth is what follows the last "####". `sft_response_key` names the column
/// that SFT learns; "" where nothing is learned from it. Without val_files, val_fraction of the training
/// problems is set aside, chosen by the seed. *_max_samples then keep the first ones.
/// task = "arithmetic": make_arithmetic(config.arithmetic, seed).
/// Throws invalid_config with all mistakes, "file:line: ..." (at most 20, and the number of the others).
ProblemSet load_problems(const DataConfig& config, const std::string& sft_response_key, uint64_t seed);

/// Prompts longer than data.max_prompt_length tokens: dropped if data.filter_overlong_prompts, else
/// invalid_config, naming their places; so does a list of which nothing is left. Returns how many were
/// dropped.
int64_t check_prompt_lengths(std::vector<Problem>& problems, const Tokenizer& tokenizer,
                             const DataConfig& config);

/// "So 6 * 7 = 42\n#### 42" -> "42"; a text without "####" is returned whole. Blanks around it go.
std::string ground_truth_of(const std::string& answer);

}  // namespace trireme::data
