// fill, cast, scale, accumulate. Bytes per element are those of reading and writing each operand once.
#include "core/device/cuda/cuda_ops.h"
#include "core/device/cuda/elementwise.cuh"

namespace zero1::cuda {

namespace {

template <class T>
struct Fill {
  T* x;
  T value;

  template <int W>
  __device__ void apply(std::int64_t i) const {
    Pack<T, W> pack;
    for (int k = 0; k < W; ++k) pack.at[k] = value;
    store<W>(x + i, pack);
  }
};

template <class Dst, class Src>
__device__ Dst converted(Src x) {
  if constexpr (std::is_same_v<Dst, Src>)
    return x;
  else if constexpr (std::is_same_v<Dst, double> || std::is_same_v<Src, double>)
    return static_cast<Dst>(x);
  else
    return from_float<Dst>(to_float(x));
}

template <class Dst, class Src>
struct Cast {
  Dst* dst;
  const Src* src;

  template <int W>
  __device__ void apply(std::int64_t i) const {
    const Pack<Src, W> in = load<W>(src + i);
    Pack<Dst, W> out;
    for (int k = 0; k < W; ++k) out.at[k] = converted<Dst>(in.at[k]);
    store<W>(dst + i, out);
  }
};

template <class T>
struct Scale {
  T* x;
  float factor;

  template <int W>
  __device__ void apply(std::int64_t i) const {
    Pack<T, W> pack = load<W>(x + i);
    for (int k = 0; k < W; ++k) pack.at[k] = from_float<T>(to_float(pack.at[k]) * factor);
    store<W>(x + i, pack);
  }
};

template <class Dst, class Src>
struct Accumulate {
  Dst* dst;
  const Src* src;

  template <int W>
  __device__ void apply(std::int64_t i) const {
    const Pack<Src, W> in = load<W>(src + i);
    Pack<Dst, W> out = load<W>(dst + i);
    for (int k = 0; k < W; ++k) out.at[k] = from_float<Dst>(to_float(out.at[k]) + to_float(in.at[k]));
    store<W>(dst + i, out);
  }
};

}  // namespace

void CudaOps::fill(Stream& stream, TensorView x, float value) {
  visit_dtype(x.dtype, [&](auto type) {
    using T = decltype(type);
    constexpr int width = pack_width<T>;
    for_elements<width>(cuda_stream(stream), x.numel, vector_cut(x.numel, width, {operand(x)}),
                        Fill<T>{pointer<T>(x), static_cast<T>(value)});
  });
}

void CudaOps::cast(Stream& stream, TensorView dst, ConstTensorView src) {
  check_cast(dst, src);
  visit_dtype(dst.dtype, [&](auto dst_type) {
    visit_dtype(src.dtype, [&](auto src_type) {
      using Dst = decltype(dst_type);
      using Src = decltype(src_type);
      constexpr bool wide = std::is_same_v<Dst, double> || std::is_same_v<Src, double>;
      constexpr bool low = sizeof(Dst) == 2 || sizeof(Src) == 2;
      if constexpr (!(wide && low)) {
        constexpr int width = pack_width<Dst, Src>;
        for_elements<width>(cuda_stream(stream), dst.numel,
                            vector_cut(dst.numel, width, {operand(dst), operand(src)}),
                            Cast<Dst, Src>{pointer<Dst>(dst), pointer<Src>(src)});
      }
    });
  });
}

void CudaOps::scale(Stream& stream, TensorView x, float factor) {
  visit_low("scale", "x", x.dtype, [&](auto type) {
    using T = decltype(type);
    constexpr int width = pack_width<T>;
    for_elements<width>(cuda_stream(stream), x.numel, vector_cut(x.numel, width, {operand(x)}),
                        Scale<T>{pointer<T>(x), factor});
  });
}

void CudaOps::accumulate(Stream& stream, TensorView dst, ConstTensorView src) {
  check_numel("accumulate", "dst", dst, src.numel);
  visit_low("accumulate", "dst", dst.dtype, [&](auto dst_type) {
    visit_low("accumulate", "src", src.dtype, [&](auto src_type) {
      using Dst = decltype(dst_type);
      using Src = decltype(src_type);
      constexpr int width = pack_width<Dst, Src>;
      for_elements<width>(cuda_stream(stream), dst.numel,
                          vector_cut(dst.numel, width, {operand(dst), operand(src)}),
                          Accumulate<Dst, Src>{pointer<Dst>(dst), pointer<Src>(src)});
    });
  });
}

}  // namespace zero1::cuda
