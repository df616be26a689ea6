#include "launcher/commands/plan_report.h"

namespace trireme::commands {
namespace {

using Json = nlohmann::ordered_json;

Json layout_json(const costs::RoleJob& role) {
  const auto& layout = role.layout;
  return {{"first_rank", role.first},
          {"ranks", layout.ranks()},
          {"dp", layout.dp},
          {"pp", layout.pp},
          {"cp", layout.cp},
          {"tp", layout.tp},
          {"zero_stage", layout.zero_stage},
          {"recompute", layout.recompute},
          {"micro_tokens", layout.micro_tokens}};
}

Json parts_json(const std::vector<costs::RankMemory::Part>& parts) {
  Json object = Json::object();
  for (const auto& part : parts) object[part.name] = part.bytes;
  return object;
}

Json outcome_json(const costs::Outcome& outcome) {
  Json memory = Json::array(), stages = Json::array(), idle = Json::object();
  for (const auto& ranks : outcome.memory)
    memory.push_back({{"first_rank", ranks.first},
                      {"end_rank", ranks.end},
                      {"held", parts_json(ranks.held)},
                      {"phases", parts_json(ranks.phases)},
                      {"peak_bytes", ranks.peak_bytes()}});
  for (const auto& stage : outcome.time.stages)
    stages.push_back({{"name", stage.name},
                      {"seconds", stage.total()},
                      {"work", stage.work},
                      {"communication", stage.communication},
                      {"bubble", stage.bubble},
                      {"uneven", stage.uneven},
                      {"tail", stage.tail},
                      {"overhead", stage.overhead},
                      {"fabric_bytes", stage.links.fabric_bytes},
                      {"network_bytes", stage.links.network_bytes}});
  for (const auto& each : outcome.idle) idle[each.cause] = each.share;
  return {{"fits", outcome.fits},
          {"why_not", outcome.why_not},
          {"device_bytes", outcome.device_bytes},
          {"memory", memory},
          {"kv_tokens", outcome.kv_tokens},
          {"kv_tokens_most", outcome.kv_most},
          {"kv_tokens_wanted", outcome.kv_wanted},
          {"decode_slots", outcome.decode_slots},
          {"step_seconds", outcome.time.seconds},
          {"stages", stages},
          {"tokens_per_second", outcome.tokens_per_second},
          {"device_hours", outcome.device_hours},
          {"idle", idle}};
}

Json roles_json(const costs::Job& job) {
  Json roles = Json::object();
  for (const auto which : costs::kPlannedRoles)
    if (job.role(which).present) roles[to_string(which)] = layout_json(job.role(which));
  return roles;
}

Json constants_json(const costs::Constants& constants) {
  Json object = Json::object();
  for (const auto& constant : constants.all)
    object[constant.name] = {{"value", constant.value},
                             {"unit", constant.unit},
                             {"fitted", constant.fitted},
                             {"source", constant.source}};
  return object;
}

}  // namespace

Json report_json(const Report& report) {
  Json changes = Json::array();
  for (const auto& change : costs::changes_of(report.job, report.outcome))
    changes.push_back({{"setting", change.setting},
                       {"fits", change.outcome.fits},
                       {"step_seconds", change.outcome.time.seconds},
                       {"gain", change.gain}});
  const auto& work = report.job.work;
  return {{"model", report.job.model.name},
          {"parameters", report.job.model.num_parameters()},
          {"machine", report.job.machine.text()},
          {"machine_source", report.machine_source},
          {"ranks", report.job.ranks()},
          {"step",
           {{"prompts", work.prompts},
            {"samples", work.samples},
            {"prompt_tokens", work.prompt_tokens},
            {"response_tokens", work.response_tokens},
            {"response_limit", work.response_limit},
            {"updates", work.updates}}},
          {"roles", roles_json(report.job)},
          {"outcome", outcome_json(report.outcome)},
          {"largest_micro_tokens", costs::largest_micro_tokens(report.job)},
          {"changes", changes},
          {"constants", constants_json(report.job.constants)}};
}

Json search_json(const costs::Search& search) {
  Json best = Json::array();
  for (const auto& candidate : search.best)
    best.push_back({{"text", candidate.text()},
                    {"roles", roles_json(candidate.job)},
                    {"outcome", outcome_json(candidate.outcome)}});
  return {{"tried", search.tried}, {"fitting", search.fitting}, {"best", best}, {"because", search.because}};
}

Json comparison_json(const std::vector<costs::Comparison>& comparisons, const costs::Constants& constants) {
  Json runs = Json::array();
  for (const auto& each : comparisons)
    runs.push_back({{"name", each.name},
                    {"stages", each.stages},
                    {"use", each.fitted ? "fit" : "predict"},
                    {"stated_seconds", each.stated},
                    {"predicted_seconds", each.predicted},
                    {"ratio", each.ratio()}});
  return {{"comparisons", runs},
          {"median_factor_fitted", costs::median_factor(comparisons, true)},
          {"median_factor_predicted", costs::median_factor(comparisons, false)},
          {"constants", constants_json(constants)}};
}

}  // namespace trireme::commands
