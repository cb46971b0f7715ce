#include "numerics/claim.hpp"

#include "numerics/error.hpp"
#include "numerics/ulp.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

namespace fa1::numerics {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

using Expression = std::function<double(const ClaimTerms&)>;

// ---------------------------------------------------------------------------------------------------
// Reading
// ---------------------------------------------------------------------------------------------------

struct NumberKey {
  const char* name;
  double least, most;           ///< that a recipe can have here
  double open_from, open_up_to; ///< where the claim does not say
  bool whole;
};

constexpr auto kNumberKeys = std::to_array<NumberKey>({{"n_kv", 1, 1 << 20, 1, 1024, true},
                                                       {"d", 1, 256, 1, 64, true},
                                                       {"dv", 1, 256, 0, 0, true},
                                                       {"n_q", 1, 1 << 20, 1, 8, true},
                                                       {"sigma", 1e-30, 1e30, 0.00390625, 4, false},
                                                       {"gap", 1e-3, 1e4, 1, 32, false}});

constexpr std::array<std::string_view, 4> kWordKeys{"dist", "order", "v", "kernel"};

constexpr const char* kKnownKeys = "n_kv d dv n_q sigma gap dist order v kernel";

class Reader {
public:
  explicit Reader(std::string_view text) : text_(text) {}

  Claim claim();

private:
  struct Range {
    std::optional<double> from, up_to;
  };

  [[noreturn]] void fail(std::size_t at, const std::string& want) const {
    throw ClaimError(fmt::format("claim: column {}, '{}<here>{}': want {}", at + 1,
                                 text_.substr(0, at), text_.substr(at), want));
  }
  void skip_blanks() { at_ = std::min(text_.find_first_not_of(" \t", at_), text_.size()); }
  bool at_end() {
    skip_blanks();
    return at_ == text_.size();
  }
  bool take(std::string_view sign) {
    skip_blanks();
    const bool there = text_.substr(at_).starts_with(sign);
    at_ += there ? sign.size() : 0;
    return there;
  }
  /// A name, without going past it.
  std::string_view name() {
    skip_blanks();
    std::size_t end = at_;
    while (end < text_.size() &&
           (std::isalnum(static_cast<unsigned char>(text_[end])) != 0 || text_[end] == '_'))
      ++end;
    return text_.substr(at_, end - at_);
  }
  bool take_word(std::string_view word) {
    if (name() != word)
      return false;
    at_ += word.size();
    return true;
  }
  double number(const char* want);

  Expression sum();
  Expression product();
  Expression factor();
  Expression power();
  Expression atom();

  void condition();
  void number_condition(const NumberKey& key);
  void word_condition(std::string_view key);
  std::string values(const NumberKey& key) const;
  void name_kernels(const std::string& list, std::size_t at);

  std::string_view text_;
  std::size_t at_ = 0;
  Claim claim_;
  std::map<std::string, Range, std::less<>> ranges_;
  std::map<std::string, std::string, std::less<>> lists_;
  std::size_t kernel_at_ = 0;
};

double Reader::number(const char* want) {
  skip_blanks();
  double value = 0.0;
  const char* const begin = text_.data() + at_;
  const std::size_t stop = std::min(text_.find("..", at_), text_.size()); // `5..20` is no `5.`
  const auto [end, error] = std::from_chars(begin, text_.data() + stop, value);
  if (error != std::errc{} || !std::isfinite(value))
    fail(at_, want);
  at_ += static_cast<std::size_t>(end - begin);
  return value;
}

Expression Reader::sum() {
  Expression left = product();
  for (;;) {
    const bool plus = take("+");
    if (!plus && !take("-"))
      return left;
    left = [left, right = product(), plus](const ClaimTerms& t) {
      return plus ? left(t) + right(t) : left(t) - right(t);
    };
  }
}

Expression Reader::product() {
  Expression left = factor();
  for (;;) {
    const bool times = take("*");
    if (!times && !take("/"))
      return left;
    left = [left, right = factor(), times](const ClaimTerms& t) {
      return times ? left(t) * right(t) : left(t) / right(t);
    };
  }
}

Expression Reader::factor() {
  if (take("-"))
    return [inner = factor()](const ClaimTerms& t) { return -inner(t); };
  return power();
}

Expression Reader::power() {
  Expression base = atom();
  if (!take("^"))
    return base;
  return
      [base, exponent = factor()](const ClaimTerms& t) { return std::pow(base(t), exponent(t)); };
}

Expression Reader::atom() {
  constexpr const char* kWant =
      "a number, '(', sqrt(, log2( or one of u sum_p_v bound o n_q n_kv d "
      "sigma Bc";
  if (take("(")) {
    Expression inner = sum();
    if (!take(")"))
      fail(at_, "')'");
    return inner;
  }
  const std::string_view word = name();
  if (word == "sqrt" || word == "log2") {
    at_ += word.size();
    if (!take("("))
      fail(at_, "'('");
    Expression inner = sum();
    if (!take(")"))
      fail(at_, "')'");
    if (word == "sqrt")
      return [inner](const ClaimTerms& t) { return std::sqrt(inner(t)); };
    return [inner](const ClaimTerms& t) { return std::log2(inner(t)); };
  }
  if (take_word("u"))
    return [](const ClaimTerms&) { return kU; };
  static const std::map<std::string_view, double ClaimTerms::*> kTerms{
      {"sum_p_v", &ClaimTerms::sum_p_v}, {"bound", &ClaimTerms::bound}, {"o", &ClaimTerms::o},
      {"n_q", &ClaimTerms::n_q},         {"n_kv", &ClaimTerms::n_kv},   {"d", &ClaimTerms::d},
      {"sigma", &ClaimTerms::sigma},     {"Bc", &ClaimTerms::Bc}};
  if (const auto term = kTerms.find(word); term != kTerms.end()) {
    at_ += word.size();
    return [which = term->second](const ClaimTerms& t) { return t.*which; };
  }
  const double value = number(kWant);
  return [value](const ClaimTerms&) { return value; };
}

void Reader::number_condition(const NumberKey& key) {
  Range& range = ranges_[key.name];
  const auto read = [&] {
    skip_blanks();
    const std::size_t start = at_;
    const double value = number("a number");
    if (!(key.least <= value && value <= key.most) || (key.whole && value != std::floor(value)))
      fail(start, fmt::format("{} from {} to {}", key.whole ? "a whole number" : "a number",
                              key.least, key.most));
    return value;
  };
  const auto at_most = [&](double value) {
    range.up_to = std::min(value, range.up_to.value_or(value));
  };
  const auto at_least = [&](double value) {
    range.from = std::max(value, range.from.value_or(value));
  };
  if (take("<=")) {
    at_most(read());
  } else if (take(">=")) {
    at_least(read());
  } else if (take_word("in")) {
    at_least(read());
    if (!take(".."))
      fail(at_, "'..'");
    at_most(read());
  } else if (take("=")) {
    const double value = read();
    at_least(value);
    at_most(value);
  } else {
    fail(at_, "<=, >=, = or in a..b");
  }
  if (range.from && range.up_to && *range.from > *range.up_to)
    fail(at_, fmt::format("a range of {} that is not empty", key.name));
}

void Reader::word_condition(std::string_view key) {
  if (!take("="))
    fail(at_, "=");
  skip_blanks();
  const std::size_t end = std::min(text_.find_first_of(" \t", at_), text_.size());
  const std::string list(text_.substr(at_, end - at_));
  if (key == "kernel") {
    kernel_at_ = at_;
  } else {
    try {
      for (const std::string& value : parse_axis(fmt::format("{}={}", key, list)).values)
        reference::parse_recipe(fmt::format("{}={}", key, value));
    } catch (const std::runtime_error& error) {
      fail(at_, fmt::format("a value that a recipe takes ({})", error.what()));
    }
  }
  if (!lists_.emplace(key, list).second)
    fail(at_, fmt::format("{} once", key));
  at_ = end;
}

void Reader::condition() {
  const std::string_view key = name();
  for (const NumberKey& known : kNumberKeys)
    if (key == known.name) {
      at_ += key.size();
      return number_condition(known);
    }
  for (const std::string_view known : kWordKeys)
    if (key == known) {
      at_ += key.size();
      return word_condition(known);
    }
  fail(at_, fmt::format("a condition on one of {}", kKnownKeys));
}

/// The values of a number that are tried, as a list of sweep.hpp.
std::string Reader::values(const NumberKey& key) const {
  const auto said = ranges_.find(key.name);
  const Range range = said == ranges_.end() ? Range{} : said->second;
  double up_to = range.up_to.value_or(std::max(key.open_up_to, range.from.value_or(0.0)));
  if (!key.whole) {
    const double from = range.from.value_or(std::min(key.open_from, up_to));
    return from == up_to ? fmt::format("{}", from) : fmt::format("{}..{}:17", from, up_to);
  }
  const double from = range.from.value_or(key.least);
  std::set<std::int64_t> tried{static_cast<std::int64_t>(from), static_cast<std::int64_t>(up_to)};
  for (std::int64_t power = 1; static_cast<double>(power) <= up_to; power *= 2)
    for (const std::int64_t x : {power, power + power / 2})
      if (from <= static_cast<double>(x) && static_cast<double>(x) <= up_to)
        tried.insert(x);
  return fmt::format("{}", fmt::join(tried, ","));
}

void Reader::name_kernels(const std::string& list, std::size_t at) {
  Axis axis{"kernel", {}};
  for (const std::string& asked : parse_axis("kernel=" + list).values) {
    const std::size_t before = axis.values.size();
    for (const auto table :
         {kernels::all_kernels(), kernels::all_mutants(), kernels::all_rewrites()})
      for (const kernels::Kernel& kernel : table) {
        const std::string_view id = kernel.id;
        const bool named =
            id.starts_with(asked) &&
            (id.size() == asked.size() || id[asked.size()] == '.' || id[asked.size()] == 'x');
        if (!named || kernel.backend != kernels::Backend::cpu)
          continue;
        // An id of its own is that instance; else all D of one tile are one value.
        const std::string value = id == asked
                                      ? asked
                                      : fmt::format("{}.Br{}xBc{}{}", kernel.variant, kernel.Br,
                                                    kernel.Bc, id.substr(id.rfind('.')));
        std::vector<const kernels::Kernel*>& instances = claim_.instances[value];
        if (instances.empty())
          axis.values.push_back(value);
        instances.push_back(&kernel);
      }
    if (axis.values.size() == before)
      fail(at, "a kernel of `fa1lab list kernels` that runs on the CPU, named once");
  }
  for (auto& [value, instances] : claim_.instances)
    std::ranges::stable_sort(instances, {}, &kernels::Kernel::D);
  claim_.axes.push_back(std::move(axis));
}

Claim Reader::claim() {
  if (take_word("error"))
    claim_.quantity = Quantity::error;
  else if (take_word("rms"))
    claim_.quantity = Quantity::rms;
  else if (take_word("bias"))
    claim_.quantity = Quantity::bias;
  else
    fail(at_, "error, rms or bias");
  if (!take("<="))
    fail(at_, "<=");
  claim_.allowed = sum();
  if (!at_end()) {
    if (!take_word("for"))
      fail(at_, "an operator, 'for' and conditions, or the end");
    do {
      condition();
      take_word("and");
    } while (!at_end());
  }
  for (const NumberKey& key : kNumberKeys)
    if (key.open_up_to > 0.0 || ranges_.contains(key.name))
      claim_.axes.push_back(parse_axis(fmt::format("{}={}", key.name, values(key))));
  const std::vector<Axis> open = open_axes("");
  for (const std::string_view key : kWordKeys) {
    const auto said = lists_.find(key);
    if (key == "kernel")
      name_kernels(said == lists_.end() ? "fa1" : said->second, kernel_at_);
    else if (said == lists_.end())
      claim_.axes.push_back(*std::ranges::find(open, key, &Axis::key));
    else
      claim_.axes.push_back(parse_axis(fmt::format("{}={}", key, said->second)));
  }
  return std::move(claim_);
}

// ---------------------------------------------------------------------------------------------------
// Weighing
// ---------------------------------------------------------------------------------------------------

ClaimCase compared(double quantity, double allowed, const reference::Recipe& recipe) {
  if (std::isnan(allowed))
    throw ClaimError(fmt::format("claim: the expression is no number for '{}'; want one that is",
                                 reference::to_string(recipe)));
  const bool inside = quantity <= allowed;
  const double ratio = allowed > 0.0 ? quantity / allowed : inside ? 0.0 : kInfinity;
  return {quantity, allowed, ratio};
}

/// The smallest instance that serves the shape; nullptr: none does.
const kernels::Kernel* instance_for(const Claim& claim, std::string_view kernel,
                                    const reference::Shape& shape) {
  for (const kernels::Kernel* instance : claim.instances.find(kernel)->second)
    if (instance->serves(shape))
      return instance;
  return nullptr;
}

std::optional<ClaimCase> try_case(const Claim& claim, const reference::Recipe& recipe,
                                  std::string_view name) {
  const reference::Shape shape = reference::shape_of(recipe);
  const kernels::Kernel* kernel = instance_for(claim, name, shape);
  if (kernel == nullptr || !reference::fits_memory(shape, shape.n_kv))
    return std::nullopt;
  const JudgedRun run = judged_run(reference::make_problem(recipe), *kernel);
  if (!run.counts())
    return std::nullopt;
  return weigh(claim, run, recipe, *kernel);
}

} // namespace

Claim parse_claim(std::string_view text) { return Reader(text).claim(); }

ClaimCase weigh(const Claim& claim, const JudgedRun& run, const reference::Recipe& recipe,
                const kernels::Kernel& kernel) {
  const reference::Shape shape = reference::shape_of(recipe);
  ClaimTerms terms;
  terms.n_q = static_cast<double>(shape.n_q);
  terms.n_kv = static_cast<double>(shape.n_kv);
  terms.d = static_cast<double>(shape.d);
  terms.sigma = double{recipe.sigma};
  terms.Bc = kernel.Bc;

  const std::size_t count = run.truth.O.elements().size();
  const double p = claim.quantity == Quantity::rms ? 2.0 : 1.0;
  ClaimCase worst;
  double errors = 0.0, radii = 0.0, sum_p_v = 0.0, bounds = 0.0, outputs = 0.0;
  for (std::size_t e = 0; e < count; ++e) {
    const reference::Enclosed& truth = run.truth.O.elements()[e];
    const float got = run.state.O.elements()[e];
    const double error = std::isfinite(got) ? error_of(got, truth) : kInfinity;
    terms.sum_p_v = run.bounds.weighted.elements()[e];
    terms.bound = run.bounds.O.elements()[e];
    terms.o = std::fabs(truth.hi);
    if (claim.quantity == Quantity::error) {
      const double certain = std::max(0.0, std::fabs(error) - truth.radius);
      const ClaimCase here = compared(certain, claim.allowed(terms), recipe);
      if (e == 0 || here.ratio > worst.ratio)
        worst = here;
    }
    errors += claim.quantity == Quantity::bias ? error : std::pow(error, 2.0);
    radii += std::pow(truth.radius, p);
    sum_p_v += std::pow(terms.sum_p_v, p);
    bounds += std::pow(terms.bound, p);
    outputs += std::pow(terms.o, p);
  }
  if (claim.quantity == Quantity::error)
    return worst;
  const auto mean = [&](double sum) {
    return std::pow(std::fabs(sum) / static_cast<double>(count), 1.0 / p);
  };
  terms.sum_p_v = mean(sum_p_v);
  terms.bound = mean(bounds);
  terms.o = mean(outputs);
  return compared(std::max(0.0, mean(errors) - mean(radii)), claim.allowed(terms), recipe);
}

ClaimAnswer test_claim(const Claim& claim, std::uint64_t seed, const Budget& budget,
                       unsigned threads) {
  const Grid grid("", claim.axes);
  const Score score = [&](const reference::Recipe& recipe, std::string_view kernel) {
    const auto tried = try_case(claim, recipe, kernel);
    return tried ? tried->ratio : kNaN;
  };
  Account account(budget);
  Evolution evolution(grid, score, seed);
  const auto refuted = [&] { return !evolution.best().empty() && evolution.best()[0].value > 1.0; };
  for (std::size_t count = account.next(); count > 0 && !refuted(); count = account.next()) {
    evolution.generation(threads, count);
    account.spend(count);
  }

  ClaimAnswer answer;
  answer.refuted = refuted();
  answer.evaluations = account.evaluations();
  answer.counted = evolution.counted();
  if (evolution.best().empty())
    return answer;
  Candidate closest = evolution.best()[0];
  for (bool smaller = answer.refuted; smaller;) {
    smaller = false;
    for (std::size_t a = 0; a < grid.axes().size(); ++a) {
      if (grid.axes()[a].key == "kernel")
        continue;
      for (std::uint64_t digit = 0; digit < digit_of(grid, closest.point, a); ++digit) {
        Candidate simpler = closest;
        simpler.point = with_digit(grid, closest.point, a, digit);
        const GridPoint point = evolution.at(simpler);
        if (!(score(point.recipe, point.kernel) > 1.0))
          continue;
        closest = simpler;
        smaller = true;
        break;
      }
    }
  }
  const GridPoint point = evolution.at(closest);
  answer.recipe = point.recipe;
  answer.kernel = instance_for(claim, point.kernel, reference::shape_of(point.recipe));
  answer.closest = *try_case(claim, point.recipe, point.kernel);
  return answer;
}

} // namespace fa1::numerics
