// actor_rollout_ref.rollout.* and actor_rollout_ref itself
#include "launcher/verl/rows.h"

namespace trireme::verl::table {

void add_rollout(Rows& rows) {
  const std::string r = "actor_rollout_ref.rollout.";
  const char* const greedy = "evaluation is greedy, with one answer to each problem";
  const char* const own_engine = "generation is an engine of our own in the same process";
  const char* const packed = "old log-probabilities are packed as training is";
  rows.insert(
      rows.end(),
      {same(r + "n", "1"), same(r + "temperature", "1.0"), same(r + "top_k", "-1", {{"0", "-1"}}),
       same(r + "top_p", "1"), same(r + "max_num_seqs", "256"), same(r + "max_num_batched_tokens", "8192"),
       same(r + "max_model_len"), same(r + "gpu_memory_utilization", "0.5"),
       maps(r + "seed", "run.seed", "", {}, "everything random in the run follows from it"),
       needless(r + "name", own_engine), needless(r + "mode", own_engine),
       needless(r + "prompt_length", "data.max_prompt_length"),
       needless(r + "response_length", "data.max_response_length"),
       unsupported(r + "ignore_eos", {"False"}, "a response ends with the token that ends it"),
       needless(r + "enforce_eager", "steps of decode are captured graphs where the device has them"),
       needless(r + "cudagraph_capture_sizes", "graphs are captured for a ladder of sizes"),
       needless(r + "free_cache_engine", own_engine),
       unsupported(r + "data_parallel_size", {"1"},
                   "ranks of rollout that tp leaves are replicas by themselves"),
       unsupported(r + "expert_parallel_size", {"1"}, "mixtures of experts are not there yet"),
       unsupported(r + "pipeline_model_parallel_size", {"1"}, "use rollout.parallel.tp"),
       needless(r + "enable_chunked_prefill", "long prompts are computed in pieces, always"),
       needless(r + "enable_prefix_caching", "equal prefixes are computed once, always"),
       unsupported(r + "logprobs_mode", {"processed_logprobs"},
                   "log-probabilities are those of the distribution at rollout.temperature"),
       needless(r + "scheduling_policy", "first come, first served"),
       needless(r + "load_format", "rollout takes its weights from the actor"),
       needless(r + "layer_name_map.*", "rollout takes its weights from the actor"),
       needless("actor_rollout_ref.profiler.*", "every stage is timed, always"),
       needless(r + "layered_summon", "rollout takes its weights from the actor"),
       needless(r + "update_weights_bucket_megabytes", "weights go straight to their place"),
       needless(r + "checkpoint_engine.*", "weights go straight to their place"),
       needless(r + "log_prob_micro_batch_size", packed),
       needless(r + "log_prob_micro_batch_size_per_gpu", packed),
       needless(r + "log_prob_use_dynamic_bsz", packed),
       needless(r + "log_prob_max_token_len_per_gpu", packed),
       needless(r + "disable_log_stats", "the engine's state is among the metrics"),
       needless(r + "calculate_log_probs", "rollout always records them"),
       unsupported(r + "do_sample", {"True"}, "training samples; set a low rollout.temperature"),
       unsupported(r + "over_sample_rate", {"0", "0.0"}, "every response is waited for"),
       needless(r + "multi_stage_wake_up", own_engine), needless(r + "engine_kwargs.*", own_engine),
       needless(r + "skip_tokenizer_init", own_engine),
       needless(r + "full_determinism", "the same seed gives the same numbers, always"),
       // val_kwargs.do_sample = False is greedy, whatever stands beside it.
       unsupported(r + "val_kwargs.do_sample", {"False"}, greedy),
       unsupported(r + "val_kwargs.n", {"1"}, greedy), needless(r + "val_kwargs.temperature", greedy),
       needless(r + "val_kwargs.top_k", greedy), needless(r + "val_kwargs.top_p", greedy),
       needless(r + "val_kwargs.seed", greedy),
       unsupported(r + "multi_turn.enable", {"False"},
                   "a response is one turn: conversations with tools are not there"),
       unsupported(r + "multi_turn.*", {}, "a response is one turn"),
       needless(r + "agent.num_workers", own_engine),
       unsupported(r + "agent.default_agent_loop", {"single_turn_agent"}, "a response is one turn"),
       unsupported(r + "agent.*", {}, "a response is one turn"),
       unsupported(r + "custom_async_server.*", {}, own_engine),
       needless(r + "trace.*", "texts are not traced"),
       needless(r + "prometheus.*", "metrics are in metrics.jsonl"),
       unsupported(r + "skip_rollout", {"False"}, "every step generates"),
       needless(r + "skip_dump_dir", "see skip_rollout"),
       unsupported(r + "enable_rollout_routing_replay", {"False"}, "mixtures of experts are not there yet"),
       unsupported(r + "quantization", {}, "rollout computes in model.dtype"),
       needless(r + "quantization_config_file", "see quantization"),
       unsupported(r + "mtp.*", {"False"}, "tokens are predicted one by one"),
       unsupported(r + "mtp", {}, "tokens are predicted one by one"),
       unsupported("actor_rollout_ref.hybrid_engine", {"True"},
                   "name the ranks of each role in [placement] to generate on other GPUs"),
       needless("actor_rollout_ref.nccl_timeout",
                "`trireme run --stall-timeout SECONDS` is for all waiting")});
}

}  // namespace trireme::verl::table
