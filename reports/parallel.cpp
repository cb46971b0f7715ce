#include "reports/parallel.hpp"

#include <fmt/format.h>

#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <new>
#include <optional>
#include <stdexcept>
#include <system_error>

namespace fa1::reports {
namespace {

enum class Note : std::uint64_t { started, finished, failed };

/// What a worker says, followed by `length` bytes.
struct Head {
  Note note;
  std::uint64_t job;
  std::uint64_t length;
};

[[noreturn]] void fail(const char* call) {
  throw std::system_error(errno, std::generic_category(), call);
}

/// The next job, shared by all workers.
class Counter {
public:
  Counter() {
    void* const page =
        mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
      fail("mmap");
    shared_ = new (page) Shared(0);
  }
  ~Counter() { munmap(shared_, sizeof(Shared)); }
  Counter(const Counter&) = delete;
  Counter& operator=(const Counter&) = delete;

  std::size_t next() { return (*shared_)++; }
  void stop(std::size_t count) { *shared_ = count; }
  bool exhausted(std::size_t count) const { return *shared_ >= count; }

private:
  using Shared = std::atomic<std::size_t>;
  static_assert(Shared::is_always_lock_free, "another process has to see it");
  Shared* shared_;
};

void say(int pipe, Note note, std::size_t job, const std::string& text) {
  const Head head{note, job, text.size()};
  std::string bytes(sizeof head, '\0');
  std::memcpy(bytes.data(), &head, sizeof head);
  bytes += text;
  for (std::size_t at = 0; at < bytes.size();) {
    const ssize_t written = write(pipe, bytes.data() + at, bytes.size() - at);
    if (written < 0 && errno != EINTR)
      _exit(1); // nobody listens any more
    at += written < 0 ? 0 : static_cast<std::size_t>(written);
  }
}

[[noreturn]] void work(int pipe, std::size_t count, Counter& counter,
                       const std::function<std::string(std::size_t)>& job) {
  prctl(PR_SET_PDEATHSIG, SIGKILL); // a killed report leaves no workers behind
  for (std::size_t i = counter.next(); i < count; i = counter.next()) {
    say(pipe, Note::started, i, "");
    try {
      say(pipe, Note::finished, i, job(i));
    } catch (const std::exception& error) {
      say(pipe, Note::failed, i, error.what());
    }
  }
  _exit(0); // without the parent's own clean-up
}

/// A worker as its parent sees it.
struct Worker {
  pid_t process = -1;
  int pipe = -1;
  std::string bytes; ///< not yet a whole message
  std::optional<std::size_t> job;
};

Worker hire(const std::vector<Worker>& others, std::size_t count, Counter& counter,
            const std::function<std::string(std::size_t)>& job) {
  int ends[2];
  if (pipe(ends) != 0)
    fail("pipe");
  const pid_t process = fork();
  if (process < 0)
    fail("fork");
  if (process == 0) {
    close(ends[0]);
    for (const Worker& other : others)
      close(other.pipe);
    work(ends[1], count, counter, job);
  }
  close(ends[1]);
  return {process, ends[0], {}, {}};
}

/// How a process ended; empty where it ended well.
std::string end_of(pid_t process) {
  int status = 0;
  while (waitpid(process, &status, 0) < 0)
    if (errno != EINTR)
      return "its process is lost";
  if (WIFSIGNALED(status))
    return fmt::format("the process died: {}", strsignal(WTERMSIG(status)));
  return WEXITSTATUS(status) == 0
             ? ""
             : fmt::format("the process ended with status {}", WEXITSTATUS(status));
}

} // namespace

std::vector<std::string>
in_processes(std::size_t count, const std::function<std::string(std::size_t)>& job,
             const std::function<std::string(std::size_t, const std::string&)>& lost,
             const std::function<void(std::size_t)>& done) {
  std::cout.flush();
  std::fflush(nullptr);
  std::vector<std::string> texts(count);
  std::string failure;
  Counter counter;
  std::vector<Worker> workers;
  const auto take_messages = [&](Worker& worker) {
    for (Head head; worker.bytes.size() >= sizeof head;) {
      std::memcpy(&head, worker.bytes.data(), sizeof head);
      if (worker.bytes.size() < sizeof head + head.length)
        return;
      std::string text = worker.bytes.substr(sizeof head, head.length);
      worker.bytes.erase(0, sizeof head + head.length);
      if (head.note == Note::started) {
        worker.job = head.job;
        continue;
      }
      worker.job.reset();
      if (head.note == Note::finished) {
        texts[head.job] = std::move(text);
      } else if (failure.empty()) {
        failure = text.empty() ? "a job failed" : std::move(text);
        counter.stop(count);
      }
      done(head.job);
    }
  };
  while (!workers.empty() || !counter.exhausted(count)) {
    while (workers.size() < cores() && !counter.exhausted(count))
      workers.push_back(hire(workers, count, counter, job));
    std::vector<pollfd> waiting;
    for (const Worker& worker : workers)
      waiting.push_back({worker.pipe, POLLIN, 0});
    if (poll(waiting.data(), waiting.size(), -1) < 0 && errno != EINTR)
      fail("poll");
    for (std::size_t w = workers.size(); w-- > 0;) {
      if (waiting[w].revents == 0)
        continue;
      char piece[65536];
      const ssize_t got = read(workers[w].pipe, piece, sizeof piece);
      if (got < 0 && errno == EINTR)
        continue;
      if (got > 0) {
        workers[w].bytes.append(piece, static_cast<std::size_t>(got));
        take_messages(workers[w]);
        continue;
      }
      close(workers[w].pipe);
      const std::string why = end_of(workers[w].process);
      if (workers[w].job) {
        texts[*workers[w].job] = lost(*workers[w].job, why);
        done(*workers[w].job);
      }
      workers.erase(workers.begin() + static_cast<std::ptrdiff_t>(w));
    }
  }
  if (!failure.empty())
    throw std::runtime_error(failure);
  return texts;
}

} // namespace fa1::reports
