/// A process that plug-ins live in: its memory, what it writes, and one question at a time.
///
/// Worker    starts plugin_worker.cpp's program, asks it by a byte over a socket (plugin_wire.hpp), and
///           ends it. The first answer, wait(), comes when the library is loaded
/// Arena     the memory shared with it: the control block and six arrays, each with slack around it
///           that holds a NaN of known bits
/// Catcher   a file that takes its stdout or stderr
/// Requires  Linux: memfd_create, posix_spawn. One thread at a time. After a fork a worker is not
///           owned() and must not be asked
/// Errors    std::system_error from the system; PluginLacks where the program cannot be started
#pragma once

#include "kernels/plugin.hpp"
#include "kernels/plugin_wire.hpp"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <utility>

namespace fa1::kernels {

inline constexpr std::uint32_t kSlackBits = 0x7fc5ac4bu; ///< a NaN with a payload
inline constexpr std::size_t kFrontWords = 256; ///< of slack looked at in front of an array

[[noreturn]] inline void fail_in(const char* call) {
  throw std::system_error(errno, std::generic_category(), std::string("plug-in: ") + call);
}

/// A file descriptor above those that the worker gets, closed in every program started from here.
class Descriptor {
public:
  Descriptor() = default;
  explicit Descriptor(int fd, const char* call) {
    if (fd < 0)
      fail_in(call);
    constexpr int kAboveTheWorkers = 10;
    fd_ = fcntl(fd, F_DUPFD_CLOEXEC, kAboveTheWorkers);
    close(fd);
    if (fd_ < 0)
      fail_in("fcntl");
  }
  ~Descriptor() {
    if (fd_ >= 0)
      close(fd_);
  }
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  int get() const { return fd_; }

private:
  int fd_ = -1;
};

/// What a worker writes to stdout or stderr, read from here.
class Catcher {
public:
  explicit Catcher(const char* name) : file_(memfd_create(name, MFD_CLOEXEC), "memfd_create") {
    fcntl(file_.get(), F_SETFL, O_APPEND); // so that it may be emptied at any time
  }
  int get() const { return file_.get(); }

  bool empty() const { return size() == 0; }
  std::string text() const {
    std::string text(std::min<std::size_t>(size(), 65536), '\0');
    const ssize_t got = pread(file_.get(), text.data(), text.size(), 0);
    text.resize(got < 0 ? 0 : static_cast<std::size_t>(got));
    return text;
  }
  std::string take() {
    std::string all = text();
    clear();
    return all;
  }
  /// Room for what is written next; at most so many bytes are kept otherwise.
  void keep_small() {
    constexpr std::size_t kEnough = 1 << 20;
    if (size() > kEnough)
      clear();
  }

private:
  std::size_t size() const {
    struct stat facts {};
    return fstat(file_.get(), &facts) == 0 ? static_cast<std::size_t>(facts.st_size) : 0;
  }
  void clear() {
    if (ftruncate(file_.get(), 0) != 0)
      fail_in("ftruncate");
  }
  Descriptor file_;
};

/// The memory shared with a worker: control block and six arrays (plugin_wire.hpp).
class Arena {
public:
  Arena() : file_(memfd_create("fa1-plugin", MFD_CLOEXEC), "memfd_create") {
    map(wire::kControlBytes);
  }
  ~Arena() { munmap(memory_, bytes_); }
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  int get() const { return file_.get(); }
  wire::Control& control() { return *static_cast<wire::Control*>(memory_); }

  /// Makes room for arrays of so many floats.
  void fit(const std::array<std::size_t, wire::kArrays>& counts) {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    bool fits = true;
    for (std::size_t array = 0; array < wire::kArrays; ++array)
      fits = fits && bytes_for(counts[array]) <= capacity_[array];
    if (fits)
      return;
    std::size_t bytes = wire::kControlBytes + page;
    std::array<wire::Region, wire::kArrays> regions;
    for (std::size_t array = 0; array < wire::kArrays; ++array) {
      const std::size_t wanted = bytes_for(counts[array]);
      if (wanted > capacity_[array]) // half as much again, so that growing sizes move it rarely
        capacity_[array] = (wanted + wanted / 2 + page - 1) / page * page;
      regions[array] = {bytes, bytes + capacity_[array]};
      bytes += capacity_[array] + page;
    }
    munmap(memory_, bytes_);
    map(bytes);
    control().bytes = bytes;
    control().regions = regions;
    control().layout += 1;
  }

  /// Places array number `array`, with its slack filled.
  void place(std::size_t array, std::size_t count) {
    const wire::Region region = control().regions[array];
    control().at[array] =
        (region.end - count * sizeof(float)) / wire::kAlignment * wire::kAlignment;
    for (const std::span<float> slack : slacks(array, count))
      std::ranges::fill(slack, std::bit_cast<float>(kSlackBits));
  }
  float* data(std::size_t array) { return at(control().at[array]); }

  /// The first word of slack that has changed, counted from the array's start.
  std::optional<std::ptrdiff_t> changed_slack(std::size_t array, std::size_t count) {
    for (const std::span<float> slack : slacks(array, count))
      for (const float& word : slack)
        if (std::bit_cast<std::uint32_t>(word) != kSlackBits)
          return &word - data(array);
    return std::nullopt;
  }

private:
  static std::size_t bytes_for(std::size_t count) {
    return count * sizeof(float) + kFrontWords * sizeof(float) + wire::kAlignment;
  }
  float* at(std::uint64_t offset) {
    return reinterpret_cast<float*>(static_cast<std::byte*>(memory_) + offset);
  }
  std::array<std::span<float>, 2> slacks(std::size_t array, std::size_t count) {
    float* const first = data(array);
    return {std::span(first - kFrontWords, first),
            std::span(first + count, at(control().regions[array].end))};
  }
  void map(std::size_t bytes) {
    if (ftruncate(file_.get(), static_cast<off_t>(bytes)) != 0)
      fail_in("ftruncate");
    memory_ = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file_.get(), 0);
    if (memory_ == MAP_FAILED)
      throw std::bad_alloc();
    bytes_ = bytes;
  }

  Descriptor file_;
  void* memory_ = nullptr;
  std::size_t bytes_ = 0;
  std::array<std::size_t, wire::kArrays> capacity_{};
};

enum class Reply { answered, hung, ended };

class Worker {
public:
  /// Starts `program` on the library at `path`.
  Worker(const std::string& program, const std::string& path, double timeout)
      : owner_(getpid()), out_("fa1-plugin-out"), err_("fa1-plugin-err") {
    arena_.control().watchdog_seconds = static_cast<std::uint32_t>(2.0 * timeout) + 2;
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
      fail_in("socketpair");
    socket_ = Descriptor(ends[0], "socketpair");
    start(program, path, Descriptor(ends[1], "socketpair"));
  }
  ~Worker() {
    if (owned())
      end();
  }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  /// False after a fork: then it is another process's worker.
  bool owned() const { return owner_ == getpid(); }
  Arena& arena() { return arena_; }
  wire::Control& control() { return arena_.control(); }
  Catcher& out() { return out_; }
  Catcher& err() { return err_; }

  Reply ask(double timeout) {
    const char byte = '.';
    if (send(socket_.get(), &byte, 1, MSG_NOSIGNAL) != 1)
      return Reply::ended;
    return wait(timeout);
  }

  Reply wait(double timeout) {
    using Clock = std::chrono::steady_clock;
    const auto until = Clock::now() + std::chrono::duration<double>(timeout);
    for (;;) {
      const auto left =
          std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now()).count() + 1;
      pollfd waiting{socket_.get(), POLLIN, 0};
      const int ready = poll(&waiting, 1, static_cast<int>(std::max<std::int64_t>(left, 0)));
      if (ready < 0 && errno != EINTR)
        fail_in("poll");
      if (ready > 0) {
        char byte = 0;
        return recv(socket_.get(), &byte, 1, 0) == 1 ? Reply::answered : Reply::ended;
      }
      if (ready == 0 || left <= 0)
        // A child of the plug-in may hold the socket open after the worker's death.
        return waitpid(process_, &status_, WNOHANG) == process_ ? (process_ = -1, Reply::ended)
                                                                : Reply::hung;
    }
  }

  /// Ends it, where it still runs; its exit status as waitpid gives it.
  int end() {
    if (process_ > 0) {
      kill(process_, SIGKILL);
      reap();
    }
    return status_;
  }
  /// For a worker that has closed its end: waits for its own end.
  int reap() {
    while (process_ > 0 && waitpid(process_, &status_, 0) < 0 && errno == EINTR) {
    }
    process_ = -1;
    return status_;
  }

private:
  void start(std::string program, std::string library, const Descriptor& its_end) {
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&files, out_.get(), STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&files, err_.get(), STDERR_FILENO);
    posix_spawn_file_actions_adddup2(&files, its_end.get(), wire::kSocket);
    posix_spawn_file_actions_adddup2(&files, arena_.get(), wire::kMemory);
    posix_spawn_file_actions_addclosefrom_np(&files, wire::kMemory + 1);
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    sigset_t all, none;
    sigfillset(&all);
    sigemptyset(&none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);

    char* words[] = {program.data(), library.data(), nullptr};
    const int error = posix_spawn(&process_, program.c_str(), &files, &attributes, words, environ);
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&attributes);
    if (error != 0)
      throw PluginLacks("plug-in: cannot start " + program + ": " + std::strerror(error) +
                        "; build the target fa1_plugin_worker");
  }

  pid_t owner_;
  pid_t process_ = -1;
  int status_ = 0;
  Arena arena_;
  Catcher out_, err_;
  Descriptor socket_;
};

} // namespace fa1::kernels
