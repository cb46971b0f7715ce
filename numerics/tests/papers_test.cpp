// Claims about the published results: what must come out as the papers say comes out, and every number
// of ours is measured. The rows are made once; they take some seconds.
#include "numerics/papers.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <vector>

using namespace fa1;
using numerics::PaperRow;

namespace {

const std::vector<PaperRow>& rows() {
  static const std::vector<PaperRow> all = numerics::paper_rows(2);
  return all;
}

const PaperRow& row(std::string_view source, std::string_view quantity) {
  const auto found = std::ranges::find_if(rows(), [&](const PaperRow& each) {
    return each.source.starts_with(source) && each.quantity.starts_with(quantity);
  });
  REQUIRE(found != rows().end());
  return *found;
}

} // namespace

TEST_CASE("FlashAttention-3's order comes out on every shape", "[numerics][deep]") {
  // Standard attention is the worse one in both formats, and turning Q and K helps more than blocks
  // do: what the source's ratios 1.7, 2.6, 2.6 and 1.02 say of the order.
  const PaperRow& fp16 = row("FlashAttention-3", "fp16: standard over FlashAttention");
  const PaperRow& given = row("FlashAttention-3", "fp16: standard over FlashAttention, inputs");
  const PaperRow& fp8 = row("FlashAttention-3", "fp8: standard over");
  const PaperRow& turning = row("FlashAttention-3", "fp8: without over with incoherent");
  const PaperRow& blocks = row("FlashAttention-3", "fp8: without over with block");

  CHECK(fp16.low > 1.0);
  CHECK(given.low > fp16.high); // what both lose in the inputs hides the difference
  CHECK(fp8.low > 1.0);
  CHECK(turning.low > 1.0);
  CHECK(turning.low > blocks.high);
}

TEST_CASE("with every intermediate in bf16 tiles lose to whole rows, with fp32 carries they win",
          "[numerics][deep]") {
  CHECK(row("Golden", "every intermediate bf16").low > 1.0);
  CHECK(row("Golden", "the same: 8192 keys over 512").ours > 1.0);
  CHECK(row("Golden", "the same: tiles of 16 over tiles of 256").ours > 1.0);
  CHECK(row("Golden", "scores, l and O in fp32").high < 1.0);
}

TEST_CASE("Qiu and Yao's bias comes out, and without the residue or with the fix it is gone",
          "[numerics][deep]") {
  const PaperRow& example = row("Qiu", "-2.40625 and");
  const PaperRow& error = row("Qiu", "the same: error");
  const PaperRow& bias = row("Qiu", "mean error of sum p v, a residue");
  const PaperRow& none = row("Qiu", "mean error of sum p v, no residue");
  const PaperRow& fixed = row("Qiu", "mean error of sum p v, their fix");

  CHECK(example.ours == example.theirs);
  CHECK(error.ours == error.theirs);
  // Half of the sums are ties, which all go one way: -1/4 ulp, and the residue of 2^-11, 1/64 ulp.
  // O l gives the sum to a few roundings of fp32, each at most 2^-16 ulp of bf16.
  const double fp32 = 4 * 0x1p-16;
  CHECK(std::fabs(bias.ours - (-0.25 + 1.0 / 64)) <= fp32);
  CHECK(std::fabs(bias.ours - bias.theirs) < 0.0005); // their three digits
  CHECK(std::fabs(none.ours) <= fp32);
  // Errors uniform within half an ulp have a mean of standard deviation 1 / sqrt(12 n). The pairs
  // make 255 different sums, k of them once or twice for k up to 128: they count for
  // n = 16384^2 / sum k^2 = 192 independent ones. Five deviations, for each maximum.
  const double deviation = 1.0 / std::sqrt(12.0 * 192.0);
  CHECK(fixed.high <= 5.0 * deviation);
  CHECK(fixed.low >= -5.0 * deviation);
}

TEST_CASE("every row of the papers says where it comes from and what differs", "[numerics][deep]") {
  CHECK(rows().size() >= 18);
  for (const PaperRow& each : rows()) {
    CAPTURE(each.source, each.quantity);
    CHECK(std::isfinite(each.ours));
    CHECK(each.low <= each.ours);
    CHECK(each.ours <= each.high);
    CHECK_FALSE(each.shapes.empty());
    CHECK_FALSE(each.differs.empty());
    CHECK((!std::isnan(each.theirs) || !each.says.empty())); // a number or a direction
  }
}
