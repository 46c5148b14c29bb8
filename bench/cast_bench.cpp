// Conversions between fp32 and the 16-bit dtypes against copy bandwidth.
//
// Formula: (bytes read + bytes written) over time: 6 B per element. Bound: in the same run, a plain loop
// that copies as many bytes from one array to another (3 B read and 3 B written per element), with
// ordinary stores, on the same threads.
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "bench/flags.h"
#include "core/base/clock.h"
#include "core/device/cpu/cpu_device.h"
#include "core/device/cpu/vec.h"

namespace {

using namespace zero1;

void copy(float* dst, const float* src, std::int64_t words, int threads) {
#pragma omp parallel for num_threads(threads) schedule(static, 1) if (threads > 1)
  for (int t = 0; t < threads; ++t) {
    const std::int64_t end = words * (t + 1) / threads;
    cpu::for_lanes(words * t / threads, end,
                   [&](std::int64_t i, auto part) { cpu::store(dst + i, cpu::load(src + i, part), part); });
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
  const auto allocate = [&](std::int64_t bytes) {
    auto memory = device->allocate(bytes, MemoryKind::other);
    device->ops().fill(*stream, memory.view(DType::fp32), 0.25F);
    return memory;
  };
  const DeviceMemory a = allocate(elems * 4), b = allocate(elems * 4);
  const DType pairs[][2] = {{DType::bf16, DType::fp32},
                            {DType::fp32, DType::bf16},
                            {DType::fp16, DType::fp32},
                            {DType::fp32, DType::fp16}};
  for (const auto& [to, from] : pairs) {
    const TensorView dst = a.view(to, 0, elems), src = b.view(from, 0, elems);
    std::int64_t cast_ns = INT64_MAX, copy_ns = INT64_MAX;
    for (int i = 0; i < repeats; ++i) {
      cast_ns = std::min(cast_ns, elapsed_ns([&] { device->ops().cast(*stream, dst, src); }));
      copy_ns = std::min(copy_ns, elapsed_ns([&] {
                           copy(static_cast<float*>(a.data()), static_cast<const float*>(b.data()),
                                elems * 3 / 4, threads);
                         }));
    }
    const double bytes = 6.0 * static_cast<double>(elems);
    fmt::print("{:>7}  {:<24}{:>12.1f}{:>12.1f}{:>8.2f}\n", threads,
               fmt::format("{} from {}", name(to), name(from)), bytes / static_cast<double>(cast_ns),
               bytes / static_cast<double>(copy_ns),
               static_cast<double>(copy_ns) / static_cast<double>(cast_ns));
  }
}

}  // namespace

int main(int argc, char** argv) {
  zero1::bench::Flags flags("Conversions of dtypes against copy bandwidth.");
  std::vector<int> threads{1, 2};
  std::int64_t elems = 1 << 24;
  int repeats = 10;
  flags.add("--threads", threads, "thread counts to run");
  flags.add("--elems", elems, "elements to convert");
  flags.add("--repeats", repeats, "calls; the best counts");
  flags.parse(argc, argv);
  fmt::print("{:>7}  {:<24}{:>12}{:>12}{:>8}\n", "threads", "cast", "cast GB/s", "copy GB/s", "ratio");
  for (const int n : threads) run(n, elems, repeats);
  return 0;
}
