// What a configuration names and a run reads before it starts: tokenizer, model shape, problems.
#pragma once

#include <memory>
#include <string>

#include "trainer/config/run_config.h"
#include "trainer/data/problem.h"
#include "trainer/models/decoder_shape.h"
#include "trainer/steps/reward_model.h"
#include "trainer/text/tokenizer.h"

namespace trireme::commands {

/// The model's own, or model.tokenizer_path's; bytes for a model from random weights.
std::shared_ptr<const text::Tokenizer> make_tokenizer(const models::ModelConfig& model);

/// Of model.path, else as model.init says. Throws invalid_config if the tokenizer has more ids than it.
models::DecoderShape make_shape(const models::ModelConfig& model, const text::Tokenizer& tokenizer);

/// Of critic.model.path, else the actor's with a value head. Throws invalid_config if it does not take the
/// tokenizer's ids, or sequences as long as this run's.
models::DecoderShape make_critic_shape(const config::RunConfig& config, const models::DecoderShape& actor,
                                       const text::Tokenizer& tokenizer);

/// Of reward_model.path. Throws invalid_config where that is no classifier with one label.
models::DecoderShape make_reward_model_shape(const config::RunConfig& config);

/// What it reads: `tokenizer` is the policy's. `said` gets a line about it. Throws invalid_config where it does
/// not take the policy's tokens as they are, or sequences as long as this run's, and shall.
steps::RewardModelInput make_reward_input(const config::RunConfig& config, const models::DecoderShape& shape,
                                          const text::Tokenizer& tokenizer, std::string& said);

/// The text of model.path's generation_config.json; empty if there is none.
std::string read_generation_config(const models::ModelConfig& model);

/// Everything in the data that can be wrong without a tokenizer at hand, which takes longer to read. Throws
/// invalid_config with all mistakes.
data::ProblemSet read_problems(const config::RunConfig& config);

/// Fills in the prompts' tokens; drops, cuts or refuses prompts that are too long, as the configuration says.
void encode_prompts(data::ProblemSet& problems, const config::RunConfig& config,
                    const text::Tokenizer& tokenizer);

/// Where something is learned from examples: their tokens, after the prompts'. Likewise.
void encode_learned(data::ProblemSet& problems, const config::RunConfig& config,
                    const text::Tokenizer& tokenizer);

}  // namespace trireme::commands
