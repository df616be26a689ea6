#include "launcher/verl/shell_script.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <memory>

#include "runtime/base/error.h"
#include "runtime/base/files.h"

namespace trireme::verl {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Environment with(std::map<std::string, std::string> variables) {
  return [variables](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  };
}

std::vector<std::string> texts(const std::vector<ShellWord>& words) {
  std::vector<std::string> out;
  for (const ShellWord& word : words) out.push_back(word.text);
  return out;
}

/// The words of the last command.
std::vector<ShellWord> last(const std::string& script, std::map<std::string, std::string> variables = {}) {
  const auto commands = read_shell(script, with(std::move(variables)));
  EXPECT_FALSE(commands.empty()) << script;
  return commands.empty() ? std::vector<ShellWord>{} : commands.back().words;
}

/// What bash itself makes of the script's last command, whose name must be `show`.
std::vector<std::string> bash(const std::string& script, const std::string& variables = "") {
  const std::string path = (std::filesystem::temp_directory_path() / "trireme_shell_words.sh").string();
  files::write_atomically(path,
                          "exec 3>&1 2>/dev/null\nPATH=/nonexistent\ncommand_not_found_handle() { :; }\n"
                          "tee() { while builtin read -r; do :; done; }\n"
                          "show() { builtin printf '%s\\0' \"$@\" >&3; builtin exit 0; }\n" +
                              script);
  const std::string command = "env -i " + variables + " /bin/bash " + path;
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  std::vector<std::string> words(1);
  for (int c; (c = std::fgetc(pipe.get())) != EOF;)
    if (c == '\0')
      words.emplace_back();
    else
      words.back().push_back(static_cast<char>(c));
  words.pop_back();
  return words;
}

TEST(ShellScript, WordsAreWhatBashMakesOfThem) {
  for (const char* script : {
           "show a.b=c d",
           "show a=1 \\\n   b=2 \\\n c=3 # and no more\n",
           "show 'one word' \"two words\" '' \"\" three\\ words",
           "show 'it'\"'\"'s' \"a \\\"quote\\\" \\$5 \\\\ \\x\" \\$x",
           "X=1; show $X ${X} \"$X$X\" '$X'",
           "X='a  b'; show $X \"$X\" pre$X post",
           "X=; show $X \"$X\" x$X",
           "X='a b'; Y=$X; show \"$Y\" ${Y}",
           "show ${U:-x y} \"${U:-x y}\" ${U-} \"${U-}\" ${U:-'q r'} a${U:-b}c",
           "E=; show ${E:-x} ${E-x} ${E:+x} ${E+x}",
           "X=v; show ${X:-x} ${X:+x y} \"${X+x y}\"",
           "show ${U:=set} $U",
           "A=1 B=2; show ${U:-${A}${B}} ${U:-\"${A} ${B}\"}",
           "show $((1024 * 8)) $(( (2+3)*4 - 7 % 4 )) $((2**10)) $((-3 / 2)) $((0x10))",
           "p=1024; r=$((p * 2)); show $(((p + r) * 2)) \"$(( $p + ${r} ))\"",
           "A=(a.b=1 'c d' \"e\"); show \"${A[@]}\" ${A[1]} ${A[@]}",
           "A=(\n  x=1 # first\n  y=2\n); A+=(z=3); show \"${A[@]}\"",
           "A=(); show \"${A[@]}\" end",
           "S=a; S+=b; show $S",
           "f=/x/y.tar.gz; show ${f##*/} ${f%.*} ${f%%.*} ${f#*/}",
           "export X=1 Y='2 3'; show $X \"$Y\"",
           "show a \"$@\" b $@ c",
           "show a 2>&1 >file b < /dev/null",
           "true && show a=1",
           "show \"a\nb\" 'c\n d'",
           "show k='[\"console\",\"wandb\"]' k2=\"['$HOME/a','b']\"",
           "# show no\nshow yes#no # show no",
           "show \"${U:-\"nested quotes\"}\"",
           "show $'single' a$ $",
           "X=\"a\\\nb\"; show $X",
       })
    EXPECT_EQ(([&] {
                auto words = texts(last(script, {{"HOME", "/h"}}));
                words.erase(words.begin());
                return words;
              }()),
              bash(script, "HOME=/h"))
        << script;
}

// Real commands, in tests/launcher/verl/commands: keys and values as they stand in verl's documentation.
TEST(ShellScript, RealScriptsAreWhatBashMakesOfThem) {
  const std::filesystem::path folder(std::string(std::getenv("TRIREME_SOURCE_DIR")) +
                                     "/tests/launcher/verl/commands");
  size_t scripts = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".sh") continue;
    const std::string script = files::read(entry.path().string());
    const auto commands = read_shell(script, with({{"HOME", "/home/u"}}));
    ASSERT_FALSE(commands.empty()) << entry.path();
    for (const ShellCommand& command : commands) {
      auto words = texts(command.words);
      if (words[0] != "python3") continue;
      words.erase(words.begin());
      EXPECT_EQ(words, bash("python3() { show \"$@\"; }\n" + script, "HOME=/home/u")) << entry.path();
      ++scripts;
    }
  }
  EXPECT_GE(scripts, 12u);
}

TEST(ShellScript, SaysWhatIsNotKnown) {
  const auto words =
      last("D=$(date +%s); show a=$MODEL b=x-$D c=`hostname` d=$1 e=${A[3]} f=$((N * 2)) g=ok h=${D:-x}");
  EXPECT_THAT(words[1].missing, ElementsAre("$MODEL"));
  EXPECT_THAT(words[2].missing, ElementsAre("$(date +%s)"));
  EXPECT_THAT(words[3].missing, ElementsAre("`hostname`"));
  EXPECT_THAT(words[4].missing, ElementsAre("$1"));
  EXPECT_THAT(words[5].missing, ElementsAre("${A[3]}"));
  EXPECT_THAT(words[6].missing, ElementsAre("$((N * 2))"));
  EXPECT_THAT(words[7].missing, IsEmpty());
  EXPECT_THAT(words[8].missing, ElementsAre("$(date +%s)")) << "it is set, so the default does not hold";
}

TEST(ShellScript, ArraysRememberWhatTheirItemsLack) {
  const auto words = last("A=(model.path=$MODEL x.y=1); show \"${A[@]}\"");
  ASSERT_EQ(words.size(), 3u);
  EXPECT_THAT(words[1].missing, ElementsAre("$MODEL"));
  EXPECT_THAT(words[2].missing, IsEmpty());
}

TEST(ShellScript, BranchesAreReadOnceAndDoubted) {
  const auto words = last("N=8\nif [ -n \"$SMALL\" ]; then\n  N=2\n  M=3\nelse\n  M=4\nfi\nshow n=$N m=$M");
  EXPECT_THAT(texts(words), ElementsAre("show", "n=8", "m=3"));
  EXPECT_THAT(words[1].doubtful, ElementsAre("N"));
  EXPECT_THAT(words[2].doubtful, ElementsAre("M"));
  const auto sure = last("for x in a b; do N=1; done\nN=2\nshow $N");
  EXPECT_THAT(sure[1].doubtful, IsEmpty());
  EXPECT_EQ(sure[1].text, "2");
}

TEST(ShellScript, NumbersItsLines) {
  const auto commands = read_shell("set -x\n\nshow a \\\n  b \\\n  c\nshow d", with({}));
  ASSERT_EQ(commands.size(), 3u);
  EXPECT_EQ(commands[1].words[0].line, 3);
  EXPECT_EQ(commands[1].words[3].line, 5);
  EXPECT_EQ(commands[2].words[0].line, 6);
}

TEST(ShellScript, ReadsWhatWasPastedCarelessly) {
  EXPECT_THAT(texts(last("$ show a \\  \n  b\r\n")), ElementsAre("show", "a", "b"));
  EXPECT_THAT(texts(last("cat <<EOF\nnot 'closed\nEOF\nshow a")), ElementsAre("show", "a"));
}

TEST(ShellScript, RefusesWhatIsNotClosed) {
  for (const char* script :
       {"show 'a", "show \"a\n\nb", "show ${a", "show $(a", "show $((1 + 2)", "X=(a b"}) {
    try {
      read_shell(script, with({}));
      ADD_FAILURE() << script;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_config);
      EXPECT_THAT(error.what(), HasSubstr("line 1: the ")) << script;
    }
  }
}

TEST(ShellVariables, ArithmeticThatMakesNoSenseHasNoValue) {
  ShellVariables variables(with({{"N", "8"}, {"LOOP", "LOOP"}, {"TEXT", "a b"}}));
  EXPECT_EQ(variables.arithmetic("N * (N + 1)"), 72);
  for (const char* text :
       {"", "1 +", "1 / 0", "1 % (N - 8)", "(1", "1)", "U + 1", "LOOP", "TEXT", "1.5", "2 ** -1", "08"})
    EXPECT_EQ(variables.arithmetic(text), std::nullopt) << text;
}

}  // namespace
}  // namespace trireme::verl
