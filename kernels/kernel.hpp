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

#include "kernels/exponentials.hpp"
#include "kernels/simt/executor.hpp"
#include "reference/problem.hpp"

#include <array>
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
  unsigned threads_per_block = 0; ///< 0: the kernel's own choice; warp roles allow no other
  unsigned os_threads = 1;        ///< how many cores the blocks may spread over
};

struct LaunchCounts;

enum class Backend { cpu, cuda };

/// In which order a kernel that we know rounds; numerics/bounds.hpp counts the roundings of each.
enum class Order {
  every_tile,   ///< O divided at every tile; alpha l is one rounded product, used twice
  tile_maximum, ///< the same with p against the tile's own maximum, corrected by exp(m_tile - m_new)
  at_end,       ///< l and O rescaled apart, one division at the end of each launch
  lagging,      ///< the same, rescaled only when the maximum has grown by more than kLag
  rows_of_S,    ///< m, then l over all keys in order, then p / l, then sums of p v
  two_fetches,  ///< l as at_end; then p against the last m, sums of p v, one division
  ranges        ///< kKeyRanges ranges of whole tiles, each as at_end, merged in order
};

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
  /// c: expf(x) = e^x (1 + e), |e| <= c u, of the host where nothing else is said (exponentials.def)
  double exp_error = host_exp_error().c();
  double exp_underflow = host_exp_error().mu(); ///< absolute, of an e^x below the normal range
  Order order = Order::every_tile;              ///< of a known kernel
  /// Every tile may have been a launch of its own, from the carries of the one before.
  bool carried = false;
  /// The same bits on every machine: nothing fused, expf and logf of kernels/portable_math.cuh.
  bool portable = false;
  bool gives_LSE = false; ///< l and m leave the kernel as one rounded number: m = LSE, l = 1

  /// 8 ln 2, rounded up.
  static constexpr double kLag = 5.5452;

  /// m is the maximum of the computed scores and l the sum at it. Where not, m + ln l is the LSE all
  /// the same.
  bool m_is_maximum() const { return !gives_LSE && order != Order::lagging; }
  /// No weight exceeds this.
  double largest_weight() const { return known && order == Order::lagging ? 256.0 : 1.0; }
  /// The same kernel over carries, see `carried`.
  Arithmetic over_carries() const {
    Arithmetic other = *this;
    other.carried = true;
    return other;
  }
};

/// A row of the catalogue of invariants that a kernel does not hold as it stands.
struct GivenUp {
  std::string_view law;
  bool within_bound; ///< it holds within the kernel's bound; otherwise it is not asked
  std::string_view why;
};

struct Kernel {
  std::string id;      ///< fa1.Br32xBc32xD64.cpu
  std::string variant; ///< fa1
  std::string says;    ///< one sentence
  Backend backend = Backend::cpu;
  std::string build; ///< how its text was compiled, the last part of its id: cpu, cpu-fma, cuda...
  int Br = 1, Bc = 1, D = 1; ///< D: largest d and dv served; smaller ones through zero columns
  Arithmetic arithmetic;
  bool gives_l_and_m = true;
  bool resumes = true;
  std::string_view traffic; ///< floats per array and batch-head, see variants.def; empty: not told
  std::vector<GivenUp> given_up;
  /// What FA1's order of operations gives bit for bit is asked bit for bit.
  bool bitwise = true;
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

  /// The words of a command line that name it.
  std::string chosen_by() const { return asked_by.empty() ? "--kernel " + id : asked_by; }
  bool serves(const Shape& shape) const { return shape.d <= D && shape.dv <= D; }
  /// nullptr where the law holds as it stands.
  const GivenUp* gives_up(std::string_view law) const;
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

/// The text of all_kernels compiled in other ways, to be compared: cpu-portable, and on a GPU the rows of
/// builds.def after the first. Right, except for what their options break.
std::span<const Kernel> other_builds();

/// All of the above.
std::array<std::span<const Kernel>, 4> all_tables();

/// Mutants whose .edit no longer fits their kernel and that are therefore not wrong at all; empty in a
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
