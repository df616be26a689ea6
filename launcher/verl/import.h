// From what a verl command or YAML says to a configuration of ours, with an account of every key.
#pragma once

#include <string>
#include <vector>

#include "launcher/verl/rows.h"
#include "launcher/verl/settings.h"

namespace trireme::verl {

/// What became of one setting.
struct Entry {
  std::string key, written;  // verl's, as it was given
  std::string where;
  Fate fate = Fate::unsupported;
  std::string
      text;  // mapped: "actor.optim.lr = 1e-06", and what to know; needless: why; unsupported: what to do
};

/// One line of the TOML.
struct Line {
  std::string key;    // ours
  std::string value;  // as TOML
  std::string from;   // "data.seed=7"; empty: verl's default, written because ours differs
};

struct Import {
  std::vector<Entry> entries;          // one for each setting, in its order
  std::vector<Line> lines;             // in the order of our schema
  std::vector<std::string> notes;      // what else is to be known
  std::vector<std::string> conflicts;  // what `trireme config check` will say of the result, paths aside
  std::string toml;
};

/// `source` is named in the TOML's first line. Never throws on what the user wrote.
Import import(Settings settings, const std::string& source, const Environment& environment);

/// The account in words: counts, then every key.
std::string report(const Import& import);

}  // namespace trireme::verl
