#include "numerics/emulation.hpp"

#include "reference/recipe.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

namespace fa1::numerics {
namespace {

using reference::Problem;
using reference::State;
using reference::Tensor;

constexpr std::array<std::string_view, kStages> kStageNames{
    "inputs", "accumulator", "dot",     "scores", "argument",  "exp", "p",
    "sum",    "pv",          "carried", "l",      "numerator", "O",   "output"};

using Roundings = std::vector<std::pair<Stage, FormatId>>;

std::array<FormatId, kStages> stages(const Roundings& roundings) {
  std::array<FormatId, kStages> formats{};
  for (const auto& [stage, format] : roundings)
    formats[static_cast<std::size_t>(stage)] = format;
  return formats;
}

std::array<FormatId, kStages> all_stages(FormatId format) {
  std::array<FormatId, kStages> formats{};
  formats.fill(format);
  return formats;
}

/// Everything that has a name, while the sums themselves stay in the fp32 registers of a matrix unit.
std::array<FormatId, kStages> all_but_accumulators(FormatId format) {
  auto formats = all_stages(format);
  formats[static_cast<std::size_t>(Stage::accumulator)] = FormatId::fp32;
  return formats;
}

/// Whole rows; scores and weights are stored in `format` between two matrix products.
Configuration standard(std::string id, FormatId format) {
  using enum Stage;
  return {.id = std::move(id),
          .says = "standard attention: scores, softmax and output are tensors of this format",
          .formats = stages(
              {{inputs, format}, {dot, format}, {scores, format}, {p, format}, {output, format}}),
          .one_tile = true,
          .normalised = true};
}

Configuration tiled(std::string id, FormatId format) {
  using enum Stage;
  return {.id = std::move(id),
          .says = "FlashAttention-2 and 3: operands of both products, everything else fp32",
          .formats = stages({{inputs, format}, {p, format}, {output, format}})};
}

Configuration fp8(std::string id, Scaling scaling, bool turned, std::string says) {
  using enum Stage;
  return {.id = std::move(id),
          .says = std::move(says),
          .formats =
              stages({{inputs, FormatId::e4m3}, {p, FormatId::e4m3}, {output, FormatId::fp16}}),
          .scaling = scaling,
          .turned = turned,
          .p_factor = 256.0f};
}

Configuration single(Stage stage, std::string says) {
  return {.id = fmt::format("bf16-{}", name_of(stage)),
          .says = std::move(says),
          .formats = stages({{stage, FormatId::bf16}})};
}

Configuration unnormalised(std::string id, float split_maxima, std::string says) {
  using enum Stage;
  return {.id = std::move(id),
          .says = std::move(says),
          .formats = stages({{inputs, FormatId::bf16}, {p, FormatId::bf16}, {pv, FormatId::bf16}}),
          .split_maxima = split_maxima};
}

std::vector<Configuration> table() {
  using enum Stage;
  return {
      {.id = "fp32", .says = "the kernel as it is", .formats = {}},
      {.id = "tf32",
       .says = "operands of both products, everything else fp32",
       .formats = stages({{inputs, FormatId::tf32}, {p, FormatId::tf32}})},
      standard("standard-fp16", FormatId::fp16),
      standard("standard-bf16", FormatId::bf16),
      tiled("fa2-fp16", FormatId::fp16),
      tiled("fa2-bf16", FormatId::bf16),
      {.id = "standard-fp8",
       .says = "standard attention: inputs scaled as whole tensors, scores and weights in fp16",
       .formats = stages({{inputs, FormatId::e4m3},
                          {dot, FormatId::fp16},
                          {scores, FormatId::fp16},
                          {p, FormatId::fp16},
                          {output, FormatId::fp16}}),
       .scaling = Scaling::tensor,
       .one_tile = true,
       .normalised = true},
      fp8("fa3-fp8", Scaling::blocks, true,
          "FlashAttention-3: inputs scaled in blocks, Q and K turned, p times 2^8"),
      fp8("fa3-fp8-tensor", Scaling::tensor, true, "the same, inputs scaled as whole tensors"),
      fp8("fa3-fp8-unturned", Scaling::blocks, false, "the same, scaled in blocks and not turned"),
      single(inputs, "inputs alone"),
      single(scores, "scores alone"),
      single(p, "p before it meets V, alone"),
      single(l, "the carry l alone"),
      single(O, "the carry O alone"),
      single(output, "the output alone"),
      {.id = "bf16-intermediates",
       .says = "every value that has a name, sums in fp32 registers (Golden et al.)",
       .formats = all_but_accumulators(FormatId::bf16)},
      {.id = "bf16-everything",
       .says = "every single operation",
       .formats = all_stages(FormatId::bf16)},
      unnormalised("bf16-pv", 0.0f, "sum p v rounded before the division (Qiu and Yao)"),
      unnormalised("bf16-pv-split", 7.0f,
                   "the same where a maximum that is not unique is moved (Qiu and Yao's fix)"),
  };
}

std::string ids() {
  std::string names;
  for (const Configuration& configuration : all_configurations())
    names += (names.empty() ? "" : " ") + configuration.id;
  return names;
}

// ---------------------------------------------------------------------------------------------------
// Inputs

/// Random signs, then the Hadamard transform of each row divided by sqrt(width).
Tensor<float> turned(const Tensor<float>& rows, std::span<const float> signs) {
  const std::size_t width = signs.size();
  Tensor<float> out(rows.batch_heads(), rows.rows(), static_cast<std::int64_t>(width));
  const double norm = 1.0 / std::sqrt(static_cast<double>(width));
  std::vector<double> x(width);
  for (std::int64_t bh = 0; bh < rows.batch_heads(); ++bh)
    for (std::int64_t r = 0; r < rows.rows(); ++r) {
      std::ranges::fill(x, 0.0);
      const auto row = rows.row(bh, r);
      for (std::size_t i = 0; i < row.size(); ++i)
        x[i] = double{row[i]} * double{signs[i]};
      for (std::size_t half = 1; half < width; half *= 2)
        for (std::size_t block = 0; block < width; block += 2 * half)
          for (std::size_t i = block; i < block + half; ++i) {
            const double a = x[i], b = x[i + half];
            x[i] = a + b;
            x[i + half] = a - b;
          }
      for (std::size_t i = 0; i < width; ++i)
        out(bh, r, static_cast<std::int64_t>(i)) = static_cast<float>(x[i] * norm);
    }
  return out;
}

/// +1 or -1 each, a function of seed alone.
std::vector<float> random_signs(std::size_t count, std::uint64_t seed) {
  reference::Recipe recipe;
  recipe.d = static_cast<std::int64_t>(count);
  recipe.seed = seed;
  recipe.v = reference::Family::uniform;
  std::vector<float> signs(count);
  // Rows of V play no part in Q and K of the same seed.
  reference::make_rows(recipe, reference::Matrix::V, 0, 0, 1, signs.data());
  for (float& sign : signs)
    sign = std::signbit(sign) ? -1.0f : 1.0f;
  return signs;
}

/// The scale of numbers up to `most`, of 20 bits: times a value of a format of up to 4 it is exact.
float scale_for(const Format& format, float most) {
  if (!(most > 0.0f) || !std::isfinite(most))
    return 1.0f;
  constexpr int kDropped = 4;
  const auto exact = static_cast<float>(double{most} / format.largest());
  const auto bits = std::bit_cast<std::uint32_t>(exact) + (1u << kDropped);
  return std::bit_cast<float>(bits >> kDropped << kDropped);
}

void round_numbers(std::span<float> numbers, const Format& format, bool scaled) {
  float most = 0.0f;
  for (const float x : numbers)
    most = std::fmax(most, std::fabs(x));
  const float s = scaled ? scale_for(format, most) : 1.0f;
  for (float& x : numbers) {
    const double quotient = double{x} / double{s};
    const double rest = std::fma(-quotient, double{s}, double{x}) / double{s};
    x = s * round_to(format, reference::Pair{quotient, rest});
  }
}

void round_tensor(Tensor<float>& tensor, const Configuration& configuration, std::int64_t Bc) {
  const Format& format = format_of(configuration.format(Stage::inputs));
  if (configuration.scaling != Scaling::blocks)
    return round_numbers(tensor.elements(), format, configuration.scaling == Scaling::tensor);
  for (std::int64_t bh = 0; bh < tensor.batch_heads(); ++bh)
    for (std::int64_t first = 0; first < tensor.rows(); first += Bc) {
      const std::int64_t rows = std::min(Bc, tensor.rows() - first);
      const auto begin = static_cast<std::size_t>((bh * tensor.rows() + first) * tensor.columns());
      round_numbers(
          tensor.elements().subspan(begin, static_cast<std::size_t>(rows * tensor.columns())),
          format, true);
    }
}

// ---------------------------------------------------------------------------------------------------
// The recurrence

/// Rounds what was computed in fp32; nothing to do where the format is fp32.
class Rounding {
public:
  explicit Rounding(FormatId id) : format_(format_of(id)), needed_(id != FormatId::fp32) {}

  bool needed() const { return needed_; }
  float operator()(float x) const { return needed_ ? round_to(format_, double{x}) : x; }

private:
  const Format& format_;
  bool needed_;
};

struct StageRoundings {
  explicit StageRoundings(const Configuration& c)
      : accumulator(c.format(Stage::accumulator)), dot(c.format(Stage::dot)),
        scores(c.format(Stage::scores)), argument(c.format(Stage::argument)),
        exp(c.format(Stage::exp)), p(c.format(Stage::p)), sum(c.format(Stage::sum)),
        pv(c.format(Stage::pv)), carried(c.format(Stage::carried)), l(c.format(Stage::l)),
        numerator(c.format(Stage::numerator)), O(c.format(Stage::O)),
        output(c.format(Stage::output)) {}
  Rounding accumulator, dot, scores, argument, exp, p, sum, pv, carried, l, numerator, O, output;
};

/// sum + a * b, each operation rounded.
float multiply_add(const Rounding& rounded, float sum, float a, float b) {
  return rounded.needed() ? rounded(sum + rounded(a * b)) : sum + a * b;
}

/// The maximum after a tile; beta: see Configuration::split_maxima.
float maximum_after(float m_old, std::span<const float> s, float beta) {
  const auto largest_from = [s](float most) {
    for (const float score : s)
      most = std::fmax(most, score);
    return most;
  };
  if (beta == 0.0f)
    return largest_from(m_old);
  const float most = largest_from(-std::numeric_limits<float>::infinity());
  if (std::ranges::count(s, most) < 2)
    return std::fmax(m_old, most);
  return std::fmax(m_old, most > 0.0f ? beta * most : 0.0f);
}

} // namespace

std::string_view name_of(Stage stage) { return kStageNames[static_cast<std::size_t>(stage)]; }

std::span<const Configuration> all_configurations() {
  static const std::vector<Configuration> all = table();
  return all;
}

Configuration parse_configuration(std::string_view text) {
  const auto all = all_configurations();
  const auto row = std::ranges::find(all, text, &Configuration::id);
  if (row != all.end())
    return *row;
  if (text.find('=') == std::string_view::npos)
    throw ConfigurationError(
        fmt::format("configuration '{}' is unknown; want STAGE=FORMAT,... or one of {}",
                    text.substr(0, 60), ids()));
  Configuration own{.id = std::string(text), .says = "as asked", .formats = {}};
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view part = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), part.size() + 1));
    const std::size_t equals = part.find('=');
    const std::string_view stage = part.substr(0, equals);
    const std::string_view name =
        equals == std::string_view::npos ? std::string_view() : part.substr(equals + 1);
    const Format* const format = find_format(name);
    if (format == nullptr) {
      std::string known;
      for (const Format& each : all_formats())
        known += (known.empty() ? "" : " ") + std::string(each.id);
      throw ConfigurationError(fmt::format("configuration '{}': want STAGE=FORMAT, the format one "
                                           "of {}",
                                           part.substr(0, 60), known));
    }
    const auto id = static_cast<FormatId>(format - all_formats().data());
    const auto* const found = std::ranges::find(kStageNames, stage);
    if (stage == "all")
      own.formats.fill(id);
    else if (found != kStageNames.end())
      own.formats[static_cast<std::size_t>(found - kStageNames.begin())] = id;
    else
      throw ConfigurationError(
          fmt::format("configuration '{}': stage '{}' is unknown; want one of all {}",
                      part.substr(0, 60), stage.substr(0, 60), fmt::join(kStageNames, " ")));
  }
  return own;
}

std::string stages_of(const Configuration& configuration) {
  FormatId usual = FormatId::fp32; // of most stages; there are many where it is another
  for (std::size_t id = 0; id < all_formats().size(); ++id)
    if (std::ranges::count(configuration.formats, static_cast<FormatId>(id)) >
        static_cast<std::ptrdiff_t>(kStages) / 2)
      usual = static_cast<FormatId>(id);
  std::string text = usual == FormatId::fp32 ? "" : fmt::format("all {}", format_of(usual).id);
  for (std::size_t i = 0; i < kStages; ++i)
    if (configuration.formats[i] != usual)
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", kStageNames[i],
                          format_of(configuration.formats[i]).id);
  return text;
}

Problem prepare(const Problem& problem, const Configuration& configuration, std::int64_t Bc,
                std::uint64_t seed) {
  Problem prepared = problem;
  if (configuration.turned && problem.shape.d > 0) {
    const auto signs = random_signs(std::bit_ceil(static_cast<std::size_t>(problem.shape.d)), seed);
    prepared.Q = turned(problem.Q, signs);
    prepared.K = turned(problem.K, signs);
    prepared.shape.d = static_cast<std::int64_t>(signs.size());
  }
  if (configuration.format(Stage::inputs) != FormatId::fp32)
    for (Tensor<float>* const tensor : {&prepared.Q, &prepared.K, &prepared.V})
      round_tensor(*tensor, configuration, Bc);
  return prepared;
}

State emulate(const Problem& prepared, const Configuration& configuration, std::int64_t Bc) {
  const reference::Shape& shape = prepared.shape;
  const StageRoundings rounded(configuration);
  const float p_factor = configuration.p_factor, p_back = 1.0f / p_factor;
  const std::int64_t width = configuration.one_tile ? std::max(std::int64_t{1}, shape.n_kv) : Bc;
  const auto d = static_cast<std::size_t>(shape.d), dv = static_cast<std::size_t>(shape.dv);
  State carries = reference::start_state(shape);
  std::vector<float> s(static_cast<std::size_t>(std::min(width, shape.n_kv))), p(s.size()), pv(dv);
  for (std::int64_t bh = 0; bh < shape.batch_heads; ++bh)
    for (std::int64_t key0 = 0; key0 < shape.n_kv; key0 += width) {
      const auto columns = static_cast<std::size_t>(std::min(width, shape.n_kv - key0));
      for (std::int64_t row = 0; row < shape.n_q; ++row) {
        const auto at = static_cast<std::size_t>(bh * shape.n_q + row);
        const auto q = prepared.Q.row(bh, row);

        for (std::size_t c = 0; c < columns; ++c) {
          const auto k = prepared.K.row(bh, key0 + static_cast<std::int64_t>(c));
          float dot = 0.0f;
          for (std::size_t i = 0; i < d; ++i)
            dot = multiply_add(rounded.accumulator, dot, q[i], k[i]);
          s[c] = rounded.scores(rounded.dot(dot) * prepared.scale);
        }
        const float m_old = carries.m[at];
        const float m_new =
            maximum_after(m_old, std::span(s).first(columns), configuration.split_maxima);

        float sum_p = 0.0f;
        for (std::size_t c = 0; c < columns; ++c) {
          p[c] = rounded.exp(std::exp(rounded.argument(s[c] - m_new)));
          sum_p = rounded.accumulator(sum_p + p[c]);
        }
        const float alpha = rounded.exp(std::exp(rounded.argument(m_old - m_new)));
        const float carried = rounded.carried(alpha * carries.l[at]);
        const float l_new = rounded.l(carried + rounded.sum(sum_p));

        std::ranges::fill(pv, 0.0f);
        for (std::size_t c = 0; c < columns; ++c) {
          const float weight = configuration.normalised ? p[c] / l_new : p[c];
          const float met = rounded.p.needed() ? rounded.p(weight * p_factor) * p_back : weight;
          const auto v = prepared.V.row(bh, key0 + static_cast<std::int64_t>(c));
          for (std::size_t i = 0; i < dv; ++i)
            pv[i] = multiply_add(rounded.accumulator, pv[i], met, v[i]);
        }

        const auto o = carries.O.row(bh, row);
        for (std::size_t i = 0; i < dv; ++i) {
          const float product = rounded.pv(pv[i]);
          o[i] = configuration.normalised
                     ? rounded.O(product)
                     : rounded.O(rounded.numerator(rounded.numerator(carried * o[i]) + product) /
                                 l_new);
        }
        carries.l[at] = l_new;
        carries.m[at] = m_new;
      }
    }
  for (float& o : carries.O.elements())
    o = rounded.output(o);
  return carries;
}

} // namespace fa1::numerics
