#include "trainer/evaluation/evaluate.h"

#include <algorithm>
#include <sstream>

#include "runtime/base/error.h"

namespace trireme::evaluation {
namespace {

// This rank's verdicts as text: a line per data source. Sources may hold any character but a line's end.
std::string to_lines(const std::map<std::string, Accuracy>& by_source) {
  std::string text;
  for (const auto& [source, accuracy] : by_source)
    text += fmt::format("{} {} {:a} {}\n", accuracy.problems, accuracy.correct, accuracy.score, source);
  return text;
}

void add_lines(const std::string& text, Evaluation& evaluation) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream fields(line);
    Accuracy accuracy;
    std::string score, source;
    fields >> accuracy.problems >> accuracy.correct >> score;
    fields.get();
    std::getline(fields, source);
    accuracy.score = std::strtod(score.c_str(), nullptr);
    for (Accuracy* sum : {&evaluation.all, &evaluation.by_source[source]}) {
      sum->problems += accuracy.problems;
      sum->correct += accuracy.correct;
      sum->score += accuracy.score;
    }
  }
}

}  // namespace

Evaluation evaluate(comm::Communicator& world, const placement::Mesh& engines, rollout::Engine* engine,
                    const text::Tokenizer& tokenizer, const rewards::Reward& reward,
                    std::span<const data::Problem> problems, int64_t max_response_length) {
  std::map<std::string, Accuracy> mine;
  const auto place = engines.find(world.rank());
  if (engine && place) {
    std::vector<rollout::Request> requests;
    std::vector<const data::Problem*> asked;
    for (auto i = static_cast<size_t>(place->d); i < problems.size(); i += static_cast<size_t>(engines.dp)) {
      rollout::Request request;
      request.id = static_cast<int64_t>(i);
      request.prompt = problems[i].prompt_ids;
      request.greedy = true;
      request.sampling.stop = engine->config().sampling.stop;
      request.max_new_tokens = engine->max_new_tokens(request, max_response_length);
      requests.push_back(std::move(request));
      asked.push_back(&problems[i]);
    }
    const auto completions = engine->generate(std::move(requests));
    for (size_t i = 0; i < asked.size() && place->t == 0; ++i) {  // the others have the same answers
      const rewards::Score score = reward.score(
          asked[i]->data_source, tokenizer.decode(completions[i].responses[0].tokens), asked[i]->answer);
      Accuracy& accuracy = mine[asked[i]->data_source];
      ++accuracy.problems;
      accuracy.correct += score.correct ? 1 : 0;
      accuracy.score += score.value;
    }
    engine->take_stats();  // evaluation is no part of a step's figures
  }
  Evaluation evaluation;
  for (const std::string& text : world.all_gather_strings(to_lines(mine))) add_lines(text, evaluation);
  return evaluation;
}

}  // namespace trireme::evaluation
