/// fa1lab repro ID | RECIPE | FILE: one edge case, one problem, or one law on one problem, told in
/// full.
///
/// ID        the recipe, the truth, what the kernel gives, the verdict, and whether that is the
/// catalogue's row RECIPE    any text that holds `=`: the problem's facts, the verdict and the
/// worst element with its inputs FILE      its first line that is a recipe (holds `=` and does not
/// begin with #) Status    ID: 0 where the outcome is the catalogue's (a documented limit
/// included), 1 where it is not.
///           RECIPE: 1 where something is proved wrong or the law is violated. 2 bad input, 3 no
///           CUDA device
#pragma once

#include "reports/arguments.hpp"
#include "reports/command.hpp"

#include <iosfwd>
#include <string>

namespace fa1::reports {

struct ReproOptions {
  std::string what;      ///< ID, RECIPE or FILE
  KernelChoice choice;   ///< where nothing is named: the case's own, or fa1
  std::string backend;   ///< empty, cpu or cuda
  std::string invariant; ///< empty: judge the output
  std::string schedule;  ///< empty: forward
  bool trace = false;
  bool json = false;
};

/// Loads the plug-in that `options` may name.
int repro(ReproOptions& options, std::ostream& out);

Command add_repro(CLI::App& program);

} // namespace fa1::reports
