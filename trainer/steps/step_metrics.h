// What one rank saw of a step, put together over ranks.
#pragma once

#include <map>
#include <string>

#include <ATen/core/Tensor.h>

#include "runtime/comm/communicator.h"
#include "runtime/observe/metrics.h"

namespace trireme::steps {

class StepMetrics {
 public:
  /// False: what is added from here on is not kept, because another rank adds the same.
  void record(bool on) { records_ = on; }

  /// Weighted mean over everything added on all ranks.
  void mean(const std::string& name, double value, double weight = 1.0);
  void sum(const std::string& name, double value);
  void max(const std::string& name, double value);
  void min(const std::string& name, double value);
  /// NAME/mean, NAME/max and NAME/min.
  void spread(const std::string& name, double value);
  /// Root of the variance over all elements of all tensors added.
  void deviation(const std::string& name, const at::Tensor& values);

  /// All that `other` has seen too, whatever this one records.
  void add(const StepMetrics& other);

  /// Collective over: `group`, all members. A name that only some ranks know is kept.
  observe::Metrics reduce(comm::Communicator& group) const;

  /// A line for each name; from_lines(to_lines()) has seen the same.
  std::string to_lines() const;
  static StepMetrics from_lines(const std::string& text);

 private:
  enum class Kind : char { mean = 'm', sum = '+', max = '>', min = '<', deviation = 'd' };
  struct Entry {
    Kind kind = Kind::mean;
    double a = 0.0, b = 0.0,
           c = 0.0;  // mean: sum, weight; deviation: sum, squares, count; else the value in a
  };
  Entry& at(const std::string& name, Kind kind);
  static void merge(Entry& into, const Entry& from);
  void add_lines(const std::string& text);

  std::map<std::string, Entry> entries_;
  bool records_ = true;
  Entry unrecorded_;
};

}  // namespace trireme::steps
