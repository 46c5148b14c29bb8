// The matrix products of a transformer layer against a 1024-cubed product of the same dtype.
//
// Formula: 2·m·n·k operations over the time of one call. Bound: the rate of the square product in the
// same run. Rows: Y = X·Wᵀ (forward), dX = dY·W, dW += dYᵀ·X in fp32, for each weight of the layer.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

#include "bench/flags.h"
#include "core/base/clock.h"
#include "core/device/cpu/cpu_device.h"

namespace {

using namespace zero1;

struct Bench {
  Device& device;
  Stream& stream;
  int repeats;

  /// The best rate of `args` in GFLOP/s.
  double rate(const MatmulArgs& args) const {
    std::int64_t best_ns = INT64_MAX;
    device.ops().matmul(stream, args);  // compiles and warms
    for (int i = 0; i < repeats; ++i) {
      const std::int64_t start = now_ns();
      device.ops().matmul(stream, args);
      best_ns = std::min(best_ns, now_ns() - start);
    }
    return 2.0 * static_cast<double>(args.m * args.n * args.k) / static_cast<double>(best_ns);
  }

  double rate(DType in, DType out, std::int64_t m, std::int64_t n, std::int64_t k, bool ta, bool tb,
              float beta) const {
    const auto memory = [&](std::int64_t elems, DType dtype) {
      auto owner = device.allocate(elems * size_bytes(dtype), MemoryKind::other);
      device.ops().fill(stream, owner.view(dtype), 0.5F);
      return owner;
    };
    const DeviceMemory a = memory(m * k, in), b = memory(k * n, in), c = memory(m * n, out);
    MatmulArgs args;
    args.a = a.view(in);
    args.b = b.view(in);
    args.c = c.view(out);
    args.m = m;
    args.n = n;
    args.k = k;
    args.transpose_a = ta;
    args.transpose_b = tb;
    args.beta = beta;
    return rate(args);
  }
};

struct Weight {
  const char* name;
  std::int64_t out, in;
};

void print_layer(const Bench& bench, DType dtype, std::int64_t tokens, std::int64_t width) {
  const Weight weights[] = {{"c_attn", 3 * width, width},
                            {"c_proj", width, width},
                            {"c_fc", 4 * width, width},
                            {"mlp.c_proj", width, 4 * width},
                            {"wte (256)", 256, width}};
  // The bound is measured beside every weight, so that noise hits both alike.
  double bound = 0;
  std::vector<std::array<double, 3>> rates;
  for (const Weight& w : weights) {
    bound = std::max(bound, bench.rate(dtype, DType::fp32, 1024, 1024, 1024, false, false, 0));
    rates.push_back({bench.rate(dtype, dtype, tokens, w.out, w.in, false, true, 0),
                     bench.rate(dtype, dtype, tokens, w.in, w.out, false, false, 0),
                     bench.rate(dtype, DType::fp32, w.out, w.in, tokens, true, false, 1)});
  }
  fmt::print("\n{}: the bound is {:.0f} GFLOP/s\n", name(dtype), bound);
  fmt::print("{:<16}{:>18}{:>18}{:>18}   GFLOP/s (ratio)\n", "weight", "Y = X W^T", "dX = dY W",
             "dW += dY^T X");
  double total_flop = 0, total_ns = 0;
  for (std::size_t i = 0; i < rates.size(); ++i) {
    fmt::print("{:<16}", weights[i].name);
    for (const double rate : rates[i]) {
      fmt::print("{:>11.0f} ({:.2f})", rate, rate / bound);
      const double flop = 2.0 * static_cast<double>(tokens * weights[i].out * weights[i].in);
      total_flop += flop;
      total_ns += flop / rate;
    }
    fmt::print("\n");
  }
  fmt::print("{:<16}{:>11.0f} ({:.2f})\n", "all of it", total_flop / total_ns, total_flop / total_ns / bound);
}

}  // namespace

int main(int argc, char** argv) {
  zero1::bench::Flags flags("Matrix products of a transformer layer against the square product.");
  int threads = 2, repeats = 5;
  std::int64_t tokens = 2048, width = 768;
  flags.add("--threads", threads, "threads of the device");
  flags.add("--tokens", tokens, "rows of the activations");
  flags.add("--width", width, "hidden size");
  flags.add("--repeats", repeats, "calls per product; the best counts");
  flags.parse(argc, argv);

  const auto device = make_cpu_device({.threads = threads});
  const auto stream = device->create_stream(StreamKind::compute);
  fmt::print("{}, {} tokens, width {}\n", device->description(), tokens, width);
  const Bench bench{*device, *stream, repeats};
  for (const DType dtype : {DType::fp32, DType::bf16, DType::fp16}) print_layer(bench, dtype, tokens, width);
  return 0;
}
