// What leaves the device's memory while it is not needed: its keys stand in the tables of their roles.
#include "trainer/config/schema_rules.h"

namespace trireme::config {

namespace {

void params(Keys& k, const std::string& role, Field field, std::string why, const std::string& verl) {
  k.push_back({role + ".param_offload", field, any(), "", std::move(why), verl + ".param_offload"});
}

void optimizer(Keys& k, const std::string& role, Field field, std::string why) {
  k.push_back({role + ".optimizer_offload", field, any(), "", std::move(why),
               role + ".fsdp_config.optimizer_offload"});
}

}  // namespace

void add_offload_folder(Keys& k) {
  k.push_back({"run.offload_dir", AT(offload.folder), any(), "",
               "Folder for what is offloaded where the device is a CPU, on a fast disk of each host; empty "
               "takes the run's own. On GPUs it is pinned memory of the host, and this is not used."});
}

void add_actor_offload(Keys& k) {
  params(k, "actor", AT(offload.actor.params),
         "Brings the policy's fp32 masters out of the device's memory but for the end of an update, and gives "
         "its gradient's memory back after it; and its weights, where rollout has its own. The same numbers; "
         "a copy of the masters each way and update.",
         "actor.fsdp_config");
  optimizer(k, "actor", AT(offload.actor.optimizer),
            "Keeps AdamW's two moments outside of the device's memory, 8 bytes a parameter: they come in "
            "pieces, each while the one before is worked on. The same numbers; on a GPU outside is the host's "
            "memory, on a CPU a file in run.offload_dir.");
}

void add_critic_offload(Keys& k) {
  params(k, "critic", AT(offload.critic.params),
         "Brings the critic's masters, weights and gradient out of the device's memory while it neither "
         "judges nor learns.",
         "critic.fsdp");
  optimizer(k, "critic", AT(offload.critic.optimizer), "See actor.optimizer_offload.");
}

void add_reference_offload(Keys& k) {
  params(k, "reference", AT(offload.reference.params),
         "Brings the reference's weights out of the device's memory but for the stage that reads them. They "
         "are copied out once.",
         "ref.fsdp_config");
}

}  // namespace trireme::config
