/// Attention heads of a real model, as they were recorded: what recipes `recorded=NAME` are made of.
///
/// Holds     Q, K, V and the model's own O of each head, [1][rows][columns] fp32, and what the recorder measured of
///           the model's own weights (numerics/recorded/record.py says what, of which model, on which text)
/// File      numerics/recorded/heads.safetensors in the source tree that this was built from, read when it is first
///           asked for and kept
/// Errors    RecipeError: no such head (the message lists those there are), or the file is missing or is none
/// Threads   any
#pragma once

#include "reference/recipe.hpp"
#include "reference/tensor.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace fa1::reference {

struct RecordedHead {
  std::string name; ///< `sink-l4h5`: kind, layer, head
  std::string kind;
  std::int64_t rows = 0, columns = 0; ///< of each matrix
  float scale = 1.0f;
  Tensor<float> Q, K, V, O;
  double largest_in_Q = 0.0; ///< in magnitude
  /// Of the model's own weights p, means over the rows
  double entropy = 0.0;  ///< - sum p ln p, nats
  double sink = 0.0;     ///< of the key that has most
  double diagonal = 0.0; ///< p[r][r]
  double previous = 0.0; ///< p[r][r - 1]
  double next = 0.0;     ///< p[r][r + 1]
  double sharp = 0.0;    ///< max_j p[r][j]
  double distance = 0.0; ///< sum_j p[r][j] |r - j|

  const Tensor<float>& of(Matrix matrix) const {
    return matrix == Matrix::Q ? Q : matrix == Matrix::K ? K : V;
  }
};

struct Recording {
  std::vector<RecordedHead> heads; ///< in the order of their names
  std::string provenance;          ///< model, its licence, text
};

Recording read_recording(const std::string& path);

/// That of the file.
const Recording& recording();

/// References last as long as the program.
const RecordedHead& recorded_head(std::string_view name);

} // namespace fa1::reference
