// Reading tests/trainer/chat/goldens (made by tools/make_goldens/chat.py) and comparing with them.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/base/files.h"
#include "trainer/chat/chat_template.h"

namespace trireme::chat::tests {

inline std::string goldens_folder() {
  const char* source = std::getenv("TRIREME_SOURCE_DIR");
  return std::string(source ? source : ".") + "/tests/trainer/chat/goldens/";
}

inline Json read_json(const std::string& path) {
  return Json::parse(files::read(path));
}

inline uint32_t crc32(std::string_view text) {
  uint32_t crc = 0xFFFFFFFF;
  for (const char c : text) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320 : 0);
  }
  return ~crc;
}

inline Conversation to_conversation(const Json& json) {
  Conversation c;
  c.messages = json.at("messages");
  c.tools = json.value("tools", Json());
  c.documents = json.value("documents", Json());
  c.add_generation_prompt = json.value("add_generation_prompt", false);
  c.continue_final_message = json.value("continue_final_message", false);
  c.variables = json.value("variables", Json::object());
  return c;
}

/// As the goldens keep it: CRC-32, bytes, then begin and end of each generation; null if it was refused.
inline Json summary(const ChatTemplate& chat, const Conversation& conversation, std::string* shown) {
  try {
    const RenderedChat rendered = chat.render(conversation);
    *shown = rendered.text;
    Json out = {crc32(rendered.text), rendered.text.size()};
    if (conversation.continue_final_message) return out;  // transformers marks no generation then
    for (const auto& [begin, end] : rendered.generation) {
      out.push_back(begin);
      out.push_back(end);
    }
    return out;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_config);
    *shown = error.message();
    return nullptr;
  }
}

struct Compared {
  int renderings = 0, refused = 0, different = 0;
};

/// The template in `path` over all conversations against what transformers made of them.
inline Compared compare_all(const std::string& path, const Json& expected) {
  const Json goldens = read_json(goldens_folder() + "conversations.json");
  const ChatTemplate chat(files::read(path), goldens.at("variables"), path);
  Compared compared;
  const Json& conversations = goldens.at("conversations");
  EXPECT_EQ(conversations.size(), expected.size());
  for (size_t i = 0; i < conversations.size(); ++i) {
    std::string shown;
    const Json ours = summary(chat, to_conversation(conversations[i]), &shown);
    ++compared.renderings;
    compared.refused += ours.is_null();
    if (ours == expected[i]) continue;
    ++compared.different;
    ADD_FAILURE() << path << " of conversation " << conversations[i].at("name") << ": expected "
                  << expected[i].dump() << ", got " << ours.dump() << ":\n"
                  << shown;
  }
  return compared;
}

}  // namespace trireme::chat::tests
