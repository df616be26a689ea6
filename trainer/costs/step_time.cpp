#include "trainer/costs/step_time.h"

#include <algorithm>
#include <cmath>

namespace trireme::costs {
namespace {

class Stages {
 public:
  explicit Stages(const Job& job)
      : job_(job),
        machine_(job.machine),
        constants_(job.constants),
        element_(job.target.element),
        lengths_(job.work.response_tokens, job.work.response_limit, constants_.of(Constant::length_spread)) {}

  StageTime generation(double slots) const {
    const Layout& layout = job_.role(PlannedRole::rollout).layout;
    const double replicas = static_cast<double>(layout.dp);
    GenerationJob mine;
    mine.sequences = std::ceil(job_.work.sequences() / replicas);
    mine.prompts = std::ceil(job_.work.prompts / replicas);
    mine.prompt_tokens = job_.work.prompt_tokens;
    mine.slots = slots;
    mine.tp = layout.tp;
    const GenerationTime time =
        generation_time(job_.model, job_.target, mine, lengths_, machine_, constants_);
    StageTime stage{"gen"};
    stage.tail = time.idle_tail;
    // The tail's part of each kind is its part of the whole.
    const double rest = time.decode > 0 ? 1 - time.idle_tail / time.decode : 1;
    stage.communication = time.communication * rest;
    stage.overhead = time.overhead * rest;
    stage.work = time.prefill + (time.decode - time.communication - time.overhead) * rest;
    stage.links = time.links;
    return stage;
  }

  StageTime forward(const char* name, const ModelShape& shape, const Layout& layout) const {
    return passes(name, shape, layout, 1, false);
  }
  StageTime update(const char* name, const ModelShape& shape, const Layout& layout, double updates) const {
    StageTime stage = passes(name, shape, layout, updates, true);
    add_optimizer(stage, shape, layout, updates);
    return stage;
  }

  StageTime weights() const {
    StageTime stage{"update_weights"};
    const RoleJob &actor = job_.role(PlannedRole::actor), &rollout = job_.role(PlannedRole::rollout);
    if (job_.shares_weights()) return stage;
    const double bytes = static_cast<double>(weight_bytes(
        job_.model, {.pp = rollout.layout.pp, .tp = rollout.layout.tp}, {.element = element_}, false));
    // What a rank lacks comes from its node where actors are there, else over the network.
    const bool same_ranks = actor.first < rollout.end() && rollout.first < actor.end();
    const int64_t replica = actor.layout.pp * actor.layout.cp * actor.layout.tp;
    const bool near = (same_ranks && replica <= machine_.devices_per_node) || machine_.nodes == 1;
    stage.links = send(bytes, near ? 1 : machine_.devices_per_node, machine_, constants_);
    stage.communication = stage.links.seconds;
    return stage;
  }

 private:
  // All passes of a stage over the batch, forward alone or there and back.
  StageTime passes(const char* name, const ModelShape& shape, const Layout& layout, double updates,
                   bool trains) const {
    StageTime stage{name};
    const auto dp = static_cast<double>(layout.dp), pp = static_cast<double>(layout.pp),
               cp = static_cast<double>(layout.cp), tp = static_cast<double>(layout.tp),
               layers = static_cast<double>(shape.num_hidden_layers);
    const double epochs = trains ? job_.work.epochs : 1;
    const double rows_of_update = job_.work.rows() * epochs / dp / updates;
    const double micro_batches =
        std::max(1.0, std::ceil(rows_of_update / (static_cast<double>(layout.micro_tokens) * cp)));
    const double rows = rows_of_update / micro_batches, count = micro_batches * updates;

    // A response's row sees its prompt and half of the response, weighed by length.
    const double seen = job_.work.prompt_tokens + lengths_.second_moment() / (2 * lengths_.mean());
    const double in_layers = layers * (shape.flops_of_layer() + shape.flops_of_attention(seen));
    const double responses = job_.work.sequences() * job_.work.response_tokens / job_.work.rows();
    const double factor = trains ? 3 : 1, again = trains && layout.recompute ? 1 : 0;
    const double flops = rows * (in_layers * (factor + again) +
                                 shape.flops_of_head() * responses * (factor + (trains ? 1 : 0)));
    const double share = constants_.of(Constant::product_share);
    const double pass = flops / (tp * cp * pp) / (machine_.flops(job_.target.fp32()) * share);
    stage.work = pass * count;
    stage.overhead = count * layers / pp * (factor + again) * constants_.of(Constant::layer_seconds);
    // Norms, rotation, activation and softmax read and write what the products leave.
    const double width_of_row =
        (3 * tp * static_cast<double>(shape.hidden_size) +
         static_cast<double>(2 * shape.q_width() + 2 * shape.kv_width() + 3 * shape.intermediate_size)) *
        static_cast<double>(element_);
    const double touched = rows / (tp * cp * pp) *
                           (2 * (factor + again) * layers * width_of_row +
                            (trains ? 4 : 2) * 4.0 * responses * shape.flops_of_head() /
                                (2.0 * static_cast<double>(shape.hidden_size)));
    stage.work += count * touched / (machine_.device.memory_rate * constants_.of(Constant::touch_share));
    if (layout.pp > 1) stage.bubble = (stage.work + stage.overhead) / count * (pp - 1) * updates;
    const double longest = job_.work.prompt_tokens + lengths_.longest_of(job_.work.sequences());
    stage.uneven = stage.work * (constants_.of(Constant::uneven_share) * (dp > 1 ? 1 : 0) +
                                 (dp > 1 ? 0.5 * std::min(1.0, longest / rows_of_update) : 0));

    LinkUse open;  // of one pass, nothing hides it
    const auto width = static_cast<double>(shape.hidden_size * element_);
    const RankLine tp_line{layout.tp, 1}, cp_line{layout.cp, layout.tp};
    open += ring(rows / cp * width, tp_line, machine_, constants_)
                .times(4 * layers / pp * (trains ? 2 + again : 1));
    if (layout.cp > 1) {
      const double kv =
          rows * 2 *
          static_cast<double>(shape.kv_width() / std::min(layout.tp, shape.num_key_value_heads) * element_);
      open += ring(kv, cp_line, machine_, constants_).times(layers / pp * (trains ? 3 + again : 1));
    }
    if (layout.pp > 1)
      open += send(rows / cp / tp * width, layout.cp * layout.tp, machine_, constants_).times(trains ? 2 : 1);
    stage.links += open.times(count);
    stage.communication += open.seconds * count;

    // ZeRO's gathers and sums go on beside the products of the layer before or after.
    LinkUse hidden;
    const double layer_elements = static_cast<double>(slice_sizes(shape, layout.tp).layer) * layers / pp;
    const RankLine dp_line{layout.shards(), layout.pp * layout.tp};
    if (layout.zero() == 3)
      hidden += ring(layer_elements * static_cast<double>(element_), dp_line, machine_, constants_)
                    .times(trains ? 2 : 1);
    if (layout.zero() >= 2 && trains)
      hidden += ring(layer_elements * (layout.exact ? 8 : 4), dp_line, machine_, constants_);
    stage.links += hidden.times(count);
    stage.communication += std::max(0.0, hidden.seconds - pass) * count;
    return stage;
  }

  // The sum of gradients, AdamW over a rank's part, and the weights brought where the decoder reads them.
  void add_optimizer(StageTime& stage, const ModelShape& shape, const Layout& layout, double updates) const {
    const StateBytes state = state_bytes(shape, layout, job_.target);
    const double part = static_cast<double>(state.masters) / 4;
    const SliceSizes sizes = slice_sizes(shape, layout.tp);
    const double all = static_cast<double>(sizes.embedding + sizes.last) +
                       static_cast<double>(sizes.layer) * static_cast<double>(shape.num_hidden_layers) /
                           static_cast<double>(layout.pp);
    const RankLine dp_line{layout.shards(), layout.pp * layout.tp};
    LinkUse sums;
    const double gradient = all * (layout.exact ? 8 : 4), weights = all * static_cast<double>(element_);
    if (layout.zero() == 0)
      sums = ring(gradient, dp_line, machine_, constants_).times(2);
    else if (layout.zero() == 1)
      sums = ring(gradient, dp_line, machine_, constants_);
    if (layout.zero() == 1 || layout.zero() == 2) sums += ring(weights, dp_line, machine_, constants_);
    stage.links += sums.times(updates);
    stage.communication += sums.seconds * updates;
    // Gradients are zeroed, normed and read, masters and moments read and written; weights are converted and,
    // on the CPU, packed.
    double bytes = part * (4 + 4 + 4 + 12 + 12) + (part * 4 + weights);
    if (job_.target.on_cpu) bytes += 2 * static_cast<double>(state.packed);
    stage.overhead += updates * bytes / (machine_.device.memory_rate * constants_.of(Constant::update_share));
    // What is outside comes and goes over the host's link; AdamW's own time is short beside it.
    double outside = layout.optimizer_offload ? 16 * part : 0;
    if (layout.param_offload) outside += 8 * part;
    if (machine_.device.host_rate > 0) stage.overhead += updates * outside / machine_.device.host_rate;
  }

  const Job& job_;
  const Machine& machine_;
  const Constants& constants_;
  const int64_t element_;
  const ResponseLengths lengths_;
};

}  // namespace

const char* to_string(PlannedRole role) {
  static constexpr std::array<const char*, kPlannedRoles.size()> kNames{"actor", "critic", "reference",
                                                                        "rollout", "reward_model"};
  return kNames[static_cast<size_t>(role)];
}

int64_t Job::ranks() const {
  int64_t most = 0;
  for (const RoleJob& role : roles)
    if (role.present) most = std::max(most, role.end());
  return most;
}

bool Job::shares_weights() const {
  const RoleJob &own = role(PlannedRole::actor), &reader = role(PlannedRole::rollout);
  return own.present && reader.present && own.first == reader.first && own.end() == reader.end() &&
         own.layout.tp == reader.layout.tp && own.layout.pp == 1 && own.layout.zero() < 3;
}

double StepTime::stage(const std::string& name) const {
  for (const StageTime& stage : stages)
    if (stage.name == name) return stage.total();
  return 0;
}

StepTime step_time(const Job& job, double decode_slots) {
  const Stages stages(job);
  StepTime step;
  const auto ranks = static_cast<double>(job.ranks());
  const bool side_by_side = job.steps_ahead || job.stream;
  // What is streamed is read as it comes, and learned from too unless all is read before.
  const bool learns_late = job.stream && (job.work.old_log_prob || job.role(PlannedRole::critic).present);
  double generating = 0, behind = 0;
  // Ranks that are not in a stage's role wait for it, unless rollout goes on beside them.
  const auto add = [&](StageTime stage, PlannedRole who, bool updates = false) {
    const double seconds = stage.total(), idle = ranks - static_cast<double>(job.role(who).layout.ranks());
    if (side_by_side && (who == PlannedRole::rollout || who == PlannedRole::reward_model))
      generating += seconds;
    else
      (learns_late && updates ? behind : step.seconds) += seconds;
    if (!side_by_side) step.waiting += seconds * idle;
    step.stages.push_back(std::move(stage));
  };
  const auto& actor = job.role(PlannedRole::actor).layout;
  if (job.role(PlannedRole::rollout).present) add(stages.generation(decode_slots), PlannedRole::rollout);
  if (job.role(PlannedRole::reward_model).present)
    add(stages.forward("reward_model", job.reward_model, job.role(PlannedRole::reward_model).layout),
        PlannedRole::reward_model);
  if (job.work.old_log_prob) add(stages.forward("old_log_prob", job.model, actor), PlannedRole::actor);
  if (job.role(PlannedRole::reference).present)
    add(stages.forward("ref", job.model, job.role(PlannedRole::reference).layout), PlannedRole::reference);
  if (job.role(PlannedRole::critic).present) {
    const Layout& critic = job.role(PlannedRole::critic).layout;
    add(stages.forward("values", job.critic_model, critic), PlannedRole::critic);
    add(stages.update("update_critic", job.critic_model, critic, job.work.critic_updates),
        PlannedRole::critic, true);
  }
  add(stages.update("update_actor", job.model, actor, job.work.updates), PlannedRole::actor, true);
  if (side_by_side) {
    const auto of_rollout = static_cast<double>(job.role(PlannedRole::rollout).layout.ranks());
    // Of what is streamed, the first mini-batch is generated while nothing is learned, and the last one learned
    // from while nothing is generated.
    const double alone = job.steps_ahead ? 0.0 : 1.0 / std::max(1.0, job.work.updates);
    const double working = step.seconds + behind;
    const double longer =
        std::max(step.seconds + alone * generating, generating + alone * step.seconds) + behind;
    step.waiting = (longer - generating) * of_rollout + (longer - working) * (ranks - of_rollout);
    step.seconds = longer;
  }
  // The two sides meet for the weights.
  if (job.role(PlannedRole::rollout).present) {
    StageTime moved = stages.weights();
    step.seconds += moved.total();
    step.stages.push_back(std::move(moved));
  }
  return step;
}

}  // namespace trireme::costs
