// Cross entropy.
#pragma once

#include <stdexcept>
#include <string>

#include "core/base/error.h"
#include "device_harness.h"
#include "device_reference.h"

namespace zero1::test {

/// Tolerances: fp32 exponentials summed in fp32 blocks; gradients round once to the logits' dtype.
inline void check_cross_entropy(Rig& rig, DType dtype, std::int64_t rows, std::int64_t vocab, double scale) {
  INFO(name(dtype), " rows ", rows, " vocab ", vocab, " scale ", scale);
  const auto logits = random_values(dtype, rows * vocab, 41, scale);
  const auto targets = random_tokens(rows, vocab, 42);
  constexpr float grad_scale = 0.125F;
  const Tensor t(rig, dtype, logits), kept(rig, dtype, logits);
  const Int32s device_targets(rig, targets);
  const Tensor loss(rig, DType::fp64, std::vector<double>{10}),
      loss_alone(rig, DType::fp64, std::vector<double>{10});
  rig.ops.cross_entropy_loss(rig.stream, loss_alone, kept, device_targets.data(), rows, vocab);
  rig.ops.cross_entropy(rig.stream, loss, t, device_targets.data(), rows, vocab, grad_scale);
  const auto expected = reference::cross_entropy(logits, targets, vocab, grad_scale);
  check_close(loss.read(), std::vector<double>{10 + expected.loss}, 1e-6 * static_cast<double>(rows), 2e-6);
  check_equal(loss_alone.read(), loss.read());
  check_equal(kept.read(), logits);
  const double smallest = dtype == DType::fp16 ? 0x1p-25 : 1e-12;
  check_close(t.read(), expected.d_logits, smallest + 3e-7 * grad_scale, unit(dtype) + 1e-5);
}

TEST_CASE("cross entropy: loss and gradient") {
  on_each_backend([](Rig& rig) {
    for (const DType dtype : low_dtypes) {
      for (const std::int64_t vocab : {1, 3, 5, 7, 16, 17, 256, 1030}) {
        for (const std::int64_t rows : {1, 3, 20}) {
          check_cross_entropy(rig, dtype, rows, vocab, 1);
          check_cross_entropy(rig, dtype, rows, vocab, 30);
        }
      }
      check_cross_entropy(rig, dtype, 5, 50257, 3);
    }
  });
}

TEST_CASE("cross entropy adds to the loss and takes zero rows") {
  on_each_backend([](Rig& rig) {
    const Tensor loss(rig, DType::fp64, std::vector<double>{2.5});
    const TensorView none{nullptr, DType::fp32, 0};
    rig.ops.cross_entropy(rig.stream, loss, none, nullptr, 0, 256, 1);
    rig.ops.cross_entropy_loss(rig.stream, loss, none, nullptr, 0, 256);
    check_equal(loss.read(), std::vector<double>{2.5});
  });
}

TEST_CASE("cross entropy and attention pass a NaN on, so that it is found") {
  on_each_backend([](Rig& rig) {
    for (const DType dtype : low_dtypes) {
      for (const std::size_t place : {0, 3, 19, 32}) {
        auto values = random_values(dtype, 33, 43);
        values[place] = nan;
        const Tensor logits(rig, dtype, values), loss(rig, DType::fp64, std::vector<double>{0});
        const Int32s targets(rig, {5});
        rig.ops.cross_entropy(rig.stream, loss, logits, targets.data(), 1, 33, 1);
        CHECK(std::isnan(loss.read()[0]));
        CHECK(std::isnan(logits.read()[7]));
      }
      auto qkv = random_values(dtype, 3 * 20 * 4, 44);
      qkv[10 * 12 + 4] = nan;  // a key of token 10
      const Tensor t(rig, dtype, qkv), out(rig, dtype, 20 * 4), probs(rig, dtype, 20 * 20);
      rig.ops.attention_forward(rig.stream, out, probs, t, {1, 20, 1, 4});
      const auto values = out.read();
      CHECK(std::isfinite(values[9 * 4]));
      for (std::size_t token = 10; token < 20; ++token) CHECK(std::isnan(values[token * 4]));
    }
  });
}

TEST_CASE("a target outside of the vocabulary is an error that names it") {
  on_each_backend([](Rig& rig) {
    for (const std::int32_t bad : {-1, 5}) {
      const Tensor logits(rig, DType::fp32, std::vector<double>(10, 1));
      const Tensor loss(rig, DType::fp64, std::vector<double>{0});
      const Int32s targets(rig, {0, bad});
      std::string message;
      const auto stream = rig.device->create_stream(StreamKind::compute);  // a failed stream may stay so
      try {
        rig.ops.cross_entropy(*stream, loss, logits, targets.data(), 2, 5, 1);
        stream->synchronize();
      } catch (const Error& error) {
        message = error.what();
      }
      INFO(message);
      CHECK(message.find("target " + std::to_string(bad) + " at position 1") != std::string::npos);
    }
  });
}

TEST_CASE("cross entropy refuses dtypes and sizes that do not fit") {
  on_each_backend([](Rig& rig) {
    const Tensor loss(rig, DType::fp64, 1), single(rig, DType::fp32, 1), logits(rig, DType::fp32, 6),
        wide(rig, DType::fp64, 6);
    const Int32s targets(rig, {0, 0});
    CHECK_THROWS_AS(rig.ops.cross_entropy(rig.stream, single, logits, targets.data(), 2, 3, 1),
                    std::invalid_argument);
    CHECK_THROWS_AS(rig.ops.cross_entropy(rig.stream, loss, wide, targets.data(), 2, 3, 1),
                    std::invalid_argument);
    CHECK_THROWS_AS(rig.ops.cross_entropy(rig.stream, loss, logits, targets.data(), 2, 4, 1),
                    std::invalid_argument);
    CHECK_THROWS_AS(rig.ops.cross_entropy_loss(rig.stream, loss, wide, targets.data(), 2, 3),
                    std::invalid_argument);
  });
}

}  // namespace zero1::test
