// Compiled twice, see plain_loops.hpp: FA1_LOOPS is the name, FA1_LOOPS_FLAGS what CMake compiles it with.
#include "reports/plain_loops.hpp"

#include "reference/tiled_mirror.hpp"

namespace fa1::reports {
namespace {

[[gnu::flatten]] reference::Answer<double> attention(const reference::Problem& problem) {
  return reference::attention<double>(problem);
}

#ifdef __x86_64__
[[gnu::flatten, gnu::target("avx2")]] reference::Answer<double>
attention_avx2(const reference::Problem& problem) {
  return reference::attention<double>(problem);
}
bool has_avx2() { return __builtin_cpu_supports("avx2") != 0; }
#else
constexpr reference::Answer<double> (*attention_avx2)(const reference::Problem&) = nullptr;
bool has_avx2() { return false; }
#endif

[[gnu::flatten]] reference::State mirror(const reference::Problem& problem, std::int64_t Bc) {
  return reference::tiled_mirror(problem, Bc);
}

} // namespace

PlainLoops FA1_LOOPS() {
  return {FA1_LOOPS_FLAGS, attention, has_avx2() ? attention_avx2 : nullptr, mirror};
}

} // namespace fa1::reports
