// What an assistant says in a conversation, found in the text that a template makes of it: what supervised
// fine-tuning and preferences learn. Torch-free.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "trainer/chat/chat_template.h"

namespace trireme::chat {

struct TurnsText {
  std::string text;
  std::vector<std::pair<size_t, size_t>> turns;  // bytes [begin, end) of text that an assistant wrote
};

/// The conversation as texts that hold each assistant turn once, with its whole context before it.
///
/// Where the template marks turns by {% generation %}, this is one text with those marks. Elsewhere a turn is
/// what its rendering adds to the template's question: the messages before it, rendered with
/// add_generation_prompt, must be the beginning of the messages up to it, rendered without. What follows that
/// beginning is learned, so a template's header is not, and what ends a turn is. A template that writes
/// earlier turns differently once others follow (Qwen3 drops their reasoning) gives one text for each turn
/// that it would rewrite: each is learned as the model is asked for it.
///
/// `first`: only turns of messages[first] and later count (a prompt's own turns do not); above 0 it goes by
/// the question, whatever the template marks. add_generation_prompt and continue_final_message must be off.
/// Throws invalid_config where the conversation has no such turn, and where a turn cannot be told from its
/// question, with what differs and what to do.
std::vector<TurnsText> assistant_turns(const ChatTemplate& chat_template, const Conversation& conversation,
                                       size_t first = 0);

}  // namespace trireme::chat
