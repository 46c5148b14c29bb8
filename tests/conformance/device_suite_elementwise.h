// fill, cast, scale, accumulate: exact.
#pragma once

#include <stdexcept>

#include "device_harness.h"

namespace zero1::test {

TEST_CASE("fill writes every element and nothing else") {
  on_each_backend([](Rig& rig) {
    for (const DType dtype : {DType::fp32, DType::bf16, DType::fp16, DType::fp64}) {
      for (const std::int64_t n : odd_sizes) {
        const Tensor x(rig, dtype, n);
        rig.ops.fill(rig.stream, x, 0.3F);
        check_equal(x.read(), std::vector<double>(static_cast<std::size_t>(n), rounded(dtype, 0.3F)));
      }
    }
  });
}

TEST_CASE("scale multiplies in fp32 and rounds once") {
  on_each_backend([](Rig& rig) {
    for (const DType dtype : low_dtypes) {
      for (const std::int64_t n : odd_sizes) {
        const auto values = random_values(dtype, n, 1);
        const Tensor x(rig, dtype, values);
        rig.ops.scale(rig.stream, x, 1.7F);
        std::vector<double> expected;
        for (const double v : values) expected.push_back(rounded(dtype, static_cast<float>(v) * 1.7F));
        check_equal(x.read(), expected);
      }
    }
  });
}

TEST_CASE("accumulate adds in fp32 and rounds once, for every pair of dtypes") {
  on_each_backend([](Rig& rig) {
    for (const DType to : low_dtypes) {
      for (const DType from : low_dtypes) {
        for (const std::int64_t n : odd_sizes) {
          const auto a = random_values(to, n, 1), b = random_values(from, n, 2);
          const Tensor dst(rig, to, a), src(rig, from, b);
          rig.ops.accumulate(rig.stream, dst, src);
          std::vector<double> expected;
          for (std::size_t i = 0; i < a.size(); ++i) {
            expected.push_back(rounded(to, static_cast<float>(a[i]) + static_cast<float>(b[i])));
          }
          check_equal(dst.read(), expected);
          check_equal(src.read(), b);
        }
      }
    }
  });
}

/// Values at which rounding decides: ties both ways, the largest, subnormals, overflow, NaN, infinities.
inline std::vector<double> rounding_cases() {
  std::vector<double> values = {0.0,      -0.0,     1.0,       infinity, -infinity, nan,      65504.0,
                                65519.99, 65520.0,  -65520.0,  3.38e38,  3.4e38,    1e-40,    -1e-40,
                                0x1p-24,  0x1p-25,  0x1.8p-25, 0x1p-14,  6.09e-5,   0x1p-126, 0x1p-133,
                                0x1p-134, 0x1p-149, -0x1p-24,  5.96e-8,  8.9e-8,    3.0e-8};
  for (const int bits : {7, 10}) {
    for (int i = 0; i < 8; ++i) {  // 1 + i/2 units: every second one is a tie
      const double half_units = std::ldexp(i, -bits - 1);
      values.push_back(1 + half_units);
      values.push_back(-1 - half_units - 0x1p-23);
      values.push_back(1.5 + half_units - 0x1p-23);
    }
  }
  return values;
}

TEST_CASE("cast rounds to nearest even and keeps NaN and infinities") {
  on_each_backend([](Rig& rig) {
    for (const DType to : low_dtypes) {
      for (const DType from : low_dtypes) {
        const auto special = rounded(from, rounding_cases());
        for (std::int64_t shift = 0; shift < 17; ++shift) {  // every place in a vector
          std::vector<double> values(static_cast<std::size_t>(shift), 1.0);
          values.insert(values.end(), special.begin(), special.end());
          const Tensor src(rig, from, values);
          const Tensor dst(rig, to, static_cast<std::int64_t>(values.size()));
          rig.ops.cast(rig.stream, dst, src);
          const auto actual = dst.read(), expected = rounded(to, values);
          check_equal(actual, expected);
          for (std::size_t i = 0; i < actual.size(); ++i) {
            if (!std::isnan(expected[i])) CHECK(std::signbit(actual[i]) == std::signbit(expected[i]));
          }
        }
      }
    }
  });
}

TEST_CASE("every bf16 and fp16 number widens exactly and comes back") {
  on_each_backend([](Rig& rig) {
    for (const DType dtype : {DType::bf16, DType::fp16}) {
      std::vector<double> all;
      for (std::uint32_t bits = 0; bits < 65536; ++bits) {
        BFloat16 b;
        Float16 h;
        b.bits = h.bits = static_cast<std::uint16_t>(bits);
        all.push_back(
            static_cast<double>(dtype == DType::bf16 ? static_cast<float>(b) : static_cast<float>(h)));
      }
      const Tensor low(rig, dtype, all);
      const Tensor wide(rig, DType::fp32, static_cast<std::int64_t>(all.size()));
      const Tensor back(rig, dtype, static_cast<std::int64_t>(all.size()));
      rig.ops.cast(rig.stream, wide, low);
      rig.ops.cast(rig.stream, back, wide);
      check_equal(wide.read(), all);
      check_equal(back.read(), all);
    }
  });
}

TEST_CASE("cast between fp64 and fp32") {
  on_each_backend([](Rig& rig) {
    const std::vector<double> values{1.0 / 3, -2.5, 1e-320, 1e300, nan, infinity, 0};
    const Tensor wide(rig, DType::fp64, values);
    const Tensor copy(rig, DType::fp64, 7), single(rig, DType::fp32, 7), back(rig, DType::fp64, 7);
    rig.ops.cast(rig.stream, copy, wide);
    rig.ops.cast(rig.stream, single, wide);
    rig.ops.cast(rig.stream, back, single);
    check_equal(copy.read(), values);
    check_equal(single.read(), rounded(DType::fp32, values));
    check_equal(back.read(), rounded(DType::fp32, values));
  });
}

TEST_CASE("elementwise results do not depend on how a range is cut") {
  on_each_backend([](Rig& rig) {
    constexpr std::int64_t n = 100003;  // large enough to be shared among threads
    for (const DType dtype : low_dtypes) {
      const auto values = random_values(DType::fp32, n, 3);
      const Tensor src(rig, DType::fp32, values);
      const Tensor whole(rig, dtype, n), pieces(rig, dtype, n);
      rig.ops.cast(rig.stream, whole, src);
      std::mt19937 engine(4);
      for (std::int64_t start = 0; start < n;) {
        const std::int64_t end = std::min<std::int64_t>(n, start + 1 + engine() % 5000);
        rig.ops.cast(rig.stream, pieces.view().slice({start, end}),
                     ConstTensorView(src.view()).slice({start, end}));
        start = end;
      }
      CHECK(whole.bytes() == pieces.bytes());
      check_equal(whole.read(), rounded(dtype, values));
    }
  });
}

TEST_CASE("elementwise operations take views with zero elements") {
  on_each_backend([](Rig& rig) {
    for (const DType dtype : low_dtypes) {
      const Tensor x(rig, dtype, std::vector<double>{1, 2, 3});
      const TensorView none = x.view().slice({1, 1});
      const TensorView null{nullptr, dtype, 0};
      for (const TensorView& empty : {none, null}) {
        rig.ops.fill(rig.stream, empty, 5);
        rig.ops.scale(rig.stream, empty, 5);
        rig.ops.cast(rig.stream, empty, empty);
        rig.ops.accumulate(rig.stream, empty, empty);
      }
      check_equal(x.read(), std::vector<double>{1, 2, 3});
    }
  });
}

TEST_CASE("dtypes and sizes that do not fit are refused at the call") {
  on_each_backend([](Rig& rig) {
    const Tensor wide(rig, DType::fp64, 3), low(rig, DType::bf16, 3), more(rig, DType::bf16, 4);
    CHECK_THROWS_AS(rig.ops.scale(rig.stream, wide, 2), std::invalid_argument);
    CHECK_THROWS_AS(rig.ops.accumulate(rig.stream, low, wide), std::invalid_argument);
    CHECK_THROWS_AS(rig.ops.accumulate(rig.stream, wide, low), std::invalid_argument);
    CHECK_THROWS_AS(rig.ops.cast(rig.stream, wide, low), std::invalid_argument);
    CHECK_THROWS_AS(rig.ops.cast(rig.stream, low, wide), std::invalid_argument);
    CHECK_THROWS_AS(rig.ops.cast(rig.stream, low, more), std::invalid_argument);
  });
}

}  // namespace zero1::test
