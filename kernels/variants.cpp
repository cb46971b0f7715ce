// The tables of kernels: every variant, tile and head dimension, and the mutants.
#include "kernels/exponentials.hpp"
#include "kernels/kernel.hpp"
#include "kernels/launch.hpp"
#include "kernels/originals.hpp"
#include "kernels/traffic.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

namespace fa1::kernels {

// Defined by the translation units that CMake makes from cpu_instances.cpp, named in the two
// generated files.
#include "generated_declarations.inc"

namespace {

/// Of portable_math.cuh, which proves them.
constexpr double kPortableExpError = 1.0 + 0x1p-22;
constexpr double kPortableExpUnderflow = 0x1.00001p-150;

bool machine_contracts() {
#if defined(FA1_X86_FMA)
  return __builtin_cpu_supports("fma") != 0 && __builtin_cpu_supports("avx2") != 0;
#else
  return true;
#endif
}

std::string id_of(const Instance& instance, std::string_view variant, std::string_view suffix) {
  return tile_of(instance, variant) + "." + std::string(suffix);
}

/// What variants.def says of a variant and an instance does not.
struct VariantRow {
  std::string_view name;
  Order order;
  bool resumes;
  std::string_view traffic;
  std::vector<GivenUp> given_up;
};

const std::vector<VariantRow>& variant_rows() {
#define FA1_NOT_HELD(law, why)                                                                     \
  { law, false, why }
#define FA1_WITHIN_BOUND(law, why)                                                                 \
  { law, true, why }
#define FA1_VARIANT(name, statement, tiles, plan, outputs, order, resumes, traffic, ...)           \
  {#name, Order::order, resumes, traffic, {__VA_ARGS__}},
  static const std::vector<VariantRow> rows{
#include "kernels/variants.def"
  };
#undef FA1_VARIANT
#undef FA1_WITHIN_BOUND
#undef FA1_NOT_HELD
  return rows;
}

const VariantRow* row_of(std::string_view variant) {
  const auto row = std::ranges::find(variant_rows(), variant, &VariantRow::name);
  return row == variant_rows().end() ? nullptr : &*row;
}

void take_over(const VariantRow& row, Kernel& kernel) {
  kernel.arithmetic.order = row.order;
  kernel.resumes = row.resumes;
  kernel.traffic = row.traffic;
  kernel.given_up = row.given_up;
}

Kernel describe(const Instance& instance, std::string_view suffix) {
  Kernel kernel;
  kernel.variant = instance.variant;
  kernel.id = id_of(instance, instance.variant, suffix);
  kernel.build = suffix;
  kernel.says = instance.statement;
  kernel.Br = instance.Br;
  kernel.Bc = instance.Bc;
  kernel.D = instance.D;
  kernel.arithmetic.Bc = instance.Bc;
  kernel.arithmetic.gives_LSE = instance.outputs == Outputs::LSE;
  if (const VariantRow* row = row_of(kernel.variant)) // not a mutant, not a rewrite
    take_over(*row, kernel);
  return kernel;
}

std::function<LaunchCounts(const Arguments&)> counting(const Instance& instance) {
  return [instance](const Arguments& arguments) {
    LaunchCounts counts;
    launch_cpu(instance, arguments, {}, &counts);
    return counts;
  };
}

void make_portable(Arithmetic& arithmetic) {
  arithmetic.portable = true;
  arithmetic.exp_error = kPortableExpError;
  arithmetic.exp_underflow = kPortableExpUnderflow;
}

/// `counted`: the same instances in the same order, with counting pointers.
void append_cpu(std::vector<Kernel>& kernels, InstanceTable table, InstanceTable counted,
                std::string_view build) {
  const bool contracted = build == "cpu-fma";
  for (std::size_t i = 0; i < table.count; ++i) {
    const Instance instance = table.rows[i];
    Kernel kernel = describe(instance, build);
    kernel.arithmetic.contracted = contracted;
    kernel.arithmetic.uniform_dots = !contracted;
    if (build == "cpu-portable")
      make_portable(kernel.arithmetic);
    kernel.run = [instance](const Arguments& arguments, const Launch& launch) {
      launch_cpu(instance, arguments, launch);
    };
    kernel.count = counting(counted.rows[i]);
    kernel.scratch = [instance](const Shape& shape) { return scratch_of(instance, shape); };
    kernels.push_back(std::move(kernel));
  }
}

void append_cuda(std::vector<Kernel>& kernels, const CudaBuild& build) {
  for (const Instance& instance : build.instances) {
    Kernel kernel = describe(instance, build.suffix);
    kernel.backend = Backend::cuda;
    kernel.arithmetic.contracted = build.contracted;
    kernel.arithmetic.exp_error = cuda_exp_error().c();
    kernel.arithmetic.exp_underflow = cuda_exp_error().mu();
    if (build.portable)
      make_portable(kernel.arithmetic);
    kernel.run = [instance](const Arguments& arguments, const Launch& launch) {
      launch_cuda(instance, arguments, launch);
    };
    kernels.push_back(std::move(kernel));
  }
}

Kernel describe_as(const Instance& instance, std::string variant, std::string_view says) {
  Kernel kernel = describe(instance, "cpu");
  kernel.variant = std::move(variant);
  kernel.id = id_of(instance, kernel.variant, "cpu");
  kernel.says = says;
  kernel.run = [instance](const Arguments& arguments, const Launch& launch) {
    launch_cpu(instance, arguments, launch);
  };
  return kernel;
}

/// A row of mutants.def.
struct MutantRow {
  std::string_view original, name, fault, says, killed_by, survives;
};

void append_mutant(std::vector<Kernel>& mutants, InstanceTable table, InstanceTable counted,
                   const MutantRow& row) {
  for (std::size_t i = 0; i < table.count; ++i) {
    Kernel kernel = describe_as(table.rows[i], "mutant." + std::string(row.name), row.says);
    take_over(*row_of(row.original), kernel);
    kernel.traffic = {}; // of those that are counted
    kernel.mutant = true;
    kernel.fault = row.fault;
    kernel.killed_by = row.killed_by;
    kernel.survives = row.survives;
    for (std::size_t c = 0; c < counted.count; ++c)
      if (counted.rows[c].Br == kernel.Br && counted.rows[c].Bc == kernel.Bc) {
        kernel.count = counting(counted.rows[c]);
        kernel.traffic = row_of(row.original)->traffic;
      }
    mutants.push_back(std::move(kernel));
  }
}

void append_rewrite(std::vector<Kernel>& rewrites, InstanceTable table, std::string_view name,
                    std::string_view says) {
  for (std::size_t i = 0; i < table.count; ++i) {
    rewrites.push_back(describe_as(table.rows[i], "rewrite." + std::string(name), says));
    rewrites.back().arithmetic.known = false;
  }
}

std::vector<Kernel> make_kernels() {
  std::vector<Kernel> kernels;
#define FA1_TABLE(function, counted, contracted)                                                   \
  if (!(contracted) || machine_contracts())                                                        \
    append_cpu(kernels, function(), counted(), (contracted) ? "cpu-fma" : "cpu");
#include "generated_tables.inc"
#undef FA1_TABLE
  if (!cuda_builds().empty())
    append_cuda(kernels, cuda_builds().front());
  return kernels;
}

std::vector<Kernel> make_other_builds() {
  std::vector<Kernel> kernels;
#define FA1_TABLE(function, counted) append_cpu(kernels, function(), counted(), "cpu-portable");
#include "generated_portable_tables.inc"
#undef FA1_TABLE
  for (const CudaBuild& build : cuda_builds())
    if (&build != &cuda_builds().front())
      append_cuda(kernels, build);
  return kernels;
}

std::vector<Kernel> make_mutants() {
  std::vector<Kernel> mutants;
#define FA1_ROW(original, name, fault, says, killed_by, survives)                                  \
  append_mutant(mutants, mutant_##name##_plain(), mutant_##name##_counted(),                       \
                {#original, #name, fault, says, killed_by, survives});
#define FA1_MUTANT(name, fault, says, killed_by) FA1_ROW(fa1, name, fault, says, killed_by, "")
#define FA1_MUTANT_OF(original, name, says, killed_by)                                             \
  FA1_ROW(original, name, "family", says, killed_by, "")
#define FA1_SURVIVOR(name, fault, says, reason) FA1_ROW(fa1, name, fault, says, "", reason)
#include "kernels/mutants/mutants.def"
#undef FA1_SURVIVOR
#undef FA1_MUTANT_OF
#undef FA1_MUTANT
#undef FA1_ROW
  return mutants;
}

std::vector<Kernel> make_rewrites() {
  std::vector<Kernel> rewrites;
#define FA1_REWRITE(name, says) append_rewrite(rewrites, rewrite_##name##_D8(), #name, says);
#include "kernels/rewrites/rewrites.def"
#undef FA1_REWRITE
  return rewrites;
}

/// People who name a variant alone mean its largest square tile up to 32.
int size_of_square(const Kernel& kernel) {
  return kernel.Br == kernel.Bc && kernel.Bc <= 32 ? kernel.Bc : 0;
}

std::string nearest_ids(std::string_view id) {
  std::string list;
  int shown = 0;
  for (const auto table : all_tables())
    for (const Kernel& kernel : table)
      if (shown < 4 &&
          kernel.id.compare(0, std::min<std::size_t>(id.size(), 5), id.substr(0, 5)) == 0) {
        list += (shown++ == 0 ? "" : ", ") + kernel.id;
      }
  return list.empty() ? all_kernels().front().id : list;
}

/// True where `id` is the kernel's id, or its id without trailing parts: `fa1`, `fa1.Br4xBc1`,
/// `fa1.Br4xBc1xD8`.
bool names(std::string_view id, const Kernel& kernel) {
  const std::string_view full = kernel.id;
  return full.substr(0, id.size()) == id &&
         (full.size() == id.size() || full[id.size()] == '.' || full[id.size()] == 'x');
}

} // namespace

std::string tile_of(const Instance& instance, std::string_view variant) {
  return std::string(variant) + ".Br" + std::to_string(instance.Br) + "xBc" +
         std::to_string(instance.Bc) + "xD" + std::to_string(instance.D);
}

const GivenUp* Kernel::gives_up(std::string_view law) const {
  const auto found = std::ranges::find(given_up, law, &GivenUp::law);
  return found == given_up.end() ? nullptr : &*found;
}

std::span<const Kernel> all_kernels() {
  static const std::vector<Kernel> kernels = make_kernels();
  return kernels;
}

std::span<const Kernel> all_mutants() {
  static const std::vector<Kernel> mutants = make_mutants();
  return mutants;
}

std::span<const Kernel> all_rewrites() {
  static const std::vector<Kernel> rewrites = make_rewrites();
  return rewrites;
}

std::span<const Kernel> other_builds() {
  static const std::vector<Kernel> builds = make_other_builds();
  return builds;
}

std::array<std::span<const Kernel>, 4> all_tables() {
  return {all_kernels(), other_builds(), all_mutants(), all_rewrites()};
}

std::string_view original_of(std::string_view variant) {
#define FA1_MUTANT(...)
#define FA1_SURVIVOR(...)
#define FA1_MUTANT_OF(original, name, ...)                                                         \
  if (variant == "mutant." #name)                                                                  \
    return #original;
#include "kernels/mutants/mutants.def"
#undef FA1_MUTANT_OF
#undef FA1_SURVIVOR
#undef FA1_MUTANT
  return variant.starts_with("mutant.") || variant.starts_with("rewrite.") ? "fa1" : variant;
}

std::span<const std::string_view> stale_mutants() {
  static const std::vector<std::string_view> stale = {
#include "generated_stale_mutants.inc"
  };
  return stale;
}

const Kernel& find_kernel(std::string_view id, const Shape& shape) {
  const Kernel* found = nullptr;
  bool named = false;
  for (const auto table : all_tables())
    for (const Kernel& kernel : table) {
      if (id.empty() || !names(id, kernel))
        continue;
      named = true;
      if (!kernel.serves(shape))
        continue;
      const auto rank = [&](const Kernel& k) {
        return std::tuple(k.id != id, k.D, k.backend != Backend::cpu, k.arithmetic.contracted,
                          -size_of_square(k));
      };
      if (found == nullptr || rank(kernel) < rank(*found))
        found = &kernel;
    }
  if (found != nullptr)
    return *found;
  if (named)
    throw KernelError("kernel '" + std::string(id) + "': d=" + std::to_string(shape.d) +
                      " dv=" + std::to_string(shape.dv) +
                      " is larger than it serves; name an instance with a larger D");
  throw KernelError("kernel '" + std::string(id) + "' is unknown; there are " + nearest_ids(id) +
                    " and more, see `fa1lab list kernels`");
}

} // namespace fa1::kernels
