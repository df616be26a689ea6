#include "trainer/evaluation/evaluate.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <vector>

#include "trainer/evaluation/validation_metrics.h"

namespace trireme::evaluation {
namespace {

using Json = nlohmann::json;

constexpr size_t kSamplesAtATime = 64;  // problems of a rank whose texts cross the wire together

struct Judged {
  size_t index = 0;
  std::vector<std::string> responses;
  std::vector<rewards::Score> scores;
  std::vector<std::vector<int32_t>> tokens;  // of the responses, where a model judges them
};

std::string line_of(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

// This rank's verdicts: a line per problem.
std::string to_lines(std::span<const Judged> judged, std::span<const data::Problem> problems, bool says_right) {
  std::string text;
  for (const Judged& one : judged) {
    Json values = Json::object();
    Json answers = Json::array();
    bool has_answers = false;
    for (const rewards::Score& score : one.scores) {
      values["reward"].push_back(score.value);
      if (says_right) values["acc"].push_back(score.correct ? 1.0 : 0.0);
      answers.push_back(score.answer);
      has_answers = has_answers || !score.answer.empty();
    }
    // What only some responses have is no value of the problem.
    if (!one.scores.empty())
      for (const auto& [name, first] : one.scores[0].extras) {
        Json each = Json::array();
        for (const rewards::Score& score : one.scores)
          if (const auto found = score.extras.find(name); found != score.extras.end())
            each.push_back(found->second);
        if (each.size() == one.scores.size() && !values.contains(name)) values[name] = std::move(each);
      }
    text += line_of({{"index", one.index},
                     {"source", problems[one.index].data_source},
                     {"values", std::move(values)},
                     {"answers", has_answers ? std::move(answers) : Json::array()}});
  }
  return text;
}

Evaluation from_lines(const std::vector<std::string>& texts) {
  std::map<size_t, JudgedProblem> by_index;  // in their order, whoever judged them
  for (const std::string& text : texts) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      const Json json = Json::parse(line);
      by_index[json["index"]] = {json["source"],
                                 json["values"].get<std::map<std::string, std::vector<double>>>(),
                                 json["answers"].get<std::vector<std::string>>()};
    }
  }
  Evaluation evaluation;
  std::vector<JudgedProblem> problems;
  for (auto& [index, problem] : by_index) {
    ++evaluation.problems;
    for (const double reward : problem.values["reward"]) {
      ++evaluation.responses;
      evaluation.reward += reward;
    }
    for (const double acc : problem.values["acc"]) evaluation.correct += acc > 0 ? 1 : 0;
    problems.push_back(std::move(problem));
  }
  if (evaluation.responses > 0) evaluation.reward /= static_cast<double>(evaluation.responses);
  evaluation.metrics = validation_metrics(problems);
  return evaluation;
}

// Lines for people and programs to read, each behind its problem's index and a tab.
std::string samples_of(std::span<const Judged> judged, std::span<const data::Problem> problems) {
  std::string text;
  for (const Judged& one : judged)
    for (size_t i = 0; i < one.scores.size(); ++i) {
      const data::Problem& problem = problems[one.index];
      const rewards::Score& score = one.scores[i];
      text += std::to_string(one.index) + '\t' +
              line_of({{"index", problem.index},
                       {"sample", i},
                       {"data_source", problem.data_source},
                       {"prompt", problem.prompt},
                       {"response", one.responses[i]},
                       {"ground_truth", problem.answer},
                       {"score", score.value},
                       {"correct", score.correct},
                       {"answer", score.answer},
                       {"components", score.extras}});
    }
  return text;
}

// In rounds, so that no rank ever holds all texts. Every rank's problems ascend, and every round's are below
// the next's.
void write_samples(comm::Communicator& world, std::span<const Judged> judged,
                   std::span<const data::Problem> problems, size_t rounds, const SampleWriter& samples) {
  for (size_t round = 0; round < rounds; ++round) {
    const size_t begin = std::min(round * kSamplesAtATime, judged.size());
    const size_t end = std::min(begin + kSamplesAtATime, judged.size());
    const auto texts = world.all_gather_strings(samples_of(judged.subspan(begin, end - begin), problems));
    if (!samples.write || world.rank() != 0) continue;
    std::map<size_t, std::string> by_index;
    for (const std::string& text : texts) {
      std::istringstream lines(text);
      for (std::string line; std::getline(lines, line);) {
        const size_t tab = line.find('\t');
        by_index[std::stoul(line.substr(0, tab))] += line.substr(tab + 1) + "\n";
      }
    }
    for (const auto& [index, lines] : by_index) samples.write(lines);
  }
}

std::vector<rollout::Request> requests_for(std::span<const Judged> asked,
                                           std::span<const data::Problem> problems,
                                           const rollout::Engine& engine, const Asking& asking) {
  std::vector<rollout::Request> requests;
  for (const Judged& one : asked) {
    rollout::Request request;
    request.id = static_cast<int64_t>(one.index);
    request.prompt = problems[one.index].prompt_ids;
    request.n = asking.n;
    request.greedy = asking.sampling.temperature == 0;
    if (!request.greedy) request.sampling = asking.sampling;
    request.sampling.stop = engine.config().sampling.stop;
    request.max_new_tokens = engine.max_new_tokens(request, asking.max_response_length);
    request.seed = asking.seed;
    requests.push_back(std::move(request));
  }
  return requests;
}

void add_model_scores(std::vector<Judged>& judged, const ModelScores& model) {
  std::vector<ModelScores::Answered> answered;
  for (Judged& one : judged) answered.push_back({one.index, std::move(one.tokens)});
  const auto numbers = model.judge(answered);
  for (size_t i = 0; i < judged.size(); ++i)
    for (size_t sample = 0; sample < judged[i].scores.size(); ++sample) {
      rewards::Score& score = judged[i].scores[sample];
      score.extras["model"] = numbers.at(i).at(sample);
      score.value += model.weight * numbers[i][sample];
    }
}

}  // namespace

Evaluation evaluate(comm::Communicator& world, const placement::Mesh& engines, rollout::Engine* engine,
                    const text::Tokenizer& tokenizer, rewards::Scorer* scorer,
                    std::span<const data::Problem> problems, const Asking& asking,
                    const SampleWriter& samples, const ModelScores& model) {
  std::vector<Judged> judged;
  const auto place = engines.find(world.rank());
  if (engine && place) {
    for (auto i = static_cast<size_t>(place->d); i < problems.size(); i += static_cast<size_t>(engines.dp))
      judged.push_back({.index = i,
                        .responses = std::vector<std::string>(static_cast<size_t>(asking.n)),
                        .scores = {},
                        .tokens = std::vector<std::vector<int32_t>>(static_cast<size_t>(asking.n))});
    std::vector<std::vector<int64_t>> tickets(judged.size(),
                                              std::vector<int64_t>(static_cast<size_t>(asking.n)));
    engine->generate(requests_for(judged, problems, *engine, asking), [&](size_t i, size_t sample,
                                                                          const rollout::Response& response) {
      if (!scorer) return;
      const data::Problem& problem = problems[judged[i].index];
      judged[i].responses[sample] = tokenizer.decode(response.tokens);
      if (model.judge) judged[i].tokens[sample] = response.tokens;
      tickets[i][sample] = scorer->submit(
          {problem.data_source, judged[i].responses[sample], problem.answer, problem.extra_info,
           static_cast<int64_t>(response.tokens.size()),
           {asking.key.step, asking.key.name + "/" + std::to_string(judged[i].index) + "/" + std::to_string(sample)}});
    });
    for (size_t i = 0; i < judged.size() && scorer; ++i)
      for (const int64_t ticket : tickets[i]) judged[i].scores.push_back(scorer->wait(ticket));
    engine->take_stats();  // evaluation is no part of a step's figures
    if (scorer) scorer->take_stats();
  }
  if (!scorer) judged.clear();  // the first of the replica has the same answers
  if (model.judge) add_model_scores(judged, model);
  const auto evaluation = from_lines(world.all_gather_strings(to_lines(judged, problems, !model.alone)));
  if (samples.most != 0) {
    const size_t kept =
        samples.most < 0 ? problems.size() : std::min(problems.size(), static_cast<size_t>(samples.most));
    std::erase_if(judged, [&](const Judged& one) { return one.index >= kept; });
    const size_t replicas = static_cast<size_t>(std::max<int64_t>(1, engines.dp));
    const size_t most = (kept + replicas - 1) / replicas;
    write_samples(world, judged, problems, (most + kSamplesAtATime - 1) / kSamplesAtATime, samples);
  }
  return evaluation;
}

}  // namespace trireme::evaluation
