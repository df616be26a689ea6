// Which columns of data files supervised fine-tuning learns from.
#pragma once

#include <string>

namespace trireme::data {

struct LearnedColumns {
  std::string response;  // text, or an assistant's message; "": nothing is learned
  /// Conversations: rows that have it need neither a prompt nor a response, and no row needs a ground truth.
  /// "": none.
  std::string messages;
  std::string tools;   // that a conversation's assistant may call
  bool pairs = false;  // of answers, in data.chosen_key and data.rejected_key, stand in place of all these
  bool keeps_messages = false;  // Problem::messages is filled in
};

}  // namespace trireme::data
