// The program fa1lab: one command a file in commands/. This file turns what they throw into a line and a status.
#include "kernels/kernel.hpp"
#include "reference/recipe.hpp"
#include "reports/command.hpp"
#include "reports/commands/bench.hpp"
#include "reports/commands/bias.hpp"
#include "reports/commands/budget.hpp"
#include "reports/commands/builds.hpp"
#include "reports/commands/check.hpp"
#include "reports/commands/claim.hpp"
#include "reports/commands/compare.hpp"
#include "reports/commands/exp.hpp"
#include "reports/commands/judge.hpp"
#include "reports/commands/list.hpp"
#include "reports/commands/merge.hpp"
#include "reports/commands/precision.hpp"
#include "reports/commands/ratchet.hpp"
#include "reports/commands/report.hpp"
#include "reports/commands/repro.hpp"
#include "reports/commands/run.hpp"
#include "reports/commands/shrink.hpp"
#include "reports/commands/sweep.hpp"
#include "reports/commands/trace.hpp"
#include "reports/commands/worst.hpp"
#include "reports/environment.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <iostream>
#include <new>
#include <string>
#include <vector>

namespace fa1::reports {
namespace {

int complain(int status, std::string line) {
  std::ranges::replace(line, '\n', ' ');
  fmt::print(stderr, "fa1lab: {}\n", line);
  return status;
}

int run(const Command& command) {
  try {
    return command.run();
  } catch (const UsageError& error) {
    return complain(kBadInput, error.what());
  } catch (const EnvironmentError& error) {
    return complain(kLacking, error.what());
  } catch (const reference::RecipeError& error) {
    return complain(kBadInput, error.what());
  } catch (const kernels::KernelFault& fault) {
    return complain(kProvedWrong, fault.what());
  } catch (const kernels::KernelError& error) {
    return complain(kBadInput, error.what());
  } catch (const simt::ExecutorError& error) {
    return complain(kProvedWrong,
                    fmt::format("the kernel broke the rules of CUDA: {}", error.what()));
  } catch (const std::bad_alloc&) {
    return complain(kBadInput, fmt::format("{}: out of memory; want a smaller problem",
                                           command.app->get_name()));
  } catch (const std::exception& error) {
    return complain(kBadInput, fmt::format("{}: {}", command.app->get_name(), error.what()));
  }
}

/// What a full disk behind `> file` swallowed must not pass for success.
int flushed(int status) {
  std::cout.flush();
  if (std::cout.good() && std::fflush(stdout) == 0)
    return status;
  return complain(kBadInput, "cannot write to standard output; is the disk full?");
}

int start(int count, char** words) {
  if (const std::string obstacle = arithmetic_obstacle(); !obstacle.empty())
    return complain(kLacking, obstacle);
  CLI::App program("A laboratory for one question: is this FlashAttention kernel right, and if "
                   "not, how wrong, where and why?",
                   "fa1lab");
  program.footer(
      "Status: 0 all held, 1 something proved wrong, 2 bad usage or input, 3 something missing "
      "here.\n\n"
      "Example:\n  fa1lab report --quick\n\nfa1lab COMMAND --help says more about one command.");
  program.require_subcommand(1);
  const std::array commands{add_report(program),  add_repro(program),   add_run(program),
                            add_check(program),   add_sweep(program),   add_merge(program),
                            add_compare(program), add_ratchet(program), add_precision(program),
                            add_papers(program),  add_list(program),    add_bench(program),
                            add_trace(program),   add_judge(program),   add_budget(program),
                            add_bias(program),    add_worst(program),   add_claim(program),
                            add_shrink(program),  add_builds(program),  add_exp(program)};

  std::string names;
  for (const Command& command : commands)
    names += (names.empty() ? "" : " ") + command.app->get_name();
  if (count < 2)
    return complain(kBadInput, fmt::format("want a command: one of {}; see fa1lab --help", names));
  const std::string first = words[1];
  const auto* const chosen = std::ranges::find_if(
      commands, [&](const Command& command) { return command.app->get_name() == first; });
  if (first != "-h" && first != "--help" && chosen == commands.end())
    return complain(kBadInput,
                    fmt::format("command '{}' is unknown; want one of {}", first, names));

  try {
    program.parse(count, words);
  } catch (const CLI::CallForHelp& help) {
    return program.exit(help);
  } catch (const CLI::CallForAllHelp& help) {
    return program.exit(help);
  } catch (const CLI::ParseError& error) {
    const std::string command = chosen == commands.end() ? "" : first + " ";
    return complain(kBadInput, fmt::format("{}{}; see fa1lab {}--help",
                                           chosen == commands.end() ? "" : first + ": ",
                                           error.what(), command));
  }
  return run(*chosen);
}

} // namespace
} // namespace fa1::reports

int main(int count, char** words) {
  return fa1::reports::flushed(fa1::reports::start(count, words));
}
