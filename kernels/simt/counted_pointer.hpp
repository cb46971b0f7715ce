/// A pointer to global memory that counts what goes through it, for the build of the kernels in which
/// hbm<T> is this type.
///
/// Counts    every load and every store of an element, in the array that the kernel was given; a
///           read-modify-write is one of each, and an access of several elements one of each of
///           them. Comparing, moving and copying a pointer moves no data.
/// Requires  the arrays to be announced by a CountingScope on the OS thread that runs the kernel; what
///           goes through a pointer to any other array is counted as `strays`
/// Threads   one OS thread: counters are plain numbers
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

namespace fa1::simt {

struct AccessCounts {
  std::int64_t loads = 0, stores = 0;
};

struct CountedArray {
  const void* begin = nullptr;
  AccessCounts* counts = nullptr;
};

/// The arrays whose counters pointers find, while this lives.
class CountingScope {
public:
  explicit CountingScope(std::span<const CountedArray> arrays) : arrays_(arrays), outer_(current_) {
    current_ = this;
  }
  ~CountingScope() { current_ = outer_; }
  CountingScope(const CountingScope&) = delete;
  CountingScope& operator=(const CountingScope&) = delete;

  const AccessCounts& strays() const { return strays_; }

  static AccessCounts* counts_of(const void* begin) {
    static thread_local AccessCounts nobody;
    if (current_ == nullptr)
      return &nobody;
    for (const CountedArray& array : current_->arrays_)
      if (array.begin == begin)
        return array.counts;
    return &current_->strays_;
  }

private:
  inline static thread_local CountingScope* current_ = nullptr;
  std::span<const CountedArray> arrays_;
  CountingScope* outer_;
  AccessCounts strays_;
};

template <typename T> class CountedPointer {
public:
  using Value = std::remove_const_t<T>;

  /// An element that is not const: what is done with it decides what is counted.
  class Element {
  public:
    Element(T* at, AccessCounts* counts) : at_(at), counts_(counts) {}
    Element(const Element&) = default;
    operator Value() const { // NOLINT(google-explicit-constructor): it stands for the element
      ++counts_->loads;
      return *at_;
    }
    Element& operator=(Value value) {
      ++counts_->stores;
      *at_ = value;
      return *this;
    }
    // NOLINTNEXTLINE(bugprone-unhandled-self-assignment): of itself too it is a load and a store
    Element& operator=(const Element& other) { return *this = static_cast<Value>(other); }
    Element& operator+=(Value value) { return *this = static_cast<Value>(*this) + value; }
    Element& operator*=(Value value) { return *this = static_cast<Value>(*this) * value; }
    Element& operator/=(Value value) { return *this = static_cast<Value>(*this) / value; }

  private:
    T* at_;
    AccessCounts* counts_;
  };

  // NOLINTNEXTLINE(google-explicit-constructor): a kernel is called with plain pointers
  CountedPointer(T* begin) : at_(begin), counts_(CountingScope::counts_of(begin)) {}

  /// Of a const array: loaded here. Of another: see Element.
  decltype(auto) operator[](std::ptrdiff_t i) const {
    if constexpr (std::is_const_v<T>) {
      ++counts_->loads;
      return (at_[i]);
    } else {
      return Element(at_ + i, counts_);
    }
  }
  decltype(auto) operator*() const { return (*this)[0]; }

  /// The next `elements` for somebody who loads, or stores, them all.
  const Value* loaded(std::int64_t elements) const {
    counts_->loads += elements;
    return at_;
  }
  T* stored(std::int64_t elements) const {
    counts_->stores += elements;
    return at_;
  }

  CountedPointer& operator+=(std::ptrdiff_t elements) {
    at_ += elements;
    return *this;
  }
  friend CountedPointer operator+(CountedPointer pointer, std::ptrdiff_t elements) {
    return pointer += elements;
  }

private:
  T* at_;
  AccessCounts* counts_;
};

} // namespace fa1::simt
