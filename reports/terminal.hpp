/// What differs between a terminal and a pipe: colours and progress. A pipe sees neither.
#pragma once

#include <chrono>
#include <cstddef>
#include <mutex>
#include <string>
#include <string_view>

namespace fa1::reports {

enum class Colour { plain, good, warning, bad, faint };

/// `text` coloured for standard output; unchanged in a pipe, under NO_COLOR and where TERM is dumb.
std::string painted(std::string_view text, Colour colour);

/// One line on standard error that is written over: what is done, how much, and an estimate of the time left. Silent
/// where standard error is no terminal. Any thread may report work done.
class Progress {
public:
  /// `work` is in any unit that grows evenly with time.
  Progress(std::string what, double work);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void done(double work);
  /// Takes the line away before something else is printed; the next report of work brings it back.
  void clear();

private:
  void draw();

  std::mutex mutex_;
  std::string what_;
  double work_;
  double done_ = 0.0;
  bool on_terminal_;
  std::chrono::steady_clock::time_point start_, drawn_;
};

} // namespace fa1::reports
