// What becomes of each key of verl's, one row a key. What takes several keys together is in rules.h.
#pragma once

#include <string>
#include <vector>

namespace trireme::verl {

enum class Fate { mapped, needless, unsupported };

struct Row {
  std::string key;  // verl's; "a.b.*" stands for everything below a.b that has no row of its own
  Fate fate;
  std::string to = {};    // mapped: our key
  std::string text = {};  // mapped: what to know, may be empty; needless: why; unsupported: what to do
  std::vector<std::pair<std::string, std::string>> names =
      {};  // mapped: values that are called otherwise here
  std::string verl_default =
      {};  // mapped: written out where ours differs; empty: it depends, or is not known
  std::vector<std::string> off = {};  // unsupported: values that ask for nothing
};

/// Keys below `prefix` mean nothing while `key` has one of the values `off` (or is not set).
struct Switch {
  std::string prefix;
  std::string key;
  std::vector<std::string> off;
  std::string text;  // why its keys are needless then
};

const std::vector<Row>& rows();
const std::vector<Switch>& switches();

/// The row of a key, else the longest "*" that holds it, else null.
const Row* find_row(const std::string& key);

// For the tables, rows_*.cpp.
namespace table {

using Rows = std::vector<Row>;
using Names = std::vector<std::pair<std::string, std::string>>;

Row maps(std::string key, std::string to, std::string verl_default = {}, Names names = {},
         std::string text = {});
/// Of the same name here, without actor_rollout_ref.
Row same(std::string key, std::string verl_default = {}, Names names = {}, std::string text = {});
Row needless(std::string key, std::string why);
Row unsupported(std::string key, std::vector<std::string> off, std::string what_to_do);

void add_data(Rows& rows);
void add_model(Rows& rows);
void add_actor(Rows& rows);
void add_engines(Rows& rows);  // FSDP, Megatron and profilers of all roles
void add_reference(Rows& rows);
void add_rollout(Rows& rows);
void add_critic(Rows& rows);
void add_algorithm(Rows& rows);
void add_reward(Rows& rows);
void add_trainer(Rows& rows);

}  // namespace table
}  // namespace trireme::verl
