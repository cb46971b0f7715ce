// The same kernel templates on a GPU. Only this file knows CUDA's runtime.
#include "kernels/launch.hpp"

#include "kernels/variants.cuh"

#include <cuda_runtime.h>

#include <algorithm>
#include <string>
#include <utility>

namespace fa1::kernels {
namespace {

void require(cudaError_t status, const char* call) {
  if (status != cudaSuccess)
    throw KernelError(std::string("cuda: ") + call + ": " + cudaGetErrorString(status));
}

struct Grid {
  dim3 blocks;
  unsigned threads = 1;
  unsigned dynamic_shared_bytes = 0;
};

/// Instance's functions take one argument, as on the CPU; the grid of the launch in progress
/// travels beside it.
thread_local Grid grid_of_launch;

/// More than 48 KiB of dynamic shared memory is given to a kernel that asks for it.
template <class Kernel> void launch(Kernel* kernel, const DeviceArguments& a) {
  const Grid& grid = grid_of_launch;
  if (grid.dynamic_shared_bytes > 48 * 1024)
    require(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                 static_cast<int>(grid.dynamic_shared_bytes)),
            "cudaFuncSetAttribute");
  kernel<<<grid.blocks, grid.threads, grid.dynamic_shared_bytes>>>(a.Q, a.K, a.V, a.O, a.l, a.m,
                                                                   a.n_q, a.n_kv, a.scale);
}

#define FA1_VARIANT(name, statement, tiles, plan, outputs, ...)                                    \
  struct name##_variant {                                                                          \
    static constexpr const char* kName = #name;                                                    \
    static constexpr const char* kStatement = statement;                                           \
    static constexpr Plan kPlan = Plan::plan;                                                      \
    static constexpr Outputs kOutputs = Outputs::outputs;                                          \
    template <int D> using TilesOf = typename tiles<D>::type;                                      \
    template <int D> static void start(const DeviceArguments& a) {                                 \
      fa1_start<D><<<grid_of_launch.blocks, grid_of_launch.threads>>>(a.O, a.l, a.m, a.n_q);       \
    }                                                                                              \
    template <int Br, int Bc, int D> static void step(const DeviceArguments& a) {                  \
      if constexpr (kPlan == Plan::scores || kPlan == Plan::key_ranges)                            \
        name<Br, Bc, D><<<grid_of_launch.blocks, grid_of_launch.threads>>>(                        \
            a.Q, a.K, a.V, a.O, a.l, a.m, a.n_q, a.n_kv, a.scale, a.scratch);                      \
      else                                                                                         \
        launch(name<Br, Bc, D>, a);                                                                \
    }                                                                                              \
    template <int D> static void finish(const DeviceArguments& a) {                                \
      if constexpr (kPlan == Plan::key_ranges)                                                     \
        merge_ranges<D><<<grid_of_launch.blocks, grid_of_launch.threads>>>(                        \
            a.scratch, a.O, a.l, a.m, a.n_q, kKeyRanges);                                          \
    }                                                                                              \
  };
#include "kernels/variants.def"
#undef FA1_VARIANT

template <class Variant, int D, int... Br, int... Bc>
void append(std::vector<Instance>& instances, Tiles<Tile<Br, Bc>...>) {
  (instances.push_back({Variant::kName, Variant::kStatement, Br, Bc, D, Variant::kPlan,
                        Variant::kOutputs, &Variant::template start<D>,
                        &Variant::template step<Br, Bc, D>, &Variant::template finish<D>}),
   ...);
}

template <class Variant, int... D>
void append_all(std::vector<Instance>& instances, std::integer_sequence<int, D...>) {
  (append<Variant, D>(instances, typename Variant::template TilesOf<D>{}), ...);
}

/// Device memory for one array, freed on every way out.
class DeviceArray {
public:
  explicit DeviceArray(std::int64_t count)
      : bytes_(static_cast<std::size_t>(count) * sizeof(float)) {
    require(cudaMalloc(reinterpret_cast<void**>(&data_), std::max<std::size_t>(bytes_, 1)),
            "cudaMalloc");
  }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;
  ~DeviceArray() { cudaFree(data_); }

  float* data() { return data_; }

  void copy_from(const float* host, std::int64_t rows, std::int64_t columns, std::int64_t padded) {
    if (rows == 0)
      return;
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

} // namespace

std::string cuda_obstacle() {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess)
    return std::string("no CUDA device: ") + cudaGetErrorString(status);
  return count == 0 ? "no CUDA device is present" : "";
}

std::vector<Instance> cuda_instances() {
  std::vector<Instance> instances;
#define FA1_VARIANT(name, ...) append_all<name##_variant>(instances, HeadDimensions{});
#include "kernels/variants.def"
#undef FA1_VARIANT
  int most = 0; // of shared memory that this device gives to a block
  require(cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0),
          "cudaDeviceGetAttribute");
  std::erase_if(instances, [&](const Instance& instance) {
    return dynamic_shared_bytes_of(instance) > static_cast<unsigned>(most);
  });
  return instances;
}

void launch_cuda(const Instance& instance, const Arguments& arguments, const Launch& launch) {
  const Shape& shape = arguments.shape;
  if (shape.batch_heads == 0 || shape.n_q == 0)
    return;
  const std::int64_t D = instance.D;
  const std::int64_t q_rows = shape.batch_heads * shape.n_q;
  const std::int64_t kv_rows = shape.batch_heads * shape.n_kv;
  DeviceArray Q(q_rows * D), K(kv_rows * D), V(kv_rows * D), O(q_rows * D), l(q_rows), m(q_rows),
      scratch(scratch_of(instance, shape));
  Q.copy_from(arguments.Q, q_rows, shape.d, D);
  K.copy_from(arguments.K, kv_rows, shape.d, D);
  V.copy_from(arguments.V, kv_rows, shape.dv, D);
  if (arguments.resume) {
    O.copy_from(arguments.O, q_rows, shape.dv, D);
    l.copy_from(arguments.l, q_rows, 1, 1);
    m.copy_from(arguments.m, q_rows, 1, 1);
  }
  const DeviceArguments device{Q.data(), K.data(),  V.data(),   O.data(),        l.data(),
                               m.data(), shape.n_q, shape.n_kv, arguments.scale, scratch.data()};

  grid_of_launch = {dim3(static_cast<unsigned>(shape.batch_heads)), threads_of(instance, launch)};
  if (!arguments.resume)
    instance.start(device);
  require(cudaGetLastError(), "start");
  if (shape.n_kv > 0) {
    grid_of_launch.blocks.y = grid_y_of(instance, shape);
    grid_of_launch.dynamic_shared_bytes = dynamic_shared_bytes_of(instance);
    instance.step(device);
    grid_of_launch.blocks.y = 1;
    if (instance.plan == Plan::key_ranges)
      instance.finish(device);
  }
  require(cudaGetLastError(), instance.variant);
  require(cudaDeviceSynchronize(), instance.variant);

  O.copy_to(arguments.O, q_rows, shape.dv, D);
  l.copy_to(arguments.l, q_rows, 1, 1);
  m.copy_to(arguments.m, q_rows, 1, 1);
  complete_l(instance, arguments);
}

} // namespace fa1::kernels
