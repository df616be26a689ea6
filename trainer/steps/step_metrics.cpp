#include "trainer/steps/step_metrics.h"

#include <algorithm>
#include <cmath>
#include <sstream>
#include <utility>

#include "runtime/base/error.h"

namespace trireme::steps {

StepMetrics::Entry& StepMetrics::at(const std::string& name, Kind kind) {
  if (!records_) return unrecorded_ = {};
  auto [found, fresh] = entries_.try_emplace(name);
  if (fresh) {
    found->second.kind = kind;
    if (kind == Kind::max) found->second.a = -INFINITY;
    if (kind == Kind::min) found->second.a = INFINITY;
  }
  TRIREME_CHECK(found->second.kind == kind, "metric {} is kept in two ways", name);
  return found->second;
}

void StepMetrics::mean(const std::string& name, double value, double weight) {
  Entry& entry = at(name, Kind::mean);
  entry.a += value * weight;
  entry.b += weight;
}
void StepMetrics::sum(const std::string& name, double value) {
  at(name, Kind::sum).a += value;
}
void StepMetrics::max(const std::string& name, double value) {
  Entry& entry = at(name, Kind::max);
  entry.a = std::max(entry.a, value);
}
void StepMetrics::min(const std::string& name, double value) {
  Entry& entry = at(name, Kind::min);
  entry.a = std::min(entry.a, value);
}
void StepMetrics::spread(const std::string& name, double value) {
  mean(name + "/mean", value);
  max(name + "/max", value);
  min(name + "/min", value);
}
void StepMetrics::deviation(const std::string& name, const at::Tensor& values) {
  const at::Tensor wide = values.to(at::kDouble);
  Entry& entry = at(name, Kind::deviation);
  entry.a += wide.sum().item<double>();
  entry.b += wide.pow(2).sum().item<double>();
  entry.c += static_cast<double>(wide.numel());
}

void StepMetrics::merge(Entry& into, const Entry& from) {
  switch (into.kind) {
    case Kind::max:
      into.a = std::max(into.a, from.a);
      break;
    case Kind::min:
      into.a = std::min(into.a, from.a);
      break;
    default:
      into.a += from.a;
      into.b += from.b;
      into.c += from.c;
  }
}

void StepMetrics::add(const StepMetrics& other) {
  const bool recorded = std::exchange(records_, true);
  for (const auto& [name, entry] : other.entries_) merge(at(name, entry.kind), entry);
  records_ = recorded;
}

std::string StepMetrics::to_lines() const {
  std::string text;
  for (const auto& [name, entry] : entries_)
    text +=
        fmt::format("{} {} {:a} {:a} {:a}\n", name, static_cast<char>(entry.kind), entry.a, entry.b, entry.c);
  return text;
}

void StepMetrics::add_lines(const std::string& text) {
  std::istringstream lines(text);
  std::string name, kind, a, b, c;
  while (lines >> name >> kind >> a >> b >> c)
    merge(at(name, static_cast<Kind>(kind[0])),
          {static_cast<Kind>(kind[0]), std::strtod(a.c_str(), nullptr), std::strtod(b.c_str(), nullptr),
           std::strtod(c.c_str(), nullptr)});
}

StepMetrics StepMetrics::from_lines(const std::string& text) {
  StepMetrics metrics;
  metrics.add_lines(text);
  return metrics;
}

observe::Metrics StepMetrics::reduce(comm::Communicator& group) const {
  StepMetrics all;
  for (const std::string& text : group.all_gather_strings(to_lines())) all.add_lines(text);
  observe::Metrics result;
  for (const auto& [name, entry] : all.entries_) {
    double value = entry.a;
    if (entry.kind == Kind::mean) value = entry.b > 0 ? entry.a / entry.b : 0.0;
    if (entry.kind == Kind::deviation && entry.c > 0)
      value = std::sqrt(std::max(0.0, entry.b / entry.c - (entry.a / entry.c) * (entry.a / entry.c)));
    result[name] = value;
  }
  return result;
}

}  // namespace trireme::steps
