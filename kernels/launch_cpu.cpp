#include "kernels/launch.hpp"
#include "kernels/simt/counted_pointer.hpp"
#include "kernels/tiling.hpp"
#include "kernels/traffic.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>

namespace fa1::kernels {
namespace {

bool is_aligned(const float* data, std::size_t alignment) {
  return reinterpret_cast<std::uintptr_t>(data) % alignment == 0;
}

std::size_t alignment_of(const Instance& instance) {
  return instance.plan == Plan::register_tiles ? 16 : alignof(float);
}

} // namespace

Padded::Padded(const float* source, std::int64_t rows, std::int64_t columns,
               std::int64_t padded_columns, std::size_t alignment)
    : data_(source) {
  if (columns == padded_columns && is_aligned(source, alignment))
    return;
  copy_.assign(static_cast<std::size_t>(rows * padded_columns), 0.0f);
  for (std::int64_t row = 0; row < rows; ++row)
    std::copy_n(source + row * columns, columns, copy_.data() + row * padded_columns);
  data_ = copy_.data();
}

unsigned grid_y_of(const Instance& instance, const Shape& shape) {
  constexpr std::int64_t kMost = 65535; // of CUDA
  switch (instance.plan) {
  case Plan::row_blocks:
  case Plan::warp_roles:
  case Plan::register_tiles:
  case Plan::scores:
    return static_cast<unsigned>(std::min(kMost, parts(shape.n_q, instance.Br)));
  case Plan::key_ranges:
    return kKeyRanges;
  case Plan::batch_heads:
    break;
  }
  return 1;
}

unsigned threads_of(const Instance& instance, const Launch& launch) {
  if (instance.plan == Plan::warp_roles)
    return kRoleThreads;
  if (instance.plan == Plan::register_tiles)
    return static_cast<unsigned>(instance.Br);
  return launch.threads_per_block != 0 ? launch.threads_per_block
                                       : static_cast<unsigned>(instance.Br);
}

unsigned dynamic_shared_bytes_of(const Instance& instance) {
  return instance.plan == Plan::register_tiles
             ? register_tile_bytes(instance.Br, instance.Bc, instance.D)
             : 0;
}

std::int64_t scratch_of(const Instance& instance, const Shape& shape) {
  const std::int64_t rows = shape.batch_heads * shape.n_q;
  switch (instance.plan) {
  case Plan::scores:
    return rows * shape.n_kv;
  case Plan::key_ranges:
    return rows * kKeyRanges * (instance.D + 2);
  case Plan::batch_heads:
  case Plan::row_blocks:
  case Plan::warp_roles:
  case Plan::register_tiles:
    break;
  }
  return 0;
}

void complete_l(const Instance& instance, const Arguments& arguments) {
  if (instance.outputs != Outputs::LSE || arguments.shape.n_kv == 0)
    return;
  for (std::int64_t row = 0; row < arguments.shape.batch_heads * arguments.shape.n_q; ++row)
    arguments.l[row] = std::isnan(arguments.m[row]) ? arguments.m[row] : 1.0f;
}

namespace {

/// Counts what goes through the arrays of a launch while it lives; `add` hands it over.
class Meter {
public:
  explicit Meter(const DeviceArguments& device)
      : arrays_{{{device.Q, &accesses_[0]},
                 {device.K, &accesses_[1]},
                 {device.V, &accesses_[2]},
                 {device.O, &accesses_[3]},
                 {device.l, &accesses_[4]},
                 {device.m, &accesses_[5]},
                 {device.scratch, &accesses_[6]}}},
        scope_(arrays_) {}

  void add(const simt::LaunchStats& stats, LaunchCounts& counts) const {
    for (std::size_t array = 0; array < accesses_.size(); ++array)
      counts.traffic.arrays[array] = {accesses_[array].loads, accesses_[array].stores};
    if (scope_.strays().loads + scope_.strays().stores != 0)
      throw KernelError("a kernel went through a pointer to none of the arrays that it was given");
    counts.barriers =
        std::max(counts.barriers, static_cast<std::int64_t>(stats.max_block_barriers));
    counts.shared_bytes =
        std::max(counts.shared_bytes, static_cast<std::int64_t>(stats.max_shared_bytes));
  }

private:
  std::array<simt::AccessCounts, Traffic::kArrays.size()> accesses_;
  std::array<simt::CountedArray, Traffic::kArrays.size()> arrays_;
  simt::CountingScope scope_;
};

} // namespace

void launch_cpu(const Instance& instance, const Arguments& arguments, const Launch& launch,
                LaunchCounts* counts) {
  const Shape& shape = arguments.shape;
  if (shape.batch_heads == 0 || shape.n_q == 0)
    return;
  const std::int64_t q_rows = shape.batch_heads * shape.n_q;
  const std::int64_t kv_rows = shape.batch_heads * shape.n_kv;
  const std::size_t alignment = alignment_of(instance);
  const Padded Q(arguments.Q, q_rows, shape.d, instance.D, alignment);
  const Padded K(arguments.K, kv_rows, shape.d, instance.D, alignment);
  const Padded V(arguments.V, kv_rows, shape.dv, instance.D, alignment);
  const bool pads_O = shape.dv != instance.D || !is_aligned(arguments.O, alignment);
  std::vector<float> padded_O;
  if (pads_O) {
    // A fresh launch must write every column itself, so it finds NaN there.
    padded_O.assign(static_cast<std::size_t>(q_rows * instance.D),
                    arguments.resume ? 0.0f : std::numeric_limits<float>::quiet_NaN());
    if (arguments.resume)
      for (std::int64_t row = 0; row < q_rows; ++row)
        std::copy_n(arguments.O + row * shape.dv, shape.dv, padded_O.data() + row * instance.D);
  }
  // A kernel must write what it reads there, so it finds NaN.
  std::vector<float> scratch(static_cast<std::size_t>(scratch_of(instance, shape)),
                             std::numeric_limits<float>::quiet_NaN());
  const DeviceArguments device{
      Q.data(),        K.data(),      V.data(),  pads_O ? padded_O.data() : arguments.O,
      arguments.l,     arguments.m,   shape.n_q, shape.n_kv,
      arguments.scale, scratch.data()};

  simt::LaunchConfig config;
  config.grid.x = static_cast<unsigned>(shape.batch_heads);
  config.block.x = threads_of(instance, launch);
  config.schedule = launch.schedule;
  config.os_threads = launch.os_threads;
  if (!arguments.resume)
    simt::launch(config, [&] { instance.start(device); });
  if (shape.n_kv > 0) {
    std::optional<Meter> meter;
    if (counts != nullptr)
      meter.emplace(device);
    config.grid.y = grid_y_of(instance, shape);
    config.dynamic_shared_bytes = dynamic_shared_bytes_of(instance);
    config.shared_limit_bytes = std::max(config.shared_limit_bytes, config.dynamic_shared_bytes);
    const simt::LaunchStats stats = simt::launch(config, [&] { instance.step(device); });
    config.grid.y = 1;
    if (instance.plan == Plan::key_ranges)
      simt::launch(config, [&] { instance.finish(device); });
    if (counts != nullptr)
      meter->add(stats, *counts);
  }
  complete_l(instance, arguments);

  if (pads_O)
    for (std::int64_t row = 0; row < q_rows; ++row)
      std::copy_n(padded_O.data() + row * instance.D, shape.dv, arguments.O + row * shape.dv);
}

} // namespace fa1::kernels
