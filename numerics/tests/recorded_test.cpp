// Claims about the recorded heads: what lies in the repository is what the model computed, and the heads differ in kind.

#include "numerics/bounds.hpp"
#include "numerics/diagnosis_faults.hpp"
#include "numerics/judge.hpp"
#include "numerics/ulp.hpp"
#include "reference/files/safetensors.hpp"
#include "reference/recipe.hpp"
#include "reference/recorded.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <vector>

using namespace fa1;
using namespace fa1::numerics;
using reference::RecordedHead;

namespace {

const std::string kFile = FA1_SOURCE_DIR "/numerics/recorded/heads.safetensors";

struct Statistics {
  double entropy = 0.0, sink = 0.0, diagonal = 0.0, previous = 0.0, next = 0.0, sharp = 0.0,
         distance = 0.0;
  double largest = 0.0; ///< relative: how far an fp32 weight may be from these
};

/// Of the exact weights, as numerics/recorded/record.py defines them.
Statistics statistics_of(const RecordedHead& head) {
  const reference::Problem problem =
      reference::make_problem(reference::parse_recipe("recorded=" + head.name));
  const auto n = static_cast<std::size_t>(head.rows);
  const auto rows = static_cast<double>(n);
  std::vector<double> columns(n, 0.0);
  Statistics all;
  double largest_eta = 0.0;
  for (std::size_t r = 0; r < n; ++r) {
    const auto q = problem.Q.row(0, static_cast<std::int64_t>(r));
    std::vector<double> s = dots_of(problem, {0, static_cast<std::int64_t>(r)});
    double m = -HUGE_VAL, least = HUGE_VAL, l = 0.0, most = 0.0;
    for (std::size_t j = 0; j < n; ++j) {
      s[j] *= double{problem.scale};
      m = std::max(m, s[j]);
      least = std::min(least, s[j]);
      const auto k = problem.K.row(0, static_cast<std::int64_t>(j));
      double products = 0.0;
      for (std::size_t i = 0; i < k.size(); ++i)
        products += std::fabs(double{q[i]} * double{k[i]});
      largest_eta = std::max(largest_eta, products * double{problem.scale});
    }
    for (const double x : s)
      l += std::exp(x - m);
    for (std::size_t j = 0; j < n; ++j) {
      const double p = std::exp(s[j] - m) / l;
      all.entropy -= p > 0.0 ? p * std::log(p) / rows : 0.0;
      all.distance += p * std::fabs(static_cast<double>(r) - static_cast<double>(j)) / rows;
      columns[j] += p / rows;
      most = std::max(most, p);
      if (j == r)
        all.diagonal += p / rows;
      else if (j + 1 == r)
        all.previous += p / (rows - 1.0);
      else if (j == r + 1)
        all.next += p / (rows - 1.0);
    }
    all.sharp += most / rows;
    all.largest = std::max(all.largest, m - least);
  }
  all.sink = *std::ranges::max_element(columns);
  // A computed score is off by at most (d + 1) u scale sum |q k| and, in the argument of the exponential, by u (M - s);
  // numerator and denominator each; the exponential by 2 u, the sum and the division by (n + 1) u. Second order: 1 %.
  const double in_score = kU * (static_cast<double>(head.columns + 1) * largest_eta + all.largest);
  all.largest = 1.01 * std::expm1(2.0 * in_score + (rows + 5.0) * kU);
  return all;
}

std::vector<std::string> names() {
  std::vector<std::string> all;
  for (const RecordedHead& head : reference::recording().heads)
    all.push_back(head.name);
  return all;
}

/// The verdict on the model's own output `o`, as the output of head `name`.
JudgeRecord judged(const std::string& name, const std::string& o) {
  const reference::SafetensorsFile file(std::make_shared<reference::FileSource>(kFile));
  JudgeOptions options;
  options.rows = 16;
  options.declared = find_declared("fp32");
  return judge_files({file.array(name + ".q"),
                      file.array(name + ".k"),
                      file.array(name + ".v"),
                      {file.array(o + ".o")},
                      {}},
                     options);
}

} // namespace

TEST_CASE("the recorded heads are a dozen, of one shape, in at most 4 MiB", "[numerics][quick]") {
  const auto& heads = reference::recording().heads;

  CHECK(heads.size() == 12);
  CHECK(std::filesystem::file_size(kFile) <= std::uintmax_t{4} << 20);
  for (const RecordedHead& head : heads) {
    CAPTURE(head.name);
    CHECK(head.rows == 512);
    CHECK(head.columns == 32);
    CHECK(head.scale == 0x1.6a09e6p-3f); // fp32(1 / sqrt 32)
    CHECK(head.name.starts_with(head.kind + "-l"));
  }
}

TEST_CASE("the weights of the recorded Q and K are those that the model made",
          "[numerics][quick]") {
  for (const RecordedHead& head : reference::recording().heads) {
    CAPTURE(head.name);
    const Statistics exact = statistics_of(head);
    const double e = exact.largest;
    CAPTURE(e);
    REQUIRE(e < 2e-3); // else the claims below say little

    CHECK(std::fabs(head.sink - exact.sink) <= e * exact.sink);
    CHECK(std::fabs(head.diagonal - exact.diagonal) <= e * exact.diagonal);
    CHECK(std::fabs(head.previous - exact.previous) <= e * exact.previous);
    CHECK(std::fabs(head.next - exact.next) <= e * exact.next);
    CHECK(std::fabs(head.sharp - exact.sharp) <= e * exact.sharp);
    CHECK(std::fabs(head.distance - exact.distance) <= e * exact.distance);
    // The derivative of p ln p is ln p + 1.
    CHECK(std::fabs(head.entropy - exact.entropy) <= e * (exact.entropy + 1.0));
  }
}

TEST_CASE("the recorded heads differ in kind: sinks, flat ones, sharp ones and neighbours",
          "[numerics][quick]") {
  std::set<std::string> kinds;
  for (const RecordedHead& head : reference::recording().heads) {
    CAPTURE(head.name);
    kinds.insert(head.kind);
    const double part = head.entropy / std::log(static_cast<double>(head.rows)); // 1: uniform
    CHECK(part >= 0.0);
    CHECK(part <= 1.0);
    if (head.kind == "flat")
      CHECK(part > 0.95);
    if (head.kind == "sink")
      CHECK(head.sink > 0.3);
    if (head.kind == "previous")
      CHECK(head.previous > 0.4);
    if (head.kind == "next")
      CHECK(head.next > 0.5);
    if (head.kind == "middle")
      CHECK(std::fabs(part - 0.5) < 0.05);
  }

  CHECK(kinds == std::set<std::string>{"diagonal", "far", "flat", "local", "middle", "next",
                                       "previous", "sharp", "sink"});
}

TEST_CASE("the model's own output is proved right on every recorded head, and no other head's is",
          "[numerics][quick]") {
  const std::vector<std::string> all = names();
  for (std::size_t i = 0; i < all.size(); ++i) {
    CAPTURE(all[i]);

    CHECK(judged(all[i], all[i]).outputs.at(0).judgement == Judgement::proved_right);
    CHECK(judged(all[i], all[(i + 1) % all.size()]).outputs.at(0).judgement ==
          Judgement::proved_wrong);
  }
}
