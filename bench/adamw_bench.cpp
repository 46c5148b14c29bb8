// AdamW on one rank's shard against memory bandwidth.
//
// Formula: bytes per element over time. Main parameter and both moments are read and written (24 B), the
// gradient is read (4 B in fp32, 2 in bf16), the model's parameter is written (2 B in bf16; in fp32 it is
// the main parameter itself, 0 B). Bound: in the same run, a loop with the same streams, the same mix of
// reads and writes and hardly any arithmetic (each in-out stream is scaled, the gradient is added).
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "bench/flags.h"
#include "core/base/clock.h"
#include "core/device/cpu/cpu_device.h"
#include "core/device/cpu/vec.h"

namespace {

using namespace zero1;

/// One shard and what the bound's loop touches of it.
struct Shard {
  DeviceMemory main, exp_avg, exp_avg_sq, grad, model;
  std::int64_t numel;
  bool low;  ///< gradients and model parameters in bf16

  Shard(Device& device, Stream& stream, std::int64_t elems, bool low_precision)
      : numel(elems), low(low_precision) {
    const auto memory = [&](DType dtype, MemoryKind kind) {
      auto owner = device.allocate(elems * size_bytes(dtype), kind);
      device.ops().fill(stream, owner.view(dtype), 0.25F);
      return owner;
    };
    main = memory(DType::fp32, MemoryKind::optimizer);
    exp_avg = memory(DType::fp32, MemoryKind::optimizer);
    exp_avg_sq = memory(DType::fp32, MemoryKind::optimizer);
    grad = memory(low ? DType::bf16 : DType::fp32, MemoryKind::gradients);
    if (low) model = memory(DType::bf16, MemoryKind::parameters);
  }

  double bytes_per_elem() const { return low ? 24 + 2 + 2 : 24 + 4; }

  AdamWArgs args() const {
    AdamWArgs a;
    a.main_param = main.view(DType::fp32);
    a.exp_avg = exp_avg.view(DType::fp32);
    a.exp_avg_sq = exp_avg_sq.view(DType::fp32);
    a.grad = grad.view(low ? DType::bf16 : DType::fp32);
    if (low) a.model_param = model.view(DType::bf16);
    a.lr = 1e-3;
    a.weight_decay = 0.1F;
    return a;
  }
};

/// Vector loads and stores of every stream, so that memory alone sets the pace.
template <class Grad, class Model>
void same_mix(float* p, float* m, float* v, const Grad* g, Model* model, std::int64_t begin,
              std::int64_t end) {
  using namespace cpu;
  for_lanes(begin, end, [&](std::int64_t i, auto part) {
    const Vec sum = load(p + i, part) * 0.5F + load(g + i, part);
    store(p + i, sum, part);
    store(m + i, load(m + i, part) * 0.5F, part);
    store(v + i, load(v + i, part) * 0.5F, part);
    if (model != nullptr) store(model + i, sum, part);
  });
}

/// The bound's loop, on as many threads as the device uses.
void touch(const Shard& s, int threads) {
  auto* p = static_cast<float*>(s.main.data());
  auto* m = static_cast<float*>(s.exp_avg.data());
  auto* v = static_cast<float*>(s.exp_avg_sq.data());
#pragma omp parallel for num_threads(threads) schedule(static, 1) if (threads > 1)
  for (int t = 0; t < threads; ++t) {
    const std::int64_t begin = s.numel * t / threads, end = s.numel * (t + 1) / threads;
    if (s.low) {
      same_mix(p, m, v, static_cast<const BFloat16*>(s.grad.data()), static_cast<BFloat16*>(s.model.data()),
               begin, end);
    } else {
      same_mix(p, m, v, static_cast<const float*>(s.grad.data()), static_cast<float*>(nullptr), begin, end);
    }
  }
}

template <class Fn>
std::int64_t elapsed_ns(Fn&& fn) {
  const std::int64_t start = now_ns();
  fn();
  return now_ns() - start;
}

void run(int threads, std::int64_t elems, int repeats) {
  const auto device = make_cpu_device({.threads = threads});
  const auto stream = device->create_stream(StreamKind::compute);
  for (const bool low : {false, true}) {
    const Shard shard(*device, *stream, elems, low);
    std::int64_t adamw_ns = INT64_MAX, bound_ns = INT64_MAX;
    for (int i = 0; i < repeats; ++i) {  // alternating: noise hits both alike
      adamw_ns = std::min(adamw_ns, elapsed_ns([&] { device->ops().adamw(*stream, shard.args()); }));
      bound_ns = std::min(bound_ns, elapsed_ns([&] { touch(shard, threads); }));
    }
    const double bytes = shard.bytes_per_elem() * static_cast<double>(elems);
    fmt::print("{:>7}  {:<28}{:>6.0f}{:>12.1f}{:>12.1f}{:>8.2f}\n", threads,
               low ? "bf16 gradient and parameter" : "fp32 gradient and parameter", shard.bytes_per_elem(),
               bytes / static_cast<double>(adamw_ns), bytes / static_cast<double>(bound_ns),
               static_cast<double>(bound_ns) / static_cast<double>(adamw_ns));
  }
}

}  // namespace

int main(int argc, char** argv) {
  zero1::bench::Flags flags(
      "AdamW shard step against the bandwidth of a loop with the same reads and writes.");
  std::vector<int> threads{1, 2};
  std::int64_t elems = 1 << 24;
  int repeats = 10;
  flags.add("--threads", threads, "thread counts to run");
  flags.add("--elems", elems, "elements of the shard");
  flags.add("--repeats", repeats, "steps; the best counts");
  flags.parse(argc, argv);
  fmt::print("{:>7}  {:<28}{:>6}{:>12}{:>12}{:>8}\n", "threads", "shard", "B/el", "AdamW GB/s", "bound GB/s",
             "ratio");
  for (const int n : threads) run(n, elems, repeats);
  return 0;
}
