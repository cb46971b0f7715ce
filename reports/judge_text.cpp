#include "reports/judge_text.hpp"

#include "reports/telling.hpp"

#include <fmt/format.h>
#include <fmt/ostream.h>

#include <cmath>
#include <string_view>

namespace fa1::reports {
namespace {

using numerics::Judged;
using numerics::JudgedErrors;
using numerics::JudgedOutput;
using numerics::JudgeRecord;

void line(std::ostream& out, std::string_view name, std::string_view text) {
  print_line(out, name, text, 11);
}

std::string text_of(const Judged& e) {
  std::string text = fmt::format("{}{} = {} ({:.9g}), truth {} ({:.9g})", e.output, to_string(e.at),
                                 hexadecimal(e.got), e.got, hexadecimal(e.truth.hi), e.truth.hi);
  if (std::isfinite(e.error))
    text += fmt::format(", error {:.3g} ulp = {:.3g} of its bound", e.ulps, e.fraction);
  return text;
}

std::string text_of(const JudgedErrors& e) {
  return fmt::format(
      "max {:.3g}, RMS {:.3g}, mean {:.3g} in 2^-24 sum p|v|; max {:.3g} ulp, {:.3g} "
      "of the bound",
      e.max_relative, e.rms_relative, e.mean_relative, e.max_ulp, e.max_fraction);
}

std::string text_of(const numerics::Spread& s) {
  return fmt::format("{:.4g} to {:.4g}, median {:.4g}", s.low, s.high, s.median);
}

void print(std::ostream& out, const JudgeRecord& r, const JudgedOutput& o, bool first,
           bool coloured) {
  line(out, "output", o.name);
  line(out, "verdict",
       coloured ? painted_verdict(o.judgement, o.why) : verdict_text(o.judgement, o.why));
  if (o.worst)
    line(out, "worst", text_of(*o.worst));
  line(out, "elements",
       fmt::format("{} proved right, {} suspicious, {} undecided, {} proved wrong", o.elements[0],
                   o.elements[1], o.elements[2], o.elements[3]));
  if (o.errors.elements > 0)
    line(out, "error", text_of(o.errors));
  if (r.plain.elements > 0)
    line(out, "plain", text_of(r.plain));
  for (std::size_t i = 0; i < o.worst_ten.size(); ++i)
    line(out, i == 0 ? "beyond" : "", text_of(o.worst_ten[i]));
  for (std::size_t i = 0; i < o.not_finite.size(); ++i)
    line(out, i == 0 ? "NaN, Inf" : "", o.not_finite[i]);
  for (std::size_t i = 0; i < o.looks_like.size(); ++i)
    line(out, i == 0 ? "looks like" : "", o.looks_like[i]);
  if (!first)
    line(out, "bits",
         o.first_difference
             ? fmt::format("{} elements differ from {}, the first at {}", o.bits_differ,
                           r.outputs[0].name, to_string(*o.first_difference))
             : fmt::format("the same as those of {}", r.outputs[0].name));
}

} // namespace

void print(std::ostream& out, const JudgeRecord& r, bool coloured) {
  line(out, "shape",
       fmt::format("{} batches, {} query heads, {} KV heads, n_q {}, n_kv {}, d {}, dv {}",
                   r.batches, r.query_heads, r.kv_heads, r.n_q, r.n_kv, r.d, r.dv));
  for (std::size_t i = 0; i < r.assumed.size(); ++i)
    line(out, i == 0 ? "read as" : "", r.assumed[i]);
  if (r.rows.rows > 0) {
    line(out, "rows", "largest score " + text_of(r.rows.max_score));
    line(out, "", "entropy " + text_of(r.rows.entropy) + " nats");
    line(out, "", "condition sum p|v| / |o| " + text_of(r.rows.condition));
  }
  line(out, "truth", r.truth);
  for (std::size_t i = 0; i < r.outputs.size(); ++i) {
    out << "\n";
    print(out, r, r.outputs[i], i == 0, coloured);
  }
  fmt::print(out,
             "\nPlaces are [batch, query head, row, column]. plain: what a plain implementation in "
             "this arithmetic would err by, emulated.\n");
}

std::string hexadecimal(double x) {
  return std::isfinite(x) ? fmt::format("{:a}", x) : fmt::format("{}", x);
}

} // namespace fa1::reports
