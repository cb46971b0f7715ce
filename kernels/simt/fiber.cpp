#include "kernels/simt/fiber.hpp"

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <mutex>
#include <system_error>
#include <utility>

#include <sys/mman.h>
#include <unistd.h>

#ifdef FA1_FIBER_UCONTEXT
#include <ucontext.h>
#else
#include <boost/context/detail/fcontext.hpp>
#endif

#if defined(__SANITIZE_ADDRESS__)
#define FA1_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define FA1_ASAN 1
#endif
#endif

#ifdef FA1_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef FA1_TSAN
#include <sanitizer/tsan_interface.h>
// NOLINTBEGIN(readability-identifier-naming): ThreadSanitizer's names.
extern "C" {
void AnnotateIgnoreReadsBegin(const char* file, int line);
void AnnotateIgnoreReadsEnd(const char* file, int line);
void AnnotateIgnoreWritesBegin(const char* file, int line);
void AnnotateIgnoreWritesEnd(const char* file, int line);
}
// NOLINTEND(readability-identifier-naming)
#endif

namespace fa1::simt {
namespace {

class Stack {
public:
  Stack() {
    guard_ = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    mapped_ = guard_ + kStackBytes;
    void* const base = mmap(nullptr, mapped_, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (base == MAP_FAILED) {
      throw std::system_error(errno, std::generic_category(), "mapping a fiber stack");
    }
    base_ = static_cast<char*>(base);
    if (mprotect(base_, guard_, PROT_NONE) != 0) {
      const int error = errno;
      munmap(base_, mapped_);
      throw std::system_error(error, std::generic_category(), "protecting a fiber stack");
    }
    // Stacks that all began at the same offset in a page would fight for the same few cache sets.
    static std::atomic<unsigned> made{0};
    unused_ = std::size_t{made.fetch_add(1, std::memory_order_relaxed) % 24} * 128;
  }
  ~Stack() {
#ifdef FA1_ASAN
    // Frames of a dropped fiber are still marked; whoever gets this address range next must not
    // trip over them.
    __asan_unpoison_memory_region(bottom(), size());
#endif
    munmap(base_, mapped_);
  }
  Stack(const Stack&) = delete;
  Stack& operator=(const Stack&) = delete;

  char* bottom() const { return base_ + guard_; }
  std::size_t size() const { return kStackBytes - unused_; }

private:
  char* base_ = nullptr;
  std::size_t guard_ = 0;
  std::size_t mapped_ = 0;
  std::size_t unused_ = 0;
};

} // namespace

struct Fiber::Context {
#ifdef FA1_FIBER_UCONTEXT
  ucontext_t point{};
#else
  boost::context::detail::fcontext_t point = nullptr;
#endif
  Context* next = nullptr; // set before every switch: a fresh fiber learns from it who it is
  Context* previous = nullptr;
  Entry entry = nullptr;
  void* argument = nullptr;
  std::unique_ptr<Stack> stack; // none for an OS thread
#ifdef FA1_ASAN
  void* fake_stack = nullptr;
  const void* stack_bottom = nullptr;
  std::size_t stack_size = 0;
#endif
#ifdef FA1_TSAN
  void* thread = nullptr;
#endif

  void leaving([[maybe_unused]] Context& from) {
#ifdef FA1_ASAN
    __sanitizer_start_switch_fiber(&from.fake_stack, stack_bottom, stack_size);
#endif
#ifdef FA1_TSAN
    __tsan_switch_to_fiber(thread, __tsan_switch_to_fiber_no_sync);
#endif
  }

  void arrived([[maybe_unused]] Context& from) {
#ifdef FA1_ASAN
    // The bounds of an OS thread's own stack become known here, when it is left for the first time.
    __sanitizer_finish_switch_fiber(fake_stack, &from.stack_bottom, &from.stack_size);
#endif
  }

#ifdef FA1_FIBER_UCONTEXT
  static void enter(unsigned high, unsigned low) {
    auto* const self = reinterpret_cast<Context*>((static_cast<std::uintptr_t>(high) << 32) | low);
    self->arrived(*self->previous);
    self->entry(self->argument);
  }
#else
  static void enter(boost::context::detail::transfer_t transfer) {
    auto* const from = static_cast<Context*>(transfer.data);
    from->point = transfer.fctx;
    Context* const self = from->next;
    self->arrived(*from);
    self->entry(self->argument);
  }
#endif
};

Fiber::Fiber() : context_(std::make_unique<Context>()) {
  context_->stack = std::make_unique<Stack>();
#ifdef FA1_ASAN
  context_->stack_bottom = context_->stack->bottom();
  context_->stack_size = context_->stack->size();
#endif
#ifdef FA1_TSAN
  context_->thread = __tsan_create_fiber(0);
#endif
}

Fiber::Fiber(CallingThread) : context_(std::make_unique<Context>()) {
#ifdef FA1_TSAN
  context_->thread = __tsan_get_current_fiber();
#endif
}

Fiber::~Fiber() {
#ifdef FA1_TSAN
  if (context_->stack != nullptr) {
    __tsan_destroy_fiber(context_->thread);
  }
#endif
}

void Fiber::start(Entry entry, void* argument) {
  Context& self = *context_;
  self.entry = entry;
  self.argument = argument;
#ifdef FA1_ASAN
  self.fake_stack = nullptr;
  __asan_unpoison_memory_region(self.stack->bottom(), self.stack->size());
#endif
#ifdef FA1_FIBER_UCONTEXT
  if (getcontext(&self.point) != 0) {
    throw std::system_error(errno, std::generic_category(), "getcontext");
  }
  self.point.uc_stack.ss_sp = self.stack->bottom();
  self.point.uc_stack.ss_size = self.stack->size();
  self.point.uc_link = nullptr;
  // makecontext passes ints only, so the pointer travels in two halves.
  const auto address = reinterpret_cast<std::uintptr_t>(&self);
  makecontext(&self.point, reinterpret_cast<void (*)()>(&Context::enter), 2,
              static_cast<unsigned>(address >> 32), static_cast<unsigned>(address & 0xffffffffU));
#else
  self.point = boost::context::detail::make_fcontext(self.stack->bottom() + self.stack->size(),
                                                     self.stack->size(), &Context::enter);
#endif
}

void Fiber::resume_from(Fiber& from) {
  Context& here = *from.context_;
  Context& there = *context_;
  here.next = &there;
  there.leaving(here);
#ifdef FA1_FIBER_UCONTEXT
  there.previous = &here;
  swapcontext(&here.point, &there.point);
  here.arrived(*here.previous);
#else
  const auto transfer = boost::context::detail::jump_fcontext(there.point, &here);
  auto& resumer = *static_cast<Context*>(transfer.data);
  resumer.point = transfer.fctx;
  here.arrived(resumer);
#endif
}

namespace {

using Fibers = std::vector<std::unique_ptr<Fiber>>;

// In static storage, so that it exists before any thread does: ThreadSanitizer does not see what
// orders the first use of a heap block that another thread has just made.
constinit std::mutex pool_mutex;

/// The idle fibers; the caller holds pool_mutex.
Fibers& pool() {
  // Never destroyed: a launch may run during the destruction of static objects.
  static Fibers* const idle = new Fibers;
  return *idle;
}

} // namespace

std::vector<std::unique_ptr<Fiber>> take_fibers(std::size_t count) {
  std::vector<std::unique_ptr<Fiber>> taken;
  taken.reserve(count);
  {
    const std::lock_guard lock(pool_mutex);
    Fibers& idle = pool();
    while (taken.size() < count && !idle.empty()) {
      taken.push_back(std::move(idle.back()));
      idle.pop_back();
    }
  }
  while (taken.size() < count) {
    taken.push_back(std::make_unique<Fiber>());
  }
  return taken;
}

void give_back_fibers(std::vector<std::unique_ptr<Fiber>>&& fibers) {
  const std::lock_guard lock(pool_mutex);
  Fibers& idle = pool();
  // Last in, first out, in the same order: the next launch of the same shape gets the same stacks,
  // still in the cache.
  while (!fibers.empty()) {
    idle.push_back(std::move(fibers.back()));
    fibers.pop_back();
  }
}

#ifdef FA1_TSAN
namespace race {

void release(const void* token) { __tsan_release(const_cast<void*>(token)); }
void acquire(const void* token) { __tsan_acquire(const_cast<void*>(token)); }

Unseen::Unseen() {
  AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
  AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
}
Unseen::~Unseen() {
  AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
  AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
}

} // namespace race
#endif

} // namespace fa1::simt
