#include "kernels/plugin.hpp"

#include "kernels/plugin.h"
#include "kernels/plugin_description.hpp"
#include "kernels/plugin_process.hpp"
#include "reference/recipe.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
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

constexpr std::array<const char*, wire::kArrays> kNames{"Q", "K", "V", "O", "l", "m"};

std::string seconds(double s) {
  std::string text = std::to_string(s);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.')
    text.pop_back();
  return text + " s";
}

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
// A plug-in
// ---------------------------------------------------------------------------------------------------

class Plugin {
public:
  Plugin(std::string shown, const std::filesystem::path& path, PluginOptions options)
      : shown_(std::move(shown)), path_(path.string()), options_(options) {
    start();
    const wire::Control& control = worker_->control();
    try {
      description_ = read_description(
          {control.describe.data(), strnlen(control.describe.data(), control.describe.size())});
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
    worker_ = std::make_unique<Worker>(FA1_PLUGIN_WORKER, path_, options_.timeout);
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

  const auto square_recipe = [](int n, int d) {
    const std::string size = std::to_string(n);
    return "n_q=" + size + " n_kv=" + size + " d=" + std::to_string(d);
  };
  // Equal scores and one subnormal value: every weight is a power of two, so any order is exact.
  for (const int n : {1, 16, 64, 128})
    for (const int d : {1, 8, 16, 32, 64, 128, 256}) {
      if (d > kernel.D)
        break;
      const std::string recipe = square_recipe(n, d) + " scale=1 dist=zero v=constant:0x1p-130";
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
  stranger.asked_by = kernel.chosen_by() + (gives_l_and_m ? " --stranger olm" : " --stranger o");
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
