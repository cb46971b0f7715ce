// The process that a plug-in lives in (plugin_wire.hpp). Only here is the library ever loaded, so whatever
// it does when it is loaded, called or unloaded stays here.
#include "kernels/plugin.h"
#include "kernels/plugin_wire.hpp"

#include <dlfcn.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cfenv>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

#if defined(__x86_64__)
#include <ucontext.h>
#include <xmmintrin.h>
#endif

namespace {

namespace wire = fa1::kernels::wire;

constexpr int kNoLaboratory = 70; ///< exit status: started by hand, or the memory cannot be mapped

wire::Control* control = nullptr;

std::byte* base() { return reinterpret_cast<std::byte*>(control); }

// ---------------------------------------------------------------------------------------------------
// The control bits of the floating-point unit: rounding, flush to zero, masks; no sticky flags.
// ---------------------------------------------------------------------------------------------------

std::uint64_t control_bits() {
#if defined(__x86_64__)
  constexpr unsigned kStickyFlags = 0x3f;
  std::uint16_t x87 = 0;
  asm volatile("fnstcw %0" : "=m"(x87));
  return (std::uint64_t{x87} << 32) | (_mm_getcsr() & ~kStickyFlags);
#elif defined(__aarch64__)
  std::uint64_t fpcr = 0;
  asm volatile("mrs %0, fpcr" : "=r"(fpcr));
  return fpcr;
#else
  return static_cast<std::uint64_t>(std::fegetround());
#endif
}

void set_control_bits(std::uint64_t bits) {
#if defined(__x86_64__)
  const auto x87 = static_cast<std::uint16_t>(bits >> 32);
  asm volatile("fldcw %0" : : "m"(x87));
  _mm_setcsr(static_cast<unsigned>(bits));
#elif defined(__aarch64__)
  asm volatile("msr fpcr, %0" : : "r"(bits));
#else
  std::fesetround(static_cast<int>(bits));
#endif
}

// ---------------------------------------------------------------------------------------------------
// Crashes: note where, then die of them
// ---------------------------------------------------------------------------------------------------

void on_fault(int signal, siginfo_t* info, [[maybe_unused]] void* context) {
  control->fault_signal = signal;
  control->fault_address = reinterpret_cast<std::uint64_t>(info->si_addr);
  control->fault_base = reinterpret_cast<std::uint64_t>(control);
  control->fault_access = wire::Access::unknown;
#if defined(__x86_64__)
  constexpr greg_t kWrote = 2; // bit of the page-fault error code
  const greg_t error = static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_ERR];
  control->fault_access = (error & kWrote) != 0 ? wire::Access::write : wire::Access::read;
#endif
  std::signal(signal, SIG_DFL); // the access is tried again, and now it kills
}

void watch_faults() {
  static std::array<std::byte, 65536> own_stack; // the plug-in's may be what has run out
  stack_t stack{};
  stack.ss_sp = own_stack.data();
  stack.ss_size = own_stack.size();
  sigaltstack(&stack, nullptr);
  struct sigaction action {};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  sigaction(SIGSEGV, &action, nullptr);
  sigaction(SIGBUS, &action, nullptr);
}

// ---------------------------------------------------------------------------------------------------
// Memory and messages
// ---------------------------------------------------------------------------------------------------

void map(std::size_t bytes) {
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, wire::kMemory, 0);
  if (memory == MAP_FAILED)
    _exit(kNoLaboratory);
  control = static_cast<wire::Control*>(memory);
}

/// Maps what the laboratory has laid out anew, with pages between the arrays that nobody may touch.
void follow_layout() {
  static std::uint64_t bytes = wire::kControlBytes, layout = 0;
  if (control->layout == layout)
    return;
  const std::uint64_t wanted = control->bytes;
  munmap(control, bytes);
  map(wanted);
  bytes = wanted;
  layout = control->layout;
  mprotect(base() + wire::kControlBytes, bytes - wire::kControlBytes, PROT_NONE);
  for (std::size_t array = 0; array < wire::kArrays; ++array) {
    const wire::Region region = control->regions[array];
    mprotect(base() + region.begin, region.end - region.begin,
             array < wire::kInputs ? PROT_READ : PROT_READ | PROT_WRITE);
  }
}

bool receive() {
  for (char byte;;) {
    const ssize_t got = read(wire::kSocket, &byte, 1);
    if (got == 1)
      return true;
    if (got == 0 || errno != EINTR)
      return false;
  }
}

void send() {
  const char byte = '.';
  while (write(wire::kSocket, &byte, 1) < 0 && errno == EINTR) {
  }
}

template <std::size_t N> void put(std::array<char, N>& text, std::string_view words) {
  const std::size_t length = words.size() < N ? words.size() : N - 1;
  words.copy(text.data(), length);
  text[length] = '\0';
}

// ---------------------------------------------------------------------------------------------------
// The library
// ---------------------------------------------------------------------------------------------------

using Forward = int (*)(const fa1_args*);
using Describe = const char* (*)();

wire::Loading fail(wire::Loading how, std::string_view why) {
  put(control->detail, why);
  return how;
}

wire::Loading load(const char* path, Forward& forward) {
  void* const library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const error = dlerror();
    const std::string_view why = error == nullptr ? "no reason given" : error;
    // "libother.so.1: cannot open shared object file": the file itself is sound
    const bool another = !why.starts_with(path) &&
                         why.find("cannot open shared object file") != std::string_view::npos;
    return fail(another ? wire::Loading::lacks_library : wire::Loading::not_a_library, why);
  }
  forward = reinterpret_cast<Forward>(dlsym(library, "fa1_forward"));
  const auto describe = reinterpret_cast<Describe>(dlsym(library, "fa1_describe"));
  if (forward == nullptr || describe == nullptr)
    return fail(wire::Loading::lacks_symbol, forward == nullptr ? "fa1_forward" : "fa1_describe");
  const char* const text = describe();
  put(control->describe, text == nullptr ? "" : text);
  return wire::Loading::done;
}

void call(Forward forward) {
  std::array<float*, wire::kArrays> arrays{};
  for (std::size_t array = 0; array < wire::kArrays; ++array)
    if (control->at[array] != 0)
      arrays[array] = reinterpret_cast<float*>(base() + control->at[array]);
  const fa1_args args{sizeof(fa1_args), control->batch_heads,
                      control->n_q,     control->n_kv,
                      control->d,       control->dv,
                      control->scale,   arrays[0],
                      arrays[1],        arrays[2],
                      arrays[3],        arrays[4],
                      arrays[5],        control->resume,
                      /*memory=*/0};
  control->status = forward(&args);
}

} // namespace

int main(int count, char** words) {
  if (count != 2)
    return kNoLaboratory;
  map(wire::kControlBytes);
  const rlimit none{0, 0};
  setrlimit(RLIMIT_CORE, &none); // a crash is told, not stored
  watch_faults();

  Forward forward = nullptr;
  alarm(control->watchdog_seconds);
  control->control_at_start = control_bits();
  const wire::Loading loading = load(words[1], forward);
  control->control_loaded = control_bits();
  std::fflush(stdout); // what was printed must not wait for the end of the process
  control->loading = loading;
  alarm(0);
  send();
  if (loading != wire::Loading::done)
    _exit(0);

  while (receive()) {
    follow_layout();
    alarm(control->watchdog_seconds);
    call(forward);
    alarm(0);
    control->control_after = control_bits();
    set_control_bits(control->control_loaded);
    std::fflush(stdout);
    send();
  }
  _exit(0); // the library's destructors have no say in how this ends
}
