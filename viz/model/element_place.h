// Where one element of a parameter lies.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/layout/buffer_layout.h"

namespace zero1::viz {

struct ElementRef {
  int param = 0;           ///< index into Layout::specs
  std::int64_t index = 0;  ///< flat, within the parameter
  friend bool operator==(const ElementRef&, const ElementRef&) = default;
};

/// One element in all coordinate systems of the layout.
struct ElementPlace {
  ElementRef element;
  std::vector<std::int64_t> coordinates;  ///< in the parameter's shape
  int buffer = 0;
  int bucket = 0;         ///< within the buffer
  int global_bucket = 0;  ///< over all buffers
  std::int64_t in_world = 0;
  std::int64_t in_bucket = 0;
  int owner = 0;              ///< with the distributed optimizer; without it every rank owns everything
  std::int64_t in_shard = 0;  ///< Megatron: gbuf_local
  DType param_dtype = DType::fp32;
  DType grad_dtype = DType::fp32;
};

/// Throws InputError naming the parameter where the element does not exist.
ElementPlace place_of(const Layout& layout, const ElementRef& element);

/// The element at a place of a buffer; nothing where padding lies.
std::optional<ElementRef> element_at(const Layout& layout, int buffer, std::int64_t in_world);

/// "h.0.ln_2.bias[5]", "wte.weight[12, 3]".
std::string element_name(const Layout& layout, const ElementRef& element);

}  // namespace zero1::viz
