/// A run taken apart (numerics/steps.hpp) as records: what `fa1lab trace --json` prints one a line, and
/// what the page of `fa1lab trace` is drawn from.
///
/// Records   trace   what is traced, the lines of the algorithm, the closed form of its traffic, where a
///                   quantity is bad first, where kernel and mirror part
///           input   one for each of Q, K, V and batch-head: its rows
///           step    one for each step: a sentence, what moves, the traffic so far, and the numbers made
///                   in it, one entry for each row of the query block. `from` says whether a number is
///                   the kernel's own or the mirror's; `off` and `suspicious` hold the rows that are
///                   so after the tile; `bad` the rows that turn so here, with the quantity and the cause
/// Numbers   the shortest decimal that reads back as the same float; NaN and infinities as in records.hpp
/// Size      a page holds at most kMostTiles tiles and kMostPageBytes bytes
#pragma once

#include "numerics/edge_cases.hpp"
#include "numerics/steps.hpp"
#include "reference/recipe.hpp"
#include "reports/records.hpp"

#include <cstdint>
#include <string>

namespace fa1::reports {

inline constexpr std::int64_t kMostTiles = numerics::kEveryTile;
inline constexpr std::int64_t kMostPageBytes = std::int64_t{1} << 20;

/// `edge_case` may be nullptr.
Json trace_records(const reference::Recipe& recipe, const numerics::EdgeCase* edge_case,
                   const reference::Problem& problem, const kernels::Kernel& kernel,
                   const numerics::Steps& steps);

/// What the page of such a problem takes, from above, for ordinary numbers.
std::int64_t page_bytes(const reference::Shape& shape, const kernels::Kernel& kernel);

/// Throws UsageError, with what would fit, where the page would be too large.
void require_page_fits(const reference::Shape& shape, const kernels::Kernel& kernel);

} // namespace fa1::reports
