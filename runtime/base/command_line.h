// Options of one command of a program: reading them, and saying what is wrong with them.
#pragma once

#include <cxxopts.hpp>
#include <optional>
#include <string>
#include <vector>

namespace trireme::command_line {

/// Without the program's name; the first is the command's.
using Arguments = std::vector<std::string>;

/// A command's Options, with --help and the text that stands after its name in the usage line.
cxxopts::Options options_of(const std::string& command, const std::string& arguments,
                            const std::string& summary);

/// Nothing if --help was asked for and has been shown. Throws invalid_config, which names the nearest option.
std::optional<cxxopts::ParseResult> parse(cxxopts::Options& options, const Arguments& arguments);

/// All positional arguments.
std::vector<std::string> positional(const cxxopts::ParseResult& parsed);

}  // namespace trireme::command_line
