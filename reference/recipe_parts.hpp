/// What the two halves of the recipe share: its text (recipe.cpp) and its values
/// (recipe_values.cpp).
#pragma once

#include "reference/recipe.hpp"

#include <algorithm>

namespace fa1::reference {

/// All queries, sampled or not; throws RecipeError where the recipe is out of range.
Shape validated(const Recipe& recipe);

/// The same with the queries that are asked for.
inline Shape sampled(Shape shape, const Recipe& recipe) {
  shape.n_q = std::min(shape.n_q, recipe.rows.value_or(shape.n_q));
  return shape;
}

std::string_view name_of(Matrix matrix);

inline std::int64_t columns_of(const Shape& shape, Matrix matrix) {
  return matrix == Matrix::V ? shape.dv : shape.d;
}
inline std::int64_t rows_of(const Shape& shape, Matrix matrix) {
  return matrix == Matrix::Q ? shape.n_q : shape.n_kv;
}

inline const std::vector<Run>& list_of(const Recipe& recipe, Matrix matrix) {
  return matrix == Matrix::Q ? recipe.Q : matrix == Matrix::K ? recipe.K : recipe.V;
}

} // namespace fa1::reference
