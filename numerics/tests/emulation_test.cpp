// Claims about the emulation: with fp32 everywhere it is the kernel bit for bit, each stage is
// rounded where it is named and nowhere else, and what is done to the inputs is what the papers
// describe.
#include "numerics/emulation.hpp"

#include "kernels/kernel.hpp"
#include "numerics/ulp.hpp"
#include "reference/recipe.hpp"
#include "reference/tiled_mirror.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <cmath>
#include <set>

using namespace fa1;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;
using numerics::all_configurations;
using numerics::Configuration;
using numerics::emulate;
using numerics::FormatId;
using numerics::parse_configuration;
using numerics::prepare;
using numerics::round_to;
using numerics::Stage;
using reference::Problem;
using reference::State;

namespace {

Problem problem_of(const std::string& recipe) {
  return reference::make_problem(reference::parse_recipe(recipe));
}

bool same_bits(const State& a, const State& b) {
  const auto same = [](float x, float y) { return numerics::same_bits(x, y); };
  return std::ranges::equal(a.O.elements(), b.O.elements(), same) &&
         std::ranges::equal(a.l, b.l, same) && std::ranges::equal(a.m, b.m, same);
}

bool is_nontrivial(const State& state) {
  const std::set<float> values(state.O.elements().begin(), state.O.elements().end());
  return values.size() > 1 && !values.contains(0.0f);
}

State run(const Problem& problem, std::string_view configuration, std::int64_t Bc) {
  const Configuration chosen = parse_configuration(configuration);
  return emulate(prepare(problem, chosen, Bc), chosen, Bc);
}

bool all_of_format(std::span<const float> numbers, FormatId id) {
  return std::ranges::all_of(
      numbers, [&](float x) { return numerics::same_bits(round_to(format_of(id), x), x); });
}

} // namespace

TEST_CASE("with fp32 everywhere the emulation is the mirror bit for bit", "[numerics][quick]") {
  const std::string recipe =
      GENERATE("n_q=5 n_kv=70 d=5 sigma=3", "bh=2 n_q=4 n_kv=64 d=16 dv=3 dist=outliers",
               "n_q=3 n_kv=33 d=8 order=ascending v=alternating", "n_q=2 n_kv=9 d=3 order=tied",
               "n_q=2 n_kv=40 d=4 order=dominant");
  const std::int64_t Bc = GENERATE(1, 4, 32, 100);
  CAPTURE(recipe, Bc);
  const Problem problem = problem_of(recipe);

  const State state = run(problem, "fp32", Bc);

  REQUIRE(is_nontrivial(state));
  CHECK(same_bits(state, reference::tiled_mirror(problem, Bc)));
}

TEST_CASE("with fp32 everywhere the emulation is the kernel bit for bit", "[numerics][quick]") {
  const Problem problem = problem_of("bh=2 n_q=35 n_kv=130 d=16 sigma=4 seed=5");

  for (const char* id : {"fa1.Br1xBc1xD16.cpu", "fa1.Br4xBc2xD16.cpu", "fa1.Br32xBc32xD16.cpu"}) {
    CAPTURE(id);
    const kernels::Kernel& kernel = kernels::find_kernel(id, problem.shape);
    CHECK(same_bits(run(problem, "fp32", kernel.Bc), kernels::run(kernel, problem)));
  }
}

TEST_CASE("special values and no keys take the mirror's way", "[numerics][quick]") {
  const std::string recipe =
      GENERATE("scores=-inf*4,0*4 V=0,1,2,3,4,5,6,7", "scores=1,nan,2,3,4 V=1,2,3,4,5",
               "scores=1,inf,2,3,4 V=1,2,3,4,5", "scores=3e38,3e38,-3e38 V=1,2,3",
               "scores=-0,0,0,-0,0 V=1,2,3,4,5", "scores=0,1,2,3,4 V=1,nan,inf,-inf,-0",
               "n_q=2 n_kv=0 d=3", "n_q=0 n_kv=3 d=2", "n_q=2 n_kv=3 d=0");
  const std::int64_t Bc = GENERATE(1, 2, 8);
  CAPTURE(recipe, Bc);
  const Problem problem = problem_of(recipe);

  CHECK(same_bits(run(problem, "fp32", Bc), reference::tiled_mirror(problem, Bc)));
}

TEST_CASE("every stage changes the answer when it is rounded to bf16", "[numerics][quick]") {
  const Problem problem = problem_of("n_q=4 n_kv=40 d=10 sigma=2 seed=3"); // scale is no power of 2
  const State exact = run(problem, "fp32", 8);

  for (std::size_t i = 0; i < numerics::kStages; ++i) {
    const std::string stage(numerics::name_of(static_cast<Stage>(i)));
    CAPTURE(stage);
    const State state = run(problem, stage + "=bf16", 8);
    CHECK_FALSE(same_bits(state, exact));
    CHECK(same_bits(run(problem, stage + "=fp32", 8), exact));
  }
}

TEST_CASE("what a stage stores is of its format", "[numerics][quick]") {
  const Problem problem = problem_of("n_q=4 n_kv=40 d=10 sigma=2 seed=3");
  const FormatId id = GENERATE(FormatId::bf16, FormatId::fp16, FormatId::tf32, FormatId::e5m2);
  const std::string name(format_of(id).id);
  CAPTURE(name);

  CHECK(all_of_format(run(problem, "O=" + name, 8).O.elements(), id));
  CHECK(all_of_format(run(problem, "output=" + name, 8).O.elements(), id));
  CHECK(all_of_format(run(problem, "l=" + name, 8).l, id));
  CHECK(all_of_format(run(problem, "scores=" + name, 8).m, id));
  CHECK_FALSE(all_of_format(run(problem, "output=" + name, 8).l, id));
  const State everything = run(problem, "all=" + name, 8);
  CHECK(all_of_format(everything.O.elements(), id));
  CHECK(all_of_format(everything.l, id));
  CHECK(all_of_format(everything.m, id));
  for (const auto& tensor : {&Problem::Q, &Problem::K, &Problem::V})
    CHECK(all_of_format(
        (prepare(problem, parse_configuration("inputs=" + name), 8).*tensor).elements(), id));
}

TEST_CASE("a row sums p before it is rounded for V, and rounds p alone", "[numerics][quick]") {
  // Weights 1 and e^-1; V picks the second one out.
  const Problem problem = problem_of("scores=1,0 V=0,1");
  const float p = std::exp(-1.0f), l = 1.0f + p;

  const State fa2 = run(problem, "p=bf16", 2);
  const State standard = run(problem, "standard-bf16", 2);

  CHECK(fa2.l[0] == l);
  CHECK(fa2.O(0, 0, 0) == round_to(format_of(FormatId::bf16), p) / l);
  // Normalised before it is rounded; the output is of that format already.
  CHECK(standard.O(0, 0, 0) == round_to(format_of(FormatId::bf16), p / l));
}

TEST_CASE("each rounding stands where its stage says, written out for two tiles",
          "[numerics][quick]") {
  const Configuration c = parse_configuration(GENERATE(
      "all=bf16", "all=fp16", "all=e4m3",
      "accumulator=fp16,dot=bf16,scores=fp16,argument=bf16,exp=tf32,p=bf16,sum=fp16,pv=bf16,"
      "carried=fp16,l=tf32,numerator=fp16,O=bf16,output=e5m2"));
  const int seed = GENERATE(range(1, 40));
  CAPTURE(c.id, seed);
  const Problem x =
      prepare(problem_of("n_q=1 n_kv=3 d=2 dv=1 sigma=2 seed=" + std::to_string(seed)), c, 2);
  const auto rounded = [&](Stage stage, float value) {
    return round_to(format_of(c.format(stage)), value);
  };
  const auto add_product = [&](float sum, float a, float b) {
    return rounded(Stage::accumulator, sum + rounded(Stage::accumulator, a * b));
  };
  const auto score = [&](int j) {
    const float dot =
        add_product(add_product(0.0f, x.Q(0, 0, 0), x.K(0, j, 0)), x.Q(0, 0, 1), x.K(0, j, 1));
    return rounded(Stage::scores, rounded(Stage::dot, dot) * x.scale);
  };
  const auto weight = [&](float s, float m) {
    return rounded(Stage::exp, std::exp(rounded(Stage::argument, s - m)));
  };
  const auto output = [&](float carried, float O, float pv, float l) {
    const float old = rounded(Stage::numerator, carried * O);
    return rounded(Stage::O, rounded(Stage::numerator, old + rounded(Stage::pv, pv)) / l);
  };

  const State state = emulate(x, c, 2);

  const float m_first = std::max(score(0), score(1));
  const float p0 = weight(score(0), m_first), p1 = weight(score(1), m_first);
  const float l_first =
      rounded(Stage::l, rounded(Stage::sum, rounded(Stage::accumulator,
                                                    rounded(Stage::accumulator, 0.0f + p0) + p1)));
  const float pv_first = add_product(add_product(0.0f, rounded(Stage::p, p0), x.V(0, 0, 0)),
                                     rounded(Stage::p, p1), x.V(0, 1, 0));
  const float O_first = output(0.0f, 0.0f, pv_first, l_first);
  const float m = std::max(m_first, score(2));
  const float p2 = weight(score(2), m);
  const float carried = rounded(Stage::carried, weight(m_first, m) * l_first);
  const float sum = rounded(Stage::sum, rounded(Stage::accumulator, 0.0f + p2));
  const float l = rounded(Stage::l, carried + sum);
  const float pv = add_product(0.0f, rounded(Stage::p, p2), x.V(0, 2, 0));
  CHECK(state.m[0] == m);
  CHECK(state.l[0] == l);
  CHECK(numerics::same_bits(state.O(0, 0, 0),
                            rounded(Stage::output, output(carried, O_first, pv, l))));
}

TEST_CASE("whole rows do not depend on the tile", "[numerics][quick]") {
  const Problem problem = problem_of("n_q=3 n_kv=50 d=8");

  CHECK(same_bits(run(problem, "standard-fp16", 1), run(problem, "standard-fp16", 64)));
  CHECK_FALSE(same_bits(run(problem, "fa2-fp16", 1), run(problem, "fa2-fp16", 64)));
}

TEST_CASE("turning Q and K changes no score by more than its roundings and spreads outliers",
          "[numerics][quick]") {
  const Problem problem = problem_of("n_q=8 n_kv=8 d=48 dist=outliers put=Q:0,3:100;K:0,5:-100");
  Configuration turning{.id = "turned", .says = "", .formats = {}, .turned = true};

  const Problem turned = prepare(problem, turning, 8);

  REQUIRE(turned.shape.d == 64);
  REQUIRE(prepare(problem, turning, 8).Q == turned.Q);
  CHECK(prepare(problem, turning, 8, 2).Q != turned.Q);
  const auto dot = [](std::span<const float> a, std::span<const float> b) {
    double sum = 0.0;
    for (std::size_t i = 0; i < a.size(); ++i)
      sum += double{a[i]} * double{b[i]};
    return sum;
  };
  for (std::int64_t i = 0; i < 8; ++i)
    for (std::int64_t j = 0; j < 8; ++j) {
      const auto q = problem.Q.row(0, i), k = problem.K.row(0, j);
      // Each entry is rounded to fp32 once: relative u in each factor, by Cauchy and Schwarz; a
      // quarter more for the second order and the roundings of double.
      const double allowed = 2.5 * numerics::kU * std::sqrt(dot(q, q) * dot(k, k));
      CHECK(std::fabs(dot(turned.Q.row(0, i), turned.K.row(0, j)) - dot(q, k)) <= allowed);
    }
  const auto largest = [](std::span<const float> x) {
    return std::fabs(std::ranges::max(x, {}, [](float e) { return std::fabs(e); }));
  };
  CHECK(largest(turned.Q.row(0, 0)) < largest(problem.Q.row(0, 0)) / 2.0f);
}

TEST_CASE("scaled fp8 fills the range of its format, by blocks or by tensors",
          "[numerics][quick]") {
  // Rows of very different size: a block keeps the small ones, a whole tensor flushes them.
  const Problem problem = problem_of("n_q=4 n_kv=1 d=2 K=1* V=1* Q=1000,1,990,1,0.001,1e-6,1e-3,0");
  Configuration blocks{.id = "blocks",
                       .says = "",
                       .formats = parse_configuration("inputs=e4m3").formats,
                       .scaling = numerics::Scaling::blocks};
  Configuration tensor = blocks;
  tensor.scaling = numerics::Scaling::tensor;

  const Problem by_blocks = prepare(problem, blocks, 2), by_tensor = prepare(problem, tensor, 2);

  for (const Problem* prepared : {&by_blocks, &by_tensor}) {
    // The scale has 20 bits, so it lies up to 2^-19 of itself above max / 448.
    CHECK(prepared->Q(0, 0, 0) >= 1000.0f);
    CHECK(prepared->Q(0, 0, 0) <= 1000.0f * (1.0f + 0x1p-19f));
  }
  CHECK(by_tensor.Q(0, 2, 0) == 0.0f);
  CHECK(by_blocks.Q(0, 2, 0) >= 0.001f);
  CHECK(by_blocks.Q(0, 2, 0) <= 0.001f * (1.0f + 0x1p-19f));
  CHECK(by_blocks.Q(0, 3, 1) == 0.0f);
  // The second block is rounded too: 1e-6 is 0.448 of the steps that 0.001 is 448 of.
  const double code = 448.0 * double{by_blocks.Q(0, 2, 1)} / double{by_blocks.Q(0, 2, 0)};
  CHECK(code == double{round_to(format_of(FormatId::e4m3), 0.448)});
}

TEST_CASE("p times 2^8 keeps weights that fp8 would flush", "[numerics][quick]") {
  // e^-7 is below half of e4m3's smallest value, 2^-9.
  const Problem problem = problem_of("scores=7,0 V=0,1");
  Configuration plain = parse_configuration("p=e4m3");
  Configuration lifted = plain;
  lifted.p_factor = 256.0f;

  CHECK(emulate(problem, plain, 2).O(0, 0, 0) == 0.0f);
  CHECK(emulate(problem, lifted, 2).O(0, 0, 0) > 0.0f);
}

TEST_CASE("a maximum that is not unique is moved, and the answer stays", "[numerics][quick]") {
  Configuration split{.id = "split", .says = "", .formats = {}, .split_maxima = 7.0f};
  struct Example {
    const char* recipe;
    float m;
  };
  const auto example =
      GENERATE(values<Example>({{"scores=2,2,1 V=1,1,1", 14.0f},   // r > 0: beta r
                                {"scores=-2,-2,-3 V=1,1,1", 0.0f}, // r < 0: 0
                                {"scores=2,1,1 V=1,1,1", 2.0f}})); // unique: as it is
  CAPTURE(example.recipe);

  const State state = emulate(problem_of(example.recipe), split, 4);

  CHECK(state.m[0] == example.m);
  CHECK(state.O(0, 0, 0) == 1.0f); // V = 1: the sums of p and of p v are one
}

TEST_CASE("the table names each row once, and text says which stages are rounded",
          "[numerics][quick]") {
  std::set<std::string> ids;
  for (const Configuration& configuration : all_configurations())
    CHECK(ids.insert(configuration.id).second);

  CHECK(ids.size() >= 15);
  CHECK(stages_of(parse_configuration("fa2-fp16")) == "inputs fp16, p fp16, output fp16");
  CHECK(stages_of(parse_configuration("p=bf16,l=fp16")) == "p bf16, l fp16");
  CHECK(stages_of(parse_configuration("all=bf16,O=fp32,p=e4m3")) == "all bf16, p e4m3, O fp32");
  CHECK(stages_of(parse_configuration("fp32")).empty());
}

TEST_CASE("a configuration that is none is named with what would be right", "[numerics][quick]") {
  const auto says = [](const std::string& part) { return MessageMatches(ContainsSubstring(part)); };

  CHECK_THROWS_MATCHES(parse_configuration("fa4"), numerics::ConfigurationError,
                       says("'fa4' is unknown; want STAGE=FORMAT,... or one of fp32 tf32"));
  CHECK_THROWS_MATCHES(parse_configuration("p=fp12"), numerics::ConfigurationError,
                       says("'p=fp12': want STAGE=FORMAT, the format one of fp32 tf32"));
  CHECK_THROWS_MATCHES(parse_configuration("q=fp16"), numerics::ConfigurationError,
                       says("stage 'q' is unknown; want one of all inputs"));
  CHECK_THROWS_MATCHES(parse_configuration(""), numerics::ConfigurationError, says("unknown"));
  CHECK_THROWS_MATCHES(parse_configuration("p=bf16,,l=bf16"), numerics::ConfigurationError,
                       says("want STAGE=FORMAT"));
}
