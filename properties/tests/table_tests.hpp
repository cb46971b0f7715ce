/// Tests made from tables: Catch2's macros want a name that is known to the compiler.
///
/// register_test   what TEST_CASE expands to, for any name
/// tell            a violated law with the line to paste, straight to the output: Catch2 would break it
#pragma once

#include "properties/property.hpp"

#include <catch2/interfaces/catch_interfaces_testcase.hpp>
#include <catch2/internal/catch_test_registry.hpp>

#include <deque>
#include <functional>
#include <iostream>
#include <string>
#include <utility>

namespace fa1::properties::tests {

class TableTest : public Catch::ITestInvoker {
public:
  explicit TableTest(std::function<void()> body) : body_(std::move(body)) {}
  void invoke() const override { body_(); }

private:
  std::function<void()> body_;
};

inline void register_test(std::string name, const char* tags, std::function<void()> body) {
  static std::deque<std::string> names; // Catch2 keeps views of them
  names.push_back(std::move(name));
  Catch::AutoReg(Catch::Detail::make_unique<TableTest>(std::move(body)), CATCH_INTERNAL_LINEINFO,
                 Catch::StringRef(), Catch::NameAndTags{names.back(), tags});
}

inline void tell(const LawResult& result) {
  std::cout << result.invariant->id << ": " << result.invariant->says
            << "\n  found:      " << result.violation << "\n  shrunk to:  " << result.shrunk_recipe
            << "\nreproduce: " << result.replay() << "\n  or, with this test: RC_PARAMS=\""
            << result.reproduce << "\"\n"
            << std::flush;
}

} // namespace fa1::properties::tests
