// data.* and actor_rollout_ref.model.*
#include "launcher/verl/rows.h"

namespace trireme::verl::table {

void add_data(Rows& rows) {
  rows.insert(
      rows.end(),
      {maps("data.train_files", "data.train_files"),
       maps("data.val_files", "data.val_files"),
       same("data.prompt_key", "prompt"),
       same("data.train_batch_size", "1024"),
       same("data.max_prompt_length", "512"),
       same("data.max_response_length", "512"),
       same("data.train_max_samples", "-1"),
       same("data.val_max_samples", "-1"),
       same("data.shuffle", "True"),
       maps("data.seed", "run.seed", "", {}, "everything random in the run follows from it"),
       same("data.filter_overlong_prompts", "False"),
       same("data.truncation", "error"),
       maps("data.tokenizer", "model.tokenizer_path"),
       needless("data.val_batch_size", "evaluation packs its prompts by rollout.max_num_batched_tokens"),
       unsupported(
           "data.gen_batch_size", {"0"},
           "prompts are drawn data.train_batch_size at a time; filtering draws further ones as needed"),
       unsupported("data.reward_fn_key", {"data_source"}, "name that column data_source in the data files"),
       needless("data.image_key", "images are not read: text only"),
       needless("data.video_key", "videos are not read: text only"),
       needless("data.image_patch_size", "images are not read: text only"),
       needless("data.return_raw_chat", "conversations are kept as they are, always"),
       needless("data.return_raw_input_ids", "token ids are kept, always"),
       needless("data.return_full_prompt", "prompts are kept, always"),
       needless("data.return_multi_modal_inputs", "text only"),
       needless("data.filter_overlong_prompts_workers", "the tokenizer needs no worker processes"),
       needless("data.dataloader_num_workers", "data is read before the first step"),
       needless("data.use_shm", "files are read in place"),
       needless("data.trust_remote_code", "no Python code of a model is run"),
       needless("data.validation_shuffle", "evaluation takes all problems; their order changes nothing"),
       needless("data.tool_config_path", "read with multi_turn only"),
       needless("data.custom_cls.name", "see data.custom_cls.path"),
       unsupported("data.custom_cls.path", {},
                   "write what the class makes of the rows into a Parquet or JSONL file"),
       needless("data.sampler.class_name", "see data.sampler.class_path"),
       unsupported("data.sampler.class_path", {},
                   "put the rows in the wanted order and set data.shuffle = false"),
       needless("data.datagen.name", "see data.datagen.path"),
       unsupported("data.datagen.path", {}, "generate the data before the run")});
}

void add_model(Rows& rows) {
  const std::string m = "actor_rollout_ref.model.";
  rows.insert(
      rows.end(),
      {maps(m + "path", "model.path"),
       maps(m + "tokenizer_path", "model.tokenizer_path"),
       same(m + "enable_gradient_checkpointing", "True"),
       needless(m + "use_remove_padding", "sequences are packed without padding, always"),
       needless(m + "use_shm", "weights are read in place"),
       needless(m + "trust_remote_code", "no Python code of a model is run"),
       needless(m + "use_fused_kernels", "the loss is computed without whole logits in memory, always"),
       needless(m + "fused_kernel_options.*", "kernels are chosen for the machine"),
       needless(m + "use_liger", "kernels are our own"),
       needless(m + "torch_dtype", "see actor.fsdp_config.dtype"),
       same(m + "enable_activation_offload", "False"),
       unsupported(m + "lora_rank", {"0"},
                   "all weights are trained; lower actor.optim.lr, and see actor.parallel"),
       unsupported(m + "lora_alpha", {}, "all weights are trained"),
       unsupported(m + "target_modules", {}, "all weights are trained"),
       unsupported(m + "exclude_modules", {}, "all weights are trained"),
       unsupported(m + "lora_adapter_path", {}, "merge the adapter into the checkpoint first"),
       unsupported(m + "lora.rank", {"0"}, "all weights are trained"),
       unsupported(m + "lora.*", {}, "all weights are trained"),
       unsupported(m + "hf_config_path", {}, "put config.json into the folder model.path"),
       unsupported(m + "custom_chat_template", {},
                   "put it into tokenizer_config.json, as chat_template, in the folder of the tokenizer"),
       unsupported(m + "external_lib", {}, "the model must be of a family that is built in (README, Models)"),
       needless(m + "override_config.moe_config.*", "mixtures of experts are not there yet"),
       needless(m + "override_config.attn_implementation", "attention is our own"),
       unsupported(m + "override_config.*", {}, "write it into config.json in the folder model.path"),
       unsupported(m + "tiled_mlp.*", {"False"}, "lower actor.ppo_max_token_len_per_rank to save memory"),
       unsupported(m + "mtp.*", {"False"}, "leave it out: tokens are predicted one by one")});
}

}  // namespace trireme::verl::table
