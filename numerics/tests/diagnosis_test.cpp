// Where a wrong kernel parts from the truth, and the fault that its answer looks like.
#include "numerics/diagnosis.hpp"

#include "kernels/plugin.hpp"
#include "numerics/diagnosis_faults.hpp"
#include "reference/attention.hpp"
#include "reference/recipe.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>
#include <string_view>

using namespace fa1;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;
using kernels::Arguments;
using kernels::Kernel;
using kernels::Launch;
using numerics::diagnose;
using numerics::Diagnosis;
using reference::Problem;

namespace {

Problem made(std::string_view recipe) {
  return reference::make_problem(reference::parse_recipe(recipe));
}

const Kernel& named(const std::string& id) { return kernels::find_kernel(id, {}); }

bool names(const Diagnosis& diagnosis, std::string_view fault) {
  return std::ranges::find(diagnosis.suspects, fault, &numerics::Suspect::name) !=
         diagnosis.suspects.end();
}

std::string told(const Diagnosis& diagnosis) {
  std::string text = numerics::to_string(diagnosis.verdict) + "\n" + diagnosis.parts_at + "\n" +
                     diagnosis.where + "\n";
  for (const auto& suspect : diagnosis.suspects)
    text += suspect.name + ": " + suspect.says + "\n";
  return text;
}

/// A kernel that is `change`d after fa1 has answered.
template <class Change> Kernel changed(Change change) {
  const Kernel& fa1 = named("fa1.Br8xBc4xD8.cpu");
  Kernel kernel = fa1;
  kernel.id = "changed." + fa1.id;
  kernel.run = [run = fa1.run, change](const Arguments& a, const Launch& launch) {
    run(a, launch);
    change(a);
  };
  return kernel;
}

/// A stranger that gives the exact O of another problem.
template <class Change> Kernel answers_another(Change change) {
  Kernel kernel = kernels::as_stranger(named("fa1.Br8xBc4xD8.cpu"), false);
  kernel.run = [change](const Arguments& a, const Launch&) {
    Problem problem{a.shape, a.scale, {}, {}, {}};
    const auto tensor = [](const float* from, std::int64_t bh, std::int64_t rows,
                           std::int64_t columns) {
      reference::Tensor<float> copy(bh, rows, columns);
      std::copy_n(from, copy.size(), copy.data());
      return copy;
    };
    const reference::Shape& s = a.shape;
    problem.Q = tensor(a.Q, s.batch_heads, s.n_q, s.d);
    problem.K = tensor(a.K, s.batch_heads, s.n_kv, s.d);
    problem.V = tensor(a.V, s.batch_heads, s.n_kv, s.dv);
    change(problem);
    const auto answer = reference::attention<double>(problem);
    std::ranges::transform(answer.O.elements(), a.O,
                           [](double o) { return static_cast<float>(o); });
  };
  return kernel;
}

struct Named {
  const char* mutant;
  const char* fault;
};

constexpr const char* kProblem = "bh=2 n_q=7 n_kv=43 d=6 seed=3 scale=0.7";

} // namespace

TEST_CASE("a wrong kernel's fault is named, from its output alone too", "[numerics][quick]") {
  const auto example = GENERATE(values<Named>({
      {"no_alpha_on_O", "no_alpha_on_O"},
      {"no_alpha_on_l", "no_alpha_on_l"},
      {"no_alpha", "no_alpha"},
      {"alpha_from_old_max", "no_alpha"},
      {"stale_max", "stale_max"},
      {"tile_max_uncorrected", "tile_max"},
      {"no_division", "no_division"},
      {"pads_count", "pads_count"},
      {"pads_count_in_l", "pads_count"},
      {"tail_dropped", "tail_dropped"},
      {"scale_missing", "scale_missing"},
      {"scale_on_max_only", "scale_missing"},
      {"scale_squared", "scale_squared"},
      {"scale_from_d", "scale_from_d"},
      {"base_two", "base_two"},
      {"neighbour_value", "neighbour_value"},
      {"tiles_out_of_step", "tiles_out_of_step"},
      {"transposed_tile", "transposed_tile"},
      {"first_query_for_all", "wrong_row"},
      {"heads_share_values", "wrong_head"},
      {"tf32_inputs", "tf32_inputs"},
      {"bf16_values", "bf16_values"},
      {"bf16_weights", "bf16_weights"},
      {"fp16_weights", "fp16_weights"},
      {"bf16_output", "bf16_output"},
  }));
  const std::string tile = GENERATE("Br3xBc5xD8", "Br8xBc4xD8");
  const Kernel& mutant = named(std::string("mutant.") + example.mutant + "." + tile + ".cpu");
  const Problem problem = made(kProblem);

  const Diagnosis known = diagnose(problem, mutant);
  const Diagnosis whole = diagnose(problem, kernels::as_stranger(mutant, true));
  const Diagnosis output = diagnose(problem, kernels::as_stranger(mutant, false));

  CAPTURE(mutant.id, told(known), told(whole), told(output));
  CHECK(names(known, example.fault));
  CHECK(names(whole, example.fault));
  CHECK(names(output, example.fault));
  CHECK(std::ranges::is_sorted(known.suspects, {}, &numerics::Suspect::unexplained));
}

TEST_CASE("a right kernel gets no diagnosis", "[numerics][quick]") {
  const std::string id =
      GENERATE("fa1.Br3xBc5xD8.cpu", "fa1.Br1xBc1xD8.cpu", "rewrite.two_passes.Br8xBc4xD8.cpu");
  const char* recipe =
      GENERATE("bh=2 n_q=7 n_kv=43 d=6 seed=3", "n_q=3 n_kv=40 d=8 order=ascending", "n_kv=0");

  const Diagnosis diagnosis = diagnose(made(recipe), named(id));

  CAPTURE(told(diagnosis));
  CHECK_FALSE(diagnosis.wrong());
  CHECK(diagnosis.suspects.empty());
  CHECK(diagnosis.parts_at.empty());
  CHECK(numerics::looks_like(diagnosis).empty());
}

TEST_CASE("a fault outside the table looks like nothing known", "[numerics][quick]") {
  const std::string mutant =
      GENERATE("alpha_inverted", "divides_twice", "columns_swapped", "carry_of_first_column",
               "values_miss_last", "cubic_exp2", "l_forgotten", "d_fixed");
  const bool stranger = GENERATE(false, true);
  const Kernel& known = named("mutant." + mutant + ".Br3xBc5xD8.cpu");

  const Diagnosis diagnosis =
      diagnose(made(kProblem), stranger ? kernels::as_stranger(known, false) : known);

  CAPTURE(mutant, told(diagnosis));
  CHECK(diagnosis.wrong());
  CHECK(numerics::looks_like(diagnosis) ==
        std::vector<std::string>{std::string(numerics::kNoKnownPattern)});
}

TEST_CASE("the answer to a changed problem is traced to the change", "[numerics][quick]") {
  struct Example {
    const char* fault;
    void (*change)(Problem&);
  };
  const auto example = GENERATE(values<Example>({
      {"mean_of_V", [](Problem& p) { p.scale = 0.0f; }},
      {"wrong_head",
       [](Problem& p) {
         for (auto* tensor : {&p.Q, &p.K, &p.V})
           std::copy_n(tensor->data(), tensor->size() / 2, tensor->data() + tensor->size() / 2);
       }},
      {"wrong_row",
       [](Problem& p) {
         for (std::int64_t bh = 0; bh < p.shape.batch_heads; ++bh)
           for (std::int64_t row = 0; row + 1 < p.shape.n_q; ++row)
             std::ranges::copy(p.Q.row(bh, row + 1), p.Q.row(bh, row).begin());
       }},
      {"last_key_dropped",
       [](Problem& p) {
         if (p.shape.n_kv > 1)
           p = reference::slice_keys(p, 0, p.shape.n_kv - 1);
       }},
      {"log2e_too_much", [](Problem& p) { p.scale *= std::numbers::log2e_v<float>; }},
  }));

  const Diagnosis diagnosis = diagnose(made(kProblem), answers_another(example.change));

  CAPTURE(told(diagnosis));
  CHECK(names(diagnosis, example.fault));
}

TEST_CASE("a causal mask that nobody asked for is recognised", "[numerics][quick]") {
  Kernel kernel = kernels::as_stranger(named("fa1.Br8xBc4xD8.cpu"), false);
  kernel.run = [run = kernel.run](const Arguments& a, const Launch& launch) {
    for (std::int64_t row = 0; row < a.shape.n_q; ++row) {
      Arguments one = a;
      one.shape.n_q = 1;
      one.shape.n_kv = std::min(row + 1, a.shape.n_kv);
      one.Q += row * a.shape.d;
      one.O += row * a.shape.dv;
      run(one, launch);
    }
  };

  const Diagnosis diagnosis = diagnose(made("n_q=9 n_kv=9 d=6"), kernel);

  CAPTURE(told(diagnosis));
  REQUIRE(names(diagnosis, "causal"));
  CHECK_THAT(diagnosis.where, StartsWith("rows 0 to 7,"));
}

TEST_CASE("l and m in another unit are recognised where O is right", "[numerics][quick]") {
  struct Example {
    const char* fault;
    void (*change)(float& l, float& m);
  };
  const auto example = GENERATE(values<Example>({
      {"LSE_in_base_two",
       [](float& l, float& m) {
         m = (m + std::log(l)) * std::numbers::log2e_v<float>;
         l = 1.0f;
       }},
      {"m_in_base_two", [](float&, float& m) { m *= std::numbers::log2e_v<float>; }},
      {"m_not_scaled", [](float&, float& m) { m /= 0.7f; }},
  }));
  const Kernel kernel = changed([change = example.change](const Arguments& a) {
    for (std::int64_t row = 0; row < a.shape.batch_heads * a.shape.n_q; ++row)
      change(a.l[row], a.m[row]);
  });

  const Diagnosis diagnosis = diagnose(made(kProblem), kernel);

  CAPTURE(told(diagnosis));
  REQUIRE(diagnosis.suspects.size() == 1);
  CHECK(diagnosis.suspects.front().name == example.fault);
  CHECK_THAT(diagnosis.where, StartsWith("O is nowhere proved wrong"));
}

TEST_CASE("what a launch found in its arrays, or kept from the last, is noticed",
          "[numerics][quick]") {
  const auto example = GENERATE(values<Named>({
      {"mutant.stale_output.Br3xBc5xD8.cpu", "uninitialised"},
      {"mutant.stale_denominator.Br3xBc5xD8.cpu", "uninitialised"},
      {"mutant.last_row_not_started.Br3xBc5xD8.cpu", "uninitialised"},
      {"mutant.rows_dropped.Br3xBc5xD8.cpu", "not_computed"},
      {"mutant.workspace_kept.Br3xBc5xD8.cpu", "not_repeatable"},
      {"mutant.no_first_barrier.Br3xBc5xD8.cpu", "thread_order"},
  }));
  const std::int64_t d = GENERATE(6, 8); // padded, not padded
  const Problem problem = made("bh=2 n_q=7 n_kv=43 seed=3 d=" + std::to_string(d));

  kernels::run(named(example.mutant), problem); // so that something may be kept
  const Diagnosis diagnosis = diagnose(problem, named(example.mutant));

  CAPTURE(example.mutant, told(diagnosis));
  CHECK(names(diagnosis, example.fault));
}

TEST_CASE("the smallest number of keys is found, and what it is the border of",
          "[numerics][quick]") {
  const Kernel& right = named("fa1.Br8xBc4xD8.cpu");
  // Wrong from the 33rd key on: O of all keys but the first.
  Kernel wrong = right;
  wrong.run = [run = right.run](const Arguments& a, const Launch& launch) {
    run(a, launch);
    if (a.shape.n_kv > 32)
      std::fill_n(a.O, a.shape.batch_heads * a.shape.n_q * a.shape.dv, 9.0f);
  };
  const Problem problem = made("n_q=3 n_kv=200 d=6");

  const Diagnosis known = diagnose(problem, wrong);
  const Diagnosis stranger = diagnose(problem, kernels::as_stranger(wrong, false));

  CHECK(known.keys == 33);
  CHECK_THAT(known.parts_at, StartsWith("right up to 32 keys, wrong from 33: the border of tile 8 "
                                        "(of 4 keys, counted from 0); wrong with all "));
  CHECK(stranger.keys == 33);
  CHECK_THAT(stranger.parts_at,
             StartsWith("right up to 32 keys, wrong from 33: 32 is a multiple of 32"));
}

TEST_CASE("what does not stay wrong is found below what bisection finds", "[numerics][quick]") {
  const Kernel& right = named("fa1.Br8xBc4xD8.cpu");
  Kernel wrong = right;
  wrong.run = [run = right.run](const Arguments& a, const Launch& launch) {
    run(a, launch);
    if (a.shape.n_kv == 5 || a.shape.n_kv > 150)
      std::fill_n(a.O, a.shape.batch_heads * a.shape.n_q * a.shape.dv, 9.0f);
  };

  const Diagnosis diagnosis = diagnose(made("n_q=3 n_kv=200 d=6"), wrong);

  CHECK(diagnosis.keys == 5);
  CHECK_THAT(diagnosis.parts_at, ContainsSubstring("right again with 6"));
}

TEST_CASE("a fault of ragged tails is told by the multiples that are right", "[numerics][quick]") {
  const std::string mutant = GENERATE("pads_count", "tail_dropped");
  const Kernel& known = named("mutant." + mutant + ".Br8xBc4xD8.cpu");
  const bool stranger = GENERATE(false, true);

  const Diagnosis diagnosis =
      diagnose(made(kProblem), stranger ? kernels::as_stranger(known, false) : known);

  CHECK_THAT(diagnosis.parts_at,
             ContainsSubstring("wrong where the number of keys is no multiple of 4"));
}

TEST_CASE("the components of Q and K that a kernel reads are counted", "[numerics][quick]") {
  Kernel kernel = answers_another([](Problem& p) {
    for (auto* tensor : {&p.Q, &p.K})
      for (std::int64_t row = 0; row < tensor->rows(); ++row)
        for (std::int64_t i = 8; i < p.shape.d; ++i)
          (*tensor)(0, row, i) = 0.0f;
  });
  kernel.D = 64;

  const Diagnosis diagnosis = diagnose(made("n_q=3 n_kv=50 d=20"), kernel);

  CHECK_THAT(diagnosis.parts_at,
             ContainsSubstring("right with the first 8 components of Q and K, wrong from 9"));
}

TEST_CASE("rows and columns that are wrong are told by what they have in common",
          "[numerics][quick]") {
  struct Example {
    bool (*hit)(std::int64_t bh, std::int64_t row, std::int64_t column);
    const char* says;
  };
  using I = std::int64_t;
  const auto example = GENERATE(values<Example>({
      {[](I, I, I) { return true; },
       "every row of every batch-head, every column: 256 of 256 elements of O"},
      {[](I, I row, I) { return row % 8 == 7; },
       "the last row of each block of 8 of every batch-head, every column"},
      {[](I, I row, I) { return row % 8 != 0; }, "every row but the first of each block of 8"},
      {[](I, I row, I column) { return row == 3 && column > 4; },
       "row 3 of every batch-head, the columns from 5 on: 6 of 256 elements of O"},
      {[](I bh, I row, I column) { return bh == 1 && row == 15 && column == 7; },
       "the last row (15) of the last batch-head (1), the last column (7): 1 of 256"},
      {[](I, I row, I column) { return row % 5 == 1 && column < 2; },
       "3 of 16 rows of every batch-head, columns 0 to 1"},
  }));
  const Kernel kernel = changed([hit = example.hit](const Arguments& a) {
    const reference::Shape& s = a.shape;
    for (I bh = 0; bh < s.batch_heads; ++bh)
      for (I row = 0; row < s.n_q; ++row)
        for (I column = 0; column < s.dv; ++column)
          if (hit(bh, row, column))
            a.O[(bh * s.n_q + row) * s.dv + column] += 1.0f;
  });

  const Diagnosis diagnosis = diagnose(made("bh=2 n_q=16 n_kv=9 d=8"), kernel);

  CHECK_THAT(diagnosis.where, ContainsSubstring(example.says));
}

TEST_CASE("a problem too long to be compared whole is compared on its first keys",
          "[numerics][quick]") {
  const Problem problem = made("n_q=2 n_kv=70001 d=8 seed=2"); // more than kWorkPerFault

  const Diagnosis diagnosis = diagnose(problem, named("mutant.no_alpha_on_O.Br8xBc4xD8.cpu"));

  CAPTURE(told(diagnosis));
  CHECK(names(diagnosis, "no_alpha_on_O"));
}

TEST_CASE("outside the bound's conditions nothing is compared", "[numerics][quick]") {
  const Problem problem = made("n_q=2 n_kv=9 d=2 put=V:2,0:nan");
  const Kernel kernel = changed([](const Arguments& a) { // forgets the NaN
    std::fill_n(a.O, a.shape.batch_heads * a.shape.n_q * a.shape.dv, 0.0f);
  });

  const Diagnosis diagnosis = diagnose(problem, kernel);

  CHECK(diagnosis.wrong());
  CHECK(numerics::looks_like(diagnosis) ==
        std::vector<std::string>{std::string(numerics::kNoKnownPattern)});
}
