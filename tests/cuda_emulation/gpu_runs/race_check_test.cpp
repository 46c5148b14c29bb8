// Every kernel of the device in race-check mode, on shapes of a few blocks: under TSan each of its threads is
// a thread, and what barriers, shuffles and the end of the launch do not order is a data race. Without TSan
// this shows only that blocks share nothing: each runs on an OS thread of its own.
#include <array>

#include "core/comm/local_gpu/reduce.h"
#include "core/device/cuda/cuda_device.h"
#include "cuda_emulation/control.h"
#include "tests/conformance/device_harness.h"

using namespace zero1;
using namespace zero1::test;

namespace {

const Backend gpu{"emulated GPU", [] { return make_cuda_device({}); }};

using Outputs = std::vector<std::vector<double>>;

/// Runs `operation` with the kernels' threads unordered, and once in turn: the bits must be the same.
void check_unordered(const std::function<Outputs(Rig&)>& operation) {
  Rig in_turn(gpu);
  const Outputs expected = operation(in_turn);
  cuda_emulation::set_race_check(true);
  {
    Rig unordered(gpu);
    const Outputs actual = operation(unordered);
    REQUIRE(actual.size() == expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) check_equal(actual[i], expected[i]);
  }
  cuda_emulation::set_race_check(false);
}

// Odd sizes leave rests behind vectors and warps; each needs more than one block or group of rows.
constexpr std::int64_t elems = 1037;
constexpr std::int64_t rows = 67;
constexpr std::int64_t channels = 40;
constexpr std::int64_t vocab = 29;

Tensor tensor(Rig& rig, DType dtype, std::int64_t numel, unsigned seed) {
  return {rig, dtype, random_values(dtype, numel, seed)};
}

}  // namespace

TEST_CASE("elementwise kernels and the optimizer's") {
  for (const DType low : low_dtypes) {
    check_unordered([&](Rig& rig) {
      const Tensor x = tensor(rig, low, elems, 1), y = tensor(rig, DType::fp32, elems, 2),
                   stats(rig, DType::fp64, std::vector<double>{0, 0}),
                   squares(rig, DType::fp64, std::vector<double>{0, 0, 0});
      const Tensor bound(rig, DType::fp64, std::vector<double>{100});
      rig.ops.scale(rig.stream, x, 0.5F);
      rig.ops.cast(rig.stream, y, x);
      rig.ops.accumulate(rig.stream, x, y);
      rig.ops.grad_stats(rig.stream, stats, x);
      rig.ops.sum_of_squares(rig.stream, squares, x, static_cast<const double*>(bound.view().data), elems);
      const Tensor main = tensor(rig, DType::fp32, elems, 3), m = tensor(rig, DType::fp32, elems, 4),
                   v(rig, DType::fp32, std::vector<double>(elems, 0.25)), model(rig, low, elems);
      AdamWArgs args;
      args.main_param = main;
      args.exp_avg = m;
      args.exp_avg_sq = v;
      args.grad = x;
      args.model_param = model;
      args.lr = 0.01;
      args.weight_decay = 0.1;
      rig.ops.adamw(rig.stream, args);
      return Outputs{x.read(), stats.read(), squares.read(), main.read(), m.read(), v.read(), model.read()};
    });
  }
}

TEST_CASE("embedding, and the check of its tokens") {
  for (const DType low : low_dtypes) {
    check_unordered([&](Rig& rig) {
      constexpr std::int64_t tokens = 24, seq_len = 8;
      const Int32s ids(rig, random_tokens(tokens, vocab, 1));
      const Tensor wte = tensor(rig, low, vocab * channels, 1), wpe = tensor(rig, low, seq_len * channels, 2),
                   out(rig, low, tokens * channels), d_wte = tensor(rig, DType::fp32, vocab * channels, 3),
                   d_wpe = tensor(rig, DType::fp32, seq_len * channels, 4);
      rig.ops.embedding_forward(rig.stream, out, ids.data(), wte, wpe, tokens, seq_len, channels);
      rig.ops.embedding_backward(rig.stream, d_wte, d_wpe, out, ids.data(), tokens, seq_len, channels);
      return Outputs{out.read(), d_wte.read(), d_wpe.read()};
    });
  }
}

TEST_CASE("layer normalisation") {
  for (const DType low : low_dtypes) {
    for (const std::int64_t width : {channels, std::int64_t{33}}) {
      check_unordered([&](Rig& rig) {
        const Tensor x = tensor(rig, low, rows * width, 1), weight = tensor(rig, low, width, 2),
                     bias = tensor(rig, low, width, 3), out(rig, low, rows * width),
                     mean(rig, DType::fp32, rows), rstd(rig, DType::fp32, rows);
        rig.ops.layernorm_forward(rig.stream, out, mean, rstd, x, weight, bias, rows, width, 1e-5F);
        const Tensor d_x(rig, low, rows * width), d_weight = tensor(rig, DType::fp32, width, 4),
                                                  d_bias = tensor(rig, DType::fp32, width, 5);
        rig.ops.layernorm_backward(rig.stream, d_x, d_weight, d_bias, out, x, x, weight, mean, rstd, rows,
                                   width);
        return Outputs{out.read(), mean.read(), rstd.read(), d_x.read(), d_weight.read(), d_bias.read()};
      });
    }
  }
}

TEST_CASE("rows with a bias, and the activations") {
  for (const DType low : low_dtypes) {
    check_unordered([&](Rig& rig) {
      const std::int64_t n = rows * channels;
      const Tensor x = tensor(rig, low, n, 1), bias = tensor(rig, low, channels, 2),
                   residual = tensor(rig, low, n, 3), out(rig, low, n), pre(rig, low, n), d_pre(rig, low, n),
                   d_bias = tensor(rig, DType::fp32, channels, 4), relu = tensor(rig, low, n, 5),
                   d_relu(rig, low, n);
      rig.ops.add_bias(rig.stream, x, bias, rows, channels);
      rig.ops.add_bias_residual(rig.stream, residual, x, bias, rows, channels);
      rig.ops.bias_gelu_forward(rig.stream, out, pre, x, bias, rows, channels);
      rig.ops.gelu_backward(rig.stream, d_pre, residual, pre);
      rig.ops.bias_backward(rig.stream, d_bias, d_pre, rows, channels);
      rig.ops.bias_relu_forward(rig.stream, relu, bias, rows, channels);
      rig.ops.relu_backward(rig.stream, d_relu, out, relu);
      return Outputs{x.read(),     residual.read(), out.read(),  pre.read(),
                     d_pre.read(), d_bias.read(),   relu.read(), d_relu.read()};
    });
  }
}

TEST_CASE("attention") {
  for (const DType low : low_dtypes) {
    check_unordered([&](Rig& rig) {
      const AttentionShape shape{.batch = 2, .seq_len = 9, .heads = 2, .head_dim = 5};
      const std::int64_t tokens = shape.batch * shape.seq_len, width = shape.heads * shape.head_dim,
                         pairs = shape.batch * shape.heads * shape.seq_len * shape.seq_len;
      const Tensor qkv = tensor(rig, low, tokens * 3 * width, 1), out(rig, low, tokens * width),
                   probs(rig, low, pairs), d_qkv(rig, low, tokens * 3 * width),
                   scratch(rig, DType::fp32, rig.ops.attention_scratch_elems(shape));
      rig.ops.attention_forward(rig.stream, out, probs, qkv, shape);
      rig.ops.attention_backward(rig.stream, d_qkv, scratch, out, probs, qkv, shape);
      return Outputs{out.read(), probs.read(), d_qkv.read()};
    });
  }
}

TEST_CASE("cross entropy") {
  for (const DType low : low_dtypes) {
    for (const std::int64_t width : {vocab, std::int64_t{304}}) {
      check_unordered([&](Rig& rig) {
        const Int32s targets(rig, random_tokens(rows, width, 1));
        const Tensor logits = tensor(rig, low, rows * width, 2),
                     loss(rig, DType::fp64, std::vector<double>{0});
        rig.ops.cross_entropy_loss(rig.stream, loss, logits, targets.data(), rows, width);
        rig.ops.cross_entropy(rig.stream, loss, logits, targets.data(), rows, width, 0.1F);
        return Outputs{loss.read(), logits.read()};
      });
    }
  }
}

TEST_CASE("the in-process communicator's reductions") {
  for (const DType dtype : {DType::fp32, DType::bf16, DType::fp16, DType::fp64}) {
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::average, ReduceOp::max}) {
      check_unordered([&](Rig& rig) {
        const Tensor a = tensor(rig, dtype, elems, 1), b = tensor(rig, dtype, elems, 2),
                     c = tensor(rig, dtype, elems, 3);
        const std::array<const void*, 3> inputs{a.view().data, b.view().data, c.view().data};
        local_gpu::reduce(dynamic_cast<CudaStream&>(rig.stream).handle(), dtype, op, inputs, b.view().data,
                          elems);
        return Outputs{a.read(), b.read(), c.read()};
      });
    }
  }
}
