// The loops of certified_tiles.cpp on a GPU. Steps and constants are those of certified_tile.hpp;
// what is here is only who does which of them, and when. Compiled with -fmad=false.

#include "reference/certified_cuda.hpp"

#include "reference/certified_simd.hpp"
#include "reference/certified_tiles.hpp"

#include <cuda_pipeline_primitives.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <utility>

namespace fa1::reference {
namespace {

using namespace tile;

constexpr int kTall = 4; ///< rows of a thread
constexpr unsigned kWholeWarp = 0xffffffffu;

void require(cudaError_t status, const char* call) {
  if (status != cudaSuccess)
    throw DeviceError(std::string("cuda: ") + call + ": " + cudaGetErrorString(status));
}

/// Padded with zeros to whole tiles and chunks.
struct Matrices {
  const double* Q; ///< [batch-head][d][n_q], times scale
  const double* K; ///< [batch-head][d][n_kv]
  const double* V; ///< [batch-head][n_kv][dv]
  std::int64_t n_q, n_kv, d, dv;
};

struct Device {
  Matrices padded;
  std::int64_t n_q, n_kv, dv, tiles;
  const Pair* table;
  Row* rows;     ///< [batch-head][padded n_q]
  RowSums* sums; ///< [batch-head][n_q]
  Enclosed* O;   ///< [batch-head][n_q][dv]
};

constexpr int kRows = 64;                        ///< of Q a block
constexpr int kThreads = kRows / kTall * kLanes; ///< [kRows / kTall][kLanes]
constexpr int kElements = kTall * kEach;         ///< of O that a thread has
constexpr int kPitch = kRows + 2;                ///< two more against bank conflicts

template <int Chunk> struct ChunkBuffers {
  double q[2][Chunk][kRows];
  double k[2][Chunk][kKeys];
};

template <int Chunk> struct Shared {
  ChunkBuffers<Chunk> chunk;
  double v[kKeys][kColumns];
  double w_hi[kKeys][kPitch]; ///< arguments, then weights
  double w_lo[kKeys][kPitch];
  double2 N[kElements][kThreads]; ///< each thread's own: sum w v
  double B[kElements][kThreads];  ///< and sum w |v|
  double2 table[kSteps];
};

/// What a thread is, and the chunks of Q and K as they pass through shared memory.
template <int Chunk> class Block {
public:
  __device__ Block(const Device& device, ChunkBuffers<Chunk>& buffers)
      : lane(static_cast<int>(threadIdx.x) % kLanes),
        top(static_cast<int>(threadIdx.x) / kLanes * kTall),
        first(static_cast<std::int64_t>(blockIdx.x) * kRows), bh(blockIdx.z), a(device), s(buffers),
        chunks(static_cast<int>(device.padded.d / Chunk)) {
    fetch_chunk(0);
    __pipeline_commit();
  }

  /// step(q, k) for every dimension of a tile's keys, while the next chunk is on its way. `then` runs
  /// once all threads have left the tile before; what it fetches is there after this tile's last
  /// dimension and a wait.
  template <class Step, class Then>
  __device__ void over_dimensions(std::int64_t tile, Step step, Then then) {
    for (int c = 0; c < chunks; ++c) {
      const std::int64_t now = tile * chunks + c;
      __pipeline_wait_prior(0);
      __syncthreads(); // the chunk is there, and nobody reads any more what is fetched next
      if (c == 0)
        then();
      if (now + 1 < a.tiles * chunks)
        fetch_chunk(now + 1);
      __pipeline_commit();
      const auto& q = s.q[now & 1];
      const auto& k = s.k[now & 1];
#pragma unroll 4
      for (int i = 0; i < Chunk; ++i) {
        const double2 q0 = *reinterpret_cast<const double2*>(&q[i][top]);
        const double2 q1 = *reinterpret_cast<const double2*>(&q[i][top + 2]);
        const double2 k0 = *reinterpret_cast<const double2*>(&k[i][2 * lane]);
        const double2 k1 = *reinterpret_cast<const double2*>(&k[i][2 * lane + kKeys / 2]);
        const double qs[kTall] = {q0.x, q0.y, q1.x, q1.y};
        const double ks[kEach] = {k0.x, k0.y, k1.x, k1.y};
        step(qs, ks);
      }
    }
  }

  __device__ Row& row(int r) { return a.rows[bh * a.padded.n_q + first + top + r]; }

  const int lane, top;
  const std::int64_t first, bh;

private:
  /// Chunk `step` of all tiles into its half of the buffers.
  __device__ void fetch_chunk(std::int64_t step) {
    const std::int64_t tile = step / chunks, from = step % chunks * Chunk;
    const Matrices& p = a.padded;
    const double* const Q = p.Q + (bh * p.d + from) * p.n_q + first;
    const double* const K = p.K + (bh * p.d + from) * p.n_kv + tile * kKeys;
    const int half = static_cast<int>(step & 1);
    static_assert(kRows == kKeys);
    for (int i = static_cast<int>(threadIdx.x); i < Chunk * kRows / 2; i += kThreads) {
      const int c = i / (kRows / 2), at = i % (kRows / 2) * 2;
      __pipeline_memcpy_async(&s.q[half][c][at], Q + c * p.n_q + at, 16);
      __pipeline_memcpy_async(&s.k[half][c][at], K + c * p.n_kv + at, 16);
    }
  }

  const Device& a;
  ChunkBuffers<Chunk>& s;
  const int chunks;
};

__device__ double from_lane(double x, int step) { return __shfl_xor_sync(kWholeWarp, x, step); }

/// M^ of each row: the largest score in plain double.
template <int Chunk> __global__ void __launch_bounds__(kThreads) find_maxima(Device device) {
  extern __shared__ double2 raw[];
  Block<Chunk> block(device, *reinterpret_cast<ChunkBuffers<Chunk>*>(raw));
  double largest[kTall];
  for (double& x : largest)
    x = kNoScore;
  for (std::int64_t tile = 0; tile < device.tiles; ++tile) {
    double dot[kTall][kEach] = {};
    const auto step = [&](const double* q, const double* k) {
#pragma unroll
      for (int r = 0; r < kTall; ++r)
#pragma unroll
        for (int i = 0; i < kEach; ++i)
          dot[r][i] = std::fma(q[r], k[i], dot[r][i]);
    };
    block.over_dimensions(tile, step, [] {});
#pragma unroll
    for (int i = 0; i < kEach; ++i)
      if (tile * kKeys + key_of(block.lane, i) < device.n_kv)
#pragma unroll
        for (int r = 0; r < kTall; ++r)
          largest[r] = dot[r][i] > largest[r] ? dot[r][i] : largest[r];
  }
#pragma unroll
  for (int r = 0; r < kTall; ++r) {
    for (int step = 1; step < kLanes; step *= 2) {
      const double other = from_lane(largest[r], step);
      largest[r] = other > largest[r] ? other : largest[r];
    }
    if (block.lane == 0) {
      Row& row = block.row(r);
      row.shift = shift_of(row, largest[r]);
    }
  }
}

/// kTall neighbours of one key's arguments or weights.
__device__ void load(const double* from, double* to) {
  const double2 a = *reinterpret_cast<const double2*>(from);
  const double2 b = *reinterpret_cast<const double2*>(from + 2);
  to[0] = a.x, to[1] = a.y, to[2] = b.x, to[3] = b.y;
}

__device__ void store(double* to, const double* from) {
  *reinterpret_cast<double2*>(to) = {from[0], from[1]};
  *reinterpret_cast<double2*>(to + 2) = {from[2], from[3]};
}

/// kEach values of one key.
__device__ void load_values(const double* from, int lane, double* to) {
  const double2 a = *reinterpret_cast<const double2*>(from + 2 * lane);
  const double2 b = *reinterpret_cast<const double2*>(from + 2 * lane + kColumns / 2);
  to[0] = a.x, to[1] = a.y, to[2] = b.x, to[3] = b.y;
}

template <int Chunk> __global__ void __launch_bounds__(kThreads, 1) certify_rows(Device device) {
  extern __shared__ double2 raw[];
  auto& s = *reinterpret_cast<Shared<Chunk>*>(raw);
  Block<Chunk> block(device, s.chunk);
  const int lane = block.lane, top = block.top, me = static_cast<int>(threadIdx.x);
  for (int i = me; i < kSteps; i += kThreads)
    s.table[i] = {device.table[i].hi, device.table[i].lo};
  const Pair* const table = reinterpret_cast<const Pair*>(s.table);
  for (int e = 0; e < kElements; ++e) {
    s.N[e][me] = {0.0, 0.0};
    s.B[e][me] = 0.0;
  }
  Pair L[kTall], largest[kTall];
#pragma unroll
  for (int r = 0; r < kTall; ++r)
    largest[r] = {kNoScore, 0.0};

  for (std::int64_t tile = 0; tile < device.tiles; ++tile) {
    double acc[kTall][kEach], lo[kTall][kEach];
#pragma unroll
    for (int r = 0; r < kTall; ++r) {
      const Row& row = block.row(r);
      const double start = row.anchor - row.shift;
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
        acc[r][i] = start;
        lo[r][i] = 0.0;
      }
    }
    const auto step = [&](const double* q, const double* k) {
#pragma unroll
      for (int r = 0; r < kTall; ++r)
#pragma unroll
        for (int i = 0; i < kEach; ++i)
          accumulate(q[r], k[i], acc[r][i], lo[r][i]);
    };
    block.over_dimensions(tile, step, [&] {
      const Matrices& p = device.padded;
      const double* const V =
          p.V + (block.bh * p.n_kv + tile * kKeys) * p.dv + blockIdx.y * kColumns;
      for (int i = me; i < kKeys * kColumns / 2; i += kThreads) {
        const int j = i / (kColumns / 2), at = i % (kColumns / 2) * 2;
        __pipeline_memcpy_async(&s.v[j][at], V + j * p.dv + at, 16);
      }
    });

    // Arguments wait in shared memory, where the weights take their place: fewer registers.
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      double hi[kTall], low[kTall];
#pragma unroll
      for (int r = 0; r < kTall; ++r) {
        const Pair x = argument(acc[r][i], lo[r][i]);
        hi[r] = x.hi, low[r] = x.lo;
      }
      store(&s.w_hi[key_of(lane, i)][top], hi);
      store(&s.w_lo[key_of(lane, i)][top], low);
    }
#pragma unroll 1
    for (int i = 0; i < kEach; ++i) {
      const int j = key_of(lane, i);
      const bool there = tile * kKeys + j < device.n_kv;
      double hi[kTall], low[kTall];
      load(&s.w_hi[j][top], hi);
      load(&s.w_lo[j][top], low);
#pragma unroll
      for (int r = 0; r < kTall; ++r) {
        const Pair x = there ? Pair{hi[r], low[r]} : Pair{kNoScore, 0.0};
        if (exceeds(x, largest[r]))
          largest[r] = x;
        const Pair w = weight(x, table);
        L[r] = grown(L[r], w.hi, w.lo);
        hi[r] = w.hi, low[r] = w.lo;
      }
      store(&s.w_hi[j][top], hi);
      store(&s.w_lo[j][top], low);
    }
    __pipeline_wait_prior(0);
    __syncthreads(); // weights and values are there

    double b[kTall][kEach] = {};
#pragma unroll 4
    for (int j = 0; j < kKeys; ++j) {
      double w[kTall], v[kEach];
      load(&s.w_hi[j][top], w);
      load_values(s.v[j], lane, v);
#pragma unroll
      for (int r = 0; r < kTall; ++r)
#pragma unroll
        for (int i = 0; i < kEach; ++i)
          b[r][i] = std::fma(w[r], std::fabs(v[i]), b[r][i]);
    }
    double anchor[kTall][kEach];
#pragma unroll
    for (int r = 0; r < kTall; ++r)
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
        s.B[r * kEach + i][me] += b[r][i];
        anchor[r][i] = anchor_of(b[r][i]);
        acc[r][i] = anchor[r][i];
        lo[r][i] = 0.0;
      }
#pragma unroll 2
    for (int j = 0; j < kKeys; ++j) {
      double w[kTall], w_lo[kTall], v[kEach];
      load(&s.w_hi[j][top], w);
      load(&s.w_lo[j][top], w_lo);
      load_values(s.v[j], lane, v);
#pragma unroll
      for (int r = 0; r < kTall; ++r)
#pragma unroll
        for (int i = 0; i < kEach; ++i) {
          accumulate(w[r], v[i], acc[r][i], lo[r][i]);
          lo[r][i] = std::fma(w_lo[r], v[i], lo[r][i]);
        }
    }
#pragma unroll
    for (int r = 0; r < kTall; ++r)
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
        double2& at = s.N[r * kEach + i][me];
        const Pair N = grown({at.x, at.y}, acc[r][i] - anchor[r][i], lo[r][i]);
        at = {N.hi, N.lo};
      }
  }

#pragma unroll
  for (int r = 0; r < kTall; ++r) {
    for (int step = 1; step < kLanes; step *= 2) {
      L[r] = add(L[r], {from_lane(L[r].hi, step), from_lane(L[r].lo, step)});
      const Pair other{from_lane(largest[r].hi, step), from_lane(largest[r].lo, step)};
      if (exceeds(other, largest[r]))
        largest[r] = other;
    }
    const std::int64_t q = block.first + top + r;
    if (q >= device.n_q)
      continue;
    const std::int64_t at = block.bh * device.n_q + q;
    if (lane == 0 && blockIdx.y == 0)
      device.sums[at] = {L[r], largest[r]};
    for (int i = 0; i < kEach; ++i) {
      const std::int64_t c = static_cast<std::int64_t>(blockIdx.y) * kColumns + key_of(lane, i);
      if (c >= device.dv)
        continue;
      const double2 N = s.N[r * kEach + i][me];
      const Result o =
          output({N.x, N.y}, s.B[r * kEach + i][me], L[r], block.row(r).eta, device.tiles);
      device.O[at * device.dv + c] = {o.hi, o.lo, o.radius};
    }
  }
}

/// to[c][r] = scale * from[r][c], with zeros around.
__global__ void transpose(const float* from, std::int64_t rows, std::int64_t columns, double scale,
                          double* to, std::int64_t to_rows) {
  const std::int64_t r = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const std::int64_t c = blockIdx.y, bh = blockIdx.z;
  if (r >= to_rows)
    return;
  const bool inside = r < rows && c < columns;
  to[(bh * gridDim.y + c) * to_rows + r] =
      inside ? taken(from[(bh * rows + r) * columns + c], scale) : 0.0;
}

__global__ void pad(const float* from, std::int64_t rows, std::int64_t columns, double* to,
                    std::int64_t to_columns) {
  const std::int64_t c = static_cast<std::int64_t>(blockIdx.y) * blockDim.x + threadIdx.x;
  const std::int64_t r = blockIdx.x, bh = blockIdx.z;
  if (c >= to_columns)
    return;
  const bool inside = r < rows && c < columns;
  to[(bh * gridDim.x + r) * to_columns + c] =
      inside ? taken(from[(bh * rows + r) * columns + c], 1.0) : 0.0;
}

/// Device memory, freed on every way out.
template <class Number> class DeviceArray {
public:
  explicit DeviceArray(std::int64_t count)
      : bytes_(static_cast<std::size_t>(std::max<std::int64_t>(count, 1)) * sizeof(Number)) {
    require(cudaMalloc(reinterpret_cast<void**>(&data_), bytes_), "cudaMalloc");
    require(cudaMemset(data_, 0xff, bytes_), "cudaMemset"); // NaN until written
  }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;
  ~DeviceArray() { cudaFree(data_); }

  Number* data() { return data_; }
  void copy_from(const Number* host, std::size_t count) {
    require(cudaMemcpy(data_, host, count * sizeof(Number), cudaMemcpyHostToDevice), "cudaMemcpy");
  }
  void copy_to(Number* host, std::size_t count) const {
    require(cudaMemcpy(host, data_, count * sizeof(Number), cudaMemcpyDeviceToHost), "cudaMemcpy");
  }

private:
  Number* data_ = nullptr;
  std::size_t bytes_;
};

class Stopwatch {
public:
  Stopwatch() {
    require(cudaEventCreate(&start_), "cudaEventCreate");
    require(cudaEventCreate(&end_), "cudaEventCreate");
    require(cudaEventRecord(start_), "cudaEventRecord");
  }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;
  ~Stopwatch() {
    cudaEventDestroy(start_);
    cudaEventDestroy(end_);
  }
  /// Since the beginning, once everything before is done; errors of kernels come out here.
  double seconds(const char* what) const {
    require(cudaGetLastError(), what);
    require(cudaEventRecord(end_), "cudaEventRecord");
    require(cudaEventSynchronize(end_), what);
    float ms = 0.0f;
    require(cudaEventElapsedTime(&ms, start_, end_), "cudaEventElapsedTime");
    return static_cast<double>(ms) * 1e-3;
  }

private:
  cudaEvent_t start_ = nullptr, end_ = nullptr;
};

std::int64_t up_to(std::int64_t n, std::int64_t step) { return (n + step - 1) / step * step; }

template <int Chunk>
void run(const Device& device, std::int64_t batch_heads, bool shifted, DeviceTimes& times) {
  const auto launch = [&](auto* kernel, const char* name, int bytes, std::int64_t groups) {
    require(cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                                 cudaFuncAttributeMaxDynamicSharedMemorySize, bytes),
            name);
    const dim3 grid(static_cast<unsigned>(device.padded.n_q / kRows), static_cast<unsigned>(groups),
                    static_cast<unsigned>(batch_heads));
    const Stopwatch time;
    kernel<<<grid, kThreads, static_cast<std::size_t>(bytes)>>>(device);
    return time.seconds(name);
  };
  if (shifted)
    times.maxima = launch(&find_maxima<Chunk>, "find_maxima", sizeof(ChunkBuffers<Chunk>), 1);
  times.tiles = launch(&certify_rows<Chunk>, "certify_rows", sizeof(Shared<Chunk>),
                       device.padded.dv / kColumns);
}

PartialTruth certify_on_device(const Problem& problem, unsigned threads, DeviceTimes& times) {
  const Shape& shape = problem.shape;
  Plan plan = plan_of(problem, threads);
  Tensor<Enclosed> O(shape.batch_heads, shape.n_q, shape.dv);
  std::vector<RowSums> sums(plan.rows.size());
  std::vector<double> shifts(plan.rows.size(), 0.0);
  if (std::ranges::find(plan.covered, 1) == plan.covered.end())
    return finished(plan, std::move(O), sums, shifts, threads);

  const std::int64_t n_q = up_to(shape.n_q, 64), n_kv = up_to(shape.n_kv, kKeys),
                     d = up_to(std::max<std::int64_t>(shape.d, 1), 32),
                     dv = up_to(std::max<std::int64_t>(shape.dv, 1), kColumns),
                     bh = shape.batch_heads;
  DeviceArray<double> Q(bh * d * n_q), K(bh * d * n_kv), V(bh * n_kv * dv);
  DeviceArray<Pair> table(kSteps);
  DeviceArray<Row> rows(bh * n_q);
  DeviceArray<RowSums> row_sums(bh * shape.n_q);
  DeviceArray<Enclosed> outputs(O.size());
  {
    const simd::ExpTable& from = simd::exp_table();
    std::vector<Pair> pairs;
    for (int i = 0; i < kSteps; ++i)
      pairs.push_back({from.hi[i], from.lo[i]});
    table.copy_from(pairs.data(), pairs.size());
    std::vector<Row> padded_rows(static_cast<std::size_t>(bh * n_q));
    for (std::int64_t b = 0; b < bh; ++b)
      std::copy_n(plan.rows.begin() + b * shape.n_q, shape.n_q, padded_rows.begin() + b * n_q);
    rows.copy_from(padded_rows.data(), padded_rows.size());

    DeviceArray<float> q(problem.Q.size()), k(problem.K.size()), v(problem.V.size());
    q.copy_from(problem.Q.data(), problem.Q.elements().size());
    k.copy_from(problem.K.data(), problem.K.elements().size());
    v.copy_from(problem.V.data(), problem.V.elements().size());
    const auto grid = [&](std::int64_t x, std::int64_t y) {
      return dim3(static_cast<unsigned>(x), static_cast<unsigned>(y), static_cast<unsigned>(bh));
    };
    Stopwatch time;
    transpose<<<grid(n_q / 64, d), 64>>>(q.data(), shape.n_q, shape.d, plan.scale, Q.data(), n_q);
    transpose<<<grid(n_kv / 64, d), 64>>>(k.data(), shape.n_kv, shape.d, 1.0, K.data(), n_kv);
    pad<<<grid(n_kv, dv / 64), 64>>>(v.data(), shape.n_kv, shape.dv, V.data(), dv);
    times.prepare = time.seconds("transpose");
  }
  const Device device{{Q.data(), K.data(), V.data(), n_q, n_kv, d, dv},
                      shape.n_q,
                      shape.n_kv,
                      shape.dv,
                      plan.tiles,
                      table.data(),
                      rows.data(),
                      row_sums.data(),
                      outputs.data()};
  run<8>(device, bh, plan.shifted, times);
  outputs.copy_to(O.data(), O.elements().size());
  row_sums.copy_to(sums.data(), sums.size());
  std::vector<Row> used(static_cast<std::size_t>(bh * n_q));
  rows.copy_to(used.data(), used.size());
  for (std::int64_t b = 0; b < bh; ++b)
    for (std::int64_t q = 0; q < shape.n_q; ++q)
      shifts[static_cast<std::size_t>(b * shape.n_q + q)] =
          used[static_cast<std::size_t>(b * n_q + q)].shift;
  return finished(plan, std::move(O), sums, shifts, threads);
}

} // namespace

std::string certify_cuda_obstacle() {
  int count = 0, bytes = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess)
    return std::string("no CUDA device: ") + cudaGetErrorString(status);
  if (count == 0)
    return "no CUDA device is present";
  require(cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0),
          "cudaDeviceGetAttribute");
  if (bytes < static_cast<int>(sizeof(Shared<8>)))
    return "the device has " + std::to_string(bytes / 1024) +
           " KiB of shared memory for a block; the truth takes " +
           std::to_string(sizeof(Shared<8>) / 1024);
  return "";
}

Truth certify_cuda(const Problem& problem, unsigned threads, DeviceTimes* times) {
  DeviceTimes measured;
  PartialTruth partial = certify_on_device(problem, threads, measured);
  if (times != nullptr)
    *times = measured;
  return completed(problem, std::move(partial), threads);
}

} // namespace fa1::reference
