/// How many FP64 instructions a second this GPU can do at all: the floor under certify_cuda().
///
/// Computes  the median of five runs of independent chains of fused multiply-adds, of 8 a thread and
///           64 warps on each multiprocessor
/// Units     instructions of one thread a second
#pragma once

namespace fa1::reference {

double fp64_rate();

} // namespace fa1::reference
