#include "kernels/guarded.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <csetjmp>
#include <csignal>
#include <cstring>
#include <functional>
#include <new>

namespace fa1::kernels {
namespace {

constexpr std::uint32_t kSlackBits = 0x7fc5ac4bu;
constexpr std::uint32_t kUnwrittenBits = 0x7fcdead1u;

std::size_t page_size() {
  static const auto size = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return size;
}

struct NamedBuffer {
  const char* name;
  GuardedBuffer* buffer;
  std::int64_t columns;
};

/// What the signal handler may look at; one run at a time and thread.
struct Watch {
  sigjmp_buf escape;
  std::span<const NamedBuffer> buffers;
  const NamedBuffer* hit = nullptr;
  std::ptrdiff_t offset = 0;
};
thread_local Watch* watch = nullptr;

struct sigaction previous_segv;
struct sigaction previous_bus;

void on_fault(int signal, siginfo_t* info, void*) {
  if (watch != nullptr)
    for (const NamedBuffer& named : watch->buffers)
      if (const auto offset = named.buffer->offset_of(info->si_addr)) {
        watch->hit = &named;
        watch->offset = *offset;
        siglongjmp(watch->escape, 1);
      }
  // Not ours: the next delivery meets whoever was here before.
  sigaction(signal, signal == SIGSEGV ? &previous_segv : &previous_bus, nullptr);
}

/// Our handler in place for one run. A fiber's small stack is no place for a handler, so it gets
/// its own.
class FaultWatch {
public:
  explicit FaultWatch(Watch& w) {
    watch = &w;
    stack_t alternate{};
    alternate.ss_sp = stack_.data();
    alternate.ss_size = stack_.size();
    sigaltstack(&alternate, &previous_stack_);
    struct sigaction action {};
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigemptyset(&action.sa_mask);
    sigaction(SIGSEGV, &action, &previous_segv);
    sigaction(SIGBUS, &action, &previous_bus);
  }
  ~FaultWatch() {
    sigaction(SIGSEGV, &previous_segv, nullptr);
    sigaction(SIGBUS, &previous_bus, nullptr);
    sigaltstack(&previous_stack_, nullptr);
    watch = nullptr;
  }
  FaultWatch(const FaultWatch&) = delete;
  FaultWatch& operator=(const FaultWatch&) = delete;

private:
  std::array<std::byte, 64 * 1024> stack_{};
  stack_t previous_stack_{};
};

/// Returns when `action` has, or when it has touched a guard page (then w.hit is set). A function of
/// its own, not inlined: nothing that lives across sigsetjmp may be kept in a register.
[[gnu::noinline]] void run_watched(Watch& w, const std::function<void()>& action) {
  const FaultWatch guard(w);
  if (sigsetjmp(w.escape, 1) == 0)
    action();
}

std::string describe(const Watch& w) {
  const auto elements = static_cast<std::ptrdiff_t>(w.hit->buffer->elements().size());
  const std::ptrdiff_t columns = std::max<std::int64_t>(w.hit->columns, 1);
  std::string text = "an access outside " + std::string(w.hit->name) + ": element " +
                     std::to_string(w.offset) + " where 0 .. " + std::to_string(elements - 1) +
                     " exist";
  if (w.offset >= elements)
    text += " (row " + std::to_string(w.offset / columns) + " of " +
            std::to_string(elements / columns) + ")";
  return text;
}

std::optional<std::string> unwritten(const char* name, std::span<const float> output,
                                     std::int64_t columns) {
  for (std::size_t e = 0; e < output.size(); ++e)
    if (std::bit_cast<std::uint32_t>(output[e]) == kUnwrittenBits)
      return std::string(name) + "[" +
             std::to_string(e / static_cast<std::size_t>(std::max<std::int64_t>(columns, 1))) +
             "," +
             std::to_string(e % static_cast<std::size_t>(std::max<std::int64_t>(columns, 1))) +
             "] was never written";
  return std::nullopt;
}

} // namespace

GuardedBuffer::GuardedBuffer(std::size_t floats) : count_(floats) {
  const std::size_t page = page_size();
  // at least one slack word
  const std::size_t inner = (floats * sizeof(float) + page) / page * page;
  bytes_ = inner + 2 * page;
  void* map = mmap(nullptr, bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (map == MAP_FAILED)
    throw std::bad_alloc();
  map_ = static_cast<std::byte*>(map);
  mprotect(map_ + page, inner, PROT_READ | PROT_WRITE);
  data_ = reinterpret_cast<float*>(map_ + page + inner) - floats;
  auto* first = reinterpret_cast<float*>(map_ + page);
  slack_ = {first, static_cast<std::size_t>(data_ - first)};
  std::ranges::fill(slack_, std::bit_cast<float>(kSlackBits));
}

GuardedBuffer::~GuardedBuffer() { munmap(map_, bytes_); }

bool GuardedBuffer::slack_intact() const {
  return std::ranges::all_of(
      slack_, [](float word) { return std::bit_cast<std::uint32_t>(word) == kSlackBits; });
}

std::optional<std::ptrdiff_t> GuardedBuffer::offset_of(const void* address) const {
  const auto* byte = static_cast<const std::byte*>(address);
  const bool before = byte >= map_ && byte < map_ + page_size();
  const bool after = byte >= map_ + bytes_ - page_size() && byte < map_ + bytes_;
  if (!before && !after)
    return std::nullopt;
  return (byte - reinterpret_cast<const std::byte*>(data_)) /
         static_cast<std::ptrdiff_t>(sizeof(float));
}

GuardReport run_guarded(const Kernel& kernel, const Problem& problem, const Launch& launch) {
  GuardReport report{reference::start_state(problem.shape), {}};
  const Shape& shape = problem.shape;
  GuardedBuffer Q(problem.Q.elements().size()), K(problem.K.elements().size()),
      V(problem.V.elements().size());
  GuardedBuffer O(report.state.O.elements().size()), l(report.state.l.size()),
      m(report.state.m.size());
  std::ranges::copy(problem.Q.elements(), Q.data());
  std::ranges::copy(problem.K.elements(), K.data());
  std::ranges::copy(problem.V.elements(), V.data());
  for (GuardedBuffer* output : {&O, &l, &m})
    std::ranges::fill(output->elements(), std::bit_cast<float>(kUnwrittenBits));

  const std::array<NamedBuffer, 6> buffers{{{"Q", &Q, shape.d},
                                            {"K", &K, shape.d},
                                            {"V", &V, shape.dv},
                                            {"O", &O, shape.dv},
                                            {"l", &l, 1},
                                            {"m", &m, 1}}};
  Watch w{};
  w.buffers = buffers;
  run_watched(w, [&] {
    kernel.run(
        {shape, problem.scale, Q.data(), K.data(), V.data(), O.data(), l.data(), m.data(), false},
        launch);
  });
  if (w.hit != nullptr) {
    simt::abandon_launch();
    report.violation = describe(w);
    return report;
  }
  for (const NamedBuffer& named : buffers)
    if (!named.buffer->slack_intact())
      report.violation = "a write before the first element of " + std::string(named.name);
  const auto changed = [](const reference::Tensor<float>& before, GuardedBuffer& after) {
    return !before.elements().empty() &&
           std::memcmp(before.data(), after.data(), before.elements().size_bytes()) != 0;
  };
  if (changed(problem.Q, Q) || changed(problem.K, K) || changed(problem.V, V))
    report.violation = "an input was changed";
  for (const NamedBuffer& named : std::span(buffers).subspan(3, kernel.gives_l_and_m ? 3 : 1))
    if (const auto finding = unwritten(named.name, named.buffer->elements(), named.columns))
      report.violation = *finding;
  std::ranges::copy(O.elements(), report.state.O.data());
  std::ranges::copy(l.elements(), report.state.l.begin());
  std::ranges::copy(m.elements(), report.state.m.begin());
  return report;
}

} // namespace fa1::kernels
