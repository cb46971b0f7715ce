// The same kernel templates on a GPU: memory, copies and launches. cuda_instances.cu has the kernels.
#include "kernels/cuda_check.hpp"
#include "kernels/cuda_launches.hpp"
#include "kernels/launch.hpp"

#include <cuda_runtime.h>

#include <algorithm>
#include <array>
#include <string>

namespace fa1::kernels {

thread_local GridOfLaunch grid_of_launch;

namespace {

DeviceMemory device_memory = DeviceMemory::pooled;

/// Device memory that grows and is kept, because most launches are so short that an allocation would
/// be most of their time.
class Pool {
public:
  Pool() = default;
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;
  ~Pool() { cudaFree(data_); }

  float* of(std::size_t bytes) {
    if (bytes > bytes_) {
      cudaFree(data_);
      data_ = nullptr;
      bytes_ = 0;
      require(cudaMalloc(reinterpret_cast<void**>(&data_), bytes), "cudaMalloc");
      bytes_ = bytes;
    }
    return data_;
  }

private:
  float* data_ = nullptr;
  std::size_t bytes_ = 0;
};

/// Device memory for one array of a launch.
class DeviceArray {
public:
  DeviceArray(Pool& pool, std::int64_t count)
      : bytes_(static_cast<std::size_t>(count) * sizeof(float)) {
    if (device_memory == DeviceMemory::exact) {
      require(cudaMalloc(reinterpret_cast<void**>(&data_), std::max<std::size_t>(bytes_, 1)),
              "cudaMalloc");
      return;
    }
    data_ = pool.of(std::max<std::size_t>(bytes_, 1));
  }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;
  ~DeviceArray() {
    if (device_memory == DeviceMemory::exact)
      cudaFree(data_);
  }

  float* data() { return data_; }

  /// What a kernel must write before it is read, holds NaN.
  void poison() {
    if (device_memory == DeviceMemory::pooled)
      require(cudaMemset(data_, 0xff, bytes_), "cudaMemset");
  }
  void copy_from(const float* host, std::int64_t rows, std::int64_t columns, std::int64_t padded) {
    if (rows == 0)
      return;
    if (columns != padded)
      require(cudaMemset(data_, 0, bytes_), "cudaMemset");
    copy(data_, padded, host, columns, rows, columns, cudaMemcpyHostToDevice);
  }
  void copy_to(float* host, std::int64_t rows, std::int64_t columns, std::int64_t padded) const {
    if (rows != 0)
      copy(host, columns, data_, padded, rows, columns, cudaMemcpyDeviceToHost);
  }

private:
  static void copy(float* to, std::int64_t to_pitch, const float* from, std::int64_t from_pitch,
                   std::int64_t rows, std::int64_t columns, cudaMemcpyKind kind) {
    if (columns == 0)
      return;
    const auto bytes = [](std::int64_t floats) {
      return static_cast<std::size_t>(floats) * sizeof(float);
    };
    require(cudaMemcpy2D(to, bytes(to_pitch), from, bytes(from_pitch), bytes(columns),
                         static_cast<std::size_t>(rows), kind),
            "cudaMemcpy2D");
  }

  float* data_ = nullptr;
  std::size_t bytes_ = 0;
};

std::vector<CudaBuild> made_builds() {
  std::vector<CudaBuild> builds{
#define FA1_CUDA_BUILD(name, suffix, options, dimensions, contracted, portable, says)              \
  {suffix, says, contracted, portable, cuda_instances_##name()},
#include "kernels/builds.def"
#undef FA1_CUDA_BUILD
  };
  int most = 0; // of shared memory that this device gives to a block
  require(cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0),
          "cudaDeviceGetAttribute");
  for (CudaBuild& build : builds)
    std::erase_if(build.instances, [&](const Instance& instance) {
      return dynamic_shared_bytes_of(instance) > static_cast<unsigned>(most);
    });
  return builds;
}

} // namespace

std::string cuda_obstacle() {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess)
    return std::string("no CUDA device: ") + cudaGetErrorString(status);
  return count == 0 ? "no CUDA device is present" : "";
}

void set_device_memory(DeviceMemory memory) { device_memory = memory; }

const std::vector<CudaBuild>& cuda_builds() {
  static const std::vector<CudaBuild> builds =
      cuda_obstacle().empty() ? made_builds() : std::vector<CudaBuild>();
  return builds;
}

void start_cuda(const Instance& instance, const Shape& shape, const DeviceArguments& device,
                const Launch& launch, bool resume) {
  grid_of_launch = {static_cast<unsigned>(shape.batch_heads), 1, threads_of(instance, launch), 0};
  if (!resume)
    instance.start(device);
  require(cudaGetLastError(), "start");
  if (shape.n_kv > 0) {
    grid_of_launch.y = grid_y_of(instance, shape);
    grid_of_launch.dynamic_shared_bytes = dynamic_shared_bytes_of(instance);
    instance.step(device);
    grid_of_launch.y = 1;
    if (instance.plan == Plan::key_ranges)
      instance.finish(device);
  }
  require(cudaGetLastError(), instance.variant);
}

void launch_cuda(const Instance& instance, const Arguments& arguments, const Launch& launch) {
  const Shape& shape = arguments.shape;
  if (shape.batch_heads == 0 || shape.n_q == 0)
    return;
  const std::int64_t D = instance.D;
  const std::int64_t q_rows = shape.batch_heads * shape.n_q;
  const std::int64_t kv_rows = shape.batch_heads * shape.n_kv;
  thread_local std::array<Pool, 7> pools;
  DeviceArray Q(pools[0], q_rows * D), K(pools[1], kv_rows * D), V(pools[2], kv_rows * D),
      O(pools[3], q_rows * D), l(pools[4], q_rows), m(pools[5], q_rows),
      scratch(pools[6], scratch_of(instance, shape));
  Q.copy_from(arguments.Q, q_rows, shape.d, D);
  K.copy_from(arguments.K, kv_rows, shape.d, D);
  V.copy_from(arguments.V, kv_rows, shape.dv, D);
  if (arguments.resume) {
    O.copy_from(arguments.O, q_rows, shape.dv, D);
    l.copy_from(arguments.l, q_rows, 1, 1);
    m.copy_from(arguments.m, q_rows, 1, 1);
  } else {
    for (DeviceArray* output : {&O, &l, &m})
      output->poison();
  }
  scratch.poison();
  const DeviceArguments device{Q.data(), K.data(),  V.data(),   O.data(),        l.data(),
                               m.data(), shape.n_q, shape.n_kv, arguments.scale, scratch.data()};

  start_cuda(instance, shape, device, launch, arguments.resume);
  require(cudaDeviceSynchronize(), instance.variant);

  O.copy_to(arguments.O, q_rows, shape.dv, D);
  l.copy_to(arguments.l, q_rows, 1, 1);
  m.copy_to(arguments.m, q_rows, 1, 1);
  complete_l(instance, arguments);
}

} // namespace fa1::kernels
