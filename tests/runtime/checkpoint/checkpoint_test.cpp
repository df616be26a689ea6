#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>

#include <nlohmann/json.hpp>

#include "runtime/base/error.h"
#include "runtime/base/files.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/manifest.h"

namespace trireme::checkpoint {
namespace {

namespace fs = std::filesystem;

class Checkpoint : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "trireme_checkpoint_XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  static void put(const std::string& folder, const std::string& name, const std::string& content) {
    fs::create_directories((fs::path(folder) / name).parent_path());
    std::ofstream(fs::path(folder) / name, std::ios::binary) << content;
  }
  void write_step(int64_t step, const std::string& content = "weights") const {
    write_folder(step_folder(folder_.string(), step), [&](const std::string& into) {
      put(into, "model.safetensors", content);
      put(into, "optimizer/rank-0.bin", std::string(3 << 20, 'o'));
      put(into, "empty", "");
    });
  }
  /// Names in the test's folder.
  std::set<std::string> names() const {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_)) names.insert(entry.path().filename().string());
    return names;
  }
  /// The error's message, after a check of its code.
  template <typename Work>
  static std::string message(ErrorCode code, const Work& work) {
    try {
      work();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), code) << error.message();
      return error.message();
    }
    ADD_FAILURE() << "no error";
    return {};
  }

  fs::path folder_;
};

using Names = std::set<std::string>;

TEST_F(Checkpoint, HoldsWhatWasWrittenAndAManifest) {
  write_step(3);
  const std::string step = path("step_3");
  EXPECT_EQ(files::read(step + "/model.safetensors"), "weights");
  EXPECT_EQ(names(), Names{"step_3"});
  verify_folder(step);
  EXPECT_EQ(latest(folder_.string()), step);

  const auto manifest = nlohmann::json::parse(files::read(step + "/manifest.json"));
  ASSERT_EQ(manifest["files"].size(), 3u);
  EXPECT_EQ(manifest["files"][0]["path"], "empty");
  EXPECT_EQ(manifest["files"][0]["size"], 0);
  EXPECT_EQ(manifest["files"][0]["xxh3_64"], "2d06800538d394c2");  // the published sum of nothing
  EXPECT_EQ(manifest["files"][1]["path"], "model.safetensors");
  EXPECT_EQ(manifest["files"][2]["path"], "optimizer/rank-0.bin");
  EXPECT_EQ(manifest["files"][2]["size"], 3 << 20);
}

TEST_F(Checkpoint, MakesParentFoldersAndTakesATrailingSlash) {
  write_folder(path("a/b/c/"), [](const std::string& into) { put(into, "x", "1"); });
  verify_folder(path("a/b/c"));
}

TEST_F(Checkpoint, RelativePathsWork) {
  const auto before = fs::current_path();
  fs::current_path(folder_);
  write_folder("here", [](const std::string& into) { put(into, "x", "1"); });
  verify_folder("here");
  fs::current_path(before);
  EXPECT_EQ(names(), Names{"here"});
}

TEST_F(Checkpoint, AnErrorWhileFillingLeavesNothing) {
  EXPECT_THROW(write_folder(path("step_1"),
                            [](const std::string& into) {
                              put(into, "x", "1");
                              throw std::runtime_error("no more");
                            }),
               std::runtime_error);
  EXPECT_EQ(names(), Names{});
}

TEST_F(Checkpoint, ReplacesAnOldFolderOnlyWhenTheNewOneIsComplete) {
  write_step(1, "old");
  EXPECT_THROW(write_folder(path("step_1"),
                            [&](const std::string& into) {
                              put(into, "model.safetensors", "new");
                              EXPECT_EQ(files::read(path("step_1/model.safetensors")), "old");
                              throw std::runtime_error("no more");
                            }),
               std::runtime_error);
  EXPECT_EQ(files::read(path("step_1/model.safetensors")), "old");
  verify_folder(path("step_1"));

  write_step(1, "new");
  EXPECT_EQ(files::read(path("step_1/model.safetensors")), "new");
  verify_folder(path("step_1"));
  EXPECT_EQ(names(), Names{"step_1"});
}

TEST_F(Checkpoint, VerifyNamesTheFirstFileThatIsMissingShortOrChanged) {
  const auto broken = [&](const auto& damage) {
    write_step(1);
    damage(path("step_1"));
    return message(ErrorCode::corrupt_data, [&] { verify_folder(path("step_1")); });
  };
  const auto expect_names = [](const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  expect_names(broken([](const auto& p) { fs::remove(p + "/model.safetensors"); }),
               "model.safetensors is missing");
  expect_names(broken([](const auto& p) { fs::resize_file(p + "/model.safetensors", 6); }),
               "has 6 bytes, 7 were written");
  expect_names(broken([](const auto& p) { put(p, "model.safetensors", "weighty"); }), "its checksum differs");
  expect_names(broken([](const auto& p) { put(p, "empty", "x"); }), "empty has 1 bytes, 0 were written");
  expect_names(broken([](const auto& p) { fs::remove(p + "/manifest.json"); }), "not a complete checkpoint");
  expect_names(broken([](const auto& p) { put(p, "manifest.json", "{"); }), "not valid JSON");
  expect_names(broken([](const auto& p) { put(p, "manifest.json", R"({"version": 2, "files": []})"); }),
               "version 1");
  for (const char* escaping : {"../step_2/x", "/etc/passwd", ""})
    expect_names(
        broken([&](const auto& p) {
          const nlohmann::json file{{"path", escaping}, {"size", 0}, {"xxh3_64", "2d06800538d394c2"}};
          put(p, "manifest.json", nlohmann::json{{"version", 1}, {"files", {file}}}.dump());
        }),
        "no entry of a manifest");
  EXPECT_NE(message(ErrorCode::io, [&] { verify_folder(path("step_9")); }).find("no such folder"),
            std::string::npos);
}

TEST_F(Checkpoint, FilesBesideTheManifestAreNotLookedAt) {
  write_step(1);
  put(path("step_1"), "notes.txt", "mine");
  verify_folder(path("step_1"));
}

TEST_F(Checkpoint, LatestCountsStepsAsNumbersAndSkipsDamagedOnes) {
  EXPECT_EQ(latest(path("nowhere")), std::nullopt);
  EXPECT_EQ(latest(folder_.string()), std::nullopt);
  for (const int64_t step : {2, 9, 10, 11, 12, 13}) write_step(step);
  EXPECT_EQ(latest(folder_.string()), path("step_13"));
  put(path("step_13"), "manifest.json", "{ \"version\": 1, ");
  EXPECT_EQ(latest(folder_.string()), path("step_12"));
  fs::remove(path("step_12/manifest.json"));
  EXPECT_EQ(latest(folder_.string()), path("step_11"));
  fs::resize_file(path("step_11/model.safetensors"), 1);
  EXPECT_EQ(latest(folder_.string()), path("step_10"));
  fs::remove(path("step_10/empty"));
  EXPECT_EQ(latest(folder_.string()), path("step_9"));
}

TEST_F(Checkpoint, LatestLooksAtStepsOnly) {
  write_step(1);
  for (const char* name :
       {"step_2.host.77.part", "step_", "step_x", "step_3x", "step_-4", "best", "step_99999999999999999999"})
    fs::copy(path("step_1"), path(name), fs::copy_options::recursive);
  put(folder_.string(), "step_5", "a file");
  EXPECT_EQ(latest(folder_.string()), path("step_1"));
}

TEST_F(Checkpoint, PruneKeepsTheNewestCompleteOnes) {
  for (const int64_t step : {1, 2, 3, 10, 20}) write_step(step);
  fs::remove(path("step_20/manifest.json"));
  prune(folder_.string(), 0);
  EXPECT_EQ(names(), (Names{"step_1", "step_2", "step_3", "step_10", "step_20"}));
  prune(folder_.string(), 2);
  EXPECT_EQ(names(), (Names{"step_3", "step_10", "step_20"}));
  prune(folder_.string(), 5);
  EXPECT_EQ(names(), (Names{"step_3", "step_10", "step_20"}));
  prune(path("nowhere"), 1);
}

/// Runs `work` in a child and says how it ended.
template <typename Work>
int status_of_child(const Work& work) {
  const pid_t child = ::fork();
  if (child == 0) {
    work();
    ::_exit(0);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return status;
}

TEST_F(Checkpoint, AWriterThatIsKilledLeavesNoFinalName) {
  write_step(1);
  const int status = status_of_child([&] {
    write_folder(path("step_2"), [](const std::string& into) {
      put(into, "model.safetensors", "half");
      ::raise(SIGKILL);
    });
  });
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(names().size(), 2u);
  EXPECT_TRUE(std::ranges::any_of(names(), [](const auto& name) { return name.ends_with(".part"); }));
  EXPECT_FALSE(fs::exists(path("step_2")));
  EXPECT_EQ(latest(folder_.string()), path("step_1"));

  write_step(2);
  EXPECT_EQ(names(), (Names{"step_1", "step_2"}));
  verify_folder(path("step_2"));
}

TEST_F(Checkpoint, AnOldFolderSurvivesAWriterThatIsKilled) {
  write_step(1, "old");
  status_of_child([&] { write_folder(path("step_1"), [](const std::string&) { ::raise(SIGKILL); }); });
  EXPECT_EQ(files::read(path("step_1/model.safetensors")), "old");
  verify_folder(path("step_1"));
}

TEST_F(Checkpoint, PruneRemovesLeftoversOfDeadWritersOnly) {
  write_step(1);
  char host[256] = {};
  ASSERT_EQ(::gethostname(host, sizeof host - 1), 0);
  const std::string alive = fmt::format("step_7.{}.{}.part", host, ::getpid());
  for (const std::string& name : {alive, std::string("step_7.other.host.12.part"), std::string("mine.part"),
                                  std::string("step_7.part"), std::string("thing.host.12.part")})
    put(path(name), "x", "1");
  status_of_child([&] { write_folder(path("step_8"), [](const std::string&) { ::raise(SIGKILL); }); });
  prune(folder_.string(), 1);
  EXPECT_EQ(names(), (Names{"step_1", alive, "mine.part", "step_7.part", "thing.host.12.part"}));
}

TEST_F(Checkpoint, WritingLeavesTheUnfinishedFoldersOfOthersAlone) {
  char host[256] = {};
  ASSERT_EQ(::gethostname(host, sizeof host - 1), 0);
  const std::string alive = fmt::format("step_1.{}.{}.part", host, ::getppid()),
                    other = "step_12.elsewhere.12.part";
  put(path(alive), "x", "1");
  put(path(other), "x", "1");
  write_step(1);
  EXPECT_EQ(names(), (Names{"step_1", alive, other}));
}

TEST_F(Checkpoint, KillsAtAnyMomentLeaveACompleteFolderOrNone) {
  for (int round = 0; round < 30; ++round) {
    const pid_t child = ::fork();
    if (child == 0) {
      for (int i = 0;; ++i) write_step(1, std::string(100000, static_cast<char>('a' + i % 26)));
    }
    ::usleep(static_cast<useconds_t>(1000 * (round * 7 % 50)));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    if (fs::exists(path("step_1"))) {
      EXPECT_NO_THROW(verify_folder(path("step_1")));
    }
  }
  write_step(1);
  EXPECT_EQ(names(), Names{"step_1"});
}

TEST_F(Checkpoint, DiskErrorsAreIo) {
  put(folder_.string(), "file", "");
  EXPECT_NE(message(ErrorCode::io, [&] { write_folder(path("file/step_1"), [](const std::string&) {}); })
                .find("file"),
            std::string::npos);
  message(ErrorCode::io, [&] { latest(path("file")); });
  message(ErrorCode::io, [&] { prune(path("file"), 1); });
  message(ErrorCode::io, [&] {
    write_folder(path("step_1"), [](const std::string& into) { fs::create_directory(into + "/a/b/c"); });
  });
  EXPECT_EQ(names(), Names{"file"});
}

TEST_F(Checkpoint, AFullDiskIsIoAndLeavesTheOldFolder) {
  write_step(1, "old");
  // No file may grow beyond the limit, as on a disk that is full; here already the manifest is too large.
  const int status = status_of_child([&] {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{64, 64};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    try {
      write_folder(path("step_1"), [](const std::string& into) { put(into, "x", "new"); });
    } catch (const Error& error) {
      ::_exit(error.code() == ErrorCode::io && error.message().find("manifest.json") != std::string::npos
                  ? 0
                  : 2);
    }
    ::_exit(1);
  });
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_EQ(names(), Names{"step_1"});
  EXPECT_EQ(files::read(path("step_1/model.safetensors")), "old");
}

TEST_F(Checkpoint, LinksAreRefused) {
  message(ErrorCode::internal, [&] {
    write_folder(path("step_1"),
                 [](const std::string& into) { fs::create_symlink("/etc/passwd", into + "/link"); });
  });
  EXPECT_EQ(names(), Names{});
}

}  // namespace
}  // namespace trireme::checkpoint
