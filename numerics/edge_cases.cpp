// The table of edge cases. To add one: a row here; ctest, `fa1lab repro`, the report and `fa1lab
// list cases` follow.
#include "numerics/edge_cases.hpp"

#include "kernels/originals.hpp"
#include "numerics/bounds.hpp"
#include "numerics/trace.hpp"
#include "numerics/ulp.hpp"
#include "reference/certified.hpp"
#include "reference/recipe.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <utility>

namespace fa1::numerics {
namespace {

using kernels::Kernel;
using reference::Enclosed;
using reference::Problem;
using reference::State;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kMax = std::numeric_limits<float>::max();

// ---------------------------------------------------------------------------------------------------
// The words the table is written in
// ---------------------------------------------------------------------------------------------------

constexpr auto contract = EdgeKind::contract;
constexpr auto limit = EdgeKind::limit;

EdgeTile any(int Bc) { return {Bc, EdgeTile::Reach::any}; }
EdgeTile only(int Bc) { return {Bc, EdgeTile::Reach::only}; }
EdgeTile at_least(int Bc) { return {Bc, EdgeTile::Reach::at_least}; }

Published about(std::string_view output, std::string_view digits) {
  return {output, digits, false};
}
Published exactly(std::string_view output, std::string_view digits, std::int64_t row = 0,
                  std::int64_t column = 0) {
  return {output, digits, true, row, column};
}

using Of = Recorded::Of;
Recorded every(std::vector<float> O, std::optional<float> l = {}, std::optional<float> m = {}) {
  return {Of::every, std::move(O), l, m};
}
Recorded plain(std::vector<float> O, float l, float m) { return {Of::plain, std::move(O), l, m}; }
Recorded contracted(std::vector<float> O, float l, float m) {
  return {Of::contracted, std::move(O), l, m};
}

// ---------------------------------------------------------------------------------------------------
// What no recipe can say
// ---------------------------------------------------------------------------------------------------

bool same_bits(std::span<const float> a, std::span<const float> b) {
  return std::ranges::equal(a, b, [](float x, float y) { return numerics::same_bits(x, y); });
}
bool same_bits(const State& a, const State& b) {
  return same_bits(a.O.elements(), b.O.elements()) && same_bits(a.l, b.l) && same_bits(a.m, b.m);
}

Verdict judge_state(const Problem& problem, const Kernel& kernel, const State& state,
                    const reference::Truth& truth) {
  return judge(problem, state, truth,
               online_softmax(problem, kernel.arithmetic, scores_are_exact(problem)),
               kernel.gives_l_and_m);
}

/// The `put` entries may spoil what the truth says they spoil; every other bit is that of the
/// recipe without them.
void spoils_nothing_else(const EdgeExample& example, const Kernel& kernel, EdgeObservation& seen) {
  reference::Recipe recipe = reference::parse_recipe(example.recipe);
  recipe.put.clear();
  const Problem clean = reference::make_problem(recipe);
  const State expected = kernels::run(kernel, clean);
  const auto compare = [&](std::string_view output, std::size_t at, float got, float want,
                           const Enclosed& truth) {
    if (!seen.complaint.empty() ||
        (std::isnan(truth.hi) ? std::isnan(got) : numerics::same_bits(got, want)))
      return;
    seen.complaint = fmt::format("{}[{}] = {:a}, right would be {:a}, {}", output, at, got,
                                 std::isnan(truth.hi) ? kNaN : want,
                                 std::isnan(truth.hi) ? "which the spoiled entry must show in"
                                                      : "as without the spoiled entry");
  };
  for (std::size_t at = 0; at < seen.state.O.elements().size(); ++at)
    compare("O", at, seen.state.O.elements()[at], expected.O.elements()[at],
            seen.truth.O.elements()[at]);
  if (kernel.gives_l_and_m)
    for (std::size_t at = 0; at < seen.state.l.size(); ++at)
      compare("l", at, seen.state.l[at], expected.l[at], seen.truth.l[at]);
  if (seen.verdict.judgement ==
      Judgement::undecided) // the unspoiled bits are those of a run that can be judged
    seen.verdict = judge_state(clean, kernel, expected, reference::certify(clean));
}

/// A fresh launch over outputs that an earlier one left as anything at all.
void ignores_old_outputs(const EdgeExample&, const Kernel& kernel, EdgeObservation& seen) {
  for (const float old : {0.0f, 7.0f, kInf, kNaN}) {
    State state = reference::start_state(seen.problem.shape);
    std::ranges::fill(state.O.elements(), old);
    std::ranges::fill(state.l, old);
    std::ranges::fill(state.m, old);
    state = kernels::run_into(kernel, seen.problem, std::move(state));
    if (!same_bits(state, seen.state)) {
      seen.complaint = fmt::format("outputs that held {} before the launch change the result: O[0] "
                                   "= {:a}, right would be {:a}",
                                   old, state.O.elements()[0], seen.state.O.elements()[0]);
      return;
    }
  }
}

/// Rows that follow the tensors in memory hold NaN, Inf and 1e30. d and dv become the kernel's D: a
/// padded copy would end where the tensors end and hide what stands behind them.
void ignores_the_tail(const EdgeExample& example, const Kernel& kernel, EdgeObservation& seen) {
  reference::Recipe recipe = reference::parse_recipe(example.recipe);
  recipe.d = kernel.D;
  recipe.dv = kernel.D;
  const Problem problem = reference::make_problem(recipe);
  const State expected = kernels::run(kernel, problem);
  const auto rows_behind =
      static_cast<std::size_t>(kernel.D) * static_cast<std::size_t>(kernel.Br + kernel.Bc);
  const auto with_tail = [&](std::span<const float> entries, float tail) {
    std::vector<float> longer(entries.begin(), entries.end());
    longer.insert(longer.end(), rows_behind, tail);
    return longer;
  };
  for (const float tail : {kNaN, kInf, 1e30f}) {
    const std::vector<float> Q = with_tail(problem.Q.elements(), tail),
                             K = with_tail(problem.K.elements(), tail),
                             V = with_tail(problem.V.elements(), tail);
    State state = reference::start_state(problem.shape);
    kernel.run({problem.shape, problem.scale, Q.data(), K.data(), V.data(), state.O.data(),
                state.l.data(), state.m.data(), false},
               {});
    if (!same_bits(state, expected)) {
      seen.complaint = fmt::format(
          "{} behind the last rows of Q, K and V changes the result: O[0] = {:a}, right would "
          "be {:a}",
          tail, state.O.elements()[0], expected.O.elements()[0]);
      return;
    }
  }
}

/// With no query row there is no output to write.
void writes_nothing(const EdgeExample&, const Kernel& kernel, EdgeObservation& seen) {
  constexpr float kSentinel = 7.0f;
  float O = kSentinel, l = kSentinel, m = kSentinel;
  const float q = 0.0f;
  kernel.run({seen.problem.shape, seen.problem.scale, &q, seen.problem.K.data(),
              seen.problem.V.data(), &O, &l, &m, false},
             {});
  if (O != kSentinel || l != kSentinel || m != kSentinel)
    seen.complaint = fmt::format(
        "n_q = 0, yet something was written: O {:a}, l {:a}, m {:a}; right would be nothing", O, l,
        m);
}

// ---------------------------------------------------------------------------------------------------
// The table
// ---------------------------------------------------------------------------------------------------

std::vector<EdgeCase> make_table() {
  constexpr std::string_view infinities = "Infinities and NaN", range = "Overflow and range",
                             underflow = "Underflow", order = "Order, ties, ragged shapes";
  std::vector<EdgeCase> table;

  // ---- Infinities and NaN
  // ------------------------------------------------------------------------

  table.push_back({"inf-first-tile",
                   infinities,
                   limit,
                   "a first tile of -Inf makes alpha = exp(-Inf + Inf) = NaN; l and O stay NaN for "
                   "ever while m recovers "
                   "and hides it",
                   {{"scores=-inf*4,0*4 v=index",
                     only(4),
                     {exactly("O", "5.5")},
                     {every({kNaN}, kNaN, 0.0f)}}}});
  table.push_back({"inf-first-tile-low",
                   infinities,
                   limit,
                   "a first tile of -Inf before scores far below 0: a kernel that mends its NaN by "
                   "a maximum of 0, and "
                   "keeps that, gives 0",
                   {{"scores=-inf,-inf,-200,-300 V=9,9,5,7",
                     only(2),
                     {about("O", "5.000000000"), about("LSE", "-200.000000000")},
                     {every({kNaN}, kNaN, -200.0f)}}}});
  table.push_back(
      {"inf-later-tile",
       infinities,
       contract,
       "after a finite score, -Inf scores take no part: alpha = 1 and p = 0",
       {{"scores=0*4,-inf*4 v=index", any(4), {exactly("O", "1.5")}, {every({1.5f}, 4.0f, 0.0f)}}},
       nullptr,
       {},
       {"fa1_paper", "split_kv"}});
  table.push_back(
      {"inf-whole-tile",
       infinities,
       limit,
       "a tile of nothing but -Inf has no maximum of its own: where weights are taken "
       "against that, -Inf + Inf = NaN whatever came before",
       {{"scores=0*4,-inf*4 v=index", only(2), {exactly("O", "1.5")}, {every({kNaN}, kNaN, 0.0f)}}},
       nullptr,
       {"fa1_paper", "split_kv"}});
  table.push_back({"inf-inside-tile",
                   infinities,
                   contract,
                   "the one finite score of a tile takes all the weight",
                   {{"scores=-inf,-inf,3,-inf v=index1",
                     at_least(4),
                     {exactly("O", "3")},
                     {every({3.0f}, 1.0f, 3.0f)}}}});
  table.push_back(
      {"inf-all",
       infinities,
       limit,
       "softmax of nothing but -Inf is 0/0, and the recurrence says so: NaN with m = -Inf",
       {{"scores=-inf*6 v=index",
         any(4),
         {exactly("O", "nan"), exactly("m", "-inf")},
         {every({kNaN}, kNaN, -kInf)}}}});
  table.push_back({"inf-plus",
                   infinities,
                   limit,
                   "a score of +Inf leaves exp(+Inf - Inf) = NaN for its own weight",
                   {{"scores=0,inf,1 v=index1",
                     any(1),
                     {exactly("O", "nan"), exactly("m", "inf")},
                     {every({kNaN}, kNaN, kInf)}}}});
  table.push_back(
      {"nan-score",
       infinities,
       contract,
       "fmaxf ignores a NaN score, so m stays finite and the NaN has to show in l and O",
       {{"scores=0,nan,1 v=index1",
         any(1),
         {exactly("O", "nan"), exactly("l", "nan"), exactly("m", "1")},
         {every({kNaN}, kNaN, 1.0f)}}}});
  table.push_back({"nan-q-row",
                   infinities,
                   contract,
                   "a NaN in one query row spoils that row and not one bit of the others",
                   {{"n_q=5 n_kv=9 d=3 dv=2 put=Q:2,1:nan",
                     any(2),
                     {exactly("O", "nan", 2, 0), exactly("O", "nan", 2, 1), exactly("l", "nan", 2)},
                     {}}},
                   spoils_nothing_else});
  table.push_back({"nan-k-row",
                   infinities,
                   contract,
                   "a NaN in one key spoils every row: each row's softmax has its score in it",
                   {{"n_q=3 n_kv=7 d=2 dv=2 put=K:3,1:nan",
                     any(2),
                     {exactly("O", "nan", 0, 0), exactly("O", "nan", 2, 1), exactly("l", "nan", 1)},
                     {}}},
                   spoils_nothing_else});
  table.push_back(
      {"nan-v-zero-weight",
       infinities,
       contract,
       "0 * NaN is NaN: a NaN in V shows in its column even where the weight is 0, and nowhere "
       "else",
       {{"n_q=2 n_kv=3 d=1 dv=3 scale=1 Q=1* K=0,0,-inf V=1,2,3,3,4,5,5,6,7 put=V:2,1:nan",
         any(1),
         {exactly("O", "2"), exactly("O", "nan", 0, 1), exactly("O", "4", 1, 2)},
         {every({2.0f, kNaN, 4.0f, 2.0f, kNaN, 4.0f}, 2.0f, 0.0f)}}},
       spoils_nothing_else,
       {},
       {"fa1_paper", "split_kv"}}); // a tile of the one key of -Inf: inf-whole-tile
  table.push_back(
      {"inf-v-zero-weight",
       infinities,
       contract,
       "0 * Inf is NaN: an Inf in V of weight 0 shows in its column as NaN, and nowhere else",
       {{"n_q=2 n_kv=3 d=1 dv=3 scale=1 Q=1* K=0,0,-inf V=1,2,3,3,4,5,5,6,7 put=V:2,1:inf",
         any(1),
         {exactly("O", "2"), exactly("O", "nan", 0, 1), exactly("O", "4", 1, 2)},
         {every({2.0f, kNaN, 4.0f, 2.0f, kNaN, 4.0f}, 2.0f, 0.0f)}}},
       spoils_nothing_else,
       {},
       {"fa1_paper", "split_kv"}}); // a tile of the one key of -Inf: inf-whole-tile
  table.push_back({"stale-output-nan",
                   infinities,
                   contract,
                   "0 * NaN is NaN: what O, l and m held before counts unless the launch itself "
                   "writes the start values",
                   {{"n_q=3 scale=1 d=1 n_kv=5 Q=1* K=0* v=index1",
                     any(4),
                     {exactly("O", "3")},
                     {every({3.0f}, 5.0f, 0.0f)}}},
                   ignores_old_outputs});

  // ---- Overflow and range
  // ------------------------------------------------------------------------

  table.push_back({"dot-overflow",
                   range,
                   limit,
                   "q.k overflows before the scale makes it small again, so the range of fp32 "
                   "shrinks by 1/scale",
                   {{"n_kv=4 d=1 scale=1e-38 Q=1e25 K=1e25,2e25,3e25,4e25 v=index1",
                     any(4),
                     {about("O", "4.000000000")},
                     {every({kNaN}, kNaN, kInf)}}}});
  table.push_back({"dot-overflow-negative",
                   range,
                   limit,
                   "a q.k that overflows to -Inf drops its key without a trace",
                   {{"n_kv=2 d=1 scale=0x1p-127 Q=0x1p100 K=0,-0x1p30 V=0,1",
                     any(1),
                     {about("O", "0.000335350130")},
                     {every({0.0f}, 1.0f, 0.0f)}}}});
  table.push_back(
      {"score-max",
       range,
       contract,
       "scores near FLT_MAX are only ever subtracted from their maximum",
       {{"scores=3e38*4 v=index1", any(4), {exactly("O", "2.5")}, {every({2.5f}, 4.0f, 3e38f)}}}});
  table.push_back({"score-span-overflow",
                   range,
                   contract,
                   "m - m_new overflows to -Inf, whose exponential is the right alpha: 0",
                   {{"scores=-0x1.fffffep+127,0x1.fffffep+127 V=1,2",
                     any(1),
                     {about("O", "2.000000000")},
                     {every({2.0f}, 1.0f, kMax)}}}});
  table.push_back({"one-key-huge",
                   range,
                   contract,
                   "the maximum and the exponential must see the same rounded score; fused "
                   "differently, exp overflows",
                   {{"n_kv=1 d=3 dv=1 Q=40000* K=40000* V=7",
                     any(1),
                     {exactly("O", "7")},
                     {every({7.0f}, 1.0f)}}}});
  table.push_back(
      {"sentinel-low",
       range,
       contract,
       "scores far below any finite stand-in for -Inf; such a start value of the maximum gives 0 "
       "or NaN",
       {{"scores=-60000,-60001,-60002 v=index1",
         any(1),
         {about("O", "1.424789617"), about("LSE", "-59999.59239")},
         {}}}});
  table.push_back(
      {"first-score-low",
       range,
       contract,
       "the first score is 89 below the maximum: a shift by it and not by the maximum overflows",
       {{"scores=0,89 V=3,5",
         any(1),
         {about("O", "5.000000000"), about("LSE", "89.000000000")},
         {every({5.0f}, 1.0f, 89.0f)}}}});
  table.push_back(
      {"lowest-scores",
       range,
       contract,
       "scores of -FLT_MAX are scores like others: equal ones give the mean, nothing is masked",
       {{"scores=-0x1.fffffep+127*3 V=0,3,9",
         any(1),
         {exactly("O", "4"), exactly("l", "3")},
         {every({4.0f}, 3.0f, -kMax)}}}});
  table.push_back({"beyond-fp16",
                   range,
                   contract,
                   "the undivided sum is 160000, which fp16 does not hold",
                   {{"scores=0*16 V=10000*",
                     any(4),
                     {exactly("O", "10000")},
                     {every({10000.0f}, 16.0f, 0.0f)}}}});
  table.push_back({"scale-default-and-zero",
                   range,
                   contract,
                   "no scale means 1/sqrt(d), and 0 means 0: every key weighs the same",
                   {{"n_kv=2 d=4 dv=1 Q=1* K=0*4,0x1.193ea8p-1*4 V=0,4",
                     any(1),
                     {about("O", "3.000000015")},
                     {}},
                    {"n_kv=2 d=4 dv=1 scale=0 Q=1* K=0*4,0x1.193ea8p-1*4 V=0,4",
                     any(1),
                     {exactly("O", "2"), exactly("l", "2"), exactly("m", "0")},
                     {every({2.0f}, 2.0f, 0.0f)}}}});
  table.push_back({"v-sum-overflow",
                   range,
                   limit,
                   "sum p v of one tile overflows although its mean does not",
                   {{"scores=0*4 V=1e38*",
                     at_least(4),
                     {exactly("O", "0x1.2ced32p+126")},
                     {every({kInf}, 4.0f, 0.0f)}},
                    {"scores=0*4 V=0x1.fffffep+127*",
                     at_least(4),
                     {exactly("O", "0x1.fffffep+127")},
                     {every({kInf}, 4.0f, 0.0f)}}}});
  table.push_back({"carry-overflow",
                   range,
                   limit,
                   "alpha l O, the undivided sum so far, overflows at the fourth key",
                   {{"scores=0*8 V=1e38*",
                     only(1),
                     {exactly("O", "0x1.2ced32p+126")},
                     {every({kInf}, 8.0f, 0.0f)}}}});
  table.push_back({"l-stagnation",
                   range,
                   limit,
                   "l counts keys one by one and stops at 2^24, so every later key gets the weight "
                   "2^-24 for good",
                   {{"scores=0*33554432 V=0*16777216,1*16777216",
                     only(1),
                     {exactly("O", "0.5")},
                     {every({1.0f}, 0x1p24f, 0.0f)},
                     "scores=0*2 V=0,1"}}});
  table.push_back({"l-stagnation-blocked",
                   range,
                   limit,
                   "tiles of 32 keys push the stagnation out to 2^29 keys; what is left is the "
                   "rounding of 2^20 carries",
                   {{"scores=0*33554432 V=0*16777216,1*16777216",
                     only(32),
                     {exactly("O", "0.5")},
                     {every({0x1.fffee4p-2f}, 0x1p25f, 0.0f)},
                     "scores=0*2 V=0,1"}}});
  table.push_back(
      {"drift-constant",
       range,
       limit,
       "the same V is added with the same rounding, tile after tile (numerics/drift.hpp): a bias "
       "that "
       "grows with the number of tiles",
       {{"scores=0*1048576 V=0.1*",
         only(1),
         {exactly("O", "0x1.99999ap-4")},
         {plain({0x1.9d83bcp-4f}, 0x1p20f, 0.0f), contracted({0x1.999a6ep-4f}, 0x1p20f, 0.0f)}},
        {"scores=0*1048576 V=0.1*",
         only(32),
         {exactly("O", "0x1.99999ap-4")},
         {plain({0x1.99b57p-4f}, 0x1p20f, 0.0f), contracted({0x1.999436p-4f}, 0x1p20f, 0.0f)}}}});

  // ---- Underflow
  // ---------------------------------------------------------------------------------

  table.push_back({"alpha-zero",
                   underflow,
                   contract,
                   "alpha underflows to 0 and forgets the keys before, which is right",
                   {{"scores=0,104,208 v=index1",
                     any(1),
                     {about("O", "3.000000000")},
                     {every({3.0f}, 1.0f, 208.0f)}}}});
  table.push_back({"alpha-subnormal",
                   underflow,
                   contract,
                   "a subnormal alpha (8.19e-40) changes nothing that fp32 can see",
                   {{"scores=0,90,180 v=index1",
                     any(1),
                     {about("O", "3.000000000")},
                     {every({3.0f}, 1.0f, 180.0f)}}}});
  table.push_back({"subnormal-weight-huge-v",
                   underflow,
                   contract,
                   "a subnormal weight meets a huge V; 0 where subnormals are flushed",
                   {{"scores=0,-92 V=0,1e38", any(1), {about("O", "0.01108938984")}, {}}},
                   nullptr,
                   {},
                   {"lazy_rescale"}}); // V so large that weights of 2^8 could overflow
  table.push_back({"vanishing-weights",
                   underflow,
                   contract,
                   "weights of e^-200 and of e^-Inf are 0 in fp32, and V is near overflow: an "
                   "exponential that stops at its "
                   "smallest normal result gives 0.77 (the exact value is 3.6e-49)",
                   {{"scores=0,-200*7 V=0,3.75e37*7",
                     any(1),
                     {about("O", "0.000000000")},
                     {every({0.0f}, 1.0f, 0.0f)}},
                    {"scores=0,-inf*7 V=0,3.75e37*7",
                     any(1),
                     {exactly("O", "0")},
                     {every({0.0f}, 1.0f, 0.0f)}}},
                   nullptr,
                   {},
                   {"fa1_paper", "split_kv"}}); // whole tiles of -Inf: inf-whole-tile
  table.push_back({"v-subnormal",
                   underflow,
                   contract,
                   "the smallest subnormal comes out as it went in; 0 where subnormals are flushed",
                   {{"scores=0 V=0x1p-149",
                     any(1),
                     {exactly("O", "0x1p-149")},
                     {every({0x1p-149f}, 1.0f, 0.0f)}}}});
  table.push_back({"tiny-scores",
                   underflow,
                   contract,
                   "subnormal scores are ties for the exponential",
                   {{"scores=1e-40*4 v=index1",
                     any(4),
                     {exactly("O", "2.5")},
                     {every({2.5f}, 4.0f, 1e-40f)}}}});
  table.push_back(
      {"minus-zero-v",
       underflow,
       contract,
       "sums begin at +0, and 0 + -0 is +0; a zero of either sign is right",
       {{"scores=0*3 V=-0*", any(2), {exactly("O", "0")}, {every({0.0f}, 3.0f, 0.0f)}}}});

  // ---- Order, ties, ragged shapes
  // ----------------------------------------------------------------

  table.push_back(
      {"ascending-every-tile",
       order,
       contract,
       "every tile raises the maximum, so every factor alpha counts (the score is fp32(ln 3))",
       {{"scores=0,0x1.193ea8p+0 V=4,8",
         only(1),
         {about("O", "7.000000015"), about("LSE", "1.386294376")},
         {}}}});
  table.push_back(
      {"descending",
       order,
       contract,
       "no later tile raises the maximum: most faults of the recurrence still give the right 5",
       {{"scores=0x1.193ea8p+0,0 V=4,8", only(1), {about("O", "4.999999985")}, {}}}});
  table.push_back(
      {"small-rises",
       order,
       contract,
       "a small rise is enough to tell a p at the new maximum beside an l at the old one",
       {{"scores=0,1 V=0,1", only(1), {about("O", "0.7310585786")}, {}},
        {"scores=0,0.1 V=0,1", only(1), {about("O", "0.5249791879")}, {}},
        {"scores=0,5 V=0,1", only(1), {about("O", "0.9933071491")}, {}}}});
  table.push_back({"lse-natural",
                   order,
                   contract,
                   "the logarithm is the natural one: ln 8, where base 2 would give 3",
                   {{"scores=0*8 v=index1",
                     any(4),
                     {exactly("O", "4.5"), about("LSE", "2.079441542")},
                     {every({4.5f}, 8.0f, 0.0f)}}}});
  table.push_back({"lse-holds-the-max",
                   order,
                   contract,
                   "the maximum is part of the log-sum-exp: 100 + ln 2, not ln 2",
                   {{"scores=100,100 V=1,2",
                     any(1),
                     {exactly("O", "1.5"), about("LSE", "100.693147181")},
                     {every({1.5f}, 2.0f, 100.0f)}}}});
  table.push_back({"all-ties",
                   order,
                   contract,
                   "equal scores give the plain mean",
                   {{"scores=3*7 v=index1",
                     any(4),
                     {exactly("O", "4"), exactly("l", "7"), exactly("m", "3")},
                     {every({4.0f}, 7.0f, 3.0f)}}},
                   nullptr,
                   {},
                   {"standard"}}); // rounds the weight 1/7
  table.push_back(
      {"ragged-tail",
       order,
       contract,
       "a last tile that is not full: 1.875 if its padding counts, 2.5 if it is dropped",
       {{"scores=0*5 v=index1",
         any(4),
         {exactly("O", "3"), about("LSE", "1.609437912")},
         {every({3.0f}, 5.0f, 0.0f)}}}});
  table.push_back({"ragged-ones",
                   order,
                   contract,
                   "padding that enters l alone takes 3 % off: 0.971",
                   {{"scores=3*5 V=1*",
                     any(4),
                     {exactly("O", "1"), about("LSE", "4.609437912")},
                     {every({1.0f}, 5.0f, 3.0f)}}}});
  table.push_back({"ragged-negative",
                   order,
                   contract,
                   "padding of score 0 would beat every real score here",
                   {{"n_kv=3 d=1 scale=1 Q=-100 K=1* v=index1",
                     any(2),
                     {exactly("O", "2"), about("LSE", "-98.9013877")},
                     {every({2.0f}, 3.0f, -100.0f)}}}});
  table.push_back({"shorter-than-tile",
                   order,
                   contract,
                   "fewer keys than the tile is wide",
                   {{"n_q=3 n_kv=1 d=1 scale=1 Q=1* K=0* v=index1",
                     at_least(32),
                     {exactly("O", "1")},
                     {every({1.0f}, 1.0f, 0.0f)}},
                    {"n_q=3 n_kv=2 d=1 scale=1 Q=1* K=0* v=index1",
                     at_least(32),
                     {exactly("O", "1.5")},
                     {every({1.5f}, 2.0f, 0.0f)}},
                    {"n_q=3 n_kv=3 d=1 scale=1 Q=1* K=0* v=index1",
                     at_least(32),
                     {exactly("O", "2")},
                     {every({2.0f}, 3.0f, 0.0f)}},
                    {"n_q=3 n_kv=5 d=1 scale=1 Q=1* K=0* v=index1",
                     at_least(32),
                     {exactly("O", "3")},
                     {every({3.0f}, 5.0f, 0.0f)}},
                    {"n_q=3 n_kv=7 d=1 scale=1 Q=1* K=0* v=index1",
                     at_least(32),
                     {exactly("O", "4")},
                     {every({4.0f}, 7.0f, 0.0f)}}}});
  table.push_back({"poisoned-tail",
                   order,
                   contract,
                   "NaN, Inf or 1e30 in the rows behind Q, K and V change no bit",
                   {{"n_q=5 n_kv=7 d=1 scale=1 Q=1* K=0* v=index1",
                     any(4),
                     {exactly("O", "4")},
                     {every({4.0f}, 7.0f, 0.0f)}}},
                   ignores_the_tail,
                   {},
                   {"standard"}}); // rounds the weight 1/7
  table.push_back(
      {"empty-keys",
       order,
       contract,
       "no keys: the start values, never what stood there before",
       {{"n_q=3 n_kv=0 d=2",
         any(4),
         {exactly("O", "0"), exactly("l", "0"), exactly("m", "-inf"), exactly("LSE", "-inf")},
         {every({0.0f}, 0.0f, -kInf)}}}});
  table.push_back({"empty-queries",
                   order,
                   contract,
                   "no query rows: success, and nothing is written",
                   {{"n_q=0 n_kv=3 d=2", any(4), {}, {}}},
                   writes_nothing});
  table.push_back({"last-component-only",
                   order,
                   contract,
                   "only the last of d components tells the keys apart",
                   {{"n_kv=2 d=3 dv=1 scale=1 Q=0*2,1 K=0*5,0x1.193ea8p+0 V=0,4",
                     any(1),
                     {about("O", "3.000000015")},
                     {}},
                    {"n_kv=2 d=8 dv=1 scale=1 Q=0*7,1 K=0*15,0x1.193ea8p+0 V=0,4",
                     any(1),
                     {about("O", "3.000000015")},
                     {}},
                    {"n_kv=2 d=65 dv=1 scale=1 Q=0*64,1 K=0*129,0x1.193ea8p+0 V=0,4",
                     any(1),
                     {about("O", "3.000000015")},
                     {}}}});
  table.push_back({"values-row-major",
                   order,
                   contract,
                   "V is row-major: read the other way the means are 3, 3.5, 4",
                   {{"n_kv=2 d=1 dv=3 scale=1 Q=0 K=0* V=1,2,3,4,5,6",
                     any(1),
                     {exactly("O", "2.5"), exactly("O", "3.5", 0, 1), exactly("O", "4.5", 0, 2)},
                     {every({2.5f, 3.5f, 4.5f}, 2.0f, 0.0f)}}}});
  table.push_back({"long-index",
                   order,
                   contract,
                   "the last key counts where its index no longer fits 15 or 16 bits",
                   {{"scores=0*32769 V=0*32768,32769",
                     any(32),
                     {exactly("O", "1")},
                     {every({1.0f}, 32769.0f, 0.0f)}},
                    {"scores=0*65537 V=0*65536,65537",
                     any(32),
                     {exactly("O", "1")},
                     {every({1.0f}, 65537.0f, 0.0f)}}}});
  table.push_back(
      {"needs-24-bits",
       order,
       contract,
       "the scores differ in the last of 13 bits of K; 0.5 where products are rounded to TF32",
       {{"n_kv=2 d=1 scale=1 Q=4096 K=0x1.001p+0,1 V=1,0",
         any(1),
         {about("O", "0.7310585786")},
         {}}}});
  table.push_back({"score-shift",
                   order,
                   contract,
                   "60000 added to every score changes nothing but m",
                   {{"scores=0,0.5,-1.25,2.75,1 v=index1", any(2), {about("O", "3.818480459")}, {}},
                    {"scores=60000,60000.5,59998.75,60002.75,60001 v=index1",
                     any(2),
                     {about("O", "3.818480459")},
                     {}}}});
  return table;
}

// ---------------------------------------------------------------------------------------------------
// Running a row
// ---------------------------------------------------------------------------------------------------

/// Is the row about this kernel?
bool concerns(const EdgeCase& edge_case, const Kernel& kernel) {
  const auto &only = edge_case.variants, &except = edge_case.except;
  if (!only.empty())
    return std::ranges::find(only, kernel.variant) != only.end();
  const std::string_view of = kernel.mutant ? kernels::original_of(kernel.variant) : kernel.variant;
  if (std::ranges::find(except, of) != except.end())
    return false;
  return edge_case.kind == contract || of == "fa1";
}

/// K and V with their rows padded to D columns.
constexpr std::int64_t kMostPaddedBytes = std::int64_t{256} << 20;

bool can_express(const EdgeExample& example, const Kernel& kernel) {
  const reference::Shape shape = reference::shape_of(reference::parse_recipe(example.recipe));
  return example.tile.admits(kernel.Bc) && kernel.serves(shape) &&
         shape.batch_heads * shape.n_kv * kernel.D * 2 * std::int64_t{sizeof(float)} <=
             kMostPaddedBytes;
}

const Recorded* recorded_for(const EdgeExample& example, const Kernel& kernel) {
  const Recorded* best = nullptr;
  for (const Recorded& row : example.recorded) {
    const bool applies = row.of == Of::every ||
                         (row.of == Of::plain && !kernel.arithmetic.contracted) ||
                         (row.of == Of::contracted && kernel.arithmetic.contracted) ||
                         (row.of == Of::cuda && kernel.backend == kernels::Backend::cuda);
    if (applies && (best == nullptr || row.of > best->of))
      best = &row;
  }
  return best;
}

/// A contract may give a zero of either sign, a recorded limit is its bits.
bool as_recorded(EdgeKind kind, float got, float want) {
  return numerics::same_bits(got, want) || (kind == contract && got == want);
}

std::string differs(EdgeKind kind, std::string_view output, std::span<const float> got,
                    std::span<const float> want) {
  for (std::size_t at = 0; at < got.size(); ++at) {
    const float right = want.size() == 1 ? want[0] : want[at];
    if (!as_recorded(kind, got[at], right))
      return fmt::format("{}[{}] = {:a} ({:.9g}), {} {:a} ({:.9g})", output, at, got[at], got[at],
                         kind == contract ? "right would be" : "the recorded outcome is", right,
                         right);
  }
  return {};
}

std::string compare(EdgeKind kind, const Recorded& recorded, const Kernel& kernel,
                    const State& state) {
  std::string difference;
  if (!recorded.O.empty())
    difference = differs(kind, "O", state.O.elements(), recorded.O);
  if (!kernel.gives_l_and_m || !kernel.arithmetic.m_is_maximum())
    return difference;
  if (difference.empty() && recorded.l)
    difference = differs(kind, "l", state.l, std::array{*recorded.l});
  if (difference.empty() && recorded.m)
    difference = differs(kind, "m", state.m, std::array{*recorded.m});
  return difference;
}

reference::Truth truth_of(const EdgeExample& example, const Problem& problem) {
  if (example.same_O_as.empty())
    return reference::certify(problem);
  return reference::certify(reference::make_problem(reference::parse_recipe(example.same_O_as)));
}

/// The element of O that is furthest off, when no bound was evaluated.
Verdict unjudged(const State& state, const reference::Truth& truth) {
  Verdict verdict{Judgement::undecided,
                  {},
                  "so many keys are held against the recorded bits, not against a bound"};
  for (std::int64_t row = 0; row < state.O.rows(); ++row)
    for (std::int64_t column = 0; column < state.O.columns(); ++column) {
      Element e{"O", 0, row, column, state.O(0, row, column), truth.O(0, row, column)};
      e.error = error_of(e.got, e.truth);
      e.ulps = std::fabs(e.error) / ulp_of(e.truth.hi);
      e.bound = std::numeric_limits<double>::infinity();
      if (verdict.worst.output.empty() || !(e.ulps <= verdict.worst.ulps))
        verdict.worst = e;
    }
  return verdict;
}

EdgeObservation observe(const EdgeCase& edge_case, const EdgeExample& example,
                        const Kernel& kernel) {
  EdgeObservation seen;
  seen.problem = reference::make_problem(reference::parse_recipe(example.recipe));
  seen.truth = truth_of(example, seen.problem);
  seen.state = kernels::run(kernel, seen.problem, launch_for(kernel, seen.problem));
  seen.verdict = example.same_O_as.empty()
                     ? judge_state(seen.problem, kernel, seen.state, seen.truth)
                     : unjudged(seen.state, seen.truth);
  if (edge_case.probe != nullptr)
    edge_case.probe(example, kernel, seen);
  const Recorded* recorded = recorded_for(example, kernel);
  if (seen.complaint.empty() && recorded != nullptr)
    seen.complaint = compare(edge_case.kind, *recorded, kernel, seen.state);
  if (seen.complaint.empty() && edge_case.kind == limit && recorded == nullptr)
    seen.complaint = fmt::format("no outcome is recorded for the arithmetic of {}", kernel.id);
  if (edge_case.kind == limit || !seen.complaint.empty())
    return seen;
  // Where the right bits are recorded and came out, a bound that cannot be evaluated does not
  // matter.
  if (seen.verdict.judgement == Judgement::proved_wrong ||
      (seen.verdict.judgement == Judgement::undecided && recorded == nullptr))
    seen.complaint = to_string(seen.verdict);
  return seen;
}

constexpr std::size_t kShown = 6; ///< elements in a text

std::string text_of(std::string_view name, std::span<const float> values) {
  std::string text = fmt::format("{} =", name);
  for (std::size_t at = 0; at < std::min(values.size(), kShown); ++at)
    text += fmt::format(" {:.9g}",
                        std::isnan(values[at]) ? kNaN : values[at]); // the sign of NaN says nothing
  return values.empty() ? std::string(name) + " empty"
                        : text + (values.size() > kShown ? " ..." : "");
}

std::string text_of(std::string_view name, std::span<const Enclosed> values) {
  std::string text = fmt::format("{} =", name);
  for (std::size_t at = 0; at < std::min(values.size(), kShown); ++at)
    text += fmt::format(" {:.12g}",
                        std::isnan(values[at].hi) ? double{kNaN} : values[at].hi + values[at].lo);
  return values.empty() ? std::string(name) + " empty"
                        : text + (values.size() > kShown ? " ..." : "");
}

} // namespace

std::string_view name_of(EdgeKind kind) {
  return kind == EdgeKind::contract ? "contract" : "limit";
}

std::span<const EdgeCase> all_edge_cases() {
  static const std::vector<EdgeCase> table = make_table();
  return table;
}

namespace {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t substituted = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = std::exchange(row[j], std::min({row[j] + 1, row[j - 1] + 1, substituted}));
    }
  }
  return row.back();
}

} // namespace

const EdgeCase& find_edge_case(std::string_view id) {
  const auto cases = all_edge_cases();
  if (const auto found = std::ranges::find(cases, id, &EdgeCase::id); found != cases.end())
    return *found;
  std::vector<std::string_view> ids;
  for (const EdgeCase& edge_case : cases)
    ids.push_back(edge_case.id);
  std::ranges::stable_sort(
      ids, {}, [&](std::string_view other) { return edit_distance(id.substr(0, 60), other); });
  throw std::invalid_argument(
      fmt::format("edge case '{}' is unknown; the nearest are {}, {} and {}, see `fa1lab list "
                  "cases`",
                  id.substr(0, 60), ids[0], ids[1], ids[2]));
}

bool can_express(const EdgeCase& edge_case, const Kernel& kernel) {
  return concerns(edge_case, kernel) &&
         std::ranges::any_of(edge_case.examples, [&](const EdgeExample& example) {
           return can_express(example, kernel);
         });
}

const Kernel& kernel_for(const EdgeCase& edge_case, kernels::Backend backend) {
  const Kernel* best = nullptr;
  const std::string_view variant = edge_case.variants.empty() ? "fa1" : edge_case.variants.front();
  for (const Kernel& kernel : kernels::all_kernels())
    if (kernel.variant == variant && kernel.backend == backend &&
        kernel.Bc == edge_case.tile().Bc && can_express(edge_case.examples.front(), kernel)) {
      const auto rank = [](const Kernel& k) { return std::pair(k.arithmetic.contracted, k.D); };
      if (best == nullptr || rank(kernel) < rank(*best))
        best = &kernel;
    }
  if (best == nullptr)
    throw kernels::KernelError(fmt::format(
        "edge case '{}' needs a kernel {} with Bc = {}{}; this build has none", edge_case.id,
        variant, edge_case.tile().Bc, backend == kernels::Backend::cuda ? " on CUDA" : ""));
  return *best;
}

EdgeOutcome run_edge_case(const EdgeCase& edge_case, const Kernel& kernel, bool locate) {
  std::optional<EdgeObservation> told;
  for (const EdgeExample& example : edge_case.examples) {
    if (!can_express(example, kernel))
      continue;
    EdgeObservation seen = observe(edge_case, example, kernel);
    const bool tell = !told || (told->complaint.empty() && !seen.complaint.empty());
    if (!seen.complaint.empty() && edge_case.examples.size() > 1)
      seen.complaint = fmt::format("{}: {}", example.recipe, seen.complaint);
    if (tell)
      told = std::move(seen);
  }
  if (!told)
    throw kernels::KernelError(fmt::format(
        "kernel '{}' cannot express edge case '{}', which needs Bc {} {}", kernel.id, edge_case.id,
        edge_case.tile().reach == EdgeTile::Reach::only ? "=" : ">=", edge_case.tile().Bc));
  EdgeOutcome outcome;
  outcome.as_catalogued = told->complaint.empty();
  outcome.truth_text =
      text_of("O", told->truth.O.elements()) + ", " + text_of("LSE", told->truth.LSE);
  outcome.kernel_text = text_of("O", told->state.O.elements());
  if (kernel.gives_l_and_m)
    outcome.kernel_text += ", " + text_of("l", told->state.l) + ", " + text_of("m", told->state.m);
  outcome.verdict = told->verdict;
  outcome.detail = told->complaint;
  if (locate && (edge_case.kind == limit || !outcome.as_catalogued))
    if (const Trace steps = trace(told->problem, kernel); steps.first_off) {
      outcome.first_bad_tile = steps.first_off->tile;
      outcome.why_bad = steps.first_off->why;
    }
  return outcome;
}

} // namespace fa1::numerics
