#include "reference/bench/fp64_rate.hpp"

#include "reference/certified_cuda.hpp"

#include <cuda_runtime.h>

#include <algorithm>
#include <array>
#include <string>

namespace fa1::reference {
namespace {

constexpr int kChains = 8, kUnrolled = 8, kThreads = 256, kBlocks = 8; ///< blocks: of each SM

void require(cudaError_t status, const char* call) {
  if (status != cudaSuccess)
    throw DeviceError(std::string("cuda: ") + call + ": " + cudaGetErrorString(status));
}

__global__ void run_chains(double* out, int rounds, double a, double b) {
  double x[kChains];
  for (int i = 0; i < kChains; ++i)
    x[i] = static_cast<double>(threadIdx.x) + i;
  for (int round = 0; round < rounds; ++round)
#pragma unroll
    for (int u = 0; u < kUnrolled; ++u)
#pragma unroll
      for (int i = 0; i < kChains; ++i)
        x[i] = fma(x[i], a, b);
  double sum = 0.0; // so that nothing is left out
  for (int i = 0; i < kChains; ++i)
    sum += x[i];
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

} // namespace

double fp64_rate() {
  int processors = 0;
  require(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, 0),
          "cudaDeviceGetAttribute");
  const int blocks = kBlocks * processors, rounds = 20'000;
  double* out = nullptr;
  require(cudaMalloc(reinterpret_cast<void**>(&out),
                     sizeof(double) * static_cast<std::size_t>(blocks) * kThreads),
          "cudaMalloc");
  cudaEvent_t start = nullptr, end = nullptr;
  require(cudaEventCreate(&start), "cudaEventCreate");
  require(cudaEventCreate(&end), "cudaEventCreate");
  std::array<double, 6> rates{}; // the first warms up
  for (double& rate : rates) {
    require(cudaEventRecord(start), "cudaEventRecord");
    run_chains<<<blocks, kThreads>>>(out, rounds, 0.999999, 1e-6);
    require(cudaGetLastError(), "run_chains");
    require(cudaEventRecord(end), "cudaEventRecord");
    require(cudaEventSynchronize(end), "run_chains");
    float ms = 0.0f;
    require(cudaEventElapsedTime(&ms, start, end), "cudaEventElapsedTime");
    rate = static_cast<double>(rounds) * kUnrolled * kChains * blocks * kThreads /
           (static_cast<double>(ms) * 1e-3);
  }
  require(cudaEventDestroy(start), "cudaEventDestroy");
  require(cudaEventDestroy(end), "cudaEventDestroy");
  require(cudaFree(out), "cudaFree");
  std::sort(rates.begin() + 1, rates.end());
  return rates[3];
}

} // namespace fa1::reference
