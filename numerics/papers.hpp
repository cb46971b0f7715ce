/// What others published about attention and its arithmetic, measured again.
///
/// Computes  one row for each published number: theirs, ours, and what differs between the two. With the
///           emulation of low precision:
///             FlashAttention-3 (Shah et al. 2024), section 4.3: RMSE of fp16 and fp8 attention on
///               entries from N(0,1) + N(0,100) Bernoulli(0.001), and the ratios between them
///             Golden et al. 2024: every intermediate in bf16 against standard attention in bf16,
///               over the number of keys and the width of the tile; and with fp32 carries, where
///               the relation turns round
///             Qiu and Yao 2025: the bias of sum p v in bf16 where two weights are 1, and their fix
///           and of what was said of the algorithm in any precision (papers_analysis.cpp):
///             Blanchard, Higham and Higham 2021: the error of the shifted softmax itself, over their bound
///             Demmel et al. 2026: grades of the BLAS; ours by growth.hpp
///             Milakov and Gimelshein 2018: the merge of (m, d) is associative
///             FlashAttention-1 (Dao et al. 2022): floats moved, counted load by load
/// Shapes    the first two papers state none that could be repeated: ours is a mean over a stated
///           set of shapes, with its range
/// Error     nothing of ours is a constant: every number is measured when it is asked for
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <limits>
#include <string>
#include <vector>

namespace fa1::numerics {

struct PaperRow {
  std::string source;
  std::string quantity;
  std::string unit;    ///< empty for a ratio
  double theirs = 0.0; ///< NaN where the source says a direction and no number
  std::string says;    ///< what the source says, where that is no number
  double ours = 0.0;   ///< geometric mean over the shapes; the number itself where there is one
  double low = 0.0, high = 0.0; ///< smallest and largest over the shapes
  std::string shapes;           ///< where ours comes from
  std::string differs;

  /// NaN where there is nothing to divide by.
  double ratio() const {
    return theirs == 0.0 ? std::numeric_limits<double>::quiet_NaN() : ours / theirs;
  }
};

enum class Paper {
  flash_attention_3,
  golden,
  qiu_yao,
  blanchard_higham,
  demmel,
  milakov_gimelshein,
  flash_attention_1
};
inline constexpr std::array kPapers{
    Paper::flash_attention_3, Paper::golden, Paper::qiu_yao,
    Paper::blanchard_higham,  Paper::demmel, Paper::milakov_gimelshein,
    Paper::flash_attention_1};

/// Over how many shapes: full takes half a minute on two cores, few two seconds.
enum class PaperSet { few, full };

/// Results do not depend on `threads`. `done` is called once for each of `paper_jobs()` parts, by
/// any thread.
std::vector<PaperRow> paper_rows(Paper paper, PaperSet set = PaperSet::full, unsigned threads = 1,
                                 const std::function<void()>& done = {});
std::size_t paper_jobs(Paper paper, PaperSet set = PaperSet::full);

} // namespace fa1::numerics
