#include "reports/commands/claim.hpp"

#include "numerics/claim.hpp"
#include "properties/property.hpp"
#include "reports/arguments.hpp"
#include "reports/parallel.hpp"
#include "reports/records.hpp"
#include "reports/terminal.hpp"

#include <fmt/format.h>
#include <fmt/ostream.h>

#include <iostream>
#include <memory>
#include <string>

namespace fa1::reports {
namespace {

struct Options {
  std::string claim, seed = "1";
  BudgetOptions budget;
  bool json = false;
};

Json to_json(const Options& options, const numerics::ClaimAnswer& answer, std::uint64_t seed,
             const std::string& replay) {
  return {{"what", "claim"},
          {"claim", options.claim},
          {"answer", answer.refuted ? "refuted" : "no counterexample"},
          {"cases", answer.evaluations},
          {"counted", answer.counted},
          {"seed", seed},
          {"recipe", reference::to_string(answer.recipe)},
          {"kernel", answer.kernel->id},
          {"quantity", number(answer.closest.quantity)},
          {"allowed", number(answer.closest.allowed)},
          {"ratio", number(answer.closest.ratio)},
          {"reproduce", replay}};
}

int claim(const Options& options) {
  const std::uint64_t seed = whole_number("--seed", options.seed, 0, ~std::uint64_t{0});
  numerics::Budget budget = options.budget.budget();
  numerics::ClaimAnswer answer;
  try {
    const numerics::Claim claim = numerics::parse_claim(options.claim);
    Progress progress("claim", 1.0);
    budget.on_spent = [&](double share) { progress.done(share); };
    answer = numerics::test_claim(claim, seed, budget, cores());
    progress.clear();
  } catch (const numerics::ClaimError& error) {
    throw UsageError(error.what());
  }
  if (answer.kernel == nullptr)
    throw UsageError(fmt::format("claim: none of {} problems counts: their bound fails, their "
                                 "scores carry no digit, or no kernel serves them",
                                 answer.evaluations));

  const std::string replay =
      properties::replay_line(reference::to_string(answer.recipe), *answer.kernel);
  if (options.json) {
    std::cout << one_line(to_json(options, answer, seed, replay)) << "\n";
    return answer.refuted ? kProvedWrong : kHeld;
  }
  if (answer.refuted)
    fmt::print(std::cout, "{} within {} cases, and made as small as it still refutes\n",
               painted("refuted", Colour::bad), answer.evaluations);
  else
    fmt::print(std::cout, "{} in {} cases, {} of which count; the closest one\n",
               painted("no counterexample", Colour::good), answer.evaluations, answer.counted);
  fmt::print(std::cout, "kernel    {}\nrecipe    {}\n", answer.kernel->id,
             reference::to_string(answer.recipe));
  fmt::print(std::cout, "measured  {:.6g}, {:.4g} times the claim's {:.6g}\n",
             answer.closest.quantity, answer.closest.ratio, answer.closest.allowed);
  fmt::print(std::cout, "reproduce {}\n", replay);
  return answer.refuted ? kProvedWrong : kHeld;
}

} // namespace

Command add_claim(CLI::App& program) {
  auto options = std::make_shared<Options>();
  CLI::App* app =
      program.add_subcommand("claim", "Search a problem that contradicts a claim about the error");
  app->footer(
      "QUANTITY <= EXPRESSION [for CONDITION...]\n"
      "  quantity    error (of every element of O), rms, bias (|mean|) of O^ - o\n"
      "  expression  u sum_p_v bound o n_q n_kv d sigma Bc, numbers, + - * / ^ ( ) sqrt() log2()\n"
      "  condition   n_q n_kv d dv sigma gap: <= >= = in a..b; dist order v kernel: = a,b\n"
      "Keys it does not name are open: n_q <= 8, n_kv <= 1024, d <= 64, sigma <= 4, kernel = fa1 "
      "(all its instances on "
      "the CPU), every family and order. A problem counts where the bound holds and scores carry a "
      "digit. Status 1: "
      "refuted.\n\n"
      "Example:\n  fa1lab claim 'error <= 3*u*sum_p_v for n_kv<=8192 sigma<=4 kernel=fa1'");
  app->add_option("CLAIM", options->claim, "The claim, quoted")->required();
  options->budget.add_to(*app);
  app->add_option("--seed", options->seed, "Of the search [1]");
  app->add_flag("--json", options->json, "One record instead of text");
  return {app, [options] { return claim(*options); }};
}

} // namespace fa1::reports
