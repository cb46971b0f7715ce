/// A dense three-index array, the only container that numbers travel in.
///
/// Shape     [batch_heads][rows][columns], row-major, columns fastest, contiguous
/// Requires  every extent >= 0; an extent of 0 makes an empty tensor
/// Special   elements start as zero (value-initialised)
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace fa1::reference {

template <class Number> class Tensor {
public:
  Tensor() = default;
  Tensor(std::int64_t batch_heads, std::int64_t rows, std::int64_t columns)
      : batch_heads_(batch_heads), rows_(rows), columns_(columns),
        elements_(static_cast<std::size_t>(batch_heads * rows * columns)) {}

  std::int64_t batch_heads() const { return batch_heads_; }
  std::int64_t rows() const { return rows_; }
  std::int64_t columns() const { return columns_; }
  std::int64_t size() const { return batch_heads_ * rows_ * columns_; }

  Number* data() { return elements_.data(); }
  const Number* data() const { return elements_.data(); }

  Number& operator()(std::int64_t batch_head, std::int64_t row, std::int64_t column) {
    return elements_[index(batch_head, row, column)];
  }
  const Number& operator()(std::int64_t batch_head, std::int64_t row, std::int64_t column) const {
    return elements_[index(batch_head, row, column)];
  }

  std::span<Number> row(std::int64_t batch_head, std::int64_t row) {
    return {elements_.data() + index(batch_head, row, 0), static_cast<std::size_t>(columns_)};
  }
  std::span<const Number> row(std::int64_t batch_head, std::int64_t row) const {
    return {elements_.data() + index(batch_head, row, 0), static_cast<std::size_t>(columns_)};
  }

  std::span<Number> elements() { return elements_; }
  std::span<const Number> elements() const { return elements_; }

  bool operator==(const Tensor&) const = default;

private:
  std::size_t index(std::int64_t batch_head, std::int64_t row, std::int64_t column) const {
    return static_cast<std::size_t>((batch_head * rows_ + row) * columns_ + column);
  }

  std::int64_t batch_heads_ = 0, rows_ = 0, columns_ = 0;
  std::vector<Number> elements_;
};

} // namespace fa1::reference
