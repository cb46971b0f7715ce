/// The problem of a recipe with its keys chunk by chunk, so that memory does not grow with n_kv.
///
/// Computes  chunk i: the same queries and scale, and keys [i * keys_at_once, ...) with their values;
///           chunks() of them, at least one (which is empty where n_kv = 0)
/// Error     none: every entry is the one that make_problem would make
/// Requires  keys_at_once >= 1; chunks may be asked for in any order, each is made when asked for
/// Memory    one chunk: 4 * batch_heads * keys_at_once * (d + dv) bytes, beside the queries
#pragma once

#include "reference/recipe.hpp"

namespace fa1::reference {

class KeyStream {
public:
  KeyStream(const Recipe& recipe, std::int64_t keys_at_once, unsigned threads = 1);

  /// Of the whole problem.
  const Shape& shape() const { return shape_; }
  std::int64_t chunks() const;

  /// Valid until the next call.
  const Problem& chunk(std::int64_t index);

private:
  Recipe recipe_;
  Shape shape_;
  std::int64_t keys_at_once_;
  unsigned threads_;
  std::int64_t made_ = -1; ///< the chunk that is there
  Problem chunk_;
};

} // namespace fa1::reference
