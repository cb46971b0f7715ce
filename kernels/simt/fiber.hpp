#pragma once

/// A fiber: a stack of its own and the point at which it was last suspended.
///
/// Requires  a fiber is resumed only on the OS thread on which it was started (start() may move a
///           finished one)
/// Stack     kStackBytes of lazily committed memory above a guard page: running past its end is a
///           segmentation fault, never silent damage
/// Dropping  destroying a suspended fiber releases its stack and runs no destructor of the frames
///           on it
/// Tools     AddressSanitizer is told of every switch. In a race-checking build (FA1_TSAN) each
///           fiber is a thread to ThreadSanitizer, and a switch orders nothing: only race::release
///           and race::acquire do
/// Source    Boost.Context's fcontext, or ucontext with FA1_FIBER=ucontext

#include <cstddef>
#include <memory>
#include <vector>

namespace fa1::simt {

inline constexpr std::size_t kStackBytes = 256 * 1024;

class Fiber {
public:
  using Entry = void (*)(void* argument);
  struct CallingThread {};

  /// A fiber with a stack; start() gives it something to run.
  Fiber();
  /// The calling OS thread itself, as a place to switch from and back to.
  explicit Fiber(CallingThread);
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// The next switch to this fiber calls entry(argument), which must never return.
  void start(Entry entry, void* argument);

  /// Suspends `from`, which must be the one running, and continues this one. Returns when somebody
  /// resumes `from`.
  void resume_from(Fiber& from);

private:
  struct Context;

  std::unique_ptr<Context> context_;
};

/// Fibers with stacks, kept between launches because mapping a stack costs more than a short block.
/// Every fiber given back must have finished its work: it is restarted, not resumed.
std::vector<std::unique_ptr<Fiber>> take_fibers(std::size_t count);
void give_back_fibers(std::vector<std::unique_ptr<Fiber>>&& fibers);

/// What the race checker is told. All of it is empty unless FA1_TSAN is defined.
namespace race {

#ifdef FA1_TSAN
void release(const void* token);
void acquire(const void* token);
/// Accesses and allocations of the running fiber are not seen by the checker during this object's
/// life.
class Unseen {
public:
  Unseen();
  ~Unseen();
  Unseen(const Unseen&) = delete;
  Unseen& operator=(const Unseen&) = delete;
};
#else
inline void release(const void* /*token*/) {}
inline void acquire(const void* /*token*/) {}
class Unseen {
public:
  Unseen() {}
  ~Unseen() {}
  Unseen(const Unseen&) = delete;
  Unseen& operator=(const Unseen&) = delete;
};
#endif

} // namespace race
} // namespace fa1::simt
