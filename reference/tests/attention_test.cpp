// Claims about the references: each computes attention, and they err independently of one another.
//
// Hand-checkable cases come first, then all references against MPFI intervals within a bound
// derived for the unit of their arithmetic, then the places where references are known to fail:
// underflowing weights, infinite gaps and short rows, where a vectorised exponential treats the
// elements of one row differently.

#include "reference/attention.hpp"
#include "reference/certified.hpp"
#include "reference/eigen_attention.hpp"
#include "reference/online_softmax.hpp"
#include "reference/recipe.hpp"
#include "reference/tests/enclosure.hpp"

#include <boost/multiprecision/cpp_bin_float.hpp>
#include <boost/multiprecision/float128.hpp>
#include <boost/multiprecision/mpfr.hpp>
#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

using namespace fa1::reference;
namespace mp = boost::multiprecision;

namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

using Quad = mp::float128;
using Bin50 = mp::number<mp::cpp_bin_float<50>, mp::et_off>;
using Bin100 = mp::number<mp::cpp_bin_float<100>, mp::et_off>;
using Mpfr50 = mp::number<mp::mpfr_float_backend<50>, mp::et_off>;

Problem problem_of(const std::string& text) { return make_problem(parse_recipe(text)); }

/// NUMERICS: four queries, four keys, scores that are exact in fp32.
Problem hand_checked() {
  return problem_of("n_q=4 n_kv=4 d=4 dv=2 scale=0.5 "
                    "Q=1,0,2,0,0,1,1,0,1,1,0,1,0,2,1,1 "
                    "K=2,1,0,0,0,1,1,0,1,0,1,1,0,0,2,1 V=1,0,0,1,1,1,2,1");
}

// One way to run every reference: a tag type that knows its arithmetic.
struct Definition {
  template <class Number> static Answer<Number> run(const Problem& problem) {
    return attention<Number>(problem);
  }
};
struct Online {
  template <class Number> static Answer<Number> run(const Problem& problem) {
    return online_attention<Number>(problem);
  }
};
struct ByEigen {
  template <class Number> static Answer<Number> run(const Problem& problem) {
    EigenAnswer answer = eigen_attention(problem);
    return {answer.O, answer.l, answer.m, answer.LSE};
  }
};
template <class Program, class Real> struct Reference {
  using Number = Real;
  static Answer<Number> run(const Problem& problem) {
    return Program::template run<Number>(problem);
  }
};

#define FA1_ALL_REFERENCES                                                                         \
  (Reference<Definition, double>), (Reference<Definition, Quad>), (Reference<Definition, Bin50>),  \
      (Reference<Definition, Bin100>), (Reference<Definition, Mpfr50>),                            \
      (Reference<Online, double>), (Reference<Online, Quad>), (Reference<Online, Mpfr50>),         \
      (Reference<ByEigen, double>)

/// What an error of one unit u in every operation can do, in units of u.
///
/// exp is taken to be within kExponentialUnits at the arguments met here: libm and Boost promise
/// less in writing and are better in fact. Score: d + 2 roundings on scale * sum|q k|. Argument:
/// one rounding of s - M. Weight: the exponential; online, one exponential, product and sum more
/// for each new maximum, at most n. Sums: n. Quotient: numerator and denominator each by these, and
/// the division.
struct Bounds {
  static constexpr double kExponentialUnits = 8.0;
  Tensor<double> O;
  std::vector<double> l, m, LSE;
  std::vector<double> score; ///< largest error of a score of the row
};

Bounds bounds_for(const Problem& problem) {
  const Shape& shape = problem.shape;
  const auto d = static_cast<double>(shape.d), n = static_cast<double>(shape.n_kv);
  Bounds bounds{Tensor<double>(shape.batch_heads, shape.n_q, shape.dv), {}, {}, {}, {}};
  const Truth truth = certify(problem);
  for (std::int64_t bh = 0; bh < shape.batch_heads; ++bh)
    for (std::int64_t r = 0; r < shape.n_q; ++r) {
      const auto row = static_cast<std::size_t>(bh * shape.n_q + r);
      double score_error = 0.0, weights = 0.0;
      std::vector<double> weight;
      for (std::int64_t j = 0; j < shape.n_kv; ++j) {
        double s = 0.0, moduli = 0.0;
        for (std::int64_t i = 0; i < shape.d; ++i) {
          const double term =
              static_cast<double>(problem.Q(bh, r, i)) * static_cast<double>(problem.K(bh, j, i));
          s += term;
          moduli += std::fabs(term);
        }
        const auto scale = static_cast<double>(problem.scale);
        score_error = std::max(score_error, (d + 2.0) * std::fabs(scale) * moduli);
        // x exp(x) is smooth, so a double will do for the size of the weighted argument error.
        const double gap = std::max(0.0, truth.m[row].hi - scale * s);
        weight.push_back(std::exp(-gap) * (gap + (Bounds::kExponentialUnits + 3.0) * (n + 1.0)) /
                         truth.l[row].hi);
        weights += weight.back();
      }
      bounds.score.push_back(score_error);
      bounds.m.push_back(score_error);
      bounds.l.push_back(truth.l[row].hi * (2.0 * score_error + weights + n));
      bounds.LSE.push_back(3.0 * score_error + weights + n + Bounds::kExponentialUnits +
                           2.0 * std::fabs(truth.LSE[row].hi) + 2.0 * std::fabs(truth.m[row].hi) +
                           2.0 * std::log(n + 1.0));
      for (std::int64_t c = 0; c < shape.dv; ++c) {
        double sum = 0.0, moduli = 0.0;
        for (std::int64_t j = 0; j < shape.n_kv; ++j) {
          const double v = std::fabs(static_cast<double>(problem.V(bh, j, c)));
          const double gapless = weight[static_cast<std::size_t>(j)];
          sum += gapless * v;
          moduli = std::max(moduli, v);
        }
        const double o = std::fabs(truth.O(bh, r, c).hi);
        // 2 eta sum p|v| is at most 2 eta max|v|.
        bounds.O(bh, r, c) =
            sum + 2.0 * score_error * moduli + o * (weights + 2.0 * score_error + n) + 4.0 * o;
      }
    }
  return bounds;
}

template <class Number> double unit() {
  return static_cast<double>(std::numeric_limits<Number>::epsilon()) / 2.0;
}

/// |value - exact| <= allowed * u * 1.1, the tenth for second order; `floor` for what underflows.
template <class Number, unsigned Digits>
bool within(const Number& value, const Interval<Digits>& exact, double allowed, double floor) {
  using std::abs;
  if (!(abs(value) < std::numeric_limits<Number>::infinity()))
    return false;
  Interval<Digits> wide;
  if constexpr (std::is_same_v<Number, double>)
    wide = Interval<Digits>(value);
  else
    wide = Interval<Digits>(value.str(0, std::ios_base::scientific)); // decimal, at full precision
  const Interval<Digits> distance = abs(Interval<Digits>(wide - exact));
  return upper(distance) <=
         Interval<Digits>(allowed * unit<Number>() * 1.1) + Interval<Digits>(floor);
}

} // namespace

// ---------------------------------------------------------------------------------------------------
// By hand

TEST_CASE("the scores of the hand-checked example are exact", "[reference][quick]") {
  const Problem problem = hand_checked();
  const std::array<std::array<float, 4>, 4> S{
      {{1, 1, 1.5f, 2}, {.5f, 1, .5f, 1}, {1.5f, .5f, 1, .5f}, {1, 1.5f, 1, 1.5f}}};

  for (std::int64_t r = 0; r < 4; ++r)
    for (std::int64_t j = 0; j < 4; ++j) {
      float dot = 0.0f;
      for (std::int64_t i = 0; i < 4; ++i)
        dot += problem.Q(0, r, i) * problem.K(0, j, i);
      CHECK(problem.scale * dot == S[static_cast<std::size_t>(r)][static_cast<std::size_t>(j)]);
    }
}

TEST_CASE("the hand-checked example has the digits of its table", "[reference][quick]") {
  struct Row {
    std::int64_t keys; ///< the first tile alone, or both
    std::int64_t row;
    double m;
    const char* l;
    const char* o0;
    const char* o1;
  };
  for (const Row& row : {
           Row{2, 0, 1.0, "2", "0.5", "0.5"},
           Row{2, 1, 1.0, "1.6065306597126334", "0.37754066879814544", "0.62245933120185456"},
           Row{2, 2, 1.5, "1.3678794411714423", "0.73105857863000488", "0.26894142136999512"},
           Row{2, 3, 1.5, "1.6065306597126334", "0.37754066879814544", "0.62245933120185456"},
           Row{4, 0, 2.0, "2.3422895420555181", "1.2698729373456661", "0.84294023665041721"},
           Row{4, 1, 1.0, "3.2130613194252668", "1", "0.81122966560092728"},
           Row{4, 2, 1.5, "2.3422895420555181", "1", "0.57306729930475115"},
           Row{4, 3, 1.5, "3.2130613194252668", "1", "0.81122966560092728"},
       }) {
    CAPTURE(row.keys, row.row);
    const Problem problem = slice_keys(hand_checked(), 0, row.keys);

    const Truth truth = certify(problem);

    // Digits that were printed from a double: the value is within half a unit of the double, and
    // the print within half a unit of its last place, which is smaller.
    const auto is = [](const Enclosed& element, const char* digits) {
      const double printed = std::stod(digits);
      const double unit_in_last_place = std::nextafter(printed, HUGE_VAL) - printed;
      return std::fabs((element.hi - printed) + element.lo) <= unit_in_last_place;
    };
    const auto at = static_cast<std::size_t>(row.row);
    CHECK(truth.m[at].hi == row.m);
    CHECK(is(truth.l[at], row.l));
    CHECK(is(truth.O(0, row.row, 0), row.o0));
    CHECK(is(truth.O(0, row.row, 1), row.o1));
  }
}

TEMPLATE_TEST_CASE("references give the maximum bit for bit and what can be read off exactly",
                   "[reference][quick]", FA1_ALL_REFERENCES) {
  using Number = typename TestType::Number;

  const auto table = TestType::run(hand_checked());
  const auto tie = TestType::run(problem_of("n_kv=4 d=2 dist=zero V=1,8,2,16,3,32,6,8 dv=2"));
  const auto one = TestType::run(problem_of("n_kv=1 d=3 scale=0.57735026 Q=40000* K=40000* V=7*"));

  for (std::size_t r = 0; r < 4; ++r)
    CHECK(table.m[r] == Number(std::array<double, 4>{2.0, 1.0, 1.5, 1.5}[r]));
  CHECK(tie.O(0, 0, 0) == Number(3)); // the mean of four values
  CHECK(tie.O(0, 0, 1) == Number(16));
  CHECK(tie.l[0] == Number(4));
  CHECK(tie.m[0] == Number(0));
  CHECK(one.O(0, 0, 0) == Number(7)); // one key: its V row, whatever the score
  CHECK(one.l[0] == Number(1));
  CHECK(one.LSE[0] == one.m[0]);
}

// ---------------------------------------------------------------------------------------------------
// Against each other

TEMPLATE_TEST_CASE(
    "every reference is within the bound of its arithmetic, over 60 decades of scores",
    "[reference][quick]", FA1_ALL_REFERENCES) {
  using Number = typename TestType::Number;
  std::int64_t compared = 0;
  std::size_t turn = 0;
  const std::array<const char*, 5> values{"normal", "alternating", "outliers", "ints",
                                          "constant:3"};
  for (const char* dist : {"normal", "outliers", "pow2", "ints", "subnormal", "zero"})
    for (const char* sigma : {"1e-30", "1e-15", "1e-4", "1", "30", "1e4", "1e8", "1e15", "1e30"}) {
      const std::string text = "n_q=2 n_kv=17 d=5 dv=2 dist=" + std::string(dist) +
                               " sigma=" + sigma + " v=" + values[turn++ % values.size()];
      CAPTURE(text);
      const Problem problem = problem_of(text);

      const auto answer = TestType::run(problem);

      const auto exact = attention<Interval<120>>(problem);
      const Bounds bounds = bounds_for(problem);
      // Weights below exp(-745) are 0 in double; n of them, times max|v| < 2^9.
      const double floor = std::is_same_v<Number, double> ? 0x1p-1050 : 0.0;
      for (std::int64_t r = 0; r < 2; ++r) {
        const auto row = static_cast<std::size_t>(r);
        REQUIRE(within(answer.m[row], exact.m[row], bounds.m[row], 0.0));
        if (bounds.score[row] * unit<Number>() > 0.01)
          continue; // the scores carry no digit in this arithmetic: first order says nothing
        REQUIRE(within(answer.l[row], exact.l[row], bounds.l[row], floor));
        REQUIRE(within(answer.LSE[row], exact.LSE[row], bounds.LSE[row], floor));
        for (std::int64_t c = 0; c < 2; ++c)
          REQUIRE(within(answer.O(0, r, c), exact.O(0, r, c), bounds.O(0, r, c), floor));
        ++compared;
      }
    }
  CHECK(compared >= 6 * 6 * 2); // at least up to sigma = 1e4
}

TEST_CASE("the bound notices a reference that is off by twice as much", "[reference][quick]") {
  const Problem problem = problem_of("n_q=1 n_kv=17 d=5 dv=2");
  const Bounds bounds = bounds_for(problem);
  const auto exact = attention<Interval<50>>(problem);

  const double o = attention<double>(problem).O(0, 0, 0);
  const double moved = o + 2.2 * bounds.O(0, 0, 0) * unit<double>();

  CHECK(within(o, exact.O(0, 0, 0), bounds.O(0, 0, 0), 0.0));
  CHECK_FALSE(within(moved, exact.O(0, 0, 0), bounds.O(0, 0, 0), 0.0));
}

TEST_CASE("intervals contain the answers of other intervals and keep narrow",
          "[reference][quick]") {
  for (const char* text : {"n_q=2 n_kv=30 d=4", "n_q=2 n_kv=30 d=4 sigma=100 order=ascending",
                           "n_q=2 n_kv=30 d=4 dist=zero v=alternating"}) {
    CAPTURE(text);
    const Problem problem = problem_of(text);

    const auto narrow = attention<Interval<120>>(problem);
    const auto wide = attention<Interval<50>>(problem);

    for (std::size_t e = 0; e < wide.O.elements().size(); ++e) {
      const auto& outer = wide.O.elements()[e];
      const auto& inner = narrow.O.elements()[e];
      CHECK(Interval<120>(lower(outer)) <= Interval<120>(lower(inner)));
      CHECK(Interval<120>(upper(inner)) <= Interval<120>(upper(outer)));
      CHECK(upper(outer) - lower(outer) < lower(abs(outer)) * 0x1p-140 + 0x1p-140); // of 168 bits
    }
  }
}

// ---------------------------------------------------------------------------------------------------
// Where weights underflow

TEMPLATE_TEST_CASE("a gap of any size is weighed right in rows of any length", "[reference][quick]",
                   FA1_ALL_REFERENCES) {
  using Number = typename TestType::Number;
  for (const float gap : {87.0f, 88.5f, 104.0f, 200.0f, kInf})
    for (const std::int64_t length : {3, 4, 5, 7, 8, 9, 16}) {
      CAPTURE(gap, length);
      // V is 1 at one light key and 0 elsewhere, so O is that key's weight.
      for (std::int64_t light = 0; light < length; ++light) {
        Recipe recipe = parse_recipe("n_kv=" + std::to_string(length) + " scale=1 Q=1* V=0*");
        const std::int64_t heavy = light == 0 ? 1 : 0;
        recipe.K = {{-gap, -1}};
        recipe.put = {{Matrix::K, heavy, 0, 0.0f}, {Matrix::V, light, 0, 1.0f}};
        const Problem problem = make_problem(recipe);

        const auto answer = TestType::run(problem);

        if (gap == kInf) {
          REQUIRE(answer.O(0, 0, 0) == Number(0));
          REQUIRE(answer.l[0] == Number(1));
        } else {
          const Interval<120> weight = exp(Interval<120>(-gap));
          const Interval<120> o =
              weight / (Interval<120>(1) + Interval<120>(static_cast<double>(length - 1)) * weight);
          const double units = 2.0 * (Bounds::kExponentialUnits + static_cast<double>(gap) +
                                      2.0 * static_cast<double>(length));
          REQUIRE(
              within(answer.O(0, 0, 0), o, units * upper(o).template convert_to<double>(), 0.0));
        }
      }
    }
}

TEST_CASE("the certified truth weighs the same gaps", "[reference][quick]") {
  for (const float gap : {87.0f, 88.5f, 104.0f, 200.0f, 1e30f, kInf})
    for (const std::int64_t length : {3, 4, 5, 7, 8, 9, 16}) {
      Recipe recipe = parse_recipe("n_kv=" + std::to_string(length) + " scale=1 Q=1* V=1*");
      recipe.K = {{-gap, -1}};
      recipe.put = {{Matrix::K, length / 2, 0, 0.0f}, {Matrix::V, length / 2, 0, 0.0f}};

      const Truth truth = certify(make_problem(recipe));

      const Interval<50> rest = gap == kInf
                                    ? Interval<50>(0)
                                    : Interval<50>(Interval<50>(static_cast<double>(length - 1)) *
                                                   exp(Interval<50>(-gap)));
      CHECK(encloses(truth.O(0, 0, 0), Interval<50>(rest / (Interval<50>(1) + rest))));
      CHECK(encloses(truth.l[0], Interval<50>(Interval<50>(1) + rest)));
    }
}

TEST_CASE("Eigen's vectorised exponential fails the same gaps: it is not a reference",
          "[reference][quick]") {
  std::int64_t wrong = 0, right = 0;
  for (const std::int64_t length : {3, 4, 5, 7, 8, 9, 16})
    for (std::int64_t light = 0; light < length; ++light) {
      Eigen::ArrayXf x = Eigen::ArrayXf::Zero(length);
      x(light) = -kInf;
      const Eigen::ArrayXf naive = x.exp();
      const Eigen::ArrayXf careful = x.unaryExpr([](float e) { return std::exp(e); });
      wrong += naive(light) != 0.0f;
      right += naive(light) == 0.0f;
      REQUIRE(careful(light) == 0.0f);
    }

  CHECK(wrong > 0); // in the part of a row that fills a vector register ...
  CHECK(right > 0); // ... but not in its rest: so it depends on the length of the row
}

// ---------------------------------------------------------------------------------------------------
// Online softmax

TEST_CASE("merging states is commutative bit for bit and has a neutral element",
          "[reference][quick]") {
  const std::array<Normaliser<double>, 5> states{
      {{}, {1.5, 3.25}, {-700.0, 1.0}, {1e300, 2.0}, {1.5, 1.0}}};

  for (const auto& a : states)
    for (const auto& b : states) {
      const auto ab = merge(a, b), ba = merge(b, a);
      CHECK((ab.m == ba.m && ab.d == ba.d));
    }
  for (const auto& a : states) {
    const auto same = merge(a, Normaliser<double>{});
    CHECK((same.m == a.m && same.d == a.d));
  }
}

TEST_CASE("merging the states of any two parts gives the state of the whole",
          "[reference][quick]") {
  const std::vector<float> scores = [] {
    std::vector<float> out(40);
    make_rows(parse_recipe("n_kv=40 dist=outliers seed=6"), Matrix::K, 0, 0, 40, out.data());
    return out;
  }();
  const auto state_of = [&](std::size_t from, std::size_t to) {
    Normaliser<Mpfr50> state;
    for (std::size_t j = from; j < to; ++j)
      state = absorb(state, Mpfr50(scores[j]));
    return state;
  };
  const auto whole = state_of(0, 40);
  const auto largest = std::ranges::max(scores);

  for (std::size_t cut = 0; cut <= 40; ++cut) {
    const auto joined = merge(state_of(0, cut), state_of(cut, 40));
    CHECK(joined.m == Mpfr50(largest));
    // A path of at most 42 steps, each with an exponential, a product, a sum and an argument; the
    // arguments telescope to at most the spread of the scores.
    const double spread =
        static_cast<double>(largest) - static_cast<double>(std::ranges::min(scores));
    const double units = 2.0 * (42.0 * (Bounds::kExponentialUnits + 2.0) + spread);
    CHECK(abs(Mpfr50(joined.d - whole.d)) <= Mpfr50(units * unit<Mpfr50>()) * whole.d);
  }
}

TEST_CASE("a merge takes natural logarithms, and a part without keys has no weight in it",
          "[reference][quick]") {
  // Sums of 4 and of 12, each told as a maximum of that logarithm and a sum of 1.
  const Normaliser<double> four{std::log(4.0), 1.0}, twelve{std::log(12.0), 1.0}, alone{1.0, 1.0};
  const double allowed = 8.0 * std::log(16.0) * 0x1p-53; // so many roundings, none of more

  const auto both = merge(four, twelve);
  const auto with_nothing = merge(Normaliser<double>{}, alone);

  // Sums of base 2 taken for natural ones would give 1.47 and 0.68.
  CHECK(std::fabs(both.d - 16.0 / 12.0) <= allowed);
  CHECK(std::fabs(both.m + std::log(both.d) - std::log(16.0)) <= allowed);
  CHECK(std::fabs(twelve.d / both.d - 0.75) <= allowed); // the output where theirs are 0 and 1
  CHECK(with_nothing.m == 1.0); // a part of LSE +Inf or 0 would take the weight
  CHECK(with_nothing.d == 1.0);
}

// ---------------------------------------------------------------------------------------------------
// The number types themselves

TEMPLATE_TEST_CASE("exponentials, infinities and NaN of every reference's numbers are IEEE's",
                   "[reference][quick]", double, Quad, Bin50, Bin100, Mpfr50) {
  using std::exp;
  const TestType infinity(std::numeric_limits<double>::infinity()), another = infinity;
  const TestType difference = infinity - another;
  const TestType nan(std::numeric_limits<double>::quiet_NaN());

  CHECK(exp(TestType(-3.1e304)) == TestType(0));
  CHECK(exp(TestType(-infinity)) == TestType(0));
  CHECK(exp(infinity) == infinity);
  CHECK(difference != difference);
  CHECK(nan != nan);
  CHECK(std::isnan(static_cast<double>(nan)));
  CHECK(static_cast<double>(TestType(-infinity)) == -std::numeric_limits<double>::infinity());
  CHECK(std::is_same_v<decltype(nan * nan), TestType>); // no expression that `auto` could keep
}

// ---------------------------------------------------------------------------------------------------
// Nothing, NaN and infinity

TEMPLATE_TEST_CASE("no keys and no queries have their defined answers", "[reference][quick]",
                   FA1_ALL_REFERENCES) {
  using Number = typename TestType::Number;

  const auto no_keys = TestType::run(problem_of("bh=2 n_q=3 n_kv=0 d=4"));
  const auto no_queries = TestType::run(problem_of("n_q=0 n_kv=3 d=4"));
  const auto no_columns = TestType::run(problem_of("n_kv=3 d=0 dv=1 V=1,2,6"));

  for (const Number& o : no_keys.O.elements())
    CHECK(o == Number(0));
  for (std::size_t row = 0; row < 6; ++row) {
    CHECK(no_keys.l[row] == Number(0));
    CHECK(no_keys.m[row] == -std::numeric_limits<Number>::infinity());
    CHECK(no_keys.LSE[row] == -std::numeric_limits<Number>::infinity());
  }
  CHECK(no_queries.O.size() == 0);
  CHECK(no_queries.m.empty());
  CHECK(no_columns.O(0, 0, 0) == Number(3)); // d = 0: every score is 0
}

TEMPLATE_TEST_CASE("NaN and infinite scores follow the contract", "[reference][quick]",
                   FA1_ALL_REFERENCES) {
  using Number = typename TestType::Number;
  struct Row {
    const char* text;
    bool nan;
    float m;
  };
  for (const Row& row : {
           Row{"scores=nan,0,1", true, 1.0f},
           Row{"scores=1,0,nan", true, 1.0f},
           Row{"scores=0,inf", true, kInf},
           Row{"scores=inf,inf", true, kInf},
           Row{"scores=-inf,-inf", true, -kInf},
           Row{"scores=-inf,2,-inf", false, 2.0f},
           Row{"scores=2,-inf", false, 2.0f},
           Row{"scores=0,1 put=V:1,0:nan", true, 1.0f},
       }) {
    CAPTURE(row.text);

    const auto answer = TestType::run(problem_of(row.text));

    const Number& o = answer.O(0, 0, 0);
    CHECK((o != o) == row.nan);
    CHECK(answer.m[0] == Number(row.m));
  }
}
