// What a policy loses on a pair of answers of which one is preferred: DPO and its relatives, by TRL's names.
// Pure functions; a new one is a function, and its line in kPreferenceLosses (preference_config.h) and in
// preference_loss.cpp.
//
// Legend: P pairs; e is label_smoothing, s the logistic function.
#pragma once

#include <ATen/core/Tensor.h>

#include "trainer/losses/preference_config.h"

namespace trireme::losses {

struct PreferencePairs {
  // Of each answer the sum over its tokens of log(policy / reference), or of log(policy) without a reference;
  // fp64, with graph.
  at::Tensor chosen_P, rejected_P;
  at::Tensor chosen_tokens_P, rejected_tokens_P;  // how many there are, at least 1; fp64

  /// beta times the lead of the chosen answer's log-ratio.
  at::Tensor margins_P(const PreferenceLossConfig& config) const;
  /// The lead of the chosen answer's mean log-ratio of a token.
  at::Tensor mean_leads_P() const;
};

/// From [P, 2], the chosen answer's numbers first.
PreferencePairs pairs_of(const at::Tensor& log_ratios_P2, const at::Tensor& tokens_P2);

/// The loss of each pair, [P]. Throws invalid_config on an unknown loss_type.
at::Tensor preference_losses(const PreferencePairs& pairs, const PreferenceLossConfig& config);

// The types. c, r: the pair's log-ratios; d = beta (c - r), the margin.

/// -(1 - e) log s(d) - e log s(-d). Source: Rafailov et al. 2023, arXiv:2305.18290, eq. 7; e > 0 is
/// conservative DPO: Mitchell 2023, https://ericmitchell.ai/cdpo.pdf.
at::Tensor sigmoid_loss(const PreferencePairs& pairs, const PreferenceLossConfig& config);
/// -log s of beta times the lead in mean log-ratio of a token. Source: Lambert et al. 2024, arXiv:2411.15124,
/// eq. 6; without a reference, SimPO without its target margin: Meng et al. 2024, arXiv:2405.14734, eq. 6.
at::Tensor sigmoid_norm_loss(const PreferencePairs& pairs, const PreferenceLossConfig& config);
/// max(0, 1 - d). Source: Zhao et al. 2023, arXiv:2305.10425, with the reward of Liu et al. 2023,
/// arXiv:2309.06657, sec. 3.2.
at::Tensor hinge_loss(const PreferencePairs& pairs, const PreferenceLossConfig& config);
/// (lead - 1 / (2 beta))^2, the lead being in mean log-ratio of a token. Source: Azar et al. 2023,
/// arXiv:2310.12036, eq. 17; the mean over tokens is TRL's, which had it from the authors.
at::Tensor ipo_loss(const PreferencePairs& pairs, const PreferenceLossConfig& config);
/// (-(1 - e) log s(d) + e log s(-d)) / (1 - 2e): without bias where a share e of labels is swapped. Source:
/// Chowdhury et al. 2024, arXiv:2403.00409.
at::Tensor robust_loss(const PreferencePairs& pairs, const PreferenceLossConfig& config);
/// KL of (s(d), s(-d)) from (1 - e, e); e above 0. Source: Ji et al. 2024, arXiv:2402.00856, eq. 16.
at::Tensor exo_pair_loss(const PreferencePairs& pairs, const PreferenceLossConfig& config);
/// -log s(beta c) - (log s(-beta c) + log s(-beta r)) / 2. Source: Chen et al. 2024, arXiv:2402.05369.
at::Tensor nca_pair_loss(const PreferencePairs& pairs, const PreferenceLossConfig& config);
/// -log s(beta c) - log s(-beta r). Source: Jung et al. 2024, arXiv:2404.04656, without its reward shift.
at::Tensor bco_pair_loss(const PreferencePairs& pairs, const PreferenceLossConfig& config);
/// 1 - s(beta c) + s(beta r): up with the chosen, down with the rejected. Source: D'Oosterlinck et al. 2024,
/// arXiv:2408.06266, eq. 7.
at::Tensor apo_zero_loss(const PreferencePairs& pairs, const PreferenceLossConfig& config);
/// s(beta c) + 1 - s(d): down with both, with the rejected more. Source: the same, eq. 8.
at::Tensor apo_down_loss(const PreferencePairs& pairs, const PreferenceLossConfig& config);
/// (c - 1 / (2 beta))^2 + (r + 1 / (2 beta))^2. Source: Wu et al. 2024, arXiv:2405.00675, eq. 4.7 with
/// probabilities 1 and 0.
at::Tensor sppo_hard_loss(const PreferencePairs& pairs, const PreferenceLossConfig& config);

}  // namespace trireme::losses
