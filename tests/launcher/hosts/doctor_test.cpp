// `trireme doctor` on three hosts: nothing on sound ones, and each fault that is put in, by its name and
// place.
#include "tests/launcher/hosts/testbed.h"

namespace trireme::testbed {
namespace {

class Doctor : public TestbedTest {
 protected:
  static void SetUpTestSuite() { bring_up("up", 3, {"ip", "tc", "nsenter", "sshd", "ssh", "mpirun"}); }
  void SetUp() override {
    TestbedTest::SetUp();
    if (IsSkipped()) return;
    // A folder with the programs for --prefix, in which a test may put something on one host's way to them.
    prefix_ = run_dir_ / "prefix";
    output_ = run_dir_ / "checkpoints";
    model_ = run_dir_ / "model";
    for (const auto& folder : {prefix_ / "bin", output_, model_}) fs::create_directories(folder);
    fs::copy_file(source_folder() + "/configs/quickstart.toml", run_dir_ / "run.toml");
    std::ofstream(model_ / "config.json") << "{}";
    for (const char* name : {"trireme", "trireme-trainer"})
      put_program(name, "exec " + build_folder() + "/bin/" + name + " \"$@\"");
  }
  void put_program(const std::string& name, const std::string& body) const {
    const auto path = prefix_ / "bin" / name;
    std::ofstream(path) << "#!/bin/sh\n" << body << "\n";
    fs::permissions(path, fs::perms::owner_all);
  }
  /// What the programs do on h1 before they are themselves.
  void on_h1(const std::string& name, const std::string& command) const {
    put_program(name, "if [ $(hostname) = h1 ]; then " + command + "; fi\nexec " + build_folder() + "/bin/" +
                          name + " \"$@\"");
  }
  /// With the configuration, on h0, h1 and h2.
  Result doctor(const std::string& more = "") {
    start("h0", "OMP_NUM_THREADS=1 " + program() + " doctor " + (run_dir_ / "run.toml").string() +
                    " run.output_dir=" + output_.string() + " --hosts h0,h1,h2 --launch-agent \"ssh -F " +
                    (folder() / "ssh_config").string() + "\" --prefix " + prefix_.string() + " " + more);
    return finish();
  }
  static int count(const std::string& text, const std::string& what) {
    int found = 0;
    for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; ++at) ++found;
    return found;
  }
  /// Exactly one finding, which begins like this.
  static void expect_only(const Result& result, const std::string& beginning, int status) {
    EXPECT_EQ(result.status, status) << result.text;
    EXPECT_NE(result.text.find(beginning), std::string::npos) << result.text;
    EXPECT_EQ(count(result.text, "what to do:"), 1) << result.text;
    EXPECT_EQ(count(result.text, "why it matters:"), 1) << result.text;
  }

  fs::path prefix_, output_, model_;
};

TEST_F(Doctor, FindsNothingOnSoundHosts) {
  const auto result = doctor("model.path=" + model_.string());
  EXPECT_EQ(result.status, 0) << result.text;
  EXPECT_NE(result.text.find("3 hosts, nothing wrong; 3 pairs over TCP, "), std::string::npos) << result.text;
  EXPECT_NE(result.text.find("; an all-reduce of all "), std::string::npos) << result.text;
  EXPECT_TRUE(fs::is_empty(output_)) << "the doctor leaves nothing";
  const auto json = doctor("--json");
  EXPECT_NE(json.text.find("\"findings\": []"), std::string::npos) << json.text;
}

TEST_F(Doctor, FindsASlowLink) {
  on("h1", "tc qdisc add dev eth0 root tbf rate 20mbit burst 32kbit latency 400ms");
  const auto result = doctor();
  on("h1", "tc qdisc del dev eth0 root");
  expect_only(result, "warning: h1: its way to all other hosts is slow: h0 and h1 move ", 0);
}

TEST_F(Doctor, FindsHostsThatDoNotReachEachOther) {
  // h1 knows no way to h2, and both know one to h0.
  on("h1", "ip route add prohibit $(grep h2 /etc/hosts | cut -d\" \" -f1)/32");
  const auto result = doctor();
  on("h1", "ip route del prohibit $(grep h2 /etc/hosts | cut -d\" \" -f1)/32");
  expect_only(result, "error: h1, h2: h1 and h2 do not reach each other: ", 1);
}

TEST_F(Doctor, FindsACollectiveThatDoesNotWork) {
  on_h1("trireme-trainer", "[ $1 = bench ] && export OMPI_MCA_pml=nonsense");
  const auto result = doctor();
  EXPECT_EQ(result.status, 1) << result.text;
  EXPECT_NE(result.text.find("error: h0, h1, h2: an all-reduce between all hosts fails (status "),
            std::string::npos)
      << result.text;
}

TEST_F(Doctor, FindsTinyLimitsOfLockedMemory) {
  on_h1("trireme", "ulimit -l 64");
  expect_only(doctor(), "warning: h1: a process may lock 64 KiB of memory", 0);
}

TEST_F(Doctor, FindsAnotherVersion) {
  on_h1("trireme-trainer", "printf \"trireme-trainer 0.0.9\\nMPI: Open MPI v1.0\\n\"; exit");
  const auto result = doctor("--json");
  EXPECT_EQ(result.status, 1) << result.text;
  EXPECT_NE(result.text.find("MPI is not the same everywhere: "), std::string::npos) << result.text;
  EXPECT_NE(result.text.find("Open MPI v1.0 on h1"), std::string::npos) << result.text;
  EXPECT_NE(result.text.find("trireme-trainer is not the same everywhere: 0.0.9 on h1; "), std::string::npos)
      << result.text;
  EXPECT_NE(result.text.find("torch is not the same everywhere: nothing on h1; "), std::string::npos)
      << result.text;
}

TEST_F(Doctor, FindsAnotherBuildOfTheSameVersion) {
  fs::copy_file(build_folder() + "/bin/trireme", run_dir_ / "trireme");
  std::ofstream(run_dir_ / "trireme", std::ios::app) << "another build, in some bytes";
  on_h1("trireme", "exec " + (run_dir_ / "trireme").string() + " \"$@\"");
  expect_only(doctor(), "error: h1: build of trireme is not the same everywhere: ", 1);
}

TEST_F(Doctor, FindsATrainerThatDoesNotStart) {
  on_h1("trireme-trainer", "echo \"libtorch_cpu.so: cannot open shared object file\" >&2; exit 127");
  const auto result = doctor();
  EXPECT_EQ(result.status, 1);
  EXPECT_NE(result.text.find("error: h1: trireme-trainer does not start"), std::string::npos) << result.text;
}

TEST_F(Doctor, FindsAFullDisk) {
  on("h1", "mount -t tmpfs -o size=1m none " + output_.string());
  const auto result = doctor();
  on("h1", "umount " + output_.string());
  EXPECT_EQ(result.status, 1);
  EXPECT_NE(result.text.find("error: h1: nothing can be written into " + output_.string() +
                             ": No space left on device"),
            std::string::npos)
      << result.text;
  EXPECT_NE(result.text.find(output_.string() + " is not the same folder here as on h0"), std::string::npos)
      << result.text;
}

TEST_F(Doctor, FindsADiskThatIsTooSmallForACheckpoint) {
  for (const char* host : {"h0", "h1", "h2"})
    on(host, "mount -t tmpfs -o size=100m none " + output_.string());
  const auto result = doctor();
  for (const char* host : {"h0", "h1", "h2"}) on(host, "umount " + output_.string());
  EXPECT_EQ(result.status, 1);
  EXPECT_NE(result.text.find("error: h0, h1, h2: " + output_.string() +
                             " has 0.1 GB left; a checkpoint takes about"),
            std::string::npos)
      << result.text;
}

TEST_F(Doctor, FindsAClockThatIsWrong) {
  const auto shifted = [&](const std::string& seconds) {
    on_h1("trireme",
          "export LD_PRELOAD=" + build_folder() + "/tests/lib/clock_shift.so CLOCK_SHIFT=" + seconds);
    return doctor();
  };
  expect_only(shifted("-30"), "warning: h1: its clock is ", 0);
  expect_only(shifted("400"), "error: h1: its clock is ", 1);
}

TEST_F(Doctor, FindsAModelThatOneHostCannotRead) {
  on("h2", "mount -t tmpfs none " + model_.string());
  const auto result = doctor("model.path=" + model_.string());
  on("h2", "umount " + model_.string());
  expect_only(result, "error: h2: " + model_.string() + " cannot be read: the folder is empty", 1);
}

TEST_F(Doctor, FindsDataThatIsNotThere) {
  const auto data = run_dir_ / "data.jsonl";
  std::ofstream(data) << "{}\n";
  const auto result = doctor("sft.bare_batch_size=0 data.task=files data.train_files=" + data.string() +
                             " data.val_files=/nowhere/val.jsonl");
  expect_only(result, "error: h0, h1, h2: /nowhere/val.jsonl cannot be read: No such file or directory", 1);
}

TEST_F(Doctor, FindsLittleSharedMemory) {
  on("h1", "mount -t tmpfs -o size=64m none /dev/shm");
  const auto result = doctor();
  on("h1", "umount /dev/shm");
  expect_only(result, "error: h1: /dev/shm has 64 MiB", 1);
}

TEST_F(Doctor, FindsATroubledGpu) {
  put_program("nvidia-smi",
              "[ $(hostname) = h1 ] && echo \"00000000:3B:00.0, NVIDIA H100 80GB HBM3, 61000, 81559, 2, 0, "
              "0, Not Active, Active, 8, 16, Disabled\"");
  on_h1("trireme", "export PATH=" + (prefix_ / "bin").string() + ":$PATH");
  const auto result = doctor();
  EXPECT_EQ(result.status, 1);
  for (const char* what : {"errors of memory that ECC could not correct", "is slowed down by heat",
                           "61000 of 81559 MiB are in use", "uses 8 of its 16 PCIe lanes"})
    EXPECT_NE(result.text.find(what), std::string::npos) << what << "\n" << result.text;
}

TEST_F(Doctor, NamesAHostThatDoesNotAnswer) {
  bed("cut", "h2");
  const auto result = doctor();
  bed("join", "h2");
  EXPECT_EQ(result.status, 1);
  EXPECT_NE(result.text.find("no answer from"), std::string::npos) << result.text;
  EXPECT_NE(result.text.find("h2"), std::string::npos) << result.text;
}

}  // namespace
}  // namespace trireme::testbed
