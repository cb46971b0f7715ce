/// What every command of the program shares: how it is attached, how it ends, how it fails.
///
/// A command is a function `Command add_NAME(CLI::App& program)` that declares its options and returns what to run
/// once they are parsed. It ends with a Status; it fails by throwing:
///   UsageError        status 2   what the user gave is wrong: one line, what, where, what would be right
///   EnvironmentError  status 3   what was asked for needs something that this machine lacks
#pragma once

#include <CLI/CLI.hpp>

#include <functional>
#include <stdexcept>

namespace fa1::reports {

enum Status : int { kHeld = 0, kProvedWrong = 1, kBadInput = 2, kLacking = 3 };

class UsageError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

class EnvironmentError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Command {
  CLI::App* app = nullptr;
  std::function<int()> run;
};

} // namespace fa1::reports
