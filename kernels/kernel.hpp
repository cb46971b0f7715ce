/// A kernel under test: what it is, what it gives, and how to run it.
///
/// Everything above this header (laws, edge cases, sweeps, the program) sees kernels only through
/// these types, whether they run on the CPU executor, on a GPU, or are deliberately wrong.
///
/// Shapes    Arguments holds raw row-major arrays as in reference/problem.hpp: Q
///           [batch_heads][n_q][d] ...
/// Special   n_kv = 0 and a fresh start: O = 0, l = 0, m = -Inf are written; n_q = 0: nothing is
///           touched
#pragma once

#include "kernels/simt/executor.hpp"
#include "reference/problem.hpp"

#include <cstdint>
#include <functional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace fa1::kernels {

using reference::Problem;
using reference::Shape;
using reference::State;

/// Raw views of the inputs and outputs of one launch. Nothing past the ends may be read or written.
struct Arguments {
  Shape shape;
  float scale = 1.0f;
  const float* Q = nullptr;
  const float* K = nullptr;
  const float* V = nullptr;
  float* O = nullptr;
  float* l = nullptr;
  float* m = nullptr;
  bool resume = false; ///< true: O, l, m hold the carries of the keys before these
};

/// How to run, where it must not matter for the bits.
struct Launch {
  simt::Schedule schedule{};
  unsigned threads_per_block = 0; ///< 0: the kernel's own choice
  unsigned os_threads = 1;        ///< how many cores the blocks may spread over
};

struct LaunchCounts;

enum class Backend { cpu, cuda };

/// The facts about a kernel's arithmetic that its error bound depends on (numerics/bounds.hpp).
struct Arithmetic {
  /// False for a kernel whose insides nobody told us: sums in any order, any tiles or none, natural
  /// or base-2 exponentials, division at each tile or at the end. Its bound is the widest of these.
  bool known = true;
  int Bc = 1;              ///< keys per tile: in-tile sums run serially over so many
  bool contracted = false; ///< a*b+c may be fused
  /// Every a*b+c of the dot product is fused, or none is. False where the compiler decides lane by
  /// lane (g++ leaves some unfused when it vectorises): then moving a key within its tile may
  /// change the last bit of its score.
  bool uniform_dots = true;
  /// c: expf(x) = e^x (1 + e), |e| <= c u; glibc 2.36 measured over all floats
  double exp_error = 1.0033;
  double exp_underflow = 0x1p-150; ///< largest absolute error of an expf below the normal range
};

struct Kernel {
  std::string id;      ///< fa1.Br32xBc32xD64.cpu
  std::string variant; ///< fa1
  std::string says;    ///< one sentence
  Backend backend = Backend::cpu;
  int Br = 1, Bc = 1, D = 1; ///< D: largest d and dv served; smaller ones through zero columns
  Arithmetic arithmetic;
  bool gives_l_and_m = true;
  bool resumes = true;
  bool mutant = false;
  std::string fault;     ///< mutants: the group it belongs to, as mutants.def names it
  std::string killed_by; ///< mutants: the id of the law that must catch it; empty where none can
  std::string survives;  ///< mutants: why none can
  /// The options that name it to the program where `--kernel id` does not: `--plugin ./mine.so`.
  std::string asked_by;
  std::function<void(const Arguments&, const Launch&)> run;
  /// Runs the same text with counting pointers; empty where there is none. See traffic.hpp.
  std::function<LaunchCounts(const Arguments&)> count;
  /// Floats of global memory that a launch needs for itself; empty: none.
  std::function<std::int64_t(const Shape&)> scratch;
  std::string_view traffic; ///< floats per array and batch-head, see variants.def; empty: not told

  /// The words of a command line that name it.
  std::string chosen_by() const { return asked_by.empty() ? "--kernel " + id : asked_by; }
  bool serves(const Shape& shape) const { return shape.d <= D && shape.dv <= D; }
};

class KernelError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// What a kernel from outside did instead of its work: it crashed, hung, wrote where it may not, failed.
/// The kernel's fault, never the laboratory's: a law counts it as violated.
class KernelFault : public KernelError {
public:
  explicit KernelFault(const std::string& what, bool hung = false)
      : KernelError(what), hung_(hung) {}
  bool hung() const { return hung_; } ///< it costs a whole time limit to see this again

private:
  bool hung_;
};

/// A kernel from outside declined a shape, as it may: neither right nor wrong.
class UnsupportedShape : public KernelError {
  using KernelError::KernelError;
};

/// Every right kernel this build and this machine can run, in a fixed order.
std::span<const Kernel> all_kernels();

/// Kernels that are wrong on purpose, each naming the law that must catch it.
std::span<const Kernel> all_mutants();

/// Kernels that are right and written differently, judged as if nothing were known of their insides.
std::span<const Kernel> all_rewrites();

/// Mutants whose .edit no longer fits fa1.cuh and that are therefore not wrong at all; empty in a
/// sound tree.
std::span<const std::string_view> stale_mutants();

/// Exact id, or a variant (`fa1`), or a variant with tile (`fa1.Br4xBc1`): then the instance with
/// the smallest sufficient D. Throws KernelError naming the nearest ids.
const Kernel& find_kernel(std::string_view id, const Shape& shape);

/// Runs from a fresh start into outputs that begin as NaN.
State run(const Kernel& kernel, const Problem& problem, const Launch& launch = {});

/// Runs from a fresh start into outputs that hold these values before.
State run_into(const Kernel& kernel, const Problem& problem, State outputs,
               const Launch& launch = {});

/// Continues from `carries` over the keys of `problem`.
State resume(const Kernel& kernel, const Problem& problem, const State& carries,
             const Launch& launch = {});

} // namespace fa1::kernels
