#include "trainer/steps/score.h"

#include <ATen/core/grad_mode.h>

#include <nlohmann/json.hpp>

#include "trainer/data/tokenizer.h"
#include "trainer/models/decoder.h"
#include "trainer/steps/packing.h"
#include "trainer/weights/hf_checkpoint.h"

namespace trireme::steps {

void score_texts(const std::string& folder, std::istream& in, std::ostream& out) {
  const at::NoGradGuard no_gradients;
  const auto tokenizer = data::Tokenizer::from_folder(folder);
  const auto shape = models::DecoderShape::from_folder(folder);
  models::ParameterSet parameters(models::parameter_specs(shape), at::kCPU);
  weights::load(folder, shape, parameters);
  const models::Decoder decoder(shape, parameters, at::kFloat);
  for (std::string line; std::getline(in, line);) {
    const std::vector<int32_t> tokens = tokenizer->encode(line);
    nlohmann::ordered_json result{{"tokens", tokens}, {"log_probs", nlohmann::json::array()}};
    if (tokens.size() > 1) {
      const std::vector<Example> examples{{{tokens[0]}, {tokens.begin() + 1, tokens.end()}}};
      const auto micro = pack_examples(examples, static_cast<int64_t>(tokens.size()));
      const at::Tensor log_probs =
          decoder.token_log_probs(decoder.forward_packed(micro[0].batch), micro[0].rows, micro[0].tokens, 1.0)
              .log_probs_N;
      result["log_probs"] = std::vector<float>(log_probs.const_data_ptr<float>(),
                                               log_probs.const_data_ptr<float>() + log_probs.numel());
    }
    out << result.dump() << std::endl;
  }
}

}  // namespace trireme::steps
