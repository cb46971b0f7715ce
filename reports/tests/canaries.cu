#include "reports/tests/canaries.cuh"

#include "kernels/simt/cuda_vocabulary.hpp"

#include <cuda_runtime.h>

namespace fa1::reports::tests {
namespace {

constexpr int kThreads = 64;
constexpr int kRounds = 4;
constexpr unsigned kWritten = 1, kRead = 2; // named barriers

__global__ void writes_past_the_end(float* out) { out[threadIdx.x + 1] = 1.0f; }

__global__ void reads_without_a_barrier(float* out) {
  __shared__ float word[kThreads];
  word[threadIdx.x] = static_cast<float>(threadIdx.x);
  out[threadIdx.x] = word[(threadIdx.x + kThreads / 2) % kThreads]; // of the other warp
}

__global__ void reads_what_nobody_wrote(const float* in, float* out) {
  out[threadIdx.x] = in[threadIdx.x] + 1.0f;
}

__global__ void leaves_half_a_warp_behind(float* out) {
  if (threadIdx.x % 32 < 16)
    __syncthreads();
  out[threadIdx.x] = 1.0f;
}

__global__ void one_warp_hands_over(float* out) {
  __shared__ float word[kThreads / 2];
  for (int round = 0; round < kRounds; ++round)
    if (threadIdx.x < kThreads / 2) {
      if (round > 0)
        fa1_barrier_sync(kRead, kThreads);
      word[threadIdx.x] = static_cast<float>(threadIdx.x + round);
      fa1_barrier_arrive(kWritten, kThreads);
    } else {
      fa1_barrier_sync(kWritten, kThreads);
      out[threadIdx.x - kThreads / 2] = word[threadIdx.x - kThreads / 2];
      if (round + 1 < kRounds)
        fa1_barrier_arrive(kRead, kThreads);
    }
}

} // namespace

bool run_canary(std::string_view tool) {
  float *in = nullptr, *out = nullptr;
  cudaMalloc(&in, kThreads * sizeof(float));
  cudaMalloc(&out, kThreads * sizeof(float));
  bool known = true;
  if (tool == "memcheck")
    writes_past_the_end<<<1, kThreads>>>(out);
  else if (tool == "racecheck")
    reads_without_a_barrier<<<1, kThreads>>>(out);
  else if (tool == "initcheck")
    reads_what_nobody_wrote<<<1, kThreads>>>(in, out);
  else if (tool == "synccheck")
    leaves_half_a_warp_behind<<<1, kThreads>>>(out);
  else
    known = false;
  cudaDeviceSynchronize(); // its status is what the tool is asked about
  cudaFree(in);
  cudaFree(out);
  return known;
}

bool hands_over_by_named_barriers() {
  constexpr int kWords = kThreads / 2;
  float* out = nullptr;
  float words[kWords] = {};
  cudaMalloc(&out, sizeof words);
  one_warp_hands_over<<<1, kThreads>>>(out);
  const bool copied = cudaMemcpy(words, out, sizeof words, cudaMemcpyDeviceToHost) == cudaSuccess;
  cudaFree(out);
  for (int i = 0; i < kWords; ++i)
    if (words[i] != static_cast<float>(i + kRounds - 1))
      return false;
  return copied;
}

} // namespace fa1::reports::tests
