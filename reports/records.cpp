#include "reports/records.hpp"

#include "numerics/ulp.hpp"

#include <fmt/format.h>

namespace fa1::reports {
namespace {

Json to_json(const numerics::Element& e) {
  return {{"output", e.output},
          {"batch_head", e.batch_head},
          {"row", e.row},
          {"column", e.column},
          {"got", number(e.got)},
          {"got_hex", fmt::format("{:a}", e.got)},
          {"truth", number(e.truth.hi + e.truth.lo)},
          {"radius", number(e.truth.radius)},
          {"error", number(e.error)},
          {"error_ulp", number(e.ulps)},
          {"bound", number(e.bound)},
          {"fraction", number(e.fraction())}};
}

std::string_view name_of(kernels::Backend backend) {
  return backend == kernels::Backend::cpu ? "cpu" : "cuda";
}

} // namespace

Json to_json(const Environment& e) {
  return {{"revision", e.revision}, {"compiler", e.compiler},
          {"flags", e.flags},       {"build_type", e.build_type},
          {"libc", e.libc},         {"system", e.system},
          {"cpu", e.cpu},           {"cores", e.cores},
          {"cuda", e.cuda}};
}

Json to_json(const numerics::Record& r, Times times) {
  Json json{{"what", "error"},
            {"recipe", reference::to_string(r.recipe)},
            {"seed", r.recipe.seed},
            {"batch_heads", r.shape.batch_heads},
            {"n_q", r.shape.n_q},
            {"n_kv", r.shape.n_kv},
            {"d", r.shape.d},
            {"dv", r.shape.dv},
            {"kernel", r.kernel},
            {"backend", name_of(r.backend)},
            {"Bc", r.arithmetic.Bc},
            {"contracted", r.arithmetic.contracted},
            {"schedule", r.schedule},
            {"truth", r.truth},
            {"verdict", numerics::name_of(r.verdict.judgement)},
            {"why", r.verdict.why},
            {"elements", r.error.elements},
            {"not_finite", r.not_finite},
            {"max_error", number(r.error.max_relative)},
            {"rms_error", number(r.error.rms_relative)},
            {"mean_error", number(r.error.mean_relative)},
            {"bound", number(r.error.bound_relative)},
            {"expected", number(r.error.expected_relative)},
            {"unit", "2^-24 sum_j p_j |v_j|"},
            {"max_l_error", number(r.error.max_l_relative)},
            {"max_error_ulp", number(r.error.max_ulp)},
            {"max_fraction", number(r.error.max_fraction)},
            {"median_fraction", number(r.error.median_fraction)},
            {"max_over_expected", number(r.error.max_expected)},
            {"score_error_bound", number(r.eta)},
            {"score_spread", number(r.spread)},
            {"ulp_histogram", r.error.ulp_histogram},
            {"worst", r.verdict.worst.output.empty() ? Json(nullptr) : to_json(r.verdict.worst)},
            {"reproduce", run_line(r)}};
  if (times == Times::with) {
    json["kernel_seconds"] = r.kernel_seconds;
    json["truth_seconds"] = r.truth_seconds;
  }
  return json;
}

Json to_json(const numerics::PointRecord& p, std::uint64_t number) {
  const numerics::Record& r = p.deciding;
  Json quantiles = Json::object(), judged = Json::object();
  for (std::size_t q = 0; q < numerics::kQuantiles.size(); ++q)
    quantiles[fmt::format("{}", numerics::kQuantiles[q])] = reports::number(p.quantiles[q]);
  for (std::size_t j = 0; j < p.judged.size(); ++j)
    judged[std::string(numerics::name_of(static_cast<numerics::Judgement>(j)))] = p.judged[j];
  return {{"what", "point"},
          {"point", number},
          {"recipe", reference::to_string(p.first)},
          {"seed", p.first.seed},
          {"last_seed", p.last_seed},
          {"runs", p.runs},
          {"batch_heads", r.shape.batch_heads},
          {"n_q", r.shape.n_q},
          {"n_kv", r.shape.n_kv},
          {"d", r.shape.d},
          {"dv", r.shape.dv},
          {"kernel", r.kernel},
          {"backend", name_of(r.backend)},
          {"Bc", r.arithmetic.Bc},
          {"contracted", r.arithmetic.contracted},
          {"truth", r.truth},
          {"verdict", numerics::name_of(r.verdict.judgement)},
          {"why", r.verdict.why},
          {"judged", std::move(judged)},
          {"elements", p.error.elements},
          {"not_finite", p.not_finite},
          {"unit", "2^-24 sum_j p_j |v_j|"},
          {"max_error", reports::number(p.error.max_relative)},
          {"rms_error", reports::number(p.error.rms_relative)},
          {"mean_error", reports::number(p.error.mean_relative)},
          {"quantiles", std::move(quantiles)},
          {"bound", reports::number(p.error.bound_relative)},
          {"expected", reports::number(p.error.expected_relative)},
          {"softmax_bound", reports::number(p.softmax_relative)},
          {"max_fraction", reports::number(p.error.max_fraction)},
          {"max_over_expected", reports::number(p.error.max_expected)},
          {"max_over_softmax_bound", reports::number(p.max_softmax)},
          {"max_error_ulp", reports::number(p.error.max_ulp)},
          {"max_l_error", reports::number(p.error.max_l_relative)},
          {"score_error_bound", reports::number(p.eta)},
          {"score_spread", reports::number(p.spread)},
          {"ulp_histogram", p.error.ulp_histogram},
          {"worst", r.verdict.worst.output.empty() ? Json(nullptr) : to_json(r.verdict.worst)},
          {"reproduce", run_line(r)}};
}

std::string answer_of(const properties::LawResult& result) {
  if (result.violated)
    return "violated";
  return result.held > 0 ? "held" : "not-applicable";
}

Json to_json(const properties::LawResult& r, int cases, std::uint64_t seed) {
  return {{"what", "law"},
          {"law", r.invariant->id},
          {"kind", properties::name_of(r.invariant->kind)},
          {"kernel", r.kernel->id},
          {"variant", r.kernel->variant},
          {"Br", r.kernel->Br},
          {"Bc", r.kernel->Bc},
          {"D", r.kernel->D},
          {"answer", answer_of(r)},
          {"cases", cases},
          {"seed", seed},
          {"held", r.held},
          {"not_applicable", r.not_applicable},
          {"suspicious", r.suspicious},
          {"suspicious_recipe", r.suspicious_recipe},
          {"worst_fraction", number(r.worst_fraction)},
          {"worst_recipe", r.worst_recipe},
          {"violation", r.violation},
          {"shrunk_recipe", r.shrunk_recipe},
          {"rapidcheck", r.reproduce},
          {"reproduce", r.violated ? r.replay() : ""}};
}

std::string run_line(const numerics::Record& record) {
  return fmt::format("./fa1lab run '{}' {}", reference::to_string(record.recipe), record.chosen_by);
}

} // namespace fa1::reports
