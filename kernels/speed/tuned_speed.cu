// How fast fa1_tuned is on the device, and that it is fa1 bit for bit there.
//
// tuned_speed [BATCH_HEADS [N]]     16 and 4096 if not given; d = 64
//
// Prints one line of CSV for each kernel: the median, the fastest and the slowest of 20 launches, timed by
// events after 3 that are not, the floating-point operations of both products a second, and how many of
// the floats in O, l and m are not those of fa1. The status is 1 if any is not.
#include "kernels/fa1_tuned.cuh"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

using namespace fa1::kernels;

namespace {

constexpr int D = 64, kBr = 128, kBc = 64;

void require(cudaError_t status, const char* what) {
  if (status == cudaSuccess)
    return;
  std::fprintf(stderr, "tuned_speed: %s: %s\n", what, cudaGetErrorString(status));
  std::exit(3);
}

/// Floats on the device that hold NaN until something is written.
class Floats {
public:
  explicit Floats(std::size_t count) : count_(count) {
    require(cudaMalloc(reinterpret_cast<void**>(&data_), count * sizeof(float)), "cudaMalloc");
    require(cudaMemset(data_, 0xff, count * sizeof(float)), "cudaMemset");
  }
  Floats(std::size_t count, std::uint32_t seed) : Floats(count) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    std::vector<float> host(count);
    std::generate(host.begin(), host.end(), [&] { return normal(random); });
    require(cudaMemcpy(data_, host.data(), count * sizeof(float), cudaMemcpyHostToDevice),
            "cudaMemcpy");
  }
  Floats(const Floats&) = delete;
  Floats& operator=(const Floats&) = delete;
  ~Floats() { cudaFree(data_); }

  float* data() const { return data_; }
  std::vector<std::uint32_t> bits() const {
    std::vector<std::uint32_t> host(count_);
    require(cudaMemcpy(host.data(), data_, count_ * sizeof(float), cudaMemcpyDeviceToHost),
            "cudaMemcpy");
    return host;
  }

private:
  float* data_ = nullptr;
  std::size_t count_;
};

struct Outputs {
  Floats O, l, m;
  explicit Outputs(std::size_t rows) : O(rows * D), l(rows), m(rows) {}
};

std::size_t differing(const Floats& a, const Floats& b) {
  const auto x = a.bits(), y = b.bits();
  std::size_t count = 0;
  for (std::size_t i = 0; i < x.size(); ++i)
    count += x[i] != y[i];
  return count;
}

} // namespace

int main(int count, char** words) {
  const int batch_heads = count > 1 ? std::atoi(words[1]) : 16;
  const long long N = count > 2 ? std::atoll(words[2]) : 4096;
  if (batch_heads < 1 || N < 1) {
    std::fprintf(stderr, "tuned_speed: want BATCH_HEADS and N, whole numbers from 1 on\n");
    return 2;
  }
  const std::size_t rows = static_cast<std::size_t>(batch_heads) * static_cast<std::size_t>(N);
  const float scale = 0.125f;
  const Floats Q(rows * D, 1), K(rows * D, 2), V(rows * D, 3);
  const Outputs plain(rows), tuned(rows);
  constexpr int kBytes = sizeof(TunedTiles<kBr, kBc, D>);
  require(cudaFuncSetAttribute(fa1_tuned<kBr, kBc, D>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               kBytes),
          "cudaFuncSetAttribute");

  std::size_t wrong = 0;
  std::printf("kernel,batch_heads,N,d,median_ms,least_ms,most_ms,tflop_per_s,floats_not_of_fa1\n");
  const auto measure = [&](const char* name, const Outputs& out, int launches, const auto& launch) {
    cudaEvent_t begin, end;
    require(cudaEventCreate(&begin), "cudaEventCreate");
    require(cudaEventCreate(&end), "cudaEventCreate");
    std::vector<float> times;
    for (int i = 0; i < launches; ++i) {
      fa1_start<D><<<batch_heads, 256>>>(out.O.data(), out.l.data(), out.m.data(), N);
      require(cudaEventRecord(begin), "cudaEventRecord");
      launch();
      require(cudaGetLastError(), name);
      require(cudaEventRecord(end), "cudaEventRecord");
      require(cudaEventSynchronize(end), name);
      float ms = 0.0f;
      require(cudaEventElapsedTime(&ms, begin, end), "cudaEventElapsedTime");
      if (i >= 3 || launches == 1)
        times.push_back(ms);
    }
    std::sort(times.begin(), times.end());
    const std::size_t different =
        differing(out.O, plain.O) + differing(out.l, plain.l) + differing(out.m, plain.m);
    wrong += different;
    const double median = times[times.size() / 2];
    std::printf("%s,%d,%lld,%d,%.4f,%.4f,%.4f,%.1f,%zu\n", name, batch_heads, N, D, median,
                times.front(), times.back(),
                4.0 * static_cast<double>(rows) * static_cast<double>(N) * D / median * 1e-9,
                different);
  };
  measure("fa1.Br64xBc64xD64", plain, 1, [&] {
    fa1::kernels::fa1<64, kBc, D><<<batch_heads, 64>>>(Q.data(), K.data(), V.data(), plain.O.data(),
                                                       plain.l.data(), plain.m.data(), N, N, scale);
  });
  measure("fa1_tuned.Br128xBc64xD64", tuned, 23, [&] {
    const dim3 grid(static_cast<unsigned>(batch_heads), static_cast<unsigned>((N + kBr - 1) / kBr));
    fa1_tuned<kBr, kBc, D><<<grid, kBr, kBytes>>>(Q.data(), K.data(), V.data(), tuned.O.data(),
                                                  tuned.l.data(), tuned.m.data(), N, N, scale);
  });
  return wrong == 0 ? 0 : 1;
}
