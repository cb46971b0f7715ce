#include "numerics/exponentials.hpp"

#include "kernels/exponentials.hpp"
#include "reference/parallel.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

namespace fa1::numerics {
namespace {

constexpr std::uint64_t kPiece = std::uint64_t{1} << 20; ///< arguments that one job asks
constexpr std::uint64_t kBlock = 256; ///< so many exact values at once, in vectors

template <Base base>
void see_block(float (*f)(float), const ArgumentRange& range, std::uint64_t first,
               std::uint64_t count, ExponentialErrors& errors) {
  std::array<std::uint32_t, kBlock> index;
  std::array<float, kBlock> x, y;
  std::array<double, kBlock> exact;
  for (std::uint64_t i = 0; i < count; ++i) {
    index[i] = range.from + static_cast<std::uint32_t>((first + i) * range.every);
    x[i] = float_at(index[i]);
  }
  for (std::uint64_t i = 0; i < count; ++i)
    y[i] = f(x[i]);
  for (std::uint64_t i = 0; i < count; ++i)
    exact[i] = exact_power<base>(x[i]);
  for (std::uint64_t i = 0; i < count; ++i)
    errors.see(index[i], x[i], y[i], exact[i]);
}

ExponentialErrors sweep(float (*f)(float), Base base, const ArgumentRange& range, unsigned threads,
                        const std::function<void(double)>& done) {
  const std::uint64_t count = range.count();
  std::vector<ExponentialErrors> pieces((count + kPiece - 1) / kPiece);
  reference::in_parallel(pieces.size(), threads, [&](std::size_t p) {
    const std::uint64_t begin = p * kPiece, end = std::min(count, begin + kPiece);
    for (std::uint64_t first = begin; first < end; first += kBlock) {
      const std::uint64_t some = std::min(kBlock, end - first);
      if (base == Base::two)
        see_block<Base::two>(f, range, first, some, pieces[p]);
      else
        see_block<Base::e>(f, range, first, some, pieces[p]);
    }
    if (done)
      done(1.0 / static_cast<double>(pieces.size()));
  });
  ExponentialErrors all;
  for (const ExponentialErrors& piece : pieces)
    all.append(piece);
  return all;
}

} // namespace

Exponential exponential_of(std::string function, std::string library, Base base,
                           float (*f)(float)) {
  return {std::move(function),
          std::move(library),
          "",
          base,
          [f, base](const ArgumentRange& range, unsigned threads,
                    const std::function<void(double)>& done) {
            return sweep(f, base, range, threads, done);
          },
          [f](std::span<const float> x) {
            std::vector<float> y(x.size());
            std::ranges::transform(x, y.begin(), f);
            return y;
          }};
}

std::vector<Exponential> host_exponentials() {
  const std::string library = kernels::host_libm();
  return {exponential_of("expf", library, Base::e, [](float x) { return std::exp(x); }),
          exponential_of("exp2f", library, Base::two, [](float x) { return std::exp2(x); })};
}

std::span<const SpecialArgument> special_arguments() {
  static constexpr std::array<SpecialArgument, 13> kSpecial{{
      {"-inf", 0xff800000u},
      {"-largest", 0xff7fffffu},
      {"-smallest_normal", 0x80800000u},
      {"-smallest", 0x80000001u},
      {"-0", 0x80000000u},
      {"+0", 0x00000000u},
      {"smallest", 0x00000001u},
      {"smallest_normal", 0x00800000u},
      {"largest", 0x7f7fffffu},
      {"inf", 0x7f800000u},
      {"nan", 0x7fc00000u},
      {"-nan", 0xffc00000u},
      {"signaling_nan", 0x7f800001u},
  }};
  return kSpecial;
}

} // namespace fa1::numerics
