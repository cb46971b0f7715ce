#include "reports/environment.hpp"

#include "kernels/exponentials.hpp"
#include "kernels/launch.hpp"
#include "reports/parallel.hpp"

#include <fmt/format.h>

#include <gnu/libc-version.h>
#include <sys/utsname.h>
#include <sys/wait.h>

#include <array>
#include <cfenv>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <limits>

namespace fa1::reports {
namespace {

#include "build_facts.inc"

/// The rest of the first line of `file` that starts with `key`, without separators around it.
std::string field(const char* file, std::string_view key) {
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with(key)) {
      const std::size_t from = line.find_first_not_of(" \t:=\"", key.size());
      const std::size_t to = line.find_last_not_of(" \"");
      return from == std::string::npos ? "" : line.substr(from, to + 1 - from);
    }
  return "unknown";
}

std::string revision() {
  std::string quoted;
  for (const char c : std::string_view(kSourceFolder))
    quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  const std::string command =
      "git -C '" + quoted + "' describe --always --dirty --abbrev=12 2>/dev/null";
  FILE* const pipe = popen(command.c_str(), "r");
  if (pipe == nullptr)
    return {};
  std::string text;
  std::array<char, 128> piece;
  while (std::fgets(piece.data(), static_cast<int>(piece.size()), pipe) != nullptr)
    text += piece.data();
  if (pclose(pipe) != 0)
    return {};
  return text.substr(0, text.find('\n'));
}

Environment gather() {
  Environment e;
  e.revision = revision();
#if defined(__clang__)
  e.compiler = "clang " __clang_version__;
#else
  e.compiler = "g++ " __VERSION__;
#endif
  e.flags = kFlags;
  e.build_type = kBuildType;
  e.libc = fmt::format("glibc {}", gnu_get_libc_version());
  utsname kernel{};
  uname(&kernel);
  e.system = fmt::format("{}, {} {}", field("/etc/os-release", "PRETTY_NAME"), kernel.sysname,
                         kernel.machine);
  e.cpu = field("/proc/cpuinfo", "model name");
  e.cores = cores();
  const std::string obstacle = kernels::cuda_obstacle();
  e.cuda = "no: " + obstacle;
  if (const auto device = kernels::cuda_device())
    e.cuda = device->name + ", " + device->toolkit;
  return e;
}

} // namespace

std::string arithmetic_obstacle() {
  // volatile: asked of the machine, not of the compiler
  const volatile float smallest = std::numeric_limits<float>::denorm_min();
  const volatile float smallest_normal = std::numeric_limits<float>::min();
  const volatile float nan = std::numeric_limits<float>::quiet_NaN();
  const volatile float half = 0.5f;
  const float halved = smallest_normal * half, same = smallest * 1.0f;
  if (halved == 0.0f || same == 0.0f)
    return "subnormal numbers are flushed to zero in this process; is a library loaded that was "
           "built "
           "with -ffast-math?";
  if (std::fegetround() != FE_TONEAREST)
    return "results are not rounded to nearest in this process";
  if (!std::isnan(nan))
    return "NaN is not recognised: this program was built with -ffast-math or -ffinite-math-only";
  return {};
}

const Environment& environment() {
  static const Environment here = gather();
  return here;
}

} // namespace fa1::reports
