// The invariants of FlashAttention-1 and its family, as a list of theorems. To add one: a function in
// laws_exact.cpp, laws_within_bound.cpp or laws_statistical.cpp, its line in laws.hpp, and a row here.
//
// Exact laws of a kernel of unknown make: determinism and memory are asked as they stand. Where a law
// compares runs that a blocked, vectorised or fused kernel may sum in another order, it is asked within
// the bound. What follows only from FA1's order of operations is not asked.
#include "properties/laws.hpp"
#include "properties/property.hpp"

#include <array>
#include <stdexcept>

namespace fa1::properties {
namespace {

using enum Kind;
using Needs::carries;
using Needs::device;
using Needs::l_and_m;
using Needs::output;
using Oracle::another_run;
using Oracle::none;
// Oracle::truth is spelled out: laws::truth is the check.
using Stranger::as_stated;
using Stranger::not_asked;
using Stranger::within_bound;

constexpr std::array kInvariants{
    // The recurrence, tile by tile.
    Invariant{"m-exact", exact, l_and_m, none, within_bound,
              "m equals the maximum of the scores, computed independently in the contract's order",
              "m = max_j s_j", laws::m_exact},
    Invariant{"m-monotone", exact, carries, another_run, within_bound,
              "over the tiles m never falls", "m_t >= m_(t-1)", laws::m_monotone},
    Invariant{"l-at-least-one", exact, carries, none, within_bound,
              "l lies between 1 and the number of keys seen", "1 <= l_t <= keys (1 + gamma)",
              laws::l_at_least_one},
    Invariant{"alpha-unit", exact, carries, another_run, not_asked,
              "on a tile that sets no new maximum, l grows by the tile's sum and by nothing else",
              "l_t = fl(l_(t-1) + sum_c p_c)", laws::alpha_unit},
    Invariant{"l-rescale", bound, carries, Oracle::truth, as_stated,
              "l exp(m) equals the exact partial denominator after every tile",
              "l_t e^(m_t) = sum_(j <= t) e^(s_j)", laws::l_rescale},
    Invariant{"o-rescale", bound, carries, Oracle::truth, as_stated,
              "l O exp(m) equals the exact partial numerator after every tile",
              "l_t O_t e^(m_t) = sum_(j <= t) e^(s_j) v_j", laws::o_rescale},
    Invariant{"prefix", bound, carries, Oracle::truth, as_stated,
              "the state after a tile is attention over the keys so far",
              "O_t = softmax(s_(<= t)) V_(<= t)", laws::prefix},
    Invariant{"carry-split", exact, carries, another_run, within_bound,
              "two launches that hand the carries over equal one launch, at every tile border",
              "run([0,N)) = resume([a,N), run([0,a)))", laws::carry_split},
    Invariant{"merge", bound, l_and_m, another_run, as_stated,
              "merging the states of any split of the keys, in any order, equals the whole",
              "O = sum_i l_i e^(m_i) O_i / sum_i l_i e^(m_i)", laws::merge},

    // The order of the keys and the shape of the tiles.
    Invariant{"tile-order", bound, output, another_run, within_bound,
              "the K/V tiles may come in any order; m is the same bit for bit",
              "attention(Q, PK, PV) = attention(Q, K, V), P moves whole tiles", laws::tile_order},
    Invariant{"key-permutation", bound, output, another_run, within_bound,
              "the keys may be permuted with their values; m is the same bit for bit",
              "attention(Q, PK, PV) = attention(Q, K, V)", laws::key_permutation},
    Invariant{"tile-width", bound, output, another_run, within_bound,
              "any tile width Bc gives the same answer; m bit for bit", "fa1<Bc> = fa1<Bc'>",
              laws::tile_width},
    Invariant{
        "same-family", bound, output, another_run, not_asked,
        "the kernels of the family agree: key by key is fa1 with Bc = 1, the tuned kernel is fa1, "
        "the pipeline is the deferred division and FA2's O is its O, bit for bit; the others are "
        "fa1 within both bounds",
        "fa1_element = fa1<1>, fa1_tuned = fa1, fa1_pipelined = fa1_deferred, O(fa2) = "
        "O(fa1_deferred), O = O(fa1)",
        laws::same_family},
    Invariant{
        "cpu-gpu", bound, device, another_run, not_asked,
        "on a GPU a kernel gives what the same text gives on the CPU: bit for bit in the portable "
        "build, within both bounds in the others",
        "fa1.cuda-portable = fa1.cpu-portable, fa1.cuda = fa1.cpu-fma", laws::cpu_gpu},
    Invariant{"row-block", exact, output, another_run, within_bound,
              "any Br, and any place of a row in its block, gives the same bits",
              "fa1<Br> = fa1<Br'>", laws::row_block},
    Invariant{"query-permutation", exact, output, another_run, within_bound,
              "permuted query rows give permuted rows",
              "attention(PQ, K, V) = P attention(Q, K, V)", laws::query_permutation},
    Invariant{"batch-neighbours", exact, output, another_run, within_bound,
              "a batch-head alone equals the same one inside a batch",
              "attention(X)_b = attention(X_b)", laws::batch_neighbours},
    Invariant{"repeat", exact, output, another_run, as_stated,
              "the same launch again gives the same bits, whatever the outputs held before",
              "run = run", laws::repeat},
    Invariant{"schedule", exact, output, another_run, as_stated,
              "any order of the threads between barriers and any number of threads per block gives "
              "the same bits",
              "run(forward) = run(reverse) = run(shuffled)", laws::schedule},

    // What may be done to V.
    Invariant{"value-columns", exact, output, another_run, within_bound,
              "a column of O depends on the same column of V alone",
              "attention(Q, K, VP) = attention(Q, K, V) P", laws::value_columns},
    Invariant{"value-scale-pow2", exact, output, another_run, within_bound,
              "V times a power of two, or negated, does the same to O",
              "O(2^k V) = 2^k O(V), O(-V) = -O(V)", laws::value_scale_pow2},
    Invariant{"value-linearity", bound, output, another_run, as_stated, "O is linear in V",
              "O(a V1 + b V2) = a O(V1) + b O(V2)", laws::value_linearity},
    Invariant{"value-shift", bound, output, another_run, as_stated,
              "a constant added to V is added to O", "O(V + c) = O(V) + c", laws::value_shift},
    Invariant{"value-constant", bound, output, none, within_bound,
              "a constant V gives that constant; bit for bit for powers of two", "O(c) = c",
              laws::value_constant},
    Invariant{"hull", bound, output, none, as_stated,
              "O lies inside the hull of V, column by column", "min_j v_j <= o <= max_j v_j",
              laws::hull},

    // What may be done to Q and K.
    Invariant{"qk-scale-pow2", exact, output, another_run, within_bound,
              "a power of two may move between Q and K, and between Q and the scale",
              "attention(2^k Q, 2^-k K) = attention(Q, K)", laws::qk_scale_pow2},
    Invariant{"head-zero-padding", exact, output, another_run, within_bound,
              "zero columns appended to Q, K and V change nothing, and new columns of O are 0",
              "attention([Q 0], [K 0], [V 0]) = [attention(Q, K, V) 0]", laws::head_zero_padding},
    Invariant{"head-permutation", bound, output, another_run, as_stated,
              "the same permutation of the components of Q and K changes nothing",
              "attention(QP, KP, V) = attention(Q, K, V)", laws::head_permutation},
    Invariant{"score-shift", bound, output, another_run, as_stated,
              "a constant added to every score of a row changes nothing",
              "softmax(s + c) = softmax(s)", laws::score_shift},
    Invariant{"duplicate-keys", bound, output, another_run, within_bound,
              "every key twice: O the same, l doubled, m bit for bit", "l' = 2 l, O' = O",
              laws::duplicate_keys},
    Invariant{"dominant-key", exact, output, none, within_bound,
              "a key ahead of all others by 104 or more: O is its row of V",
              "s_a >= s_j + 104 for all j != a  =>  o = v_a", laws::dominant_key},
    Invariant{"idle-tile", exact, carries, another_run, not_asked,
              "a tile of scores 104 or more below changes nothing when it comes first; when it "
              "comes last, O moves by at "
              "most 1 ulp once",
              "state(idle, X) = state(X)", laws::idle_tile},
    Invariant{"uniform", bound, output, Oracle::truth, within_bound,
              "equal scores: O is the mean of V and l the number of keys",
              "Q = 0  =>  o = mean V, l = N", laws::uniform},
    Invariant{"single-key", exact, output, none, within_bound,
              "one key: O is its row of V and l is 1", "N = 1  =>  o = v_0", laws::single_key},

    // Against the truth.
    Invariant{"lse-consistent", bound, l_and_m, Oracle::truth, as_stated,
              "m + ln l equals the exact log-sum-exp", "m + ln l = ln sum_j e^(s_j)",
              laws::lse_consistent},
    Invariant{"truth", bound, output, Oracle::truth, as_stated,
              "O, l and LSE equal the certified reference", "O = softmax(s) V", laws::truth},
    Invariant{
        "given-scores", bound, output, Oracle::truth, not_asked,
        "O, l and LSE equal the exact softmax of the scores as the kernel computes them, even "
        "where these carry no digit",
        "O = softmax(s^) V, s^ in fp32", laws::given_scores},

    // The error as a whole.
    Invariant{"expected-error", statistical, output, Oracle::truth, as_stated,
              "the RMS error of O and of l is that of independent roundings",
              "sum err^2 <= threshold(E[err^2]), false alarm below 1e-15", laws::expected_error},
    Invariant{"no-bias", statistical, output, Oracle::truth, not_asked,
              "the mean error of O and of l is 0, for V positive, V = 1 and V = K",
              "|sum err| <= threshold(E[err^2]), false alarm below 1e-15", laws::no_bias},

    // Memory and special values.
    Invariant{"written", exact, output, none, within_bound,
              "every output element is written, nothing else is, nothing past an end is read, "
              "inputs stay unchanged",
              "guard pages, guard words and poison around every buffer", laws::written},
    Invariant{
        "traffic", exact, output, none, not_asked,
        "the floats read from and written to each array in global memory are those of the closed "
        "form",
        "counted loads and stores = the formula of variants.def", laws::traffic},
    Invariant{"nan-locality", exact, output, another_run, within_bound,
              "a NaN in Q, K or V shows where it must and nowhere else",
              "Q[r,.]: row r; K[j,.]: every row; V[j,c]: column c", laws::nan_locality},
};

} // namespace

std::span<const Invariant> all_invariants() { return kInvariants; }

const Invariant& find_invariant(std::string_view id) {
  std::string ids;
  for (const Invariant& invariant : kInvariants) {
    if (invariant.id == id)
      return invariant;
    ids += (ids.empty() ? "" : " ") + std::string(invariant.id);
  }
  throw std::invalid_argument("invariant '" + std::string(id) + "' is unknown; there are " + ids);
}

std::string_view name_of(Kind kind) {
  switch (kind) {
  case exact:
    return "exact";
  case bound:
    return "bound";
  case statistical:
    break;
  }
  return "statistical";
}

} // namespace fa1::properties
