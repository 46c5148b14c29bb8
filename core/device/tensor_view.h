// Typed, non-owning views of device memory.
#pragma once

#include <cassert>
#include <cstdint>
#include <type_traits>

#include "core/base/dtype.h"
#include "core/base/range.h"

namespace zero1 {

/// `numel` contiguous elements of `dtype`, somewhere in one device's memory. A view is a cheap copy
/// and owns nothing; whoever holds the DeviceMemory keeps it alive.
template <class Pointer>
struct BasicTensorView {
  Pointer data = nullptr;
  DType dtype = DType::fp32;
  std::int64_t numel = 0;

  std::int64_t bytes() const { return numel * size_bytes(dtype); }
  bool empty() const { return numel == 0; }

  /// The elements [range.start, range.end) of this view.
  BasicTensorView slice(Range range) const {
    assert(0 <= range.start && range.start <= range.end && range.end <= numel);
    using Byte = std::conditional_t<std::is_const_v<std::remove_pointer_t<Pointer>>, const char, char>;
    return {static_cast<Byte*>(data) + range.start * size_bytes(dtype), dtype, range.size()};
  }

  /// The elements as T; T must be the C++ type of `dtype`. For device code that can dereference them.
  template <class T>
  auto as() const {
    assert(dtype_of<T>() == dtype);
    using Element = std::conditional_t<std::is_const_v<std::remove_pointer_t<Pointer>>, const T, T>;
    return static_cast<Element*>(data);
  }
};

struct ConstTensorView;

struct TensorView : BasicTensorView<void*> {
  TensorView() = default;
  TensorView(void* d, DType t, std::int64_t n) : BasicTensorView{d, t, n} {}
  TensorView(const BasicTensorView<void*>& base) : BasicTensorView(base) {}  // NOLINT: a view is a view
};

struct ConstTensorView : BasicTensorView<const void*> {
  ConstTensorView() = default;
  ConstTensorView(const void* d, DType t, std::int64_t n) : BasicTensorView{d, t, n} {}
  ConstTensorView(const BasicTensorView<const void*>& base) : BasicTensorView(base) {}             // NOLINT
  ConstTensorView(const BasicTensorView<void*>& v) : BasicTensorView{v.data, v.dtype, v.numel} {}  // NOLINT
};

}  // namespace zero1
