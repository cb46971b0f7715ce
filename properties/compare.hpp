/// How two results are held against each other, and how the worst of many comparisons is kept.
///
/// Comparisons read `!(difference <= allowed)`, so a NaN never passes; where the law demands a NaN
/// it is asked for by name.
#pragma once

#include "numerics/bounds.hpp"
#include "properties/property.hpp"
#include "properties/transform.hpp"

#include <functional>
#include <string>

namespace fa1::properties {

/// Collects comparisons of one case into one Outcome. The first violation is told; the worst
/// fraction is kept.
class Findings {
public:
  /// |difference| <= allowed, `what` names the element for a message.
  void within(double difference, double allowed, const std::function<std::string()>& what);
  /// Encodings agree, any NaN equal to any NaN.
  void same_bits(float got, float want, const std::function<std::string()>& what);
  /// Values agree: same_bits, with zeros of either sign equal.
  void same_value(float got, float want, const std::function<std::string()>& what);
  void require(bool condition, const std::function<std::string()>& what);

  bool violated() const { return outcome_.answer == Answer::violated; }
  /// A case in which nothing was compared is not applicable.
  Outcome outcome(const char* why_nothing_was_asked = "nothing to compare") &&;

private:
  void violate(std::string detail);
  Outcome outcome_;
  bool asked_ = false;
};

enum class Zeros { signed_zeros, either_sign };

/// O, l and m agree bit for bit.
void same_state(Findings& findings, const State& got, const State& want, const char* which,
                Zeros zeros = Zeros::signed_zeros);
void same_O(Findings& findings, const Tensor<float>& got, const Tensor<float>& want,
            const char* which, Zeros zeros = Zeros::signed_zeros);
/// Two runs that FA1 carries out in the same order of operations: bit for bit. A kernel of unknown make
/// may order them differently, and so may one whose row in variants.def says so: its O, l and m are held
/// within twice its bound. `problem` is the one
/// that `got` answers; both have its exact answer.
void same_run(Findings& findings, const kernels::Kernel& kernel, const Problem& problem,
              const State& got, const State& want, const char* which,
              Zeros zeros = Zeros::signed_zeros);

/// True where the same dot product gives the same score wherever it stands.
bool scores_are_reproducible(const kernels::Kernel& kernel);
/// How far a computed maximum `m` of row i may be from the exact one. A kernel of unknown make may keep
/// it in base 2: two rounded products with two rounded constants.
double m_allowed(const kernels::Kernel& kernel, const numerics::Bounds& bounds, std::size_t i,
                 float m);

/// m agrees bit for bit; within the error of the scores where they are not reproducible. Nothing is asked
/// where m is not the maximum.
void same_m(Findings& findings, const State& got, const State& want, const numerics::Bounds& bounds,
            const kernels::Kernel& kernel, const char* which);
/// The same for row i alone.
void same_m(Findings& findings, const State& got, const State& want, const numerics::Bounds& bounds,
            const kernels::Kernel& kernel, std::size_t i, const char* which);

/// Two computed results of the same exact value, each within its own bound: |a - b| <= bound_a +
/// bound_b. Rows whose scores carry no digit are left out, unless they exceed even their wide
/// bound.
void O_within(Findings& findings, const State& a, const numerics::Bounds& bound_a, const State& b,
              const numerics::Bounds& bound_b, const char* which);
void l_within(Findings& findings, const State& a, const numerics::Bounds& bound_a, const State& b,
              const numerics::Bounds& bound_b, double factor, const char* which);

Outcome not_applicable(std::string why);

/// The problem's own bound for this kernel.
numerics::Bounds bound_for(const Problem& problem, const kernels::Kernel& kernel);
/// The same where the keys came in several launches.
numerics::Bounds bound_over_carries(const Problem& problem, const kernels::Kernel& kernel);
/// True where what FA1's order of operations gives bit for bit is asked bit for bit.
bool asked_bitwise(const kernels::Kernel& kernel);

std::string at(const char* array, std::int64_t batch_head, std::int64_t row, std::int64_t column);

} // namespace fa1::properties
