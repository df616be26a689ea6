// `trireme-trainer check CONFIG [key=value ...]`: reads the data and the tokenizer and lists every mistake.
#include "trainer/commands/commands.h"
#include "trainer/commands/run_inputs.h"
#include "trainer/config/load.h"

namespace trireme::commands {

int check(const Arguments& arguments) {
  const auto config = config::load(arguments.at(1), {arguments.begin() + 2, arguments.end()});
  auto problems = read_problems(config);
  const auto tokenizer = make_tokenizer(config.model);
  (void)make_shape(config.model, *tokenizer);
  encode_prompts(problems, config, *tokenizer);
  return 0;
}

}  // namespace trireme::commands
