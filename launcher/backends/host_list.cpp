#include "launcher/backends/host_list.h"

#include <algorithm>
#include <charconv>
#include <set>
#include <sstream>

#include "runtime/base/error.h"
#include "runtime/base/files.h"

namespace trireme::backends {
namespace {

std::optional<int> number(const std::string& text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

int rank_count(const std::string& text, const std::string& where) {
  const auto ranks = number(text);
  if (!ranks || *ranks < 1)
    fail(ErrorCode::invalid_config, "{}: '{}' is no number of ranks; at least 1", where, text);
  return *ranks;
}

HostShare read_host(const std::string& word, const std::string& where) {
  const auto colon = word.rfind(':');
  HostShare host{.name = word.substr(0, colon)};
  if (host.name.empty()) fail(ErrorCode::invalid_config, "{}: a host without a name", where);
  if (colon != std::string::npos) host.ranks = rank_count(word.substr(colon + 1), where);
  return host;
}

void refuse_twins(const std::vector<HostShare>& hosts, const std::string& where) {
  std::set<std::string> names;
  for (const auto& host : hosts)
    if (!names.insert(host.name).second)
      fail(ErrorCode::invalid_config, "{} names {} twice; say {}:RANKS once", where, host.name, host.name);
  if (hosts.empty()) fail(ErrorCode::invalid_config, "{} names no host", where);
}

// Splits at commas that stand outside of brackets.
std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts(1);
  int depth = 0;
  for (const char c : text) {
    depth += (c == '[') - (c == ']');
    if (c == ',' && depth == 0)
      parts.emplace_back();
    else
      parts.back() += c;
  }
  return parts;
}

// "2(x3),1" to 2, 2, 2, 1.
std::vector<int> tasks_per_node(const std::string& text) {
  std::vector<int> counts;
  for (const auto& part : split(text)) {
    const auto times = part.find("(x");
    const auto count = number(part.substr(0, times));
    const auto repeat = times == std::string::npos ? std::optional(1)
                                                   : number(part.substr(times + 2, part.size() - times - 3));
    if (!count || !repeat)
      fail(ErrorCode::invalid_config, "SLURM_TASKS_PER_NODE is '{}', which makes no sense", text);
    counts.insert(counts.end(), *repeat, *count);
  }
  return counts;
}

}  // namespace

std::vector<HostShare> read_hosts(const std::string& text) {
  std::vector<HostShare> hosts;
  for (const auto& word : split(text)) hosts.push_back(read_host(word, "--hosts"));
  refuse_twins(hosts, "--hosts");
  return hosts;
}

std::vector<HostShare> read_hostfile(const std::string& path) {
  std::istringstream lines(files::read(path));
  std::vector<HostShare> hosts;
  int line_number = 0;
  for (std::string line; std::getline(lines, line);) {
    const auto where = fmt::format("{}:{}", path, ++line_number);
    std::istringstream words(line.substr(0, line.find('#')));
    std::string word;
    if (!(words >> word)) continue;
    HostShare host = read_host(word, where);
    while (words >> word) {
      if (word.starts_with("slots="))
        host.ranks = rank_count(word.substr(6), where);
      else if (!word.starts_with("max_slots=") && !word.starts_with("max-slots="))
        fail(ErrorCode::invalid_config, "{}: what is '{}'? A line is NAME, NAME:4 or NAME slots=4", where,
             word);
    }
    hosts.push_back(host);
  }
  refuse_twins(hosts, path);
  return hosts;
}

std::vector<std::string> expand_node_list(const std::string& text) {
  std::vector<std::string> names;
  for (const auto& part : split(text)) {
    const auto open = part.find('['), close = part.find(']');
    if (open == std::string::npos) {
      if (!part.empty()) names.push_back(part);
      continue;
    }
    if (close == std::string::npos || close < open)
      fail(ErrorCode::invalid_config, "the list of nodes '{}' lacks a bracket", text);
    const auto head = part.substr(0, open), tail = part.substr(close + 1);
    for (const auto& range : split(part.substr(open + 1, close - open - 1))) {
      const auto dash = range.find('-');
      const auto from = range.substr(0, dash);
      const auto first = number(from),
                 last = dash == std::string::npos ? first : number(range.substr(dash + 1));
      if (!first || !last || *last < *first)
        fail(ErrorCode::invalid_config, "the list of nodes '{}' holds '{}', which is no range", text, range);
      for (int i = *first; i <= *last; ++i)
        for (const auto& name : expand_node_list(fmt::format("{}{:0{}}{}", head, i, from.size(), tail)))
          names.push_back(name);
    }
  }
  return names;
}

std::vector<HostShare> slurm_hosts(
    const std::function<std::optional<std::string>(const std::string&)>& variable) {
  const auto list = variable("SLURM_JOB_NODELIST");
  if (!list)
    fail(ErrorCode::invalid_config,
         "SLURM_JOB_ID is set, but not SLURM_JOB_NODELIST: is this shell inside the allocation?");
  std::vector<HostShare> hosts;
  for (const auto& name : expand_node_list(*list)) hosts.push_back({.name = name});
  refuse_twins(hosts, "SLURM_JOB_NODELIST");
  // Without a number of tasks Slurm says one for each CPU or node, which nobody meant as ranks.
  if (!variable("SLURM_NTASKS") && !variable("SLURM_NTASKS_PER_NODE")) return hosts;
  const auto tasks = tasks_per_node(variable("SLURM_TASKS_PER_NODE").value_or("1"));
  for (size_t i = 0; i < hosts.size() && i < tasks.size(); ++i) hosts[i].ranks = tasks[i];
  return hosts;
}

HostChoice choose_hosts(const std::vector<HostShare>& hosts, const HostRequest& request,
                        const std::function<int(const HostShare&)>& otherwise) {
  const int available = static_cast<int>(hosts.size());
  if (request.num_hosts > available)
    fail(ErrorCode::invalid_config, "--nnodes {}: only {} {} named", request.num_hosts, available,
         available == 1 ? "host is" : "hosts are");
  if (request.num_ranks && request.num_hosts && request.ranks_per_host &&
      request.num_ranks != request.num_hosts * request.ranks_per_host)
    fail(ErrorCode::invalid_config, "-n {} is not --nnodes {} times --nproc-per-node {}", request.num_ranks,
         request.num_hosts, request.ranks_per_host);
  int limit = request.num_hosts ? request.num_hosts : available;
  const bool says_nothing = !request.ranks_per_host &&
                            std::none_of(hosts.begin(), hosts.end(), [](const auto& h) { return h.ranks; });
  // `-n 8` alone: evenly over the hosts that are asked for.
  const bool spread = says_nothing && request.num_ranks;
  if (spread) limit = std::min(limit, request.num_ranks);
  if (spread && request.num_ranks % limit != 0)
    fail(ErrorCode::invalid_config, "-n {} ranks do not spread evenly over {} hosts; say HOST:RANKS",
         request.num_ranks, limit);
  HostChoice choice;
  int left = request.num_ranks;
  for (const auto& host : hosts) {
    const bool enough = static_cast<int>(choice.used.size()) == limit || (request.num_ranks && left == 0);
    if (enough) {
      choice.spare.push_back(host.name);
      continue;
    }
    int ranks = spread                   ? request.num_ranks / limit
                : request.ranks_per_host ? request.ranks_per_host
                : host.ranks             ? host.ranks
                                         : otherwise(host);
    if (request.num_ranks) ranks = std::min(ranks, left);
    left -= ranks;
    choice.used.push_back({.name = host.name, .ranks = ranks});
  }
  if (request.num_ranks && left > 0)
    fail(ErrorCode::invalid_config, "-n {}: the hosts have places for {} ranks only", request.num_ranks,
         request.num_ranks - left);
  return choice;
}

}  // namespace trireme::backends
