#include "reports/terminal.hpp"

#include <fmt/format.h>

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace fa1::reports {
namespace {

bool is_set(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr && *value != '\0';
}

bool takes_escapes(int file) {
  const char* term = std::getenv("TERM");
  return isatty(file) != 0 && (term == nullptr || std::string_view(term) != "dumb");
}

std::string in_words(double seconds) {
  if (seconds < 90.0)
    return fmt::format("{:.0f} s", seconds);
  return fmt::format("{:.0f} min", seconds / 60.0);
}

} // namespace

std::string painted(std::string_view text, Colour colour) {
  static const bool colours = takes_escapes(STDOUT_FILENO) && !is_set("NO_COLOR");
  if (!colours || colour == Colour::plain)
    return std::string(text);
  const int code = colour == Colour::good      ? 32
                   : colour == Colour::warning ? 33
                   : colour == Colour::bad     ? 31
                                               : 2;
  return fmt::format("\033[{}m{}\033[0m", code, text);
}

Progress::Progress(std::string what, double work)
    : what_(std::move(what)), work_(std::max(work, 1e-300)),
      on_terminal_(takes_escapes(STDERR_FILENO)), start_(std::chrono::steady_clock::now()) {
  if (on_terminal_)
    draw();
}

Progress::~Progress() { clear(); }

void Progress::clear() {
  const std::lock_guard lock(mutex_);
  if (on_terminal_)
    std::fputs("\r\033[K", stderr);
}

void Progress::done(double work) {
  const std::lock_guard lock(mutex_);
  done_ += work;
  if (on_terminal_ && std::chrono::steady_clock::now() - drawn_ > std::chrono::milliseconds(100))
    draw();
}

void Progress::draw() {
  drawn_ = std::chrono::steady_clock::now();
  const double share = std::min(1.0, done_ / work_);
  const double seconds = std::chrono::duration<double>(drawn_ - start_).count();
  std::string left;
  if (share > 0.01 && seconds > 0.5)
    left = fmt::format(", about {} left", in_words(seconds * (1.0 - share) / share));
  fmt::print(stderr, "\r\033[K{} {:.0f} %{}", what_, 100.0 * share, left);
  std::fflush(stderr);
}

} // namespace fa1::reports
