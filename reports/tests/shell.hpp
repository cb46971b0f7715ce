/// Starting the program as a person at a shell does.
#pragma once

#include <catch2/catch_test_macros.hpp>

#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <string>

namespace fa1::reports::tests {

struct Answer {
  int status = -1;
  std::string out; ///< standard output, then standard error
};

/// `line` is for the shell.
inline Answer shell(const std::string& line) {
  Answer answer;
  FILE* const pipe = popen((line + " 2>&1").c_str(), "r");
  REQUIRE(pipe != nullptr);
  std::array<char, 4096> piece;
  for (std::size_t got; (got = std::fread(piece.data(), 1, piece.size(), pipe)) > 0;)
    answer.out.append(piece.data(), got);
  const int status = pclose(pipe);
  answer.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return answer;
}

#ifdef FA1_PROGRAM
inline Answer fa1lab(const std::string& words) { return shell(FA1_PROGRAM " " + words); }

/// The program's answer to a line that it told to paste.
inline Answer pasted(const std::string& line) {
  const std::string start = "./fa1lab ";
  REQUIRE(line.starts_with(start));
  return fa1lab(line.substr(start.size()));
}
#endif

inline std::size_t lines(const std::string& text) {
  return static_cast<std::size_t>(std::ranges::count(text, '\n'));
}

} // namespace fa1::reports::tests
