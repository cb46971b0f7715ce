#include "kernels/traffic.hpp"

#include "kernels/launch.hpp"
#include "kernels/tiling.hpp"

#include <algorithm>
#include <cctype>
#include <map>
#include <utility>

namespace fa1::kernels {
namespace {

/// A recursive descent: sum = product {(+|-) product}, product = factor {factor}.
class Formula {
public:
  Formula(std::string_view text, std::map<std::string_view, std::int64_t> symbols)
      : text_(text), symbols_(std::move(symbols)) {}

  Traffic evaluate() {
    Traffic traffic;
    if (const std::size_t colon = text_.find(':'); colon != std::string_view::npos)
      at_ = colon + 1;
    do {
      const std::string_view direction = word();
      if (direction != "read" && direction != "write")
        fail("want `read` or `write`");
      do {
        Traffic::OfArray& array = traffic.arrays[array_of(word())];
        (direction == "read" ? array.read : array.written) += sum();
      } while (take(','));
    } while (take(';'));
    if (peek() != '\0')
      fail("want a `,`, a `;` or the end");
    return traffic;
  }

private:
  [[noreturn]] void fail(const std::string& want) const {
    throw KernelError("traffic formula '" + std::string(text_) + "': at '" +
                      std::string(text_.substr(at_)) + "' " + want);
  }

  char peek() {
    while (at_ < text_.size() && text_[at_] == ' ')
      ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool take(char wanted) {
    if (peek() != wanted)
      return false;
    ++at_;
    return true;
  }
  static bool in_word(char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '\'';
  }
  std::string_view word() {
    peek();
    const std::size_t begin = at_;
    while (at_ < text_.size() && in_word(text_[at_]))
      ++at_;
    if (at_ == begin)
      fail("want a word");
    return text_.substr(begin, at_ - begin);
  }

  std::size_t array_of(std::string_view name) const {
    const std::string_view known = name == "LSE"                     ? "m"
                                   : name == "S" || name == "states" ? "scratch"
                                                                     : name;
    const auto found = std::ranges::find(Traffic::kArrays, known);
    if (found == Traffic::kArrays.end())
      fail("'" + std::string(name) + "' is no array; want Q, K, V, O, l, m, LSE, S or states");
    return static_cast<std::size_t>(found - Traffic::kArrays.begin());
  }

  std::int64_t sum() {
    std::int64_t value = product();
    while (true) {
      if (take('+'))
        value += product();
      else if (take('-'))
        value -= product();
      else
        return value;
    }
  }
  std::int64_t product() {
    std::int64_t value = factor();
    while (in_word(peek()) || peek() == '(')
      value *= factor();
    return value;
  }
  std::int64_t factor() {
    if (take('(')) {
      const std::int64_t value = sum();
      if (!take(')'))
        fail("want a `)`");
      return value;
    }
    const std::string_view name = word();
    if (std::isdigit(static_cast<unsigned char>(name.front())) != 0)
      return std::stoll(std::string(name));
    const auto symbol = symbols_.find(name);
    if (symbol == symbols_.end())
      fail("'" + std::string(name) + "' is no symbol; want n_q, n_kv, D, Br, Bc, Tr, Tc, R or R'");
    return symbol->second;
  }

  std::string_view text_;
  std::map<std::string_view, std::int64_t> symbols_;
  std::size_t at_ = 0;
};

} // namespace

std::int64_t Traffic::total() const {
  std::int64_t sum = 0;
  for (const OfArray& array : arrays)
    sum += array.read + array.written;
  return sum;
}

Traffic evaluate_traffic(std::string_view formula, const Shape& shape, int Br, int Bc, int D) {
  const std::int64_t Tr = parts(shape.n_q, Br), Tc = parts(shape.n_kv, Bc);
  Traffic traffic = Formula(formula, {{"n_q", shape.n_q},
                                      {"n_kv", shape.n_kv},
                                      {"D", D},
                                      {"Br", Br},
                                      {"Bc", Bc},
                                      {"Tr", Tr},
                                      {"Tc", Tc},
                                      {"R", kKeyRanges},
                                      {"R'", ranges_used(Tc)}})
                        .evaluate();
  for (Traffic::OfArray& array : traffic.arrays) {
    array.read *= shape.batch_heads;
    array.written *= shape.batch_heads;
  }
  return traffic;
}

Traffic predicted_traffic(const Kernel& kernel, const Shape& shape) {
  if (kernel.traffic.empty())
    throw KernelError("kernel '" + kernel.id +
                      "' tells no closed form of its traffic; a row of "
                      "variants.def does");
  if (shape.n_kv == 0 || shape.n_q == 0)
    return {}; // nothing is launched
  return evaluate_traffic(kernel.traffic, shape, kernel.Br, kernel.Bc, kernel.D);
}

bool traffic_is_counted(const Kernel& kernel) { return kernel.count != nullptr; }

LaunchCounts counted_traffic(const Kernel& kernel, const Problem& problem) {
  if (!traffic_is_counted(kernel))
    throw KernelError("kernel '" + kernel.id +
                      "' has no counting instance; the kernels of "
                      "variants.def on the CPU have");
  State outputs = reference::start_state(problem.shape);
  return kernel.count(arguments_of(problem, outputs, false));
}

std::int64_t extra_memory(const Kernel& kernel, const Shape& shape) {
  return 2 * shape.batch_heads * shape.n_q + (kernel.scratch ? kernel.scratch(shape) : 0);
}

} // namespace fa1::kernels
