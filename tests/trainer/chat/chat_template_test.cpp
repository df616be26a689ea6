// Whole chat templates over conversations of every shape, against what transformers made of them.
#include <filesystem>
#include <iostream>

#include "tests/trainer/chat/goldens.h"

namespace trireme::chat::tests {
namespace {

namespace fs = std::filesystem;

void compare_folder(const std::string& folder, const Json& expected) {
  Compared total;
  int templates = 0;
  for (const auto& [name, results] : expected.items()) {
    SCOPED_TRACE(name);
    const Compared one = compare_all(folder + "/" + name + ".jinja", results);
    ++templates;
    total.renderings += one.renderings;
    total.refused += one.refused;
    total.different += one.different;
  }
  std::cout << templates << " templates, " << total.renderings << " renderings, " << total.refused
            << " refused, " << total.different << " different\n";
  EXPECT_GT(templates, 0);
}

TEST(ChatTemplate, RendersOurTemplatesAsTransformersDoes) {
  compare_folder(goldens_folder() + "templates", read_json(goldens_folder() + "expected.json"));
}

TEST(ChatTemplate, RendersQwen25sTemplateAsTransformersDoes) {
  const char* data = std::getenv("TRIREME_TEST_DATA");
  if (!data) GTEST_SKIP() << "set TRIREME_TEST_DATA to the folder of test data";
  compare_folder(std::string(data) + "/tokenizers/qwen2",
                 read_json(goldens_folder() + "expected-qwen2.json"));
}

TEST(ChatTemplate, RendersTemplatesInUseAsTransformersDoes) {
  const char* folder = std::getenv("TRIREME_TEST_TEMPLATES");
  if (!folder)
    GTEST_SKIP()
        << "set TRIREME_TEST_TEMPLATES to a folder of *.jinja files after tools/make_goldens/chat.py "
           "--templates FOLDER";
  compare_folder(folder, read_json(std::string(folder) + "/expected.json"));
}

}  // namespace
}  // namespace trireme::chat::tests
