#include "launcher/topology/sys_files.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "launcher/topology/name_list.h"
#include "launcher/topology/settings.h"
#include "runtime/base/error.h"
#include "tests/launcher/topology/fake_machine.h"

namespace trireme::topology {
namespace {

namespace fs = std::filesystem;

class SysFilesTest : public ::testing::Test {
 protected:
  std::string put(const std::string& path, const std::string& text) const {
    const auto full = fs::path(root_.path()) / path;
    fs::create_directories(full.parent_path());
    std::ofstream(full) << text;
    return full;
  }
  FakeRoot root_{"host n1"};
};

TEST_F(SysFilesTest, ReadFilesFoldersAndLinks) {
  put("sys/a/x", "7: seven\nmore\n");
  put("sys/a/y", "");
  fs::create_directory_symlink("../sys/a", fs::path(root_.path()) / "proc/link");
  const SysFiles files(root_.path());
  EXPECT_FALSE(files.is_this_machine());
  EXPECT_EQ(files.text("sys/a/x"), "7: seven\nmore\n");
  EXPECT_EQ(files.line("sys/a/x"), "7: seven");
  EXPECT_EQ(files.number("sys/a/x", -1), 7);
  EXPECT_EQ(files.line("sys/a/y"), "");
  EXPECT_EQ(files.number("sys/a/y", -1), -1);
  EXPECT_EQ(files.line("sys/a/z"), std::nullopt);
  EXPECT_EQ(files.line("sys/a"), std::nullopt) << "a folder";
  EXPECT_EQ(files.entries("sys/a"), (std::vector<std::string>{"x", "y"}));
  EXPECT_EQ(files.entries("sys/b"), std::vector<std::string>{});
  EXPECT_EQ(files.real_path("proc/link"), "sys/a");
  EXPECT_EQ(files.real_path("proc/nothing"), "");
  EXPECT_TRUE(files.exists("sys/a"));
  EXPECT_FALSE(files.exists("sys/b"));
}

TEST_F(SysFilesTest, ARecordHoldsWhatWasReadAndNothingElse) {
  put("sys/a/x", "one\ntwo \\ three\n");
  put("sys/secret", "no\n");
  put("sys/class/infiniband/h/ports/1/gids/0", "0000:0000:0000:0000:0000:0000:0000:0000\n");
  put("proc/self/status", "Name:\ttest\nCpus_allowed_list:\t0-3\n");
  const SysFiles files(root_.path());
  for (const char* path :
       {"sys/a/x", "sys/class/infiniband/h/ports/1/gids/0", "proc/self/status", "sys/none"})
    files.text(path);
  EXPECT_TRUE(files.exists("sys/a"));
  const auto record = files.record();
  EXPECT_EQ(record.find("secret"), std::string::npos);
  EXPECT_EQ(record.find("gids"), std::string::npos) << "empty addresses would be most of it";
  EXPECT_EQ(record.find("Name:"), std::string::npos);
  const SysFiles again(put("saved", record));
  EXPECT_EQ(again.text("sys/a/x"), "one\ntwo \\ three\n");
  EXPECT_EQ(again.text("proc/self/status"), "Cpus_allowed_list:\t0-3\n");
  EXPECT_EQ(again.line("sys/none"), std::nullopt);
  EXPECT_TRUE(again.exists("sys/a"));
  EXPECT_FALSE(again.is_this_machine());
}

TEST_F(SysFilesTest, RefuseWhatIsNeitherAFolderNorARecord) {
  EXPECT_THROW(SysFiles("/nowhere/at/all"), Error);
  try {
    SysFiles(put("notes.txt", "hello\n"));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::corrupt_data);
    EXPECT_NE(error.message().find("trireme topo --save"), std::string::npos);
  }
  try {
    SysFiles(put("cut.txt", "# trireme machine 1\nsys/a = 1\nsys/b\n"));
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(error.message().find("cut.txt:3"), std::string::npos) << error.message();
  }
}

// NCCL reads its files after the environment, and what comes first stands.
TEST_F(SysFilesTest, SettingsOfTheEnvironmentStandBeforeThoseOfNcclsFiles) {
  const auto file = put("own.conf", "# a comment\nNCCL_TEST_A=file\nNCCL_TEST_B=x=y\nnonsense\n");
  ::setenv("NCCL_TEST_A", "environment", 1);
  ::setenv("NCCL_CONF_FILE", file.c_str(), 1);
  const auto settings = Settings::of_this_process(SysFiles());
  EXPECT_EQ(settings.find("NCCL_TEST_A"), "environment");
  EXPECT_EQ(settings.find("NCCL_TEST_B"), "x=y");
  EXPECT_EQ(settings.all().at("NCCL_TEST_B").source, file);
  EXPECT_FALSE(settings.has("nonsense"));
  EXPECT_FALSE(Settings::of_this_process(SysFiles(root_.path())).has("NCCL_TEST_B"))
      << "another machine's files";

  ::unsetenv("NCCL_CONF_FILE");
  put("home/.nccl.conf", "NCCL_TEST_C=home\n");
  ::setenv("HOME", (root_.path() + "/home").c_str(), 1);
  EXPECT_EQ(Settings::of_this_process(SysFiles()).find("NCCL_TEST_C"), "home");
}

TEST(NameList, IsReadAsNcclDoes) {
  const auto admits = [](const char* list, const char* name, int port = -1) {
    return NameList::parse(list).admits(name, port);
  };
  EXPECT_TRUE(admits("mlx5_1", "mlx5_10"));
  EXPECT_FALSE(admits("=mlx5_1", "mlx5_10"));
  EXPECT_TRUE(admits("=mlx5_1", "mlx5_1"));
  EXPECT_FALSE(admits("^mlx5_1", "mlx5_10"));
  EXPECT_TRUE(admits("^=mlx5_1", "mlx5_10"));
  EXPECT_TRUE(admits("=mlx5_1:2,mlx5_3", "mlx5_1", 2));
  EXPECT_FALSE(admits("=mlx5_1:2,mlx5_3", "mlx5_1", 1));
  EXPECT_TRUE(admits("=mlx5_1:2,mlx5_3", "mlx5_3", 1)) << "any port";
  EXPECT_TRUE(admits("=mlx5_1:2:0:1", "mlx5_1", 2)) << "rail and plane, which newer versions read";
  EXPECT_TRUE(admits("=mlx5_1::0", "mlx5_1", 2)) << "a rail, any port";
  EXPECT_TRUE(admits("", "anything"));
  EXPECT_TRUE(admits("=,,", "anything")) << "empty entries are none";
}

}  // namespace
}  // namespace trireme::topology
