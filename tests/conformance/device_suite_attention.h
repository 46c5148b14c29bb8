// Causal attention, forward and backward.
#pragma once

#include <stdexcept>

#include "device_harness.h"
#include "device_reference.h"

namespace zero1::test {

inline const AttentionShape attention_shapes[] = {{1, 1, 1, 1},    {1, 3, 1, 5},   {2, 5, 3, 7},
                                                  {3, 7, 2, 16},   {1, 64, 2, 8},  {2, 65, 1, 32},
                                                  {1, 130, 2, 33}, {1, 200, 1, 64}};

/// Tolerances. Forward: probabilities err by an fp32 softmax and one rounding, outputs by the rounded
/// probabilities (they sum to 1, so by one more rounding of the largest |v|) and their own rounding.
/// Backward is compared with the reference on the saved (rounded) probabilities. A probability's
/// gradient p (dp - dot) may be rounded to the dtype before its products; sums of them grow with T.
inline void check_attention(Rig& rig, DType dtype, const AttentionShape& s) {
  INFO(name(dtype), " B ", s.batch, " T ", s.seq_len, " H ", s.heads, " D ", s.head_dim);
  const std::int64_t elems = s.batch * s.seq_len * s.heads * s.head_dim;
  const std::int64_t prob_elems = s.batch * s.heads * s.seq_len * s.seq_len;
  const auto qkv = random_values(dtype, 3 * elems, 31), d_out = random_values(dtype, elems, 32);
  const Tensor tqkv(rig, dtype, qkv), out(rig, dtype, elems), probs(rig, dtype, prob_elems);
  rig.ops.attention_forward(rig.stream, out, probs, tqkv, s);
  const auto f = reference::attention(qkv, s);
  const double u = unit(dtype);
  check_close(probs.read(), f.probs, 2e-6, u + 1e-5);
  check_close(out.read(), f.out, 4 * u + 1e-5, u);

  const auto saved = probs.read();
  for (std::int64_t row = 0; row < prob_elems / s.seq_len; ++row) {
    for (std::int64_t j = row % s.seq_len + 1; j < s.seq_len; ++j) {
      if (saved[static_cast<std::size_t>(row * s.seq_len + j)] != 0)
        FAIL_CHECK("a probability above the diagonal is not 0");
    }
  }

  const Tensor d(rig, dtype, d_out), d_qkv(rig, dtype, 3 * elems);
  const Tensor scratch(rig, DType::fp32, rig.ops.attention_scratch_elems(s));
  rig.ops.attention_backward(rig.stream, d_qkv, scratch, d, probs, tqkv, s);
  const auto g = reference::attention_backward(d_out, saved, qkv, s);
  double largest = 1;
  for (const double x : g) largest = std::max(largest, std::abs(x));
  check_close(d_qkv.read(), g, (2 * u + 2e-6) * largest, u + 1e-5);
}

TEST_CASE("attention forward and backward") {
  on_each_backend([](Rig& rig) {
    for (const DType dtype : low_dtypes) {
      for (const AttentionShape& s : attention_shapes) check_attention(rig, dtype, s);
    }
  });
}

TEST_CASE("attention does not look ahead") {
  on_each_backend([](Rig& rig) {
    const AttentionShape s{1, 70, 2, 8};
    const std::int64_t elems = 70 * 16;
    auto qkv = random_values(DType::fp32, 3 * elems, 33);
    const Tensor out(rig, DType::fp32, elems), out2(rig, DType::fp32, elems),
        probs(rig, DType::fp32, 2 * 70 * 70);
    rig.ops.attention_forward(rig.stream, out, probs, Tensor(rig, DType::fp32, qkv), s);
    for (std::size_t i = 40 * 48; i < qkv.size(); ++i) qkv[i] += 1;  // token 40 and later
    const Tensor changed(rig, DType::fp32, qkv);
    rig.ops.attention_forward(rig.stream, out2, probs, changed, s);
    const auto a = out.read(), b = out2.read();
    check_equal(std::span(b).first(40 * 16), std::span(a).first(40 * 16));
    CHECK(a[40 * 16] != b[40 * 16]);
  });
}

TEST_CASE("attention survives scores far apart") {
  on_each_backend([](Rig& rig) {
    const AttentionShape s{1, 5, 1, 3};
    const auto qkv = random_values(DType::fp32, 45, 34, 100);
    const Tensor t(rig, DType::fp32, qkv), out(rig, DType::fp32, 15), probs(rig, DType::fp32, 25);
    rig.ops.attention_forward(rig.stream, out, probs, t, s);
    // Scores are around 10^4: their fp32 rounding alone moves e^score by 10^-3.
    check_close(out.read(), reference::attention(qkv, s).out, 0.5, 1e-2);
  });
}

TEST_CASE("attention of nothing, and of shapes that do not fit") {
  on_each_backend([](Rig& rig) {
    const TensorView none{nullptr, DType::fp32, 0};
    const AttentionShape empty{0, 4, 2, 8};
    rig.ops.attention_forward(rig.stream, none, none, none, empty);
    const Tensor scratch(rig, DType::fp32, rig.ops.attention_scratch_elems(empty));
    rig.ops.attention_backward(rig.stream, none, scratch, none, none, none, empty);
    rig.stream.synchronize();
    const Tensor x(rig, DType::fp32, 12), p(rig, DType::fp32, 4), low(rig, DType::bf16, 12),
        y(rig, DType::fp32, 4);
    CHECK_THROWS_AS(rig.ops.attention_forward(rig.stream, y, p, low, {1, 2, 1, 2}), std::invalid_argument);
    CHECK_THROWS_AS(rig.ops.attention_forward(rig.stream, y, p, x, {1, 2, 1, 3}), std::invalid_argument);
    CHECK_THROWS_AS(rig.ops.attention_forward(rig.stream, y, p, x, {-1, -2, 1, 2}), std::invalid_argument);
  });
}

}  // namespace zero1::test
