// The CPU's results beside other ranks and with other numbers of threads.
#include <doctest/doctest.h>

#include <cstring>
#include <thread>
#include <vector>

#include "core/device/cpu/cpu_device.h"
#include "device_harness.h"
#include "tests/support/sanitizers.h"

namespace zero1::test {

std::vector<Backend> backends() {
  return {{"cpu, 1 thread", [] { return make_cpu_device({.threads = 1}); }}};
}

namespace {

using Bytes = std::vector<unsigned char>;

/// A bit of everything that sums: what each operation leaves, end to end.
Bytes run_layer(Rig& rig, DType dtype, bool with_matmul) {
  constexpr std::int64_t rows = 200, channels = 96;
  const AttentionShape attention{2, 100, 3, 32};
  const auto random = [&](std::int64_t numel, unsigned seed) { return random_values(dtype, numel, seed); };
  const Tensor x(rig, dtype, random(rows * channels, 1)), d_out(rig, dtype, random(rows * channels, 2));
  const Tensor w(rig, dtype, random(channels, 3)), b(rig, dtype, random(channels, 4));
  const Tensor out(rig, dtype, rows * channels), d_x(rig, dtype, rows * channels);
  const Tensor mean(rig, DType::fp32, rows), rstd(rig, DType::fp32, rows);
  const std::vector<double> zeros(static_cast<std::size_t>(channels), 0);
  const Tensor dw(rig, DType::fp32, zeros), db(rig, DType::fp32, zeros);
  Ops& ops = rig.ops;
  ops.layernorm_forward(rig.stream, out, mean, rstd, x, w, b, rows, channels, 1e-5F);
  ops.layernorm_backward(rig.stream, d_x, dw, db, d_out, ConstTensorView{}, x, w, mean, rstd, rows, channels);
  ops.bias_backward(rig.stream, db, d_x, rows, channels);
  const Tensor loss(rig, DType::fp64, std::vector<double>{0});
  const Int32s targets(rig, random_tokens(rows, channels, 5));
  ops.cross_entropy(rig.stream, loss, out, targets.data(), rows, channels, 0.01F);
  std::vector<const Tensor*> results{&out, &d_x, &mean, &rstd, &dw, &db, &loss};

  const Tensor product(rig, DType::fp32, channels * channels);
  const Tensor qkv(rig, dtype, random(3 * rows * channels, 6)), d_qkv(rig, dtype, 3 * rows * channels);
  const Tensor attended(rig, dtype, rows * channels), probs(rig, dtype, 2 * 3 * 100 * 100);
  const Tensor scratch(rig, DType::fp32, ops.attention_scratch_elems(attention));
  ops.attention_forward(rig.stream, attended, probs, qkv, attention);
  ops.attention_backward(rig.stream, d_qkv, scratch, d_out, probs, qkv, attention);
  results.insert(results.end(), {&attended, &probs, &d_qkv});
  if (with_matmul) {
    MatmulArgs args;
    args.a = d_out;
    args.b = x;
    args.c = product;
    args.m = args.n = channels;
    args.k = rows;
    args.transpose_a = true;
    ops.matmul(rig.stream, args);
    results.push_back(&product);
  }
  Bytes all;
  for (const Tensor* result : results) {
    const Bytes bytes = result->bytes();
    all.insert(all.end(), bytes.begin(), bytes.end());
  }
  return all;
}

TEST_CASE("ranks on threads of one process do not disturb each other") {
  for (const DType dtype : low_dtypes) {
    Rig alone(backends()[0]);
    const Bytes expected = run_layer(alone, dtype, true);
    std::vector<Bytes> results(4);
    std::vector<std::thread> ranks;
    for (Bytes& result : results) {
      ranks.emplace_back([&result, dtype] {
        Rig rig(backends()[0]);
        result = run_layer(rig, dtype, true);
      });
    }
    for (std::thread& rank : ranks) rank.join();
    for (const Bytes& result : results) CHECK(result == expected);
  }
}

TEST_CASE("all but large matrix products have the same bits for any number of threads" *
          doctest::skip(under_tsan)) {
  for (const DType dtype : low_dtypes) {
    Rig alone(backends()[0]);
    const Bytes expected = run_layer(alone, dtype, false);
    for (const int threads : {2, 3, 5}) {
      Rig rig({"cpu", [threads] { return make_cpu_device({.threads = threads}); }});
      CHECK(run_layer(rig, dtype, false) == expected);
    }
  }
}

TEST_CASE("the same number of threads gives the same bits, matrix products included" *
          doctest::skip(under_tsan)) {
  for (const DType dtype : low_dtypes) {
    const Backend backend{"cpu", [] { return make_cpu_device({.threads = 2}); }};
    Rig first(backend), second(backend);
    const Bytes expected = run_layer(first, dtype, true);
    CHECK(run_layer(first, dtype, true) == expected);
    CHECK(run_layer(second, dtype, true) == expected);
  }
}

}  // namespace
}  // namespace zero1::test
