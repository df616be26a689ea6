// Small random templates, each against what Jinja made of it.
#include <iostream>

#include "tests/trainer/chat/goldens.h"

namespace trireme::chat::tests {
namespace {

TEST(ChatSnippets, MeanWhatTheyMeanToJinja) {
  const char* other = std::getenv("TRIREME_TEST_SNIPPETS");  // more of them, made with another seed
  const Json goldens = read_json(other ? other : goldens_folder() + "snippets.json");
  Conversation conversation;
  conversation.messages = Json::array({{{"role", "user"}}});
  int count = 0, refused = 0, different = 0;
  for (const Json& snippet : goldens.at("snippets")) {
    const auto source = snippet[0].get<std::string>();
    Json ours;
    std::string why;
    try {
      ours = ChatTemplate(source, goldens.at("variables"), "snippet").render(conversation).text;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_config);
      why = error.message();
    }
    ++count;
    refused += ours.is_null();
    if (ours == snippet[1]) continue;
    ++different;
    ADD_FAILURE() << Json(source).dump() << "\nexpected " << snippet[1].dump() << "\ngot      " << ours.dump()
                  << " " << why;
  }
  std::cout << count << " snippets, " << refused << " refused, " << different << " different\n";
}

}  // namespace
}  // namespace trireme::chat::tests
