#include "reports/law_runs.hpp"

#include "reports/parallel.hpp"
#include "reports/records.hpp"
#include "reports/terminal.hpp"

namespace fa1::reports {
namespace {

using properties::LawResult;

std::string text_of(const LawResult& r) {
  return one_line(Json{{"held", r.held},
                       {"not_applicable", r.not_applicable},
                       {"suspicious", r.suspicious},
                       {"suspicious_recipe", r.suspicious_recipe},
                       {"worst_fraction", number(r.worst_fraction)},
                       {"worst_recipe", r.worst_recipe},
                       {"violated", r.violated},
                       {"violation", r.violation},
                       {"shrunk_recipe", r.shrunk_recipe},
                       {"reproduce", r.reproduce}});
}

LawResult result_of(const std::string& text) {
  const Json json = Json::parse(text);
  LawResult r;
  r.held = json["held"];
  r.not_applicable = json["not_applicable"];
  r.suspicious = json["suspicious"];
  r.suspicious_recipe = json["suspicious_recipe"];
  r.worst_fraction = number_of(json["worst_fraction"]);
  r.worst_recipe = json["worst_recipe"];
  r.violated = json["violated"];
  r.violation = json["violation"];
  r.shrunk_recipe = json["shrunk_recipe"];
  r.reproduce = json["reproduce"];
  return r;
}

} // namespace

std::vector<LawResult> check_all(std::span<const properties::Invariant* const> laws,
                                 std::span<const kernels::Kernel* const> kernels, int cases,
                                 std::uint64_t seed) {
  std::vector<LawResult> results(laws.size() * kernels.size());
  std::vector<std::size_t> forked, here; // positions in `results`
  for (std::size_t at = 0; at < results.size(); ++at)
    (kernels[at % kernels.size()]->backend == kernels::Backend::cpu ? forked : here).push_back(at);

  Progress progress("laws", static_cast<double>(results.size()));
  const auto check = [&](std::size_t at) {
    return properties::check(*laws[at / kernels.size()], *kernels[at % kernels.size()], cases,
                             seed);
  };
  const auto texts = in_processes(
      forked.size(), [&](std::size_t i) { return text_of(check(forked[i])); },
      [](std::size_t, const std::string& why) {
        LawResult crashed;
        crashed.violated = true;
        crashed.violation = why;
        return text_of(crashed);
      },
      [&](std::size_t) { progress.done(1.0); });
  for (std::size_t i = 0; i < forked.size(); ++i)
    results[forked[i]] = result_of(texts[i]);
  for (const std::size_t at : here) {
    results[at] = check(at);
    progress.done(1.0);
  }
  for (std::size_t at = 0; at < results.size(); ++at) {
    results[at].invariant = laws[at / kernels.size()];
    results[at].kernel = kernels[at % kernels.size()];
  }
  return results;
}

} // namespace fa1::reports
