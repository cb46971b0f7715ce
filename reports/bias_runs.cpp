#include "reports/bias_runs.hpp"

#include "reports/family.hpp"
#include "reports/parallel.hpp"
#include "reports/terminal.hpp"

#include <algorithm>

namespace fa1::reports {

std::vector<const kernels::Kernel*> bias_kernels() {
  std::vector<const kernels::Kernel*> chosen;
  for (const std::string& variant : variants())
    if (const kernels::Kernel* kernel = representative(variant, false, 4))
      chosen.push_back(kernel);
  for (const char* variant : {"fa1", "fa1_deferred"})
    if (const kernels::Kernel* kernel = representative(variant, true, 4))
      chosen.push_back(kernel);
  const reference::Shape shape{1, 32, 256, 4, 4};
  for (const char* mutant : {"mutant.biased_exp.Br4xBc2", "mutant.truncated_sum.Br4xBc2"})
    chosen.push_back(&kernels::find_kernel(mutant, shape));
  return chosen;
}

std::vector<Json> bias_records(const std::vector<const kernels::Kernel*>& kernels,
                               const std::string& recipe, std::uint64_t first_seed,
                               std::int64_t seeds) {
  std::vector<numerics::BiasSubject> subjects;
  for (const kernels::Kernel* kernel : kernels)
    subjects.push_back({kernel->id,
                        [kernel](const kernels::Problem& problem) { return run(*kernel, problem); },
                        kernel->gives_l_and_m});
  Progress progress("bias", static_cast<double>(seeds) * numerics::kBiasValues.size());
  const auto rows = numerics::measure_bias(subjects, recipe, first_seed, seeds, cores(),
                                           [&] { progress.done(1.0); });

  std::vector<Json> records;
  for (const numerics::BiasRow& row : rows) {
    const auto kernel = std::ranges::find(kernels, row.subject, &kernels::Kernel::id);
    records.push_back({{"what", "bias"},
                       {"recipe", recipe},
                       {"kernel", row.subject},
                       {"wrong", (*kernel)->mutant},
                       {"quantity", row.quantity},
                       {"V", row.V},
                       {"seeds", row.seeds},
                       {"mean", number(row.mean)},
                       {"low", number(row.confidence.low)},
                       {"high", number(row.confidence.high)},
                       {"family_low", number(row.in_family.low)},
                       {"family_high", number(row.in_family.high)},
                       {"rows", rows.size()},
                       {"biased", row.biased()},
                       {"exact", row.mean == 0.0 && row.deviation == 0.0}});
  }
  return records;
}

} // namespace fa1::reports
