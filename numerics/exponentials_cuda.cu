// The GPU side of exponentials.hpp. Compiled with nvcc's default flags, as the kernels are: no -use_fast_math, so that
// expf is the accurate one.
#include "kernels/cuda_check.hpp"
#include "kernels/exponentials.hpp"
#include "numerics/exponentials.hpp"

#include <cuda_runtime.h>

#include <algorithm>
#include <memory>
#include <type_traits>

namespace fa1::numerics {
namespace {

using kernels::require;

struct Expf {
  static constexpr Base kBase = Base::e;
  static constexpr const char* kName = "expf";
  static __device__ float at(float x) { return expf(x); }
};

struct FastExpf {
  static constexpr Base kBase = Base::e;
  static constexpr const char* kName = "__expf";
  static __device__ float at(float x) { return __expf(x); }
};

struct Exp2f {
  static constexpr Base kBase = Base::two;
  static constexpr const char* kName = "exp2f";
  static __device__ float at(float x) { return exp2f(x); }
};

struct Ex2Approx {
  static constexpr Base kBase = Base::two;
  static constexpr const char* kName = "ex2.approx";
  static __device__ float at(float x) {
    float y;
    asm("ex2.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
  }
};

struct Ex2ApproxFtz {
  static constexpr Base kBase = Base::two;
  static constexpr const char* kName = "ex2.approx.ftz";
  static __device__ float at(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
  }
};

constexpr unsigned kThreads = 128;
constexpr std::uint64_t kLanes = std::uint64_t{1} << 17; ///< threads of a launch, most of a GPU's

/// Each thread takes arguments that follow each other.
template <class Function>
__global__ void __launch_bounds__(kThreads)
    sweep(std::uint32_t from, std::uint32_t every, std::uint64_t count, std::uint64_t each,
          ExponentialErrors* pieces) {
  const std::uint64_t lane = std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const std::uint64_t begin = lane * each;
  if (begin >= count)
    return;
  const std::uint64_t end = begin + each < count ? begin + each : count;
  ExponentialErrors errors;
  for (std::uint64_t i = begin; i < end; ++i) {
    const std::uint32_t index = from + static_cast<std::uint32_t>(i * every);
    const float x = float_at(index);
    errors.see(index, x, Function::at(x), exact_power<Function::kBase>(x));
  }
  pieces[lane] = errors;
}

template <class Function> __global__ void answer(const float* x, float* y, std::uint64_t count) {
  const std::uint64_t i = std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < count)
    y[i] = Function::at(x[i]);
}

template <class T> class DeviceArray {
public:
  explicit DeviceArray(std::size_t count) {
    require(
        cudaMalloc(reinterpret_cast<void**>(&data_), std::max<std::size_t>(count, 1) * sizeof(T)),
        "cudaMalloc");
  }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;
  ~DeviceArray() { cudaFree(data_); }
  T* data() { return data_; }

private:
  T* data_ = nullptr;
};

unsigned blocks_for(std::uint64_t threads) {
  return static_cast<unsigned>((threads + kThreads - 1) / kThreads);
}

template <class Function>
ExponentialErrors sweep_on_device(const ArgumentRange& range,
                                  const std::function<void(double)>& done) {
  static_assert(std::is_trivially_copyable_v<ExponentialErrors>);
  const std::uint64_t count = range.count();
  ExponentialErrors all;
  if (count == 0)
    return all;
  const std::uint64_t each = (count + kLanes - 1) / kLanes, lanes = (count + each - 1) / each;
  DeviceArray<ExponentialErrors> pieces(lanes);
  sweep<Function>
      <<<blocks_for(lanes), kThreads>>>(range.from, range.every, count, each, pieces.data());
  require(cudaGetLastError(), Function::kName);
  require(cudaDeviceSynchronize(), Function::kName);
  std::vector<ExponentialErrors> found(lanes);
  require(cudaMemcpy(found.data(), pieces.data(), lanes * sizeof(ExponentialErrors),
                     cudaMemcpyDeviceToHost),
          "cudaMemcpy");
  for (const ExponentialErrors& piece : found)
    all.append(piece);
  if (done)
    done(1.0);
  return all;
}

template <class Function> std::vector<float> answers_of_device(std::span<const float> x) {
  std::vector<float> y(x.size());
  if (x.empty())
    return y;
  DeviceArray<float> in(x.size()), out(x.size());
  require(cudaMemcpy(in.data(), x.data(), x.size_bytes(), cudaMemcpyHostToDevice), "cudaMemcpy");
  answer<Function><<<blocks_for(x.size()), kThreads>>>(in.data(), out.data(), x.size());
  require(cudaGetLastError(), Function::kName);
  require(cudaMemcpy(y.data(), out.data(), x.size_bytes(), cudaMemcpyDeviceToHost), "cudaMemcpy");
  return y;
}

template <class Function> Exponential on_device(const kernels::CudaDevice& device) {
  return {Function::kName,
          device.name,
          device.toolkit,
          Function::kBase,
          [](const ArgumentRange& range, unsigned, const std::function<void(double)>& done) {
            return sweep_on_device<Function>(range, done);
          },
          &answers_of_device<Function>};
}

} // namespace

std::vector<Exponential> cuda_exponentials() {
  const auto device = kernels::cuda_device();
  if (!device)
    return {};
  return {on_device<Expf>(*device), on_device<FastExpf>(*device), on_device<Exp2f>(*device),
          on_device<Ex2Approx>(*device), on_device<Ex2ApproxFtz>(*device)};
}

} // namespace fa1::numerics
