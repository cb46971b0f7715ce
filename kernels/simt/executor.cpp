#include "kernels/simt/executor.hpp"

#include "kernels/simt/cuda_vocabulary.hpp"
#include "kernels/simt/fiber.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <charconv>
#include <cstring>
#include <exception>
#include <limits>
#include <memory>
#include <mutex>
#include <new>
#include <span>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

constinit thread_local fa1::simt::Index3 threadIdx{};
constinit thread_local fa1::simt::Index3 blockIdx{};
constinit thread_local fa1::simt::Dim3 blockDim{};
constinit thread_local fa1::simt::Dim3 gridDim{};

namespace fa1::simt {
namespace {

constexpr unsigned kMaxThreads = 1024;
constexpr unsigned kMaxWarps = kMaxThreads / kWarpSize;
constexpr std::size_t kStaticSharedLimit = 48 * 1024;
constexpr unsigned char kPoison = 0xff;

// --- words for messages --------------------------------------------------------------------------

template <typename T> std::string triple(const T& at) {
  return std::string("(") + std::to_string(at.x) + "," + std::to_string(at.y) + "," +
         std::to_string(at.z) + ")";
}

std::string threads(unsigned count) {
  return std::to_string(count) + (count == 1 ? " thread" : " threads");
}

std::string hexadecimal(unsigned value) {
  std::array<char, 8> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value, 16).ptr;
  return "0x" + std::string(digits.data(), end);
}

const char* name_of(BarrierWord word) {
  return word == BarrierWord::sync ? "fa1_barrier_sync" : "fa1_barrier_arrive";
}

/// Where a thread waits. The text is a literal of the kernel's translation unit, compared by
/// content because a header's literals may exist once per translation unit.
struct Place {
  const char* file = nullptr;
  unsigned line = 0;

  bool operator==(const Place& other) const {
    return line == other.line && (file == other.file || std::strcmp(file, other.file) == 0);
  }
  std::string text() const { return std::string(file) + ":" + std::to_string(line); }
  SourceLine source_line() const { return {file, line}; }
};

[[noreturn]] void refuse(const std::string& message) {
  throw ExecutorError(Fault::launch_config, message);
}

// --- order of threads ----------------------------------------------------------------------------

/// splitmix64: small, and good enough to shuffle with.
class Random {
public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  /// Uniform below `bound` up to a bias of bound / 2^32.
  unsigned below(unsigned bound) {
    state_ += 0x9e3779b97f4a7c15U;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    z ^= z >> 31;
    return static_cast<unsigned>(((z >> 32) * bound) >> 32);
  }

private:
  std::uint64_t state_;
};

// --- one block at a time -------------------------------------------------------------------------

class Engine;

struct Lane {
  enum class State { ready, at_barrier, at_named_barrier, in_warp_operation, finished };

  Fiber* fiber = nullptr;
  Engine* engine = nullptr;
  Index3 thread;
  unsigned id = 0;
  State state = State::ready;
  Place place; // where it waits
  // The warp operation it waits in. The last thread to arrive fills in everybody's result, so each
  // thread is suspended once per operation and no slot is read after its owner has gone on.
  unsigned mask = 0;
  unsigned source = 0;
  std::uint64_t operand = 0;
  std::uint64_t result = 0;
  // The named barrier it waits at, and what orders its memory there; here and not on its stack,
  // which may be dropped.
  unsigned barrier = 0;
  std::shared_ptr<const char> token;
  std::vector<PendingCopy> copies; // begun and not waited for
};

/// Threads of a warp that wait for one another: those that named the same mask.
struct Group {
  unsigned mask = 0;
  unsigned arrived = 0;
  WarpOperation operation = WarpOperation::sync;
  Place place;
};

/// A named barrier on its way to completion.
struct NamedBarrier {
  struct Arrival {
    unsigned lanes = 0;
    BarrierWord word = BarrierWord::sync;
    Place place;
  };

  unsigned threads = 0;                      // that complete it; 0 while nobody has come
  unsigned warps = 0;                        // that have come whole
  Place place;                               // where the first one came
  std::array<Arrival, kMaxWarps> arrivals{}; // by warp
  // For the race checker. Each completion has a token of its own: two in turn, as for the block's
  // barrier, are too few where a thread that only arrives may be any number of completions ahead of
  // one that has yet to leave.
  std::shared_ptr<const char> token;
};

struct Warp {
  unsigned lanes = 0; // its threads that exist
  unsigned alive = 0; // its threads that exist and have not returned
  unsigned group_count = 0;
  std::array<Group, kWarpSize> groups;
  // For the race checker, by lowest thread of the mask; see Engine::arrive_at_block_barrier on why
  // there are two.
  std::array<std::array<char, 2>, kWarpSize> tokens{};
  std::array<unsigned char, kWarpSize> parity{};
};

/// One object in shared memory, of exactly its size so that AddressSanitizer guards both ends.
class SharedObject {
public:
  SharedObject(const void* site, std::size_t bytes, std::size_t alignment)
      : site_(site), bytes_(bytes),
        alignment_(std::align_val_t{std::max(alignment, std::size_t{64})}) {
    const race::Unseen unseen;
    data_ = ::operator new(bytes_, alignment_);
    std::memset(data_, kPoison, bytes_);
  }
  ~SharedObject() {
    const race::Unseen unseen;
    ::operator delete(data_, alignment_);
  }
  SharedObject(const SharedObject&) = delete;
  SharedObject& operator=(const SharedObject&) = delete;

  void poison() {
    const race::Unseen unseen;
    std::memset(data_, kPoison, bytes_);
  }
  const void* site() const { return site_; }
  void* data() const { return data_; }

private:
  const void* site_;
  std::size_t bytes_;
  std::align_val_t alignment_;
  void* data_ = nullptr;
};

/// Runs blocks of one launch, one after the other, on the OS thread that made it.
class Engine {
public:
  Engine(const LaunchConfig& config, const std::function<void()>& kernel, const char* end_token);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// Returns what went wrong, or nothing.
  std::exception_ptr run_block(std::uint64_t block);
  const LaunchStats& stats() const { return stats_; }

  void arrive_at_block_barrier(const Place& place);
  void arrive_at_named_barrier(BarrierWord word, unsigned id, unsigned threads_to_come,
                               const Place& place);
  std::uint64_t arrive_in_warp(WarpOperation operation, unsigned mask, std::uint64_t operand,
                               unsigned source, const char* name, const Place& place);
  unsigned lane_in_warp() const { return current_->id % kWarpSize; }
  void* shared_object(const void* site, std::size_t bytes, std::size_t alignment,
                      const Place& place);
  void* dynamic_shared() const { return dynamic_->data(); }
  std::vector<PendingCopy>& copies() { return current_->copies; }
  ExecutorError misaligned(const void* address, const char* word, const Place& place) const;

private:
  static void lane_main(void* argument);
  void finish(Lane& self);
  [[noreturn]] void fail(Lane& self, std::exception_ptr error);
  void run_next(Lane& self);
  bool advance();
  Lane& pop();
  void push(Lane& lane);
  void queue_all();
  enum class Position { behind, in_front }; // of all that can run
  void queue_in_order(std::span<Lane*> lanes, Position position);
  void complete(NamedBarrier& barrier);
  void complete(Warp& warp, unsigned first_lane, unsigned group_index);
  std::exception_ptr stuck() const;
  std::exception_ptr stuck_at_named_barrier() const;
  std::exception_ptr left_arrivals() const;
  ExecutorError barrier_misuse(const std::string& word, const Place& place, const std::string& what,
                               const Place& second) const;
  std::exception_ptr stuck_with(Fault fault, const std::string& sentence, const Place& first,
                                const Place& second) const;
  unsigned count() const { return static_cast<unsigned>(lanes_.size()); }

  const LaunchConfig& config_;
  const std::function<void()>& kernel_;
  // For the race checker: what this OS thread did before comes before every CUDA thread, and they
  // all come before what the caller of the launch does next. Not one token for both, or a block
  // that starts late would seem to come after one that has finished on another OS thread: CUDA
  // orders no two blocks.
  const char begin_token_ = 0;
  const char* const end_token_;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  Fiber os_thread_{Fiber::CallingThread{}};
  std::vector<Lane> lanes_;
  std::vector<Warp> warps_;
  Lane* current_ = nullptr;

  // Threads that can run, in the order in which they will: a ring with room for all.
  std::vector<Lane*> queue_;
  unsigned queue_head_ = 0;
  unsigned queue_size_ = 0;

  unsigned at_barrier_ = 0;
  unsigned finished_ = 0;
  Place barrier_place_;
  bool diverged_ = false;
  std::array<NamedBarrier, kNamedBarriers> named_barriers_;
  std::vector<Lane*> released_; // by a named barrier; kept for its memory
  std::uint64_t barriers_ = 0;  // of the running block
  std::uint64_t block_ = 0;
  Random random_{0};
  std::exception_ptr error_;
  bool dropped_ = false; // some fibers stand in the middle of a kernel

  std::unique_ptr<SharedObject> dynamic_;
  std::vector<std::unique_ptr<SharedObject>> shared_;
  std::size_t static_shared_bytes_ = 0;

  LaunchStats stats_;
  std::array<char, 2> barrier_tokens_{};
  std::array<char, 2> block_tokens_{};
};

constinit thread_local Engine* running = nullptr;

Engine& running_engine(const char* word) {
  if (running == nullptr) {
    throw std::logic_error(std::string(word) +
                           " called outside a kernel: it needs fa1::simt::launch around it");
  }
  return *running;
}

Engine::Engine(const LaunchConfig& config, const std::function<void()>& kernel,
               const char* end_token)
    : config_(config), kernel_(kernel), end_token_(end_token) {
  const Dim3 block = config.block;
  const unsigned total = block.x * block.y * block.z;
  fibers_ = take_fibers(total);
  lanes_.resize(total);
  queue_.resize(total);
  released_.reserve(total);
  warps_.resize((total + kWarpSize - 1) / kWarpSize);
  for (unsigned w = 0; w < warps_.size(); ++w) {
    const unsigned size = std::min(kWarpSize, total - w * kWarpSize);
    warps_[w].lanes = size == kWarpSize ? 0xffffffffU : (1U << size) - 1;
  }
  for (unsigned id = 0; id < total; ++id) {
    Lane& lane = lanes_[id];
    lane.fiber = fibers_[id].get();
    lane.engine = this;
    lane.thread = {id % block.x, id / block.x % block.y, id / block.x / block.y};
    lane.id = id;
    lane.fiber->start(&Engine::lane_main, &lane);
  }
  dynamic_ = std::make_unique<SharedObject>(nullptr, config.dynamic_shared_bytes,
                                            alignof(std::max_align_t));
  blockDim = block;
  gridDim = config.grid;
  race::release(&begin_token_);
  running = this;
}

Engine::~Engine() {
  running = nullptr;
  if (!dropped_) {
    give_back_fibers(std::move(fibers_));
  }
}

std::exception_ptr Engine::run_block(std::uint64_t block) {
  const Dim3 grid = config_.grid;
  blockIdx = {static_cast<unsigned>(block % grid.x), static_cast<unsigned>(block / grid.x % grid.y),
              static_cast<unsigned>(block / grid.x / grid.y)};
  block_ = block;
  random_ = Random((std::uint64_t{config_.schedule.seed} << 32) ^ (block * 0xd1342543de82ef95U));
  at_barrier_ = 0;
  finished_ = 0;
  diverged_ = false;
  barriers_ = 0;
  for (Warp& warp : warps_) {
    warp.alive = warp.lanes;
    warp.group_count = 0;
  }
  if (stats_.blocks != 0) { // otherwise everything is as it was made
    dynamic_->poison();
    for (const auto& object : shared_) {
      object->poison();
    }
  }
  queue_all();

  Lane& first = pop();
  current_ = &first;
  threadIdx = first.thread;
  ++stats_.switches;
  first.fiber->resume_from(os_thread_);

  ++stats_.blocks;
  stats_.block_barriers += barriers_;
  stats_.max_block_barriers = std::max(stats_.max_block_barriers, barriers_);
  stats_.max_shared_bytes = std::max(stats_.max_shared_bytes, std::uint64_t{static_shared_bytes_} +
                                                                  config_.dynamic_shared_bytes);
  dropped_ = dropped_ || finished_ != count();
  return std::exchange(error_, nullptr);
}

void Engine::lane_main(void* argument) {
  Lane& self = *static_cast<Lane*>(argument);
  Engine& engine = *self.engine;
  race::acquire(&engine.begin_token_);
  for (;;) {
    self.state = Lane::State::ready;
    std::exception_ptr thrown;
    try {
      engine.kernel_();
    } catch (const std::exception&) {
      thrown = std::current_exception();
    } catch (...) {
      thrown = std::make_exception_ptr(
          ExecutorError(Fault::kernel_exception, "thread " + triple(self.thread) + " of block " +
                                                     triple(blockIdx) +
                                                     " threw something that is no std::exception"));
    }
    if (thrown != nullptr) {
      engine.fail(self, std::move(thrown));
    }
    const void* const token = &engine.block_tokens_[engine.stats_.blocks % 2];
    race::release(token);
    engine.finish(self);
    // Resumed: the next block. Whatever the last one did on this OS thread came before it.
    race::acquire(token);
  }
}

void Engine::finish(Lane& self) {
  self.state = Lane::State::finished;
  self.copies.clear();
  ++finished_;
  const unsigned w = self.id / kWarpSize;
  Warp& warp = warps_[w];
  warp.alive &= ~(1U << (self.id % kWarpSize));
  for (unsigned g = warp.group_count; g-- > 0;) {
    const Group& group = warp.groups[g];
    if (group.arrived == (group.mask & warp.alive)) {
      complete(warp, w * kWarpSize, g);
    }
  }
  run_next(self);
}

void Engine::fail(Lane& self, std::exception_ptr error) {
  error_ = std::move(error);
  dropped_ = true;
  race::release(end_token_);
  os_thread_.resume_from(*self.fiber);
  std::terminate(); // a dropped fiber was resumed
}

Lane& Engine::pop() {
  Lane& lane = *queue_[queue_head_];
  queue_head_ = queue_head_ + 1 == count() ? 0 : queue_head_ + 1;
  --queue_size_;
  return lane;
}

void Engine::push(Lane& lane) {
  unsigned tail = queue_head_ + queue_size_;
  tail = tail >= count() ? tail - count() : tail;
  queue_[tail] = &lane;
  ++queue_size_;
}

/// A new phase for the whole block.
void Engine::queue_all() {
  const unsigned total = count();
  queue_head_ = 0;
  queue_size_ = total;
  if (config_.schedule.order == Schedule::Order::reverse) {
    for (unsigned i = 0; i < total; ++i) {
      queue_[i] = &lanes_[total - 1 - i];
    }
    return;
  }
  for (unsigned i = 0; i < total; ++i) {
    queue_[i] = &lanes_[i];
  }
  if (config_.schedule.order == Schedule::Order::shuffled) {
    for (unsigned i = total; i > 1; --i) {
      std::swap(queue_[i - 1], queue_[random_.below(i)]);
    }
  }
}

/// `lanes`, which come in ascending order, will run in that of the schedule.
void Engine::queue_in_order(std::span<Lane*> lanes, Position position) {
  switch (config_.schedule.order) {
  case Schedule::Order::forward:
    break;
  case Schedule::Order::reverse:
    std::reverse(lanes.begin(), lanes.end());
    break;
  case Schedule::Order::shuffled:
    for (auto i = static_cast<unsigned>(lanes.size()); i > 1; --i) {
      std::swap(lanes[i - 1], lanes[random_.below(i)]);
    }
    break;
  }
  if (position == Position::behind) {
    for (Lane* const lane : lanes) {
      push(*lane);
    }
    return;
  }
  for (auto lane = lanes.rbegin(); lane != lanes.rend(); ++lane) {
    queue_head_ = queue_head_ == 0 ? count() - 1 : queue_head_ - 1;
    queue_[queue_head_] = *lane;
    ++queue_size_;
  }
}

/// Suspends `self`, which waits or has finished, and runs whoever is next. Returns when `self` is.
void Engine::run_next(Lane& self) {
  race::release(end_token_); // each time, because a thread that is dropped never comes back to say
                             // it has ended
  if (queue_size_ == 0 && !advance()) {
    ++stats_.switches;
    os_thread_.resume_from(*self.fiber); // for good, unless another block follows
    return;
  }
  Lane& next = pop();
  if (&next == &self) {
    return;
  }
  current_ = &next;
  threadIdx = next.thread;
  ++stats_.switches;
  next.fiber->resume_from(*self.fiber);
}

/// Nobody can run: the block is done, its barrier is complete, or it is stuck.
bool Engine::advance() {
  if (finished_ == count()) {
    error_ = left_arrivals();
    race::release(end_token_); // as below
    return false;
  }
  if (at_barrier_ == count() && !diverged_) {
    at_barrier_ = 0;
    ++barriers_;
    queue_all();
    return true;
  }
  error_ = stuck();
  race::release(end_token_); // the report was written by this thread
  return false;
}

void Engine::arrive_at_block_barrier(const Place& place) {
  if (count() == 1) {
    ++barriers_;
    return;
  }
  Lane& self = *current_;
  if (named_barriers_[0].threads != 0) {
    throw barrier_misuse("__syncthreads", place,
                         ", which is barrier 0, while it counts to " +
                             std::to_string(named_barriers_[0].threads) + " since " +
                             named_barriers_[0].place.text(),
                         named_barriers_[0].place);
  }
  self.state = Lane::State::at_barrier;
  self.place = place;
  if (at_barrier_++ == 0) {
    barrier_place_ = place;
  } else if (!(barrier_place_ == place)) {
    diverged_ = true;
  }
  // Two tokens in turn: with one, a thread that leaves this barrier late would acquire what an
  // early one has released at the next, and every race between the two would seem ordered.
  const void* const token = &barrier_tokens_[barriers_ % 2];
  race::release(token);
  run_next(self);
  race::acquire(token);
  self.state = Lane::State::ready;
}

ExecutorError Engine::barrier_misuse(const std::string& word, const Place& place,
                                     const std::string& what, const Place& second) const {
  ExecutorError error(Fault::barrier_misuse, to_string(Fault::barrier_misuse) + " in block " +
                                                 triple(blockIdx) + ": thread " +
                                                 triple(current_->thread) + " calls " + word +
                                                 " at " + place.text() + what);
  error.first = place.source_line();
  if (second.file != nullptr) {
    error.second = second.source_line();
  }
  error.exited = finished_;
  error.total = count();
  return error;
}

void Engine::arrive_at_named_barrier(BarrierWord word, unsigned id, unsigned threads_to_come,
                                     const Place& place) {
  Lane& self = *current_;
  const unsigned w = self.id / kWarpSize;
  const unsigned lane = 1U << self.id % kWarpSize;
  const auto refuse_call = [&](const std::string& what, const Place& second) {
    throw barrier_misuse(std::string(name_of(word)) + "(" + std::to_string(id) + ", " +
                             std::to_string(threads_to_come) + ")",
                         place, what, second);
  };
  if (id >= kNamedBarriers) {
    refuse_call(": barriers are 0 to " + std::to_string(kNamedBarriers - 1), {});
  }
  if (threads_to_come == 0 || threads_to_come % kWarpSize != 0) {
    refuse_call(": the count must be a multiple of " + std::to_string(kWarpSize) +
                    " and not 0, for it counts whole warps",
                {});
  }
  if (threads_to_come > warps_.size() * kWarpSize) {
    refuse_call(": the block has " + threads(count()) + ", so the barrier is never complete", {});
  }
  if (id == 0 && at_barrier_ != 0) {
    refuse_call(" while " + threads(at_barrier_) + " wait at __syncthreads, which is barrier 0, " +
                    barrier_place_.text(),
                barrier_place_);
  }
  NamedBarrier& barrier = named_barriers_[id];
  NamedBarrier::Arrival& arrival = barrier.arrivals[w];
  if (barrier.threads == 0) {
    barrier.threads = threads_to_come;
    barrier.place = place;
    const race::Unseen unseen;
    barrier.token = std::make_shared<const char>();
  } else if (barrier.threads != threads_to_come) {
    refuse_call(", but the barrier counts to " + std::to_string(barrier.threads) + " since " +
                    barrier.place.text(),
                barrier.place);
  }
  if ((arrival.lanes & lane) != 0) {
    refuse_call(", where it has arrived already, at " + arrival.place.text() +
                    ", and the barrier is not complete: that would be more arrivals than threads",
                arrival.place);
  }
  if (arrival.lanes != 0 && (arrival.word != word || !(arrival.place == place))) {
    refuse_call(", but others of its warp at " + arrival.place.text() +
                    ": a warp comes to a barrier as one",
                arrival.place);
  }
  arrival.word = word;
  arrival.place = place;
  arrival.lanes |= lane;

  race::release(barrier.token.get());
  const bool waits = word == BarrierWord::sync;
  if (waits) {
    self.state = Lane::State::at_named_barrier;
    self.place = place;
    self.barrier = id;
    self.token = barrier.token;
  }
  if (arrival.lanes == warps_[w].lanes && ++barrier.warps * kWarpSize == barrier.threads) {
    for (unsigned other = 0; other < warps_.size(); ++other) {
      const NamedBarrier::Arrival& part = barrier.arrivals[other];
      if (part.lanes != 0 && part.lanes != warps_[other].lanes) {
        refuse_call(" and completes the barrier while a part of another warp has come, at " +
                        part.place.text() + ": more arrivals than threads",
                    part.place);
      }
    }
    complete(barrier);
  }
  if (waits) {
    run_next(self);
    race::acquire(self.token.get());
    const race::Unseen unseen;
    self.token.reset();
    self.state = Lane::State::ready;
  }
}

/// As many warps as it counts have come: those that wait may run again. Whether they overtake those
/// that could run before is a matter of the schedule too: a barrier that is missing elsewhere shows
/// only where some warps are far ahead of others.
void Engine::complete(NamedBarrier& barrier) {
  ++stats_.named_barriers;
  released_.clear();
  for (unsigned w = 0; w < warps_.size(); ++w) {
    NamedBarrier::Arrival& arrival = barrier.arrivals[w];
    if (arrival.lanes != 0 && arrival.word == BarrierWord::sync) {
      const unsigned end = std::min(count(), (w + 1) * kWarpSize);
      for (unsigned id = w * kWarpSize; id < end; ++id) {
        released_.push_back(&lanes_[id]);
      }
    }
    arrival.lanes = 0;
  }
  barrier.threads = 0;
  barrier.warps = 0;
  {
    const race::Unseen unseen;
    barrier.token.reset();
  }
  const Schedule::Order order = config_.schedule.order;
  const bool overtake = order == Schedule::Order::reverse ||
                        (order == Schedule::Order::shuffled && random_.below(2) == 0);
  queue_in_order(released_, overtake ? Position::in_front : Position::behind);
}

std::uint64_t Engine::arrive_in_warp(WarpOperation operation, unsigned mask, std::uint64_t operand,
                                     unsigned source, const char* name, const Place& place) {
  Lane& self = *current_;
  const unsigned lane = self.id % kWarpSize;
  const unsigned w = self.id / kWarpSize;
  Warp& warp = warps_[w];
  const auto mismatch = [&](Fault fault, const std::string& what, const Place& second) {
    ExecutorError error(fault, to_string(fault) + " in block " + triple(blockIdx) + ": thread " +
                                   triple(self.thread) + " (lane " + std::to_string(lane) +
                                   ") calls " + name + " with mask " + hexadecimal(mask) + " at " +
                                   place.text() + what);
    error.first = place.source_line();
    if (second.file != nullptr) {
      error.second = second.source_line();
    }
    error.exited = finished_;
    error.total = count();
    throw error;
  };

  if ((mask >> lane & 1U) == 0) {
    mismatch(Fault::warp_mask_mismatch, ", which leaves itself out: a thread must name itself", {});
  }
  unsigned g = 0;
  while (g < warp.group_count && warp.groups[g].mask != mask) {
    ++g;
  }
  if (g == warp.group_count) {
    warp.groups[g] = {mask, 0, operation, place};
    ++warp.group_count;
  }
  Group& group = warp.groups[g];
  if (group.operation != operation || !(group.place == place)) {
    mismatch(Fault::barrier_divergence,
             " while " + threads(static_cast<unsigned>(std::popcount(group.arrived))) +
                 " of that mask wait at " + group.place.text(),
             group.place);
  }

  self.state = Lane::State::in_warp_operation;
  self.place = place;
  self.mask = mask;
  self.operand = operand;
  self.source = source;
  group.arrived |= 1U << lane;

  // Only __syncwarp orders memory; a shuffle or a vote does not.
  const auto leader = static_cast<unsigned>(std::countr_zero(mask));
  const void* const token = &warp.tokens[leader][warp.parity[leader]];
  if (operation == WarpOperation::sync) {
    race::release(token);
  }
  if (group.arrived == (mask & warp.alive)) {
    complete(warp, w * kWarpSize, g);
  }
  run_next(self);
  if (operation == WarpOperation::sync) {
    race::acquire(token);
  }
  self.state = Lane::State::ready;
  return self.result;
}

/// Everybody has come: hands out the results and lets the threads run again, in schedule order.
/// They queue behind all that could run before, so each leaves this operation before any of them
/// can complete another.
void Engine::complete(Warp& warp, unsigned first_lane, unsigned group_index) {
  const Group group = warp.groups[group_index];
  warp.groups[group_index] = warp.groups[--warp.group_count];
  ++stats_.warp_operations;
  if (group.operation == WarpOperation::sync) {
    auto& parity = warp.parity[static_cast<unsigned>(std::countr_zero(group.mask))];
    parity = parity == 0 ? 1 : 0;
  }

  std::array<Lane*, kWarpSize> members{};
  unsigned size = 0;
  std::uint64_t ballot = 0;
  for (unsigned lane = 0; lane < kWarpSize; ++lane) {
    if ((group.arrived >> lane & 1U) != 0) {
      Lane& member = lanes_[first_lane + lane];
      members[size++] = &member;
      ballot |= std::uint64_t{member.operand != 0} << lane;
    }
  }
  for (unsigned i = 0; i < size; ++i) {
    Lane& member = *members[i];
    if (group.operation == WarpOperation::ballot) {
      member.result = ballot;
    } else if (group.operation == WarpOperation::shuffle) {
      const bool takes_part =
          member.source < kWarpSize && (group.arrived >> member.source & 1U) != 0;
      member.result = takes_part ? lanes_[first_lane + member.source].operand : ~std::uint64_t{0};
    }
  }

  queue_in_order({members.data(), size}, Position::behind);
}

/// Nobody can run although some have not returned. Says who waits where.
std::exception_ptr Engine::stuck() const {
  // A thread waits in its warp for one that named another mask: no line of theirs need differ.
  for (const Lane& lane : lanes_) {
    if (lane.state != Lane::State::in_warp_operation) {
      continue;
    }
    for (const Lane& partner : lanes_) {
      if (partner.state == Lane::State::in_warp_operation &&
          partner.id / kWarpSize == lane.id / kWarpSize && partner.mask != lane.mask &&
          (lane.mask >> (partner.id % kWarpSize) & 1U) != 0) {
        return stuck_with(Fault::warp_mask_mismatch,
                          "thread " + triple(lane.thread) + " waits at " + lane.place.text() +
                              " with mask " + hexadecimal(lane.mask) + " for thread " +
                              triple(partner.thread) + ", which waits at " + partner.place.text() +
                              " with mask " + hexadecimal(partner.mask) +
                              ": all threads in a mask must name the same mask",
                          lane.place, partner.place);
      }
    }
  }

  if (std::any_of(lanes_.begin(), lanes_.end(),
                  [](const Lane& lane) { return lane.state == Lane::State::at_named_barrier; })) {
    return stuck_at_named_barrier();
  }

  const auto waits = [](const Lane& lane) { return lane.state != Lane::State::finished; };
  const Lane& first = *std::find_if(lanes_.begin(), lanes_.end(), waits);
  const auto with_first = [&](const Lane& lane) {
    return lane.state == first.state && lane.place == first.place;
  };
  const auto other = std::find_if(lanes_.begin(), lanes_.end(), [&](const Lane& lane) {
    return waits(lane) && !with_first(lane);
  });
  const auto together =
      static_cast<unsigned>(std::count_if(lanes_.begin(), lanes_.end(), with_first));
  const std::string out_of =
      ", " + std::to_string(finished_) + " exited of " + std::to_string(count());
  if (other != lanes_.end()) {
    return stuck_with(Fault::barrier_divergence,
                      first.place.text() + " (" + threads(together) + " from " +
                          triple(first.thread) + ") vs " + other->place.text() + " (" +
                          threads(count() - finished_ - together) + " from " +
                          triple(other->thread) + ")" + out_of,
                      first.place, other->place);
  }
  const Lane& exited = *std::find_if_not(lanes_.begin(), lanes_.end(), waits);
  return stuck_with(Fault::exited_before_barrier,
                    std::to_string(together) + " at block barrier " + first.place.text() + out_of +
                        ", the first to exit " + triple(exited.thread),
                    first.place, {});
}

/// Says for each place who waits there for how many.
std::exception_ptr Engine::stuck_at_named_barrier() const {
  struct Crowd {
    const Lane* first;
    unsigned size;
  };
  std::vector<Crowd> crowds;
  const Lane* exited = nullptr;
  for (const Lane& lane : lanes_) {
    if (lane.state == Lane::State::finished) {
      exited = exited == nullptr ? &lane : exited;
      continue;
    }
    const auto crowd = std::find_if(crowds.begin(), crowds.end(), [&](const Crowd& known) {
      return known.first->state == lane.state && known.first->place == lane.place &&
             (lane.state != Lane::State::at_named_barrier || known.first->barrier == lane.barrier);
    });
    if (crowd == crowds.end()) {
      crowds.push_back({&lane, 1});
    } else {
      ++crowd->size;
    }
  }
  std::string sentence;
  for (const Crowd& crowd : crowds) {
    sentence += (sentence.empty() ? "" : "; ") + crowd.first->place.text() + " (" +
                threads(crowd.size) + " from " + triple(crowd.first->thread) + ")";
    if (crowd.first->state == Lane::State::at_named_barrier) {
      const NamedBarrier& barrier = named_barriers_[crowd.first->barrier];
      sentence += " waits for barrier " + std::to_string(crowd.first->barrier) + ", which has " +
                  std::to_string(barrier.warps * kWarpSize) + " of " + threads(barrier.threads) +
                  " in whole warps";
    }
  }
  sentence += "; " + std::to_string(finished_) + " exited of " + std::to_string(count());
  if (exited != nullptr) {
    sentence += ", the first to exit " + triple(exited->thread);
  }
  const bool alone = crowds.size() == 1 && exited != nullptr;
  return stuck_with(alone ? Fault::exited_before_barrier : Fault::barrier_deadlock, sentence,
                    crowds.front().first->place,
                    crowds.size() > 1 ? crowds[1].first->place : Place{});
}

/// Of a block in which everybody has returned: the first named barrier that is not complete.
std::exception_ptr Engine::left_arrivals() const {
  for (unsigned id = 0; id < kNamedBarriers; ++id) {
    const NamedBarrier& barrier = named_barriers_[id];
    if (barrier.threads != 0) {
      return stuck_with(Fault::barrier_misuse,
                        "the block ends while barrier " + std::to_string(id) + " has " +
                            std::to_string(barrier.warps * kWarpSize) + " of " +
                            threads(barrier.threads) + " in whole warps, the first arrival at " +
                            barrier.place.text() + ": more or fewer arrivals than it counts",
                        barrier.place, {});
    }
  }
  return nullptr;
}

std::exception_ptr Engine::stuck_with(Fault fault, const std::string& sentence, const Place& first,
                                      const Place& second) const {
  ExecutorError error(fault, to_string(fault) + " in block " + triple(blockIdx) + ": " + sentence);
  error.first = first.source_line();
  if (second.file != nullptr) {
    error.second = second.source_line();
  }
  for (const Lane& lane : lanes_) {
    if (lane.state != Lane::State::finished) {
      ++(lane.place == first ? error.at_first : error.elsewhere);
    }
  }
  error.exited = finished_;
  error.total = count();
  return std::make_exception_ptr(error);
}

void* Engine::shared_object(const void* site, std::size_t bytes, std::size_t alignment,
                            const Place& place) {
  for (const auto& object : shared_) {
    if (object->site() == site) {
      return object->data();
    }
  }
  const race::Unseen unseen; // the list belongs to all threads of the block, like the object itself
  const auto check = [&](std::size_t sum, std::size_t limit, const char* kind) {
    if (sum > limit) {
      ExecutorError error(Fault::shared_overflow,
                          to_string(Fault::shared_overflow) + " at " + place.text() + ": " +
                              std::to_string(bytes) + " bytes more make " + std::to_string(sum) +
                              " bytes of " + kind + " shared memory, a block has " +
                              std::to_string(limit));
      error.first = place.source_line();
      error.total = count();
      throw error;
    }
  };
  const std::size_t sum = static_shared_bytes_ + bytes;
  check(sum, kStaticSharedLimit, "static");
  check(sum + config_.dynamic_shared_bytes, config_.shared_limit_bytes, "static and dynamic");
  static_shared_bytes_ = sum;
  shared_.push_back(std::make_unique<SharedObject>(site, bytes, alignment));
  return shared_.back()->data();
}

ExecutorError Engine::misaligned(const void* address, const char* word, const Place& place) const {
  ExecutorError error(Fault::misaligned,
                      to_string(Fault::misaligned) + " at " + place.text() + ": " + word +
                          " was given an address that is " +
                          std::to_string(reinterpret_cast<std::uintptr_t>(address) % 16) +
                          " bytes past a multiple of 16, where it takes only such multiples");
  error.first = place.source_line();
  error.total = count();
  return error;
}

// --- the launch ----------------------------------------------------------------------------------

void check(const LaunchConfig& config) {
  const Dim3 block = config.block;
  const Dim3 grid = config.grid;
  if (block.x == 0 || block.y == 0 || block.z == 0) {
    refuse("block " + triple(block) + " is empty: every extent must be at least 1");
  }
  if (block.x > kMaxThreads || block.y > kMaxThreads || block.z > 64) {
    refuse("block " + triple(block) + " is too long: x and y are at most 1024, z at most 64");
  }
  if (block.x * block.y * block.z > kMaxThreads) { // no overflow after the check above
    refuse("block " + triple(block) + " has " + std::to_string(block.x * block.y * block.z) +
           " threads: at most 1024 are allowed");
  }
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) {
    refuse("grid " + triple(grid) + " is empty: every extent must be at least 1");
  }
  if (grid.x > 0x7fffffffU || grid.y > 0xffffU || grid.z > 0xffffU) {
    refuse("grid " + triple(grid) + " is too long: x is at most 2147483647, y and z at most 65535");
  }
  if (config.dynamic_shared_bytes > config.shared_limit_bytes) {
    refuse(std::to_string(config.dynamic_shared_bytes) +
           " bytes of dynamic shared memory: a block may have " +
           std::to_string(config.shared_limit_bytes));
  }
  if (config.os_threads == 0) {
    refuse("os_threads is 0: at least 1 is needed to run anything");
  }
  if (running != nullptr) {
    refuse("launch inside a kernel: kernels cannot launch kernels here");
  }
}

/// What the OS threads of one launch share.
class Launch {
public:
  Launch(const LaunchConfig& config, const std::function<void()>& kernel)
      : config_(config), kernel_(kernel),
        blocks_(std::uint64_t{config.grid.x} * config.grid.y * config.grid.z) {}

  LaunchStats run() {
    const auto helpers =
        static_cast<std::size_t>(std::min<std::uint64_t>(config_.os_threads, blocks_) - 1);
    {
      std::vector<std::jthread> workers;
      workers.reserve(helpers);
      try {
        for (std::size_t i = 0; i < helpers; ++i) {
          workers.emplace_back([this] { work(); });
        }
      } catch (const std::system_error&) {
        // Fewer OS threads than wished for: the blocks are done all the same.
      }
      work();
    }
    race::acquire(&end_token_);
    if (error_ != nullptr) {
      std::rethrow_exception(error_);
    }
    return stats_;
  }

private:
  void work() {
    std::uint64_t block = next_.fetch_add(1, std::memory_order_relaxed);
    if (block >= blocks_) {
      return;
    }
    std::exception_ptr error;
    try {
      Engine engine(config_, kernel_, &end_token_);
      while (block < blocks_ && block < lowest_failed_.load(std::memory_order_relaxed)) {
        error = engine.run_block(block);
        if (error != nullptr) {
          break;
        }
        block = next_.fetch_add(1, std::memory_order_relaxed);
      }
      const std::lock_guard lock(mutex_);
      stats_.blocks += engine.stats().blocks;
      stats_.block_barriers += engine.stats().block_barriers;
      stats_.max_block_barriers =
          std::max(stats_.max_block_barriers, engine.stats().max_block_barriers);
      stats_.max_shared_bytes = std::max(stats_.max_shared_bytes, engine.stats().max_shared_bytes);
      stats_.named_barriers += engine.stats().named_barriers;
      stats_.warp_operations += engine.stats().warp_operations;
      stats_.switches += engine.stats().switches;
    } catch (...) {
      error = std::current_exception(); // no memory for the fibers
    }
    if (error != nullptr) {
      race::acquire(&end_token_); // an error may be destroyed by another OS thread than its maker's
      // Every lower block has been taken by somebody who runs it, so the lowest failing one is
      // always the one reported.
      const std::lock_guard lock(mutex_);
      if (block < lowest_failed_.load(std::memory_order_relaxed)) {
        lowest_failed_.store(block, std::memory_order_relaxed);
        error_ = error;
      }
    }
  }

  const LaunchConfig& config_;
  const std::function<void()>& kernel_;
  const std::uint64_t blocks_;
  std::atomic<std::uint64_t> next_{0};
  std::atomic<std::uint64_t> lowest_failed_{std::numeric_limits<std::uint64_t>::max()};
  std::mutex mutex_;
  LaunchStats stats_;
  std::exception_ptr error_;
  const char end_token_ = 0; // see Engine
};

} // namespace

void block_barrier(const char* file, unsigned line) {
  running_engine("__syncthreads").arrive_at_block_barrier({file, line});
}

void named_barrier(BarrierWord word, unsigned id, unsigned threads_to_come, const char* file,
                   unsigned line) {
  running_engine(name_of(word)).arrive_at_named_barrier(word, id, threads_to_come, {file, line});
}

std::uint64_t warp_exchange(WarpOperation operation, unsigned mask, std::uint64_t operand,
                            unsigned source, const char* name, const char* file, unsigned line) {
  return running_engine(name).arrive_in_warp(operation, mask, operand, source, name, {file, line});
}

unsigned lane_in_warp() { return running_engine("a shuffle").lane_in_warp(); }

void* shared_object(const void* site, std::size_t bytes, std::size_t alignment, const char* file,
                    unsigned line) {
  return running_engine("FA1_SHARED").shared_object(site, bytes, alignment, {file, line});
}

void begin_copy(const PendingCopy& copy) {
  const race::Unseen list; // its memory outlives the fiber that asked for it
  running_engine("fa1_copy4_async").copies().push_back(copy);
}

bool take_copy(PendingCopy& copy) {
  std::vector<PendingCopy>& copies = running_engine("fa1_wait_for_copies").copies();
  if (copies.empty()) {
    return false;
  }
  copy = copies.back();
  copies.pop_back();
  return true;
}

void misaligned(const void* address, const char* word, const char* file, unsigned line) {
  throw running_engine(word).misaligned(address, word, {file, line});
}

void* dynamic_shared_object() { return running_engine("FA1_DYNAMIC_SHARED").dynamic_shared(); }

LaunchStats launch(const LaunchConfig& config, const std::function<void()>& kernel) {
  check(config);
  return Launch(config, kernel).run();
}

void abandon_launch() noexcept { running = nullptr; }

std::string to_string(Schedule schedule) {
  switch (schedule.order) {
  case Schedule::Order::forward:
    return "forward";
  case Schedule::Order::reverse:
    return "reverse";
  case Schedule::Order::shuffled:
    break;
  }
  return "shuffled:" + std::to_string(schedule.seed);
}

Schedule parse_schedule(std::string_view text) {
  if (text == "forward") {
    return Schedule::forward();
  }
  if (text == "reverse") {
    return Schedule::reverse();
  }
  constexpr std::string_view kShuffled = "shuffled:";
  if (text.starts_with(kShuffled)) {
    const std::string_view digits = text.substr(kShuffled.size());
    std::uint32_t seed = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), seed);
    if (error == std::errc() && end == digits.data() + digits.size() && !digits.empty()) {
      return Schedule::shuffled(seed);
    }
  }
  throw std::invalid_argument(
      "schedule '" + std::string(text) +
      "': expected forward, reverse or shuffled:SEED with SEED from 0 to 4294967295");
}

std::string to_string(Fault fault) {
  switch (fault) {
  case Fault::barrier_divergence:
    return "barrier divergence";
  case Fault::exited_before_barrier:
    return "exited before barrier";
  case Fault::barrier_deadlock:
    return "deadlock at a named barrier";
  case Fault::barrier_misuse:
    return "named barrier misuse";
  case Fault::warp_mask_mismatch:
    return "warp mask mismatch";
  case Fault::shared_overflow:
    return "shared memory overflow";
  case Fault::misaligned:
    return "misaligned address";
  case Fault::launch_config:
    return "launch configuration";
  case Fault::kernel_exception:
    break;
  }
  return "kernel exception";
}

} // namespace fa1::simt
