// What `trireme plan` says of a planned run: memory, time, traffic, idle ranks, cost, what would help.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "launcher/commands/plan_job.h"
#include "trainer/costs/advice.h"
#include "trainer/costs/observations.h"

namespace trireme::commands {

struct Report {
  const costs::Job& job;
  const costs::Outcome& outcome;
  std::string machine_source;
  double price = 0;  // of a device and hour; 0: not said
};

std::string report_text(const Report& report);
nlohmann::ordered_json report_json(const Report& report);

std::string search_text(const costs::Search& search, const costs::Job& job);
nlohmann::ordered_json search_json(const costs::Search& search);

/// A table of stated and predicted seconds, and the constants behind them.
std::string comparison_text(const std::vector<costs::Comparison>& comparisons,
                            const costs::Constants& constants);
nlohmann::ordered_json comparison_json(const std::vector<costs::Comparison>& comparisons,
                                       const costs::Constants& constants);

}  // namespace trireme::commands
