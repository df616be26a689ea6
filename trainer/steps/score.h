// `trireme-trainer score FOLDER`: what a checkpoint thinks of a text, token by token.
#pragma once

#include <istream>
#include <ostream>
#include <string>

namespace trireme::steps {

/// Reads texts, one a line, and writes a JSON object a line: {"tokens": [...], "log_probs": [...]}, the
/// natural logarithm of each token's probability after those before it; the first has none. fp32. Throws
/// invalid_config, io or corrupt_data if the folder is no checkpoint that we can read.
void score_texts(const std::string& folder, std::istream& in, std::ostream& out);

}  // namespace trireme::steps
