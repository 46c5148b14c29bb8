// fill, cast, scale, accumulate.
#include <algorithm>
#include <cstring>
#include <type_traits>

#include "core/device/cpu/cpu_ops.h"
#include "core/device/cpu/vec.h"

namespace zero1::cpu {

namespace {

template <class Dst, class Src>
void cast_range(Dst* dst, const Src* src, std::int64_t begin, std::int64_t end) {
  if constexpr (std::is_same_v<Dst, Src>) {
    std::copy(src + begin, src + end, dst + begin);
  } else if constexpr (std::is_same_v<Dst, double> || std::is_same_v<Src, double>) {
    for (std::int64_t i = begin; i < end; ++i) dst[i] = static_cast<Dst>(src[i]);
  } else {
    for_lanes(begin, end, [&](std::int64_t i, auto part) { store(dst + i, load(src + i, part), part); });
  }
}

}  // namespace

namespace {

template <class T>
void fill_range(T* begin, T* end, T value) {
  const T zero{};
  if (std::memcmp(&value, &zero, sizeof(T)) == 0) {
    // For long stretches the C library stores past the caches, without reading the lines first.
    std::memset(static_cast<void*>(begin), 0, static_cast<std::size_t>(end - begin) * sizeof(T));
  } else {
    std::fill(begin, end, value);
  }
}

}  // namespace

void CpuOps::fill(Stream& stream, TensorView x, float value) {
  visit_dtype(x.dtype, [&](auto type) {
    using T = decltype(type);
    run(stream, [x, value](Workers& workers) {
      workers.split(x.numel, [&](std::int64_t begin, std::int64_t end) {
        fill_range(x.as<T>() + begin, x.as<T>() + end, static_cast<T>(value));
      });
    });
  });
}

void CpuOps::cast(Stream& stream, TensorView dst, ConstTensorView src) {
  check_cast(dst, src);
  visit_dtype(dst.dtype, [&](auto dst_type) {
    visit_dtype(src.dtype, [&](auto src_type) {
      using Dst = decltype(dst_type);
      using Src = decltype(src_type);
      constexpr bool wide = std::is_same_v<Dst, double> || std::is_same_v<Src, double>;
      constexpr bool low = sizeof(Dst) == 2 || sizeof(Src) == 2;
      if constexpr (!(wide && low)) {
        run(stream, [dst, src](Workers& workers) {
          workers.split(dst.numel, [&](std::int64_t begin, std::int64_t end) {
            cast_range(dst.as<Dst>(), src.as<Src>(), begin, end);
          });
        });
      }
    });
  });
}

void CpuOps::scale(Stream& stream, TensorView x, float factor) {
  visit_low("scale", "x", x.dtype, [&](auto type) {
    using T = decltype(type);
    run(stream, [x, factor](Workers& workers) {
      workers.split(x.numel, [&](std::int64_t begin, std::int64_t end) {
        T* p = x.as<T>();
        for_lanes(begin, end,
                  [&](std::int64_t i, auto part) { store(p + i, load(p + i, part) * factor, part); });
      });
    });
  });
}

void CpuOps::accumulate(Stream& stream, TensorView dst, ConstTensorView src) {
  check_numel("accumulate", "dst", dst, src.numel);
  visit_low("accumulate", "dst", dst.dtype, [&](auto dst_type) {
    visit_low("accumulate", "src", src.dtype, [&](auto src_type) {
      using Dst = decltype(dst_type);
      using Src = decltype(src_type);
      run(stream, [dst, src](Workers& workers) {
        workers.split(dst.numel, [&](std::int64_t begin, std::int64_t end) {
          Dst* d = dst.as<Dst>();
          const Src* s = src.as<Src>();
          for_lanes(begin, end, [&](std::int64_t i, auto part) {
            store(d + i, load(d + i, part) + load(s + i, part), part);
          });
        });
      });
    });
  });
}

}  // namespace zero1::cpu
