/// Running an instance: on the CPU executor, or on a GPU; the same interface.
///
/// Both pad Q, K, V and O to D columns with zeros where d or dv is smaller (exact: products with 0
/// add 0), write the start carries unless the launch resumes, run the steps, and copy the first dv
/// columns of O back.
/// Errors    simt::ExecutorError from a kernel that breaks the rules of CUDA; KernelError from a
///           CUDA call
#pragma once

#include "kernels/instances.hpp"
#include "kernels/kernel.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace fa1::kernels {

/// The problem's matrices and the outputs as one launch takes them.
Arguments arguments_of(const Problem& problem, State& outputs, bool resume);

/// `counts`: of an instance whose pointers count (traffic.hpp); it is then launched on one OS thread.
void launch_cpu(const Instance& instance, const Arguments& arguments, const Launch& launch,
                LaunchCounts* counts = nullptr);

/// Why this build or this machine cannot run CUDA kernels; empty where it can.
std::string cuda_obstacle();

/// A row of builds.def with its instances.
struct CudaBuild {
  const char* suffix;
  const char* says;
  bool contracted, portable;
  std::vector<Instance> instances;
};
/// The kernels compiled for the GPU, those that fit it; empty where cuda_obstacle says why.
const std::vector<CudaBuild>& cuda_builds();

/// `fa1.Br4xBc2xD8`: an id without its build.
std::string tile_of(const Instance& instance, std::string_view variant);

/// Blocks of a launch's grid in y, by the instance's plan.
unsigned grid_y_of(const Instance& instance, const Shape& shape);
/// Dynamic shared memory of a block, by the instance's plan.
unsigned dynamic_shared_bytes_of(const Instance& instance);
/// Threads of a block.
unsigned threads_of(const Instance& instance, const Launch& launch);
/// Floats of scratch, by the instance's plan.
std::int64_t scratch_of(const Instance& instance, const Shape& shape);
/// Where m holds LSE: l = 1, or NaN beside a NaN.
void complete_l(const Instance& instance, const Arguments& arguments);

/// Starts the kernels of one launch on arrays that are on the device, D columns each, and does not wait; a launch that
/// does not resume begins with the start carries.
void start_cuda(const Instance& instance, const Shape& shape, const DeviceArguments& device,
                const Launch& launch, bool resume);

void launch_cuda(const Instance& instance, const Arguments& arguments, const Launch& launch);

/// Where the arrays of a launch on the GPU lie.
enum class DeviceMemory {
  pooled, ///< kept from launch to launch; what nobody wrote is NaN
  exact   ///< one allocation each, of its size and not written: for a tool that watches accesses
};
void set_device_memory(DeviceMemory memory);

/// Matrices copied to D columns, at a multiple of `alignment` bytes (at most 16); `data` is the caller's
/// own array where no copy is needed.
class Padded {
public:
  Padded(const float* source, std::int64_t rows, std::int64_t columns, std::int64_t padded_columns,
         std::size_t alignment = alignof(float));
  const float* data() const { return data_; }

private:
  std::vector<float> copy_;
  const float* data_;
};

} // namespace fa1::kernels
