// Rows of one file dealt out to ranks, and their results written in the order of the rows. One rank needs no
// MPI; several are started by `trireme COMMAND -n N`.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <c10/core/Device.h>

#include "runtime/pipeline/stage.h"
#include "runtime/session/session.h"
#include "trainer/commands/text_rows.h"

namespace trireme::commands {

/// Throughout: collective over all ranks; an error on one rank ends all, and is told once.
class RowJob {
 public:
  /// Opens the session and reads the rows of `input`. `wish`: auto, cpu or cuda.
  RowJob(const std::string& input, const std::string& output, const std::string& wish);

  ~RowJob();  // an output that is not whole goes
  RowJob(const RowJob&) = delete;
  RowJob& operator=(const RowJob&) = delete;

  at::Device device() const { return device_; }
  int64_t ranks_on_host() const;
  const std::vector<TextRow>& rows() const { return rows_; }
  /// Everybody does this, and an error of anybody's is everybody's.
  void prepare(const std::function<void()>& work) { together("setup", true, work); }

  /// Given indices into rows(), the lines that stand for each of them in the output, whole lines.
  using Answer = std::function<std::vector<std::string>(std::span<const size_t> rows)>;
  /// Deals the rows out, `chunk` a rank at a time. `output` is "-" or a file, which appears when it is whole.
  void run(size_t chunk, const Answer& answer);

  /// On the first rank, to standard error.
  void say(const std::string& line) const;

 private:
  void together(const std::string& stage, bool takes_part, const std::function<void()>& work);
  void write(const std::vector<std::string>& by_rank, size_t num_rows);
  void finish();

  session::Session session_;
  pipeline::StageRunner stages_;
  at::Device device_;
  std::string output_;
  std::vector<TextRow> rows_;
  std::string part_;                   // the file that is being written
  std::unique_ptr<std::ostream> out_;  // null on other ranks than the first, and for "-"
};

}  // namespace trireme::commands
