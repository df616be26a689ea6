// Programs that mean harm, each run for real. Needs bubblewrap and user namespaces (tools/setup --tests).
#include <gtest/gtest.h>

#include <arpa/inet.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

#include "runtime/base/error.h"
#include "trainer/sandbox/sandbox.h"

namespace trireme::sandbox {
namespace {

namespace fs = std::filesystem;
using End = Outcome::End;
using std::chrono::milliseconds;

class SandboxTest : public testing::Test {
 protected:
  static const Sandbox& sandbox() {
    static const Sandbox instance("python3");
    return instance;
  }
  static Outcome run(const std::string& source, const std::string& input = "", Limits limits = {}) {
    Program program;
    program.source = source;
    program.input = input;
    return sandbox().run(program, limits);
  }
  // What the program printed, if it came to its end.
  static std::string printed(const std::string& source, Limits limits = {}) {
    const Outcome outcome = run(source, "", limits);
    EXPECT_EQ(outcome.end, End::done) << source;
    return outcome.output;
  }
  static Limits short_time() {
    Limits limits;
    limits.time = milliseconds(1500);
    return limits;
  }
};

// Processes whose command line holds `mark`.
int processes_with(const std::string& mark) {
  int count = 0;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    std::ifstream in(entry.path() / "cmdline");
    const std::string command((std::istreambuf_iterator<char>(in)), {});
    if (command.find(mark) != std::string::npos) ++count;
  }
  return count;
}

TEST_F(SandboxTest, RunsAProgramOnItsInput) {
  const Outcome outcome = run("a, b = map(int, input().split())\nprint(a + b)", "17 25\n");
  EXPECT_EQ(outcome.end, End::done);
  EXPECT_EQ(outcome.output, "42\n");
  EXPECT_EQ(printed("import sys\nprint(len(sys.stdin.read()))"), "0\n");
  EXPECT_EQ(printed("if __name__ == '__main__':\n  print('main')"), "main\n");
  EXPECT_EQ(run("import sys\nprint(len(sys.stdin.read()))", std::string(5 << 20, 'x')).output, "5242880\n");
  EXPECT_EQ(printed("print('\u00e4\U0001F600')"), "\u00e4\U0001F600\n");
}

TEST_F(SandboxTest, KnowsWhatContestsTakeForGranted) {
  EXPECT_EQ(
      printed(
          "def f(x: List[int]) -> Optional[int]:\n  return deque(x).pop()\nprint(f([1, 2]), math.gcd(4, 6))"),
      "2 2\n");
  EXPECT_EQ(printed("import sys, threading\nsys.setrecursionlimit(10**6)\n"
                    "def f(n): return 0 if n == 0 else 1 + f(n - 1)\n"
                    "threading.stack_size(1 << 25)\nt = threading.Thread(target=lambda: "
                    "print(f(20000)))\nt.start(); t.join()"),
            "20000\n");
}

TEST_F(SandboxTest, CallsAFunctionAndChecksAssertions) {
  Program call{.kind = Program::Kind::call,
               .source = "print('noise')\ndef add(a, b):\n  print(a)\n  return [a + b]",
               .function = "add",
               .arguments = "[2, 3]"};
  EXPECT_EQ(sandbox().run(call, {}).output, "[5]");
  call.source =
      "class Solution:\n  def add(self, a: int, b: int) -> List[int]:\n    return (a, b, None, True, "
      "'\u00e9')";
  EXPECT_EQ(sandbox().run(call, {}).output, R"([2, 3, null, true, "\u00e9"])");
  call.source = "def other(): pass";
  EXPECT_EQ(sandbox().run(call, {}).end, End::failed);

  Program asserts{.kind = Program::Kind::asserts, .source = "def f(x): return x * 2\nassert f(2) == 4"};
  EXPECT_EQ(sandbox().run(asserts, {}).end, End::done);
  asserts.source = "def f(x): return x * 2\nassert f(2) == 5";
  EXPECT_EQ(sandbox().run(asserts, {}).end, End::failed);
}

// To end early is not to have passed.
TEST_F(SandboxTest, TakesNoEarlyEndForSuccess) {
  for (const char* trick :
       {"import os\nos._exit(0)", "import sys\nsys.exit(0)", "raise SystemExit", "exit()",
        "print('null')\nimport os\nos._exit(0)", "import os\nos.write(1, b'null')\nos._exit(0)"}) {
    Program program{.kind = Program::Kind::asserts, .source = std::string(trick) + "\nassert False"};
    EXPECT_EQ(sandbox().run(program, {}).end, End::failed) << trick;
  }
}

TEST_F(SandboxTest, SaysHowAProgramFailed) {
  EXPECT_EQ(run("raise ValueError(1)").end, End::failed);
  EXPECT_EQ(run("this is no Python").end, End::failed);
  EXPECT_EQ(run("import sys\nsys.exit(3)").end, End::failed);
  EXPECT_EQ(run("import sys\nprint(1)\nsys.exit(0)").output, "1\n");
  EXPECT_EQ(run("import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)").end, End::failed);
  EXPECT_EQ(run(std::string("print(1)\0print(2)", 17)).end, End::failed);
}

TEST_F(SandboxTest, EndsAnEndlessLoop) {
  EXPECT_EQ(run("while True: pass", "", short_time()).end, End::timed_out);
  EXPECT_EQ(run("import time\ntime.sleep(100)", "", short_time()).end, End::timed_out);
  EXPECT_EQ(run("import os, time\nos.close(1)\ntime.sleep(100)", "", short_time()).end, End::timed_out);
  EXPECT_EQ(run("import signal\nfor s in range(1, 32):\n  try: signal.signal(s, signal.SIG_IGN)\n"
                "  except Exception: pass\nwhile True: pass",
                "", short_time())
                .end,
            End::timed_out);
}

TEST_F(SandboxTest, StartsNoProcesses) {
  EXPECT_EQ(printed("import os\ntry:\n  os.fork()\n  print('forked')\nexcept OSError as e:\n  print('no')"),
            "no\n");
  EXPECT_EQ(
      printed(
          "import subprocess\ntry:\n  subprocess.run(['/bin/true'])\n  print('ran')\nexcept OSError as e:\n"
          "  print('no')"),
      "no\n");
  const std::string mark = "bomb" + std::to_string(::getpid());
  const Outcome bomb = run("# " + mark + "\nimport os\nwhile True:\n  try: os.fork()\n  except OSError: pass",
                           "", short_time());
  EXPECT_EQ(bomb.end, End::timed_out);
}

TEST_F(SandboxTest, BoundsItsThreads) {
  const Outcome outcome =
      run("import threading, time\nthreading.stack_size(1 << 16)\nn = 0\ntry:\n  while True:\n"
          "    threading.Thread(target=time.sleep, args=(60,), daemon=True).start(); n += 1\nexcept "
          "(RuntimeError, MemoryError):\n"
          "  import os\n  os.write(1, str(n).encode()); os._exit(0)",
          "", Limits{.time = milliseconds(8000), .memory_mb = 256});
  if (outcome.end == End::done) {
    EXPECT_LT(std::stoi(outcome.output), 5000);
  } else {
    EXPECT_EQ(outcome.end, End::timed_out);
  }
}

TEST_F(SandboxTest, BoundsItsMemory) {
  const Limits limits{.memory_mb = 256};
  EXPECT_EQ(printed("try:\n  x = bytearray(1 << 30)\n  print('got it')\nexcept MemoryError:\n  print('no')",
                    limits),
            "no\n");
  EXPECT_EQ(run("x = []\nwhile True: x.append(bytearray(1 << 20))", "", limits).end, End::failed);
  EXPECT_EQ(printed("import mmap\ntry:\n  m = mmap.mmap(-1, 1 << 30)\n  print('got it')\nexcept OSError:\n  "
                    "print('no')",
                    limits),
            "no\n");
  EXPECT_EQ(
      printed("import resource\ntry:\n  resource.setrlimit(resource.RLIMIT_AS, (-1, -1))\n  print('raised')\n"
              "except (ValueError, OSError):\n  print('no')"),
      "no\n");
  EXPECT_EQ(
      printed("import os\ntry:\n  os.memfd_create('x')\n  print('made')\nexcept OSError:\n  print('no')"),
      "no\n");
}

TEST_F(SandboxTest, SeesNoFilesButTheSystemsOwn) {
  const std::string secret = "/tmp/trireme-secret-" + std::to_string(::getpid());
  std::ofstream(secret) << "secret";
  const auto readable = [](const std::string& path) {
    return "try:\n  open('" + path + "').read()\n  print('read')\nexcept OSError:\n  print('no')";
  };
  for (const std::string& path :
       {secret, std::string("/etc/passwd"), std::string("/etc/shadow"), std::string("/root/.bashrc"),
        fs::current_path().string() + "/CTestTestfile.cmake", std::string("/proc/1/environ"),
        std::string("/sys/kernel/notes")})
    EXPECT_EQ(printed(readable(path)), "no\n") << path;
  EXPECT_EQ(printed("import os\nprint(sorted(set(os.listdir('/')) - {'lib32', 'root', 'opt', 'home', 'work', "
                    "'etc'} | {'etc'}))"),
            "['bin', 'dev', 'etc', 'harness.py', 'lib', 'lib64', 'tmp', 'usr']\n");
  EXPECT_EQ(printed("import os\nprint(os.listdir('/tmp'), len(os.environ) < 12)"), "[] True\n");
  fs::remove(secret);
}

TEST_F(SandboxTest, WritesOnlyALittleAndOnlyForItself) {
  EXPECT_EQ(printed("open('a', 'w').write('x')\nimport os\nprint(os.listdir('/tmp'))"), "['a']\n");
  EXPECT_EQ(printed("import os\nprint(os.listdir('/tmp'))"), "[]\n");  // the one before left nothing
  for (const char* place :
       {"/usr/x", "/x", "/dev/x", "/etc/x", "/harness.py", "/proc/x", "/proc/sys/kernel/hostname"})
    EXPECT_EQ(printed("try:\n  open('" + std::string(place) +
                      "', 'w').write('x')\n  print('wrote')\nexcept OSError:\n  print('no')"),
              "no\n")
        << place;
  // A disc filler: many files, each below the limit of one.
  const std::string filler =
      "n = 0\ntry:\n  while True:\n    with open(FOLDER + str(n), 'wb') as f: f.write(bytes(1 << 20))\n    n "
      "+= 1\n"
      "except OSError:\n  print(n)";
  EXPECT_LE(std::stoi(printed("FOLDER = '/tmp/'\n" + filler)), 17);
  EXPECT_LE(std::stoi(printed("FOLDER = '/dev/shm/'\n" + filler)), 1);
  EXPECT_EQ(printed("try:\n  with open('big', 'wb') as f:\n    for i in range(100): f.write(bytes(1 << "
                    "20))\nexcept OSError:\n  print('no')"),
            "no\n");
}

TEST_F(SandboxTest, ReachesNoNetwork) {
  // One that answers.
  const int server = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(::bind(server, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  ASSERT_EQ(::listen(server, 8), 0);
  socklen_t size = sizeof address;
  ::getsockname(server, reinterpret_cast<sockaddr*>(&address), &size);
  const std::string port = std::to_string(ntohs(address.sin_port));
  const int client = ::socket(AF_INET, SOCK_STREAM, 0);
  ASSERT_EQ(::connect(client, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  EXPECT_EQ(
      printed("import socket\nfor address in (('127.0.0.1', " + port +
              "), ('1.1.1.1', 53), ('8.8.8.8', 443)):\n  s = socket.socket()\n  s.settimeout(0.5)\n"
              "  try:\n    s.connect(address)\n    print('reached')\n  except OSError: pass\nprint('end')"),
      "end\n");
  EXPECT_EQ(printed("import socket\nprint([name for _, name in socket.if_nameindex()])"), "['lo']\n");
  ::close(client);
  ::close(server);
}

TEST_F(SandboxTest, IsCutOffWhenItFloodsItsOutput) {
  Limits limits;
  limits.output_kb = 64;
  const Outcome flood = run("import sys\nwhile True: sys.stdout.write('x' * 65536)", "", limits);
  EXPECT_EQ(flood.end, End::flooded);
  EXPECT_EQ(flood.output.size(), 64U << 10);
  EXPECT_EQ(run("import sys\nfor i in range(2000): sys.stderr.write('x' * 65536)\nprint(1)").output, "1\n");
}

TEST_F(SandboxTest, CannotSignalAnybodyOutside) {
  // A process of this user that would die of any signal.
  const pid_t other = ::fork();
  if (other == 0) {
    ::pause();
    ::_exit(0);
  }
  const std::string source =
      "import os, signal\nfor pid in (os.getppid(), 1, " + std::to_string(other) + ", " +
      std::to_string(::getpid()) +
      ", -1, 0):\n  if pid == 0: continue\n  for s in (signal.SIGTERM, signal.SIGKILL, signal.SIGSTOP):\n"
      "    try: os.kill(pid, s)\n    except (OSError, OverflowError): pass\nprint('end')";
  const Outcome outcome = run(source, "", short_time());
  EXPECT_TRUE(outcome.end == End::done || outcome.end == End::failed) << "it may at most end itself";
  int status = 0;
  EXPECT_EQ(::waitpid(other, &status, WNOHANG), 0) << "the other process was hit";
  ::kill(other, SIGKILL);
  ::waitpid(other, &status, 0);
}

TEST_F(SandboxTest, HasNoPrivileges) {
  EXPECT_EQ(printed("import ctypes\nlibc = ctypes.CDLL(None)\n"
                    "print(libc.unshare(0x10000000), libc.mount(b'x', b'/tmp', b'tmpfs', 0, None), "
                    "libc.ptrace(0, 0, 0, 0))"),
            "-1 -1 -1\n");
}

TEST_F(SandboxTest, LeavesNothingRunning) {
  (void)run(
      "import threading, time\nfor i in range(8): threading.Thread(target=time.sleep, args=(100,)).start()",
      "", Limits{.time = milliseconds(700)});
  for (int i = 0; i < 50 && processes_with("/harness.py") > 0; ++i) ::usleep(100'000);
  EXPECT_EQ(processes_with("/harness.py"), 0);
}

// As in a run: several side by side, good and bad ones, and none sees another's output.
TEST_F(SandboxTest, RunsManySideBySide) {
  std::atomic<int> right{0};
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread)
    threads.emplace_back([&, thread] {
      for (int i = 0; i < 5; ++i) {
        const std::string name = std::to_string(thread * 100 + i);
        right += run("print(input() * 2)", name + "\n").output == name + name + "\n" ? 1 : 0;
        right +=
            run("import os\nos.kill(-1, 9)\nwhile True: pass", "", Limits{.time = milliseconds(300)}).end !=
                    End::done
                ? 1
                : 0;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right.load(), 40);
}

TEST_F(SandboxTest, LeaksNoDescriptors) {
  const auto open = [] { return std::distance(fs::directory_iterator("/proc/self/fd"), {}); };
  (void)run("print(1)");
  const auto before = open();
  for (int i = 0; i < 5; ++i) (void)run("print(1)");
  EXPECT_EQ(open(), before);
}

TEST(SandboxSetup, SaysWhatIsMissing) {
  const std::string path = std::getenv("PATH");
  ::setenv("PATH", "/nowhere", 1);
  try {
    Sandbox sandbox("/usr/bin/python3");
    ADD_FAILURE() << "there was no bwrap";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_config);
    EXPECT_NE(error.message().find("bubblewrap"), std::string::npos);
  }
  ::setenv("PATH", path.c_str(), 1);
  try {
    Sandbox sandbox("/no/such/python");
    ADD_FAILURE() << "there was no Python";
  } catch (const Error& error) {
    EXPECT_NE(error.message().find("reward.code.python"), std::string::npos) << error.message();
  }
  // A bwrap that fails, as where user namespaces are not allowed.
  const fs::path folder = fs::temp_directory_path() / ("no-namespaces-" + std::to_string(::getpid()));
  fs::create_directories(folder);
  std::ofstream(folder / "bwrap")
      << "#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n";
  fs::permissions(folder / "bwrap", fs::perms::owner_all);
  ::setenv("PATH", (folder.string() + ":" + path).c_str(), 1);
  try {
    Sandbox sandbox("python3");
    ADD_FAILURE() << "there were no namespaces";
  } catch (const Error& error) {
    EXPECT_NE(error.message().find("user namespaces"), std::string::npos) << error.message();
  }
  ::setenv("PATH", path.c_str(), 1);
  fs::remove_all(folder);
}

}  // namespace
}  // namespace trireme::sandbox
