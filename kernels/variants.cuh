/// The text of every kernel in variants.def; the two translation units that instantiate kernels
/// include this one file.
#pragma once

#include "kernels/fa1.cuh"
#include "kernels/fa1_deferred.cuh"
#include "kernels/fa1_element.cuh"
#include "kernels/fa1_paper.cuh"
#include "kernels/fa1_pipelined.cuh"
#include "kernels/fa1_tuned.cuh"
#include "kernels/fa2.cuh"
#include "kernels/lazy_rescale.cuh"
#include "kernels/online_softmax.cuh"
#include "kernels/split_kv.cuh"
#include "kernels/standard.cuh"
