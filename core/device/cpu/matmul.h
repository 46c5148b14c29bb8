// Matrix products on oneDNN, of which matmul.cpp alone knows.
#pragma once

#include <compare>
#include <cstdint>
#include <memory>

#include "core/base/dtype.h"
#include "core/device/cpu/workers.h"

namespace zero1::cpu {

/// How many threads oneDNN may use when called from this thread, outside of parallel regions.
void use_threads(int threads);

/// C = alpha * op(A) · op(B) + beta * C on row-major matrices, op(A) [m, k], op(B) [k, n]. Rows of what
/// is stored are `stride_*` elements apart.
struct ProductShape {
  std::int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false;
  std::int64_t stride_a = 0, stride_b = 0, stride_c = 0;
  DType in = DType::fp32;   ///< of A and B
  DType out = DType::fp32;  ///< of C: fp32, or the dtype of A and B
  float alpha = 1, beta = 0;

  friend auto operator<=>(const ProductShape&, const ProductShape&) = default;
};

/// One shape, compiled for a number of threads. Any number of threads may call it at once.
class Product {
 public:
  virtual ~Product() = default;

  /// `slot` of the scratch is used for what oneDNN needs.
  virtual void operator()(const void* a, const void* b, void* c, Scratch& scratch, int slot) const = 0;
};

/// Compiles products and keeps them. Thread-safe.
class ProductCache {
 public:
  ProductCache();
  ~ProductCache();

  /// Whether this machine multiplies matrices of `dtype` at speed; others are to be widened to fp32.
  bool supports(DType dtype) const;

  /// The product of this shape. Lives as long as the cache.
  const Product& get(int threads, const ProductShape& shape);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace zero1::cpu
