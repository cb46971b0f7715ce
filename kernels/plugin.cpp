#include "kernels/plugin.hpp"

#include "kernels/plugin.h"
#include "kernels/plugin_wire.hpp"
#include "reference/recipe.hpp"

#include <nlohmann/json.hpp>

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
#include <cctype>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>

namespace fa1::kernels {
namespace {

using Json = nlohmann::json;

constexpr std::array<const char*, wire::kArrays> kNames{"Q", "K", "V", "O", "l", "m"};
constexpr std::uint32_t kSlackBits = 0x7fc5ac4bu; ///< a NaN with a payload
constexpr std::size_t kFrontWords = 256;          ///< of slack looked at in front of an array
constexpr std::int64_t kLargestD = 256;
constexpr std::size_t kQuoted = 80; ///< characters of somebody else's text in a message

[[noreturn]] void fail(const char* call) {
  throw std::system_error(errno, std::generic_category(), std::string("plug-in: ") + call);
}

/// `text` on one line of printable characters, cut off where it is long.
std::string in_quotes(std::string_view text) {
  std::string line(text.substr(0, kQuoted));
  for (char& letter : line)
    if (static_cast<unsigned char>(letter) < ' ' || letter == '\x7f')
      letter = ' ';
  const auto last = line.find_last_not_of(' ');
  line.resize(last == std::string::npos ? 0 : last + 1);
  return "\"" + line + (text.size() > kQuoted ? "...\"" : "\"");
}

std::string seconds(double s) {
  std::string text = std::to_string(s);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.')
    text.pop_back();
  return text + " s";
}

// ---------------------------------------------------------------------------------------------------
// What belongs to the system
// ---------------------------------------------------------------------------------------------------

/// A file descriptor above those that the worker gets, closed in every program started from here.
class Descriptor {
public:
  Descriptor() = default;
  explicit Descriptor(int fd, const char* call) {
    if (fd < 0)
      fail(call);
    constexpr int kAboveTheWorkers = 10;
    fd_ = fcntl(fd, F_DUPFD_CLOEXEC, kAboveTheWorkers);
    close(fd);
    if (fd_ < 0)
      fail("fcntl");
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
      fail("ftruncate");
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
      fail("ftruncate");
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

// ---------------------------------------------------------------------------------------------------
// One worker process
// ---------------------------------------------------------------------------------------------------

enum class Reply { answered, hung, ended };

class Worker {
public:
  Worker(const std::string& path, double timeout)
      : owner_(getpid()), out_("fa1-plugin-out"), err_("fa1-plugin-err") {
    arena_.control().watchdog_seconds = static_cast<std::uint32_t>(2.0 * timeout) + 2;
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
      fail("socketpair");
    socket_ = Descriptor(ends[0], "socketpair");
    start(path, Descriptor(ends[1], "socketpair"));
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
        fail("poll");
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
  void start(const std::string& path, const Descriptor& its_end) {
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

    std::string program = FA1_PLUGIN_WORKER, library = path;
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

// ---------------------------------------------------------------------------------------------------
// What went wrong, in words
// ---------------------------------------------------------------------------------------------------

std::string signal_name(int signal) {
  const char* const name = sigabbrev_np(signal);
  return name == nullptr ? "signal " + std::to_string(signal)
                         : std::string("SIG") + name + " (" + sigdescr_np(signal) + ")";
}

std::array<std::size_t, wire::kArrays> counts_of(const Shape& shape) {
  const auto size = [&](std::int64_t rows, std::int64_t columns) {
    return static_cast<std::size_t>(shape.batch_heads * rows * columns);
  };
  return {size(shape.n_q, shape.d),  size(shape.n_kv, shape.d), size(shape.n_kv, shape.dv),
          size(shape.n_q, shape.dv), size(shape.n_q, 1),        size(shape.n_q, 1)};
}

/// `element` of array number `array`, which lies outside it or may not be written.
std::string element_text(std::size_t array, std::ptrdiff_t element, const Shape& shape) {
  const auto count = static_cast<std::ptrdiff_t>(counts_of(shape)[array]);
  const std::array<std::int64_t, wire::kArrays> columns{shape.d, shape.d, shape.dv, shape.dv, 1, 1};
  std::string text = std::string(kNames[array]) + ": element " + std::to_string(element);
  if (element >= 0 && element < count)
    return text;
  text += count == 0 ? " of an empty array" : " where 0 .. " + std::to_string(count - 1) + " exist";
  if (element >= count && columns[array] > 1)
    text += " (row " + std::to_string(element / columns[array]) + " of " +
            std::to_string(count / columns[array]) + ")";
  return text;
}

/// Where a fault hit our memory, or some other address.
std::string fault_text(wire::Control& control, const Shape& shape) {
  const char* const access = control.fault_access == wire::Access::write  ? "a write"
                             : control.fault_access == wire::Access::read ? "a read"
                                                                          : "an access";
  const std::uint64_t offset = control.fault_address - control.fault_base;
  if (control.fault_address >= control.fault_base && offset < control.bytes &&
      offset >= wire::kControlBytes) {
    // A guard page belongs to the array whose end or start is nearer.
    std::size_t nearest = 0;
    std::uint64_t least = std::numeric_limits<std::uint64_t>::max();
    for (std::size_t array = 0; array < wire::kArrays; ++array) {
      const wire::Region region = control.regions[array];
      const std::uint64_t away = offset < region.begin ? region.begin - offset
                                 : offset < region.end ? 0
                                                       : offset - region.end + 1;
      if (control.at[array] != 0 && away < least)
        least = away, nearest = array;
    }
    const auto element =
        (static_cast<std::ptrdiff_t>(offset) - static_cast<std::ptrdiff_t>(control.at[nearest])) /
        static_cast<std::ptrdiff_t>(sizeof(float));
    if (element >= 0 && element < static_cast<std::ptrdiff_t>(counts_of(shape)[nearest]))
      return std::string(access) + " to the input " + element_text(nearest, element, shape);
    return std::string(access) + " outside " + element_text(nearest, element, shape);
  }
  char address[32];
  std::snprintf(address, sizeof address, "0x%llx",
                static_cast<unsigned long long>(control.fault_address));
  return std::string(access) +
         (control.fault_address < 4096 ? " through a null pointer, at " : " at address ") + address;
}

/// How the control bits of the floating-point unit differ.
std::string control_change(std::uint64_t before, std::uint64_t after) {
#if defined(__x86_64__)
  constexpr std::uint64_t kFlush = 0x8000, kZeros = 0x40, kRounding = 0x6000, kMasks = 0x1f80;
  constexpr std::array kDirections{"to nearest", "downward", "upward", "toward zero"};
  std::string text;
  const auto add = [&](const std::string& what) { text += (text.empty() ? "" : ", ") + what; };
  const std::uint64_t changed = before ^ after;
  if ((changed & (kFlush | kZeros)) != 0)
    add((after & (kFlush | kZeros)) != 0
            ? "subnormals flushed to zero, as libraries linked with -ffast-math do"
            : "subnormals no longer flushed to zero");
  if ((changed & kRounding) != 0)
    add(std::string("rounding ") + kDirections[(after & kRounding) >> 13] + " instead of " +
        kDirections[(before & kRounding) >> 13]);
  if ((changed & kMasks) != 0)
    add("exceptions that trap");
  if (text.empty()) // where it follows the others, it need not be told
    add("another x87 control word");
  return text;
#else
  char text[64];
  std::snprintf(text, sizeof text, "control bits %#llx instead of %#llx",
                static_cast<unsigned long long>(after), static_cast<unsigned long long>(before));
  return text;
#endif
}

/// How a worker ended, `where` being in a call or while it was loaded.
std::string end_text(Worker& worker, const Shape& shape, const char* where) {
  const int status = worker.reap();
  std::string text;
  if (WIFSIGNALED(status)) {
    text = std::string("died ") + where + " of " + signal_name(WTERMSIG(status));
    if (worker.control().fault_signal == WTERMSIG(status))
      text += ": " + fault_text(worker.control(), shape);
  } else {
    text = std::string("ended its process ") + where + ", with exit status " +
           std::to_string(WEXITSTATUS(status));
  }
  std::string said = worker.err().text();
  said.erase(said.find_last_not_of('\n') + 1);
  if (const auto last_line = said.rfind('\n'); last_line != std::string::npos)
    said.erase(0, last_line + 1);
  if (!said.empty())
    text += "; it said " + in_quotes(said);
  return text;
}

// ---------------------------------------------------------------------------------------------------
// What fa1_describe says
// ---------------------------------------------------------------------------------------------------

struct Description {
  std::string name;
  bool gives_l_and_m = false, resumes = false;
  int max_d = 0, Br = 1, Bc = 1;
};

class DescriptionReader {
public:
  explicit DescriptionReader(std::string_view text) : text_(text) {}

  Description read() {
    json_ = Json::parse(text_, nullptr, /*allow_exceptions=*/false);
    if (json_.is_discarded() || !json_.is_object())
      wrong("is not a JSON object", "want one like {\"name\": \"mine\", \"gives\": [\"o\"], "
                                    "\"max_d\": 128}");
    constexpr std::array kKeys{"name",  "gives", "resumes", "memory",
                               "max_d", "Br",    "Bc",      "struct_size"};
    for (const auto& item : json_.items())
      if (std::ranges::find(kKeys, item.key()) == kKeys.end())
        wrong("holds the unknown key " + in_quotes(item.key()),
              "there are name gives resumes memory max_d Br Bc struct_size");
    struct_size();

    Description d;
    d.name = name();
    const std::vector<std::string> gives = words("gives", {"o", "l", "m"}, true);
    const auto has = [&](const char* word) { return std::ranges::count(gives, word) != 0; };
    if (!has("o"))
      wrong("leaves \"o\" out of \"gives\"", "every kernel gives o");
    if (has("l") != has("m"))
      wrong("gives one of l and m", "want both or neither");
    d.gives_l_and_m = has("l");
    if (json_.contains("resumes") && !json_["resumes"].is_boolean())
      wrong("has \"resumes\": " + found("resumes"), "want true or false");
    d.resumes = json_.value("resumes", false);
    if (d.resumes && !d.gives_l_and_m)
      wrong("resumes without l and m", "they are part of what it resumes from");
    if (const auto memory = words("memory", {"host", "cuda"}, false);
        json_.contains("memory") && std::ranges::count(memory, "host") == 0)
      throw PluginLacks("fa1_describe: \"memory\" is " + found("memory") +
                        ", and this program passes host pointers; want \"host\" among them");
    d.max_d = number("max_d", kLargestD);
    d.Br = json_.contains("Br") ? number("Br", 4096) : 1;
    d.Bc = json_.contains("Bc") ? number("Bc", 4096) : 1;
    return d;
  }

private:
  [[noreturn]] static void wrong(const std::string& what, const std::string& want) {
    throw PluginError("fa1_describe " + what + "; " + want);
  }
  std::string found(const char* key) const {
    return json_.contains(key)
               ? in_quotes(json_[key].dump(-1, ' ', true, Json::error_handler_t::replace))
               : "missing";
  }

  void struct_size() const {
    if (!json_.contains("struct_size"))
      return;
    const Json& size = json_["struct_size"];
    if (!size.is_number_unsigned() || size.get<std::uint64_t>() != sizeof(fa1_args))
      wrong("says struct_size " + found("struct_size") + " where this program passes " +
                std::to_string(sizeof(fa1_args)),
            "build the library with this program's kernels/plugin.h");
  }
  std::string name() const {
    constexpr std::size_t kLongest = 64;
    const std::string want =
        "want 1 to " + std::to_string(kLongest) + " letters, digits or _ . + -";
    if (!json_.contains("name") || !json_["name"].is_string())
      wrong("has \"name\" " + found("name"), want);
    const std::string name = json_["name"];
    const auto allowed = [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
             std::string_view("_.+-").find(c) != std::string_view::npos;
    };
    if (name.empty() || name.size() > kLongest || !std::ranges::all_of(name, allowed))
      wrong("has \"name\" " + in_quotes(name), want);
    return name;
  }
  std::vector<std::string> words(const char* key, std::initializer_list<const char*> known,
                                 bool required) const {
    std::string want = "want a list of";
    for (const char* word : known)
      want += std::string(" \"") + word + "\"";
    if (!json_.contains(key) && !required)
      return {};
    if (!json_.contains(key) || !json_[key].is_array())
      wrong(std::string("has \"") + key + "\" " + found(key), want);
    std::vector<std::string> list;
    for (const Json& word : json_[key]) {
      if (!word.is_string() || std::ranges::find(known, word.get<std::string>()) == known.end())
        wrong(std::string("has \"") + key + "\" with the unknown entry " +
                  in_quotes(word.dump(-1, ' ', true, Json::error_handler_t::replace)),
              want);
      list.push_back(word);
    }
    return list;
  }
  int number(const char* key, std::int64_t most) const {
    if (!json_.contains(key) || !json_[key].is_number_integer() ||
        json_[key].get<std::int64_t>() < 1 || json_[key].get<std::int64_t>() > most)
      wrong(std::string("has \"") + key + "\" " + found(key),
            "want a whole number from 1 to " + std::to_string(most));
    return json_[key];
  }

  std::string_view text_;
  Json json_;
};

// ---------------------------------------------------------------------------------------------------
// A plug-in
// ---------------------------------------------------------------------------------------------------

class Plugin {
public:
  Plugin(std::string shown, const std::filesystem::path& path, PluginOptions options)
      : shown_(std::move(shown)), path_(path.string()), options_(options) {
    start();
    const wire::Control& control = worker_->control();
    try {
      description_ = DescriptionReader({control.describe.data(),
                                        strnlen(control.describe.data(), control.describe.size())})
                         .read();
    } catch (const PluginLacks& error) {
      throw PluginLacks(named(error.what()));
    } catch (const PluginError& error) {
      throw PluginError(named(error.what()));
    }
    if (control.control_loaded != control.control_at_start)
      findings_.push_back("while it is loaded, leaves the floating-point unit changed: " +
                          control_change(control.control_at_start, control.control_loaded));
    if (!worker_->out().empty())
      findings_.push_back("prints to stdout while it is loaded: " +
                          in_quotes(worker_->out().take()));
  }

  const Description& description() const { return description_; }
  const std::vector<std::string>& findings() const { return findings_; }

  void call(const Arguments& arguments) {
    const Shape& shape = arguments.shape;
    if (shape.batch_heads == 0 || shape.n_q == 0)
      return;
    if (shape.d == 0 || shape.dv == 0)
      throw UnsupportedShape(named("d = 0 and dv = 0 are not asked of plug-ins"));
    const std::lock_guard turn(turn_);
    if (worker_ == nullptr || !worker_->owned()) {
      start();
      worker_->out().take();
    }
    const auto counts = counts_of(shape);
    put(arguments, counts);
    const Reply reply = worker_->ask(options_.timeout);
    if (reply != Reply::answered)
      lose(reply, shape, "in a call");
    examine_call(shape, counts);
    take(arguments, counts);
  }

private:
  std::string named(const std::string& what) const { return "plug-in '" + shown_ + "': " + what; }

  [[noreturn]] void fault(const std::string& what, bool hung = false) const {
    throw KernelFault(named(what), hung);
  }

  /// The worker is of no use any more: says why and lets the next call start another.
  [[noreturn]] void lose(Reply reply, const Shape& shape, const char* where) {
    if (reply == Reply::hung) {
      worker_.reset();
      fault(std::string("did not return ") + where + " within " + seconds(options_.timeout), true);
    }
    const std::string how = end_text(*worker_, shape, where);
    worker_.reset();
    fault(how);
  }

  void start() {
    worker_.reset();
    worker_ = std::make_unique<Worker>(path_, options_.timeout);
    const Reply reply = worker_->wait(options_.timeout);
    if (reply != Reply::answered)
      lose(reply, {}, "while it was loaded");
    const wire::Control& control = worker_->control();
    const std::string detail(control.detail.data(),
                             strnlen(control.detail.data(), control.detail.size()));
    switch (control.loading) {
    case wire::Loading::done:
      return;
    case wire::Loading::lacks_library:
      throw PluginLacks(named("needs another library: " + detail));
    case wire::Loading::lacks_symbol:
      throw PluginError(named("lacks the symbol " + detail +
                              "; want both functions of kernels/plugin.h, extern \"C\""));
    default:
      throw PluginError(named("does not load: " + detail));
    }
  }

  void put(const Arguments& a, const std::array<std::size_t, wire::kArrays>& counts) {
    Arena& arena = worker_->arena();
    arena.fit(counts);
    wire::Control& control = arena.control();
    control.batch_heads = a.shape.batch_heads;
    control.n_q = a.shape.n_q;
    control.n_kv = a.shape.n_kv;
    control.d = a.shape.d;
    control.dv = a.shape.dv;
    control.scale = a.scale;
    control.resume = a.resume ? 1 : 0;
    const std::array<const float*, wire::kArrays> from{a.Q, a.K, a.V, a.O, a.l, a.m};
    for (std::size_t array = 0; array < wire::kArrays; ++array) {
      arena.place(array, counts[array]);
      if (array > wire::kInputs && (!description_.gives_l_and_m || from[array] == nullptr))
        control.at[array] = 0;
      else
        std::copy_n(from[array], counts[array], arena.data(array));
    }
  }

  void take(const Arguments& a, const std::array<std::size_t, wire::kArrays>& counts) {
    const std::array<float*, wire::kArrays - wire::kInputs> to{a.O, a.l, a.m};
    for (std::size_t array = wire::kInputs; array < wire::kArrays; ++array)
      if (worker_->control().at[array] != 0)
        std::copy_n(worker_->arena().data(array), counts[array], to[array - wire::kInputs]);
  }

  void examine_call(const Shape& shape, const std::array<std::size_t, wire::kArrays>& counts) {
    const wire::Control& control = worker_->control();
    for (std::size_t array = wire::kInputs; array < wire::kArrays; ++array)
      if (control.at[array] != 0)
        if (const auto element = worker_->arena().changed_slack(array, counts[array]))
          fault("a write outside " + element_text(array, *element, shape));
    if (control.control_after != control.control_loaded)
      fault("leaves the floating-point unit changed: " +
            control_change(control.control_loaded, control.control_after));
    if (!worker_->out().empty())
      fault("prints to stdout: " + in_quotes(worker_->out().take()));
    worker_->err().keep_small();
    if (control.status == FA1_UNSUPPORTED)
      throw UnsupportedShape(named("does not support this shape"));
    if (control.status == FA1_OTHER_SIZE)
      throw PluginError(named("was built for another fa1_args than the " +
                              std::to_string(sizeof(fa1_args)) +
                              " bytes passed; build it with this program's kernels/plugin.h"));
    if (control.status != FA1_DONE)
      fault("fa1_forward failed with status " + std::to_string(control.status));
  }

  std::string shown_, path_;
  PluginOptions options_;
  Description description_;
  std::vector<std::string> findings_;
  std::mutex turn_;
  std::unique_ptr<Worker> worker_;
};

/// What Kernel::run of a plug-in is, so that examine() can find the plug-in again.
struct PluginRun {
  std::shared_ptr<Plugin> plugin;
  void operator()(const Arguments& arguments, const Launch&) const { plugin->call(arguments); }
};

/// As a shell reads it back.
std::string for_shell(const std::string& word) {
  const auto plain = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
           std::string_view("/._+-=:@%,").find(c) != std::string_view::npos;
  };
  if (!word.empty() && std::ranges::all_of(word, plain))
    return word;
  std::string text = "'";
  for (const char letter : word)
    text += letter == '\'' ? std::string("'\\''") : std::string(1, letter);
  return text + "'";
}

} // namespace

Kernel load_plugin(const std::string& path, const PluginOptions& options) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status))
    throw PluginError("plug-in '" + path + "': no such file; want a shared library (cc -shared)");
  if (!std::filesystem::is_regular_file(status))
    throw PluginError("plug-in '" + path + "': is no regular file; want a shared library");
  const auto plugin = std::make_shared<Plugin>(path, std::filesystem::absolute(path), options);
  const Description& description = plugin->description();

  Kernel kernel;
  kernel.id = "plugin." + description.name;
  kernel.variant = "plugin";
  kernel.says = "a kernel from outside, in a process of its own";
  kernel.Br = description.Br;
  kernel.Bc = description.Bc;
  kernel.D = description.max_d;
  kernel.arithmetic.known = false;
  kernel.arithmetic.Bc = description.Bc;
  kernel.gives_l_and_m = description.gives_l_and_m;
  kernel.resumes = description.resumes;
  kernel.asked_by = "--plugin " + for_shell(path);
  if (options.timeout != PluginOptions{}.timeout) {
    std::string limit = seconds(options.timeout);
    kernel.asked_by += " --timeout " + limit.substr(0, limit.find(' '));
  }
  kernel.run = PluginRun{plugin};
  return kernel;
}

Examination examine(const Kernel& kernel) {
  Examination result;
  const auto find = [&](const std::string& says, const std::string& recipe = {}) {
    result.findings.push_back({says, recipe});
  };
  if (const auto* const run = kernel.run.target<PluginRun>(); run != nullptr)
    for (const std::string& finding : run->plugin->findings())
      find(finding);

  // Equal scores and one subnormal value: every weight is a power of two, so any order is exact.
  for (const int n : {1, 16, 64, 128})
    for (const int d : {1, 8, 16, 32, 64, 128, 256}) {
      if (d > kernel.D)
        break;
      const std::string size = std::to_string(n);
      const std::string recipe = "n_q=" + size + " n_kv=" + size + " d=" + std::to_string(d) +
                                 " scale=1 dist=zero v=constant:0x1p-130";
      const Problem problem = reference::make_problem(reference::parse_recipe(recipe));
      State state;
      try {
        state = kernels::run(kernel, problem);
      } catch (const UnsupportedShape&) {
        continue; // a larger one may be served
      } catch (const KernelFault& fault) {
        find(fault.what(), recipe);
        result.answers = false;
        return result;
      }
      if (std::ranges::count(state.O.elements(), 0.0f) > 0)
        find(
            "flushes subnormals to zero, as -ffast-math does: V = 0x1p-130 everywhere gives O = 0");
      if (!kernel.gives_l_and_m)
        return result;
      State alone = reference::start_state(problem.shape);
      try {
        kernel.run({problem.shape, problem.scale, problem.Q.data(), problem.K.data(),
                    problem.V.data(), alone.O.data(), nullptr, nullptr, false},
                   {});
        if (!std::ranges::equal(alone.O.elements(), state.O.elements()))
          find("gives another O when l and m are NULL");
      } catch (const KernelFault& fault) {
        find(std::string("with l and m NULL: ") + fault.what());
      }
      return result;
    }
  return result;
}

Kernel as_stranger(const Kernel& kernel, bool gives_l_and_m) {
  Kernel stranger = kernel;
  stranger.variant = "stranger";
  stranger.id = "stranger." + kernel.id;
  stranger.arithmetic.known = false;
  stranger.asked_by = (kernel.asked_by.empty() ? "--kernel " + kernel.id : kernel.asked_by) +
                      (gives_l_and_m ? " --stranger olm" : " --stranger o");
  stranger.gives_l_and_m = kernel.gives_l_and_m && gives_l_and_m;
  stranger.resumes = kernel.resumes && gives_l_and_m;
  if (gives_l_and_m)
    return stranger;
  stranger.run = [run = kernel.run](const Arguments& arguments, const Launch& launch) {
    const auto rows = static_cast<std::size_t>(arguments.shape.batch_heads * arguments.shape.n_q);
    std::vector<float> l(rows, std::numeric_limits<float>::quiet_NaN()), m = l;
    Arguments kept = arguments;
    kept.l = l.data();
    kept.m = m.data();
    run(kept, launch);
  };
  return stranger;
}

} // namespace fa1::kernels
