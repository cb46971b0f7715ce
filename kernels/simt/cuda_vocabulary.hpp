#pragma once

/// The words a kernel is written in. Of ours, a .cuh file includes this and other .cuh files alone.
///
/// nvcc      plain CUDA: <cuda_runtime.h> and the words below
/// host      the same words, run by the executor: qualifiers are empty, threadIdx and its kin are
///           thread-local variables set before each switch, synchronisation goes to the executor
///           with the line it was written on
///
/// FA1_SHARED(float, Kj, [Bc][D]);      `__shared__ float Kj[Bc][D];`
/// FA1_DYNAMIC_SHARED(float, scratch);  `extern __shared__ float scratch[];`
/// FA1_INFINITY                         +Inf as a float
/// hbm<float> O                         a kernel's parameter that points to global memory
/// FA1_COMPILED_ONCE                    before a function: on the host equal arguments give it equal
///                                      bits, wherever it is called and however g++ fuses a*b+c;
///                                      nvcc fuses alike everywhere by itself
///
/// FA1_UNROLL(n)                        before a loop: nvcc writes its body n times
///
/// fa1_load4(x, from);                  x[0..3] = from[0..3], one access of 16 bytes
/// fa1_store4(to, x);                   to[0..3] = x[0..3], one access of 16 bytes
/// fa1_copy4_async(to, from, exists);   begins to copy 4 floats of global memory to shared memory,
///                                      past the registers (PTX cp.async; at once before
///                                      sm_80); where they do not exist, `from` is not read and 0
///                                      is copied
/// fa1_wait_for_copies();               waits for the copies that the calling thread has begun
///
/// The first three want addresses that are multiples of 16 bytes. What a copy leaves in `to` before
/// the thread that began it has waited is undefined; other threads need a barrier after that.
///
/// fa1_barrier_sync(id, threads);       waits at barrier `id` (PTX bar.sync)
/// fa1_barrier_arrive(id, threads);     is counted there and goes on (PTX bar.arrive)
///
/// A block has 16 named barriers, 0 to 15; 0 is the one of __syncthreads(). A barrier is complete
/// when `threads` threads have called either word; then those that wait go on and it counts from
/// none again. `threads` counts whole warps, so it is a multiple of 32, and all who name a barrier
/// name the same count; all threads of a warp make the call together. What an arriving thread wrote
/// before is seen by those that waited, after; a thread that only arrives learns nothing.
///
/// On the host each object in shared memory is a reference into the executor's memory for the
/// running block: every declaration (of every template instance) is an object of exactly its size,
/// so that AddressSanitizer sees one byte too far, and it holds 0xFF bytes (NaN as a float) when
/// the block starts, so that a read before a write shows. More than 48 KiB is
/// Fault::shared_overflow. The type must be trivial, as in CUDA.
///
/// On the host an address that is no multiple of 16 bytes is Fault::misaligned, and what a copy is
/// to bring holds 0xFF bytes from its beginning to the wait, when it is read and written. A copy that
/// nobody waits for never arrives.
///
/// A bare `__shared__` also works, for kernels that are not ours, and is weaker: it is one `static
/// thread_local` object, which starts as zeros, keeps what the last block left, is not counted
/// against 48 KiB, and so hides mistakes. `extern __shared__` has no such fallback: replace that
/// one line by FA1_DYNAMIC_SHARED.
///
/// Warp operations: only a participating thread's value can be read. A shuffle from a thread that
/// takes no part (not in the mask, returned, or beyond the end of the block) is undefined in CUDA
/// and yields 0xFF bytes here.
///
/// Not offered: atomics, __activemask, half precision, textures, dynamic parallelism.

/// A pointer to global memory, as a kernel's parameter: no two of them overlap. Where FA1_COUNT_TRAFFIC
/// is defined, one that counts its loads and stores (kernels/traffic.hpp).
#ifdef FA1_COUNT_TRAFFIC
#include "kernels/simt/counted_pointer.hpp"
template <typename T> using hbm = fa1::simt::CountedPointer<T>;
#else
template <typename T> using hbm = T* __restrict__;
#endif

#ifdef __CUDACC__

#include <cuda_runtime.h>

#define FA1_INFINITY __int_as_float(0x7f800000)
#define FA1_COMPILED_ONCE

#define FA1_PRAGMA(text) _Pragma(#text)
#define FA1_UNROLL(n) FA1_PRAGMA(unroll(n))

__device__ __forceinline__ void fa1_load4(float* x, const float* from) {
  const float4 loaded = *reinterpret_cast<const float4*>(from);
  x[0] = loaded.x;
  x[1] = loaded.y;
  x[2] = loaded.z;
  x[3] = loaded.w;
}

__device__ __forceinline__ void fa1_store4(float* to, const float* x) {
  *reinterpret_cast<float4*>(to) = make_float4(x[0], x[1], x[2], x[3]);
}

__device__ __forceinline__ void fa1_copy4_async(float* to, const float* from, bool exists) {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
               :
               : "r"(static_cast<unsigned>(__cvta_generic_to_shared(to))), "l"(from),
                 "r"(exists ? 16 : 0)
               : "memory");
#else
  float x[4] = {};
  if (exists)
    fa1_load4(x, from);
  fa1_store4(to, x);
#endif
}

__device__ __forceinline__ void fa1_wait_for_copies() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_all;" : : : "memory");
#endif
}

// A barrier instruction is executed by the whole warp at once, which its threads may have left.

__device__ __forceinline__ void fa1_barrier_sync(unsigned id, unsigned threads) {
  __syncwarp();
  asm volatile("bar.sync %0, %1;" : : "r"(id), "r"(threads) : "memory");
}

__device__ __forceinline__ void fa1_barrier_arrive(unsigned id, unsigned threads) {
  __syncwarp();
  asm volatile("bar.arrive %0, %1;" : : "r"(id), "r"(threads) : "memory");
}

// clang-format off
#define FA1_SHARED(type, name, ...) __shared__ type name __VA_ARGS__
#define FA1_DYNAMIC_SHARED(type, name) \
  extern __shared__ __align__(16) unsigned char fa1_dynamic_shared[]; \
  type* const name = reinterpret_cast<type*>(fa1_dynamic_shared)
// clang-format on

#else

#include "kernels/simt/executor.hpp"
#include "kernels/simt/intrinsics.hpp"

#include <math.h> // NOLINT(modernize-deprecated-headers): the names without std::, as CUDA has them

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace fa1::simt {

struct Index3 {
  unsigned x = 0;
  unsigned y = 0;
  unsigned z = 0;
};

inline constexpr unsigned kWarpSize = 32;
inline constexpr unsigned kNamedBarriers = 16;

// What the words below are made of; `file` and `line` are those of the kernel's text. Called
// outside a launch they throw std::logic_error.

void block_barrier(const char* file, unsigned line);

enum class BarrierWord { sync, arrive };

void named_barrier(BarrierWord word, unsigned id, unsigned threads, const char* file,
                   unsigned line);

enum class WarpOperation { sync, shuffle, ballot };

/// Waits for the other threads in `mask`. shuffle: returns the operand of thread `source`; ballot:
/// the set of threads with an operand that is not 0. `name` is the CUDA word, for messages.
std::uint64_t warp_exchange(WarpOperation operation, unsigned mask, std::uint64_t operand,
                            unsigned source, const char* name, const char* file, unsigned line);
/// The running thread's place in its warp, 0 to 31.
unsigned lane_in_warp();

/// The running block's object for the declaration `site`, poisoned when the block started.
void* shared_object(const void* site, std::size_t bytes, std::size_t alignment, const char* file,
                    unsigned line);
void* dynamic_shared_object();

/// A copy to shared memory that the running thread has begun; `from` is null where it brings 0.
struct PendingCopy {
  float* to = nullptr;
  const float* from = nullptr;
};
void begin_copy(const PendingCopy& copy);
/// Takes one of them; false where none is left.
bool take_copy(PendingCopy& copy);

[[noreturn]] void misaligned(const void* address, const char* word, const char* file,
                             unsigned line);

FA1_WORD void require_aligned(const void* address, const char* word, const char* file,
                              unsigned line) {
  if (reinterpret_cast<std::uintptr_t>(address) % 16 != 0)
    misaligned(address, word, file, line);
}

template <typename T> FA1_WORD T& shared(const void* site, const char* file, unsigned line) {
  static_assert(std::is_trivially_default_constructible_v<T> && std::is_trivially_destructible_v<T>,
                "shared memory is never constructed nor destroyed: its type must be trivial");
  return *static_cast<T*>(shared_object(site, sizeof(T), alignof(T), file, line));
}

template <typename T>
FA1_WORD T shuffle(unsigned mask, T value, unsigned source, const char* name, const char* file,
                   unsigned line) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= sizeof(std::uint64_t),
                "a shuffle exchanges a trivially copyable value of at most 8 bytes");
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  bits = warp_exchange(WarpOperation::shuffle, mask, bits, source, name, file, line);
  std::memcpy(&value, &bits, sizeof(T));
  return value;
}

} // namespace fa1::simt

// NOLINTBEGIN(bugprone-reserved-identifier): the names below are CUDA's.

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __shared__ static thread_local

// constinit spares every read a call that would ask whether the variable needs initialising.
extern constinit thread_local fa1::simt::Index3 threadIdx;
extern constinit thread_local fa1::simt::Index3 blockIdx;
extern constinit thread_local fa1::simt::Dim3 blockDim;
extern constinit thread_local fa1::simt::Dim3 gridDim;

inline constexpr int warpSize = static_cast<int>(fa1::simt::kWarpSize);

FA1_WORD void __syncthreads(const char* file = __builtin_FILE(), unsigned line = __builtin_LINE()) {
  fa1::simt::block_barrier(file, line);
}

FA1_WORD void fa1_barrier_sync(unsigned id, unsigned threads, const char* file = __builtin_FILE(),
                               unsigned line = __builtin_LINE()) {
  fa1::simt::named_barrier(fa1::simt::BarrierWord::sync, id, threads, file, line);
}

FA1_WORD void fa1_barrier_arrive(unsigned id, unsigned threads, const char* file = __builtin_FILE(),
                                 unsigned line = __builtin_LINE()) {
  fa1::simt::named_barrier(fa1::simt::BarrierWord::arrive, id, threads, file, line);
}

FA1_WORD void __syncwarp(unsigned mask = 0xffffffffU, const char* file = __builtin_FILE(),
                         unsigned line = __builtin_LINE()) {
  fa1::simt::warp_exchange(fa1::simt::WarpOperation::sync, mask, 0, 0, "__syncwarp", file, line);
}

FA1_WORD unsigned __ballot_sync(unsigned mask, int predicate, const char* file = __builtin_FILE(),
                                unsigned line = __builtin_LINE()) {
  return static_cast<unsigned>(fa1::simt::warp_exchange(fa1::simt::WarpOperation::ballot, mask,
                                                        predicate != 0 ? 1 : 0, 0, "__ballot_sync",
                                                        file, line));
}

FA1_WORD int __any_sync(unsigned mask, int predicate, const char* file = __builtin_FILE(),
                        unsigned line = __builtin_LINE()) {
  return __ballot_sync(mask, predicate, file, line) != 0 ? 1 : 0;
}

FA1_WORD int __all_sync(unsigned mask, int predicate, const char* file = __builtin_FILE(),
                        unsigned line = __builtin_LINE()) {
  return __ballot_sync(mask, predicate == 0 ? 1 : 0, file, line) == 0 ? 1 : 0;
}

// `width` (a power of two) cuts the warp into segments that are shuffled each on its own; a source
// outside the segment means the thread's own value, as in CUDA.

template <typename T>
FA1_WORD T __shfl_sync(unsigned mask, T value, int source, int width = 32,
                       const char* file = __builtin_FILE(), unsigned line = __builtin_LINE()) {
  const unsigned inside = static_cast<unsigned>(width) - 1;
  const unsigned start = fa1::simt::lane_in_warp() & ~inside;
  return fa1::simt::shuffle(mask, value, start + (static_cast<unsigned>(source) & inside),
                            "__shfl_sync", file, line);
}

template <typename T>
FA1_WORD T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32,
                            const char* file = __builtin_FILE(), unsigned line = __builtin_LINE()) {
  const unsigned self = fa1::simt::lane_in_warp();
  const unsigned last = self | (static_cast<unsigned>(width) - 1);
  const unsigned source = delta <= last - self ? self + delta : self;
  return fa1::simt::shuffle(mask, value, source, "__shfl_down_sync", file, line);
}

template <typename T>
FA1_WORD T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32,
                          const char* file = __builtin_FILE(), unsigned line = __builtin_LINE()) {
  const unsigned self = fa1::simt::lane_in_warp();
  const unsigned start = self & ~(static_cast<unsigned>(width) - 1);
  const unsigned source = delta <= self - start ? self - delta : self;
  return fa1::simt::shuffle(mask, value, source, "__shfl_up_sync", file, line);
}

template <typename T>
FA1_WORD T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = 32,
                           const char* file = __builtin_FILE(), unsigned line = __builtin_LINE()) {
  const unsigned self = fa1::simt::lane_in_warp();
  const unsigned last = self | (static_cast<unsigned>(width) - 1);
  const unsigned partner = self ^ static_cast<unsigned>(lanes);
  return fa1::simt::shuffle(mask, value, partner <= last ? partner : self, "__shfl_xor_sync", file,
                            line);
}

// CUDA offers these without a namespace; on floats they follow fmaxf and fminf, which skip a NaN.
FA1_WORD float max(float a, float b) { return fmaxf(a, b); }
FA1_WORD float min(float a, float b) { return fminf(a, b); }
FA1_WORD double max(double a, double b) { return fmax(a, b); }
FA1_WORD double min(double a, double b) { return fmin(a, b); }
FA1_WORD int max(int a, int b) { return a < b ? b : a; }
FA1_WORD int min(int a, int b) { return b < a ? b : a; }
FA1_WORD unsigned max(unsigned a, unsigned b) { return a < b ? b : a; }
FA1_WORD unsigned min(unsigned a, unsigned b) { return b < a ? b : a; }

FA1_WORD void fa1_load4(float* x, const float* from, const char* file = __builtin_FILE(),
                        unsigned line = __builtin_LINE()) {
  fa1::simt::require_aligned(from, "fa1_load4", file, line);
  std::memcpy(x, from, 4 * sizeof(float));
}

FA1_WORD void fa1_store4(float* to, const float* x, const char* file = __builtin_FILE(),
                         unsigned line = __builtin_LINE()) {
  fa1::simt::require_aligned(to, "fa1_store4", file, line);
  std::memcpy(to, x, 4 * sizeof(float));
}

FA1_WORD void fa1_copy4_async(float* to, const float* from, bool exists,
                              const char* file = __builtin_FILE(),
                              unsigned line = __builtin_LINE()) {
  fa1::simt::require_aligned(to, "fa1_copy4_async", file, line);
  fa1::simt::require_aligned(from, "fa1_copy4_async", file, line);
  std::memset(to, 0xff, 4 * sizeof(float));
  fa1::simt::begin_copy({to, exists ? from : nullptr});
}

FA1_WORD void fa1_wait_for_copies() {
  constexpr float kZeros[4] = {};
  for (fa1::simt::PendingCopy copy; fa1::simt::take_copy(copy);)
    std::memcpy(copy.to, copy.from != nullptr ? copy.from : kZeros, sizeof kZeros);
}

#ifdef FA1_COUNT_TRAFFIC
template <typename T>
FA1_WORD void fa1_load4(float* x, const fa1::simt::CountedPointer<T>& from,
                        const char* file = __builtin_FILE(), unsigned line = __builtin_LINE()) {
  fa1_load4(x, from.loaded(4), file, line);
}

FA1_WORD void fa1_store4(const fa1::simt::CountedPointer<float>& to, const float* x,
                         const char* file = __builtin_FILE(), unsigned line = __builtin_LINE()) {
  fa1_store4(to.stored(4), x, file, line);
}

template <typename T>
FA1_WORD void fa1_copy4_async(float* to, const fa1::simt::CountedPointer<T>& from, bool exists,
                              const char* file = __builtin_FILE(),
                              unsigned line = __builtin_LINE()) {
  fa1_copy4_async(to, from.loaded(exists ? 4 : 0), exists, file, line);
}
#endif

using dim3 = fa1::simt::Dim3;

#define FA1_INFINITY __builtin_inff()
#define FA1_COMPILED_ONCE __attribute__((noinline, noclone))
#define FA1_UNROLL(n)

// clang-format off
#define FA1_SHARED(type, name, ...) \
  static constexpr char fa1_site_of_##name = 0; \
  auto& name = ::fa1::simt::shared<type __VA_ARGS__>(&fa1_site_of_##name, __FILE__, __LINE__)
#define FA1_DYNAMIC_SHARED(type, name) \
  type* const name = static_cast<type*>(::fa1::simt::dynamic_shared_object())
// clang-format on

// NOLINTEND(bugprone-reserved-identifier)

#endif
