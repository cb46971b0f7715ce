#include "reference/truth_source.hpp"

#include "reference/certified.hpp"
#include "reference/certified_cuda.hpp"
#include "reference/recipe.hpp"

namespace fa1::reference {

bool worth_a_gpu(const Shape& shape) {
  const double work = static_cast<double>(shape.batch_heads) * static_cast<double>(shape.n_q) *
                      static_cast<double>(shape.n_kv) * static_cast<double>(shape.d + shape.dv);
  return work >= kWorthAGpu && shape.batch_heads * shape.n_q >= kRowsForAGpu &&
         fits_memory(shape, shape.n_kv);
}

bool made_by_gpu(const Shape& shape, TruthSource source) {
  if (source != TruthSource::automatic)
    return source == TruthSource::gpu;
  return worth_a_gpu(shape) && certify_cuda_obstacle().empty();
}

Truth truth_of(const Problem& problem, TruthSource source, unsigned threads) {
  return made_by_gpu(problem.shape, source) ? certify_cuda(problem, threads)
                                            : certify(problem, threads);
}

} // namespace fa1::reference
