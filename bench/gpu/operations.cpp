// Copies, matrix products, and the operations that wait for memory against the bandwidth of copies.
#include <fmt/format.h>

#include <functional>
#include <optional>
#include <string>

#include "bench/gpu/sections.h"
#include "core/device/cuda/cuda_device.h"

namespace zero1::bench {
namespace {

/// A GPU with its compute stream and memory that lives until the end.
struct Gpu {
  explicit Gpu(int ordinal)
      : device(make_cuda_device({.ordinal = ordinal})),
        stream(device->create_stream(StreamKind::compute)),
        handle(dynamic_cast<CudaStream&>(*stream).handle()),
        timer(handle) {}

  TensorView filled(DType dtype, std::int64_t numel, float value = 0.25F) {
    memory.push_back(device->allocate(numel * size_bytes(dtype), MemoryKind::other));
    const TensorView view = memory.back().view(dtype);
    device->ops().fill(*stream, view, value);
    return view;
  }

  std::unique_ptr<Device> device;
  std::unique_ptr<Stream> stream;
  cudaStream_t handle;
  Timer timer;
  std::vector<DeviceMemory> memory;
};

double peer_copy_gb_s(const Sizes& sizes, std::int64_t bytes) {
  Gpu from(0), to(1);
  const TensorView a = from.filled(DType::fp32, bytes / 4), b = to.filled(DType::fp32, bytes / 4);
  from.stream->synchronize();
  to.stream->synchronize();
  const double seconds = to.timer.seconds(sizes, [&] {
    ZERO1_CUDA_CHECK(cudaMemcpyPeerAsync(b.data, 1, a.data, 0, static_cast<std::size_t>(bytes), to.handle));
  });
  return static_cast<double>(bytes) / seconds * 1e-9;
}

double matmul_tflops(Gpu& gpu, const Sizes& sizes, DType dtype) {
  const std::int64_t n = sizes.matmul;
  MatmulArgs args;
  args.a = gpu.filled(dtype, n * n);
  args.b = gpu.filled(dtype, n * n);
  args.c = gpu.filled(dtype, n * n);
  args.m = args.n = args.k = n;
  args.transpose_b = true;
  const double seconds = gpu.timer.seconds(sizes, [&] { gpu.device->ops().matmul(*gpu.stream, args); });
  const auto size = static_cast<double>(n);
  return 2 * size * size * size / seconds * 1e-12;
}

/// One operation, and the bytes that it cannot but move.
struct Operation {
  std::string name;
  double bytes;  ///< per element
  std::int64_t elems;
  std::optional<double> goal;
  std::function<void()> run;
};

class OperationBench {
 public:
  OperationBench(const Sizes& sizes, std::int64_t elems)
      : sizes_(sizes), elems_(elems), gpu_(0), ops_(gpu_.device->ops()), stream_(*gpu_.stream) {}

  void run(Figures& figures, const Limits& limits) {
    optimizer();
    elementwise();
    model_rows();
    for (const Operation& operation : operations_) {
      const double seconds = gpu_.timer.seconds(sizes_, operation.run);
      Figure figure;
      figure.name = operation.name;
      figure.value = operation.bytes * static_cast<double>(operation.elems) / seconds * 1e-9;
      figure.unit = "GB/s";
      figure.bound = limits.copy_gb_s;
      figure.bound_name = "copy";
      figure.goal = operation.goal;
      figure.note = fmt::format("{:g} B/element, {:.1f} us", operation.bytes, seconds * 1e6);
      figures.add(figure);
    }
    gpu_.stream->synchronize();
  }

 private:
  void optimizer() {
    const TensorView main = fp32(), m = fp32(), v = fp32(), grad = fp32(), grad16 = bf16(), model16 = bf16();
    const auto adamw = [=, this](TensorView g, TensorView model) {
      AdamWArgs args;
      args.main_param = main;
      args.exp_avg = m;
      args.exp_avg_sq = v;
      args.grad = g;
      args.model_param = model;
      args.lr = 1e-3;
      args.weight_decay = 0.1;
      ops_.adamw(stream_, args);
    };
    // Main parameter and moments are read and written, the gradient is read, the model's copy written.
    add("AdamW, fp32", 24 + 4, 0.85, [=] { adamw(grad, {}); });
    add("AdamW, bf16 gradient and parameter", 24 + 2 + 2, 0.85, [=] { adamw(grad16, model16); });
    const TensorView stats = gpu_.filled(DType::fp64, 2), slices = gpu_.filled(DType::fp64, 3);
    const TensorView bound = gpu_.filled(DType::fp64, 1, 1);
    add("gradient statistics, fp32", 4, {}, [=, this] { ops_.grad_stats(stream_, stats, grad); });
    add("sum of squares, fp32", 4, {},
        [=, this] { ops_.sum_of_squares(stream_, slices, grad, bound.as<double>(), elems_); });
  }

  void elementwise() {
    const TensorView x = fp32(), y = fp32(), low = bf16();
    add("cast fp32 to bf16", 6, 0.85, [=, this] { ops_.cast(stream_, low, x); });
    add("cast bf16 to fp32", 6, 0.85, [=, this] { ops_.cast(stream_, x, low); });
    add("fill fp32", 4, {}, [=, this] { ops_.fill(stream_, x, 0); });
    add("scale fp32", 8, {}, [=, this] { ops_.scale(stream_, x, 1.0F); });
    add("accumulate fp32 += bf16", 10, {}, [=, this] { ops_.accumulate(stream_, y, low); });
  }

  /// What the model does with rows between its matrix products.
  void model_rows() {
    const std::int64_t channels = sizes_.tiny ? 40 : 1024;
    const std::int64_t rows = elems_ / channels, n = rows * channels;
    const TensorView x = gpu_.filled(DType::bf16, n), out = gpu_.filled(DType::bf16, n),
                     d_x = gpu_.filled(DType::bf16, n), weight = gpu_.filled(DType::bf16, channels),
                     bias = gpu_.filled(DType::bf16, channels), mean = gpu_.filled(DType::fp32, rows),
                     rstd = gpu_.filled(DType::fp32, rows), d_weight = gpu_.filled(DType::fp32, channels),
                     d_bias = gpu_.filled(DType::fp32, channels), loss = gpu_.filled(DType::fp64, 1);
    add_of("layer norm forward, bf16", 4, n, [=, this] {
      ops_.layernorm_forward(stream_, out, mean, rstd, x, weight, bias, rows, channels, 1e-5F);
    });
    // d_out and x are read twice: for the rows, and for the columns' sums.
    add_of("layer norm backward, bf16", 6, n, [=, this] {
      ops_.layernorm_backward(stream_, d_x, d_weight, d_bias, out, {}, x, weight, mean, rstd, rows, channels);
    });
    add_of("bias and GELU, bf16", 6, n,
           [=, this] { ops_.bias_gelu_forward(stream_, out, d_x, x, bias, rows, channels); });
    add_of("GELU backward, bf16", 6, n, [=, this] { ops_.gelu_backward(stream_, d_x, out, x); });
    const std::int64_t vocab = sizes_.tiny ? 29 : 256, tokens = elems_ / vocab;
    const TensorView targets = gpu_.filled(DType::fp32, tokens, 0);  // the bits of int32 zeros
    const TensorView logits = gpu_.filled(DType::bf16, tokens * vocab);
    add_of("cross entropy and its gradient, bf16", 4, tokens * vocab, [=, this] {
      ops_.cross_entropy(stream_, loss, logits, static_cast<const std::int32_t*>(targets.data), tokens, vocab,
                         1e-3F);
    });
  }

  void add(const std::string& name, double bytes, std::optional<double> goal, std::function<void()> run) {
    operations_.push_back({name, bytes, elems_, goal, std::move(run)});
  }
  void add_of(const std::string& name, double bytes, std::int64_t elems, std::function<void()> run) {
    operations_.push_back({name, bytes, elems, std::nullopt, std::move(run)});
  }
  TensorView fp32() { return gpu_.filled(DType::fp32, elems_); }
  TensorView bf16() { return gpu_.filled(DType::bf16, elems_); }

  const Sizes& sizes_;
  std::int64_t elems_;
  Gpu gpu_;
  Ops& ops_;
  Stream& stream_;
  std::vector<Operation> operations_;
};

/// The tensors of OperationBench take 52 bytes per element; half of the free memory is theirs at most.
std::int64_t elems_that_fit(std::int64_t wanted) {
  ZERO1_CUDA_CHECK(cudaSetDevice(0));
  std::size_t free_bytes = 0, total_bytes = 0;
  ZERO1_CUDA_CHECK(cudaMemGetInfo(&free_bytes, &total_bytes));
  std::int64_t elems = wanted;
  while (elems > 4096 && static_cast<std::size_t>(elems) * 104 > free_bytes) elems /= 2;
  return elems;
}

}  // namespace

void measure_limits(Figures& figures, const Sizes& sizes, Limits& limits) {
  figures.begin_section("What the machine can do: the bounds of what follows");
  Gpu gpu(0);
  const std::int64_t elems = elems_that_fit(sizes.elems);
  const TensorView a = gpu.filled(DType::fp32, elems), b = gpu.filled(DType::fp32, elems);
  const double seconds = gpu.timer.seconds(sizes, [&] {
    ZERO1_CUDA_CHECK(cudaMemcpyAsync(b.data, a.data, static_cast<std::size_t>(a.bytes()),
                                     cudaMemcpyDeviceToDevice, gpu.handle));
  });
  limits.copy_gb_s = 2 * static_cast<double>(a.bytes()) / seconds * 1e-9;
  figures.add({"copy within a GPU",
               limits.copy_gb_s,
               "GB/s",
               {},
               "",
               {},
               fmt::format("{} MiB, bytes read and written", a.bytes() >> 20)});
  if (cuda_device_count() > 1) {
    const std::int64_t bytes = sizes.bucket_mib.back() << 20;
    limits.peer_gb_s = peer_copy_gb_s(sizes, bytes);
    figures.add({"copy from GPU 0 to GPU 1",
                 limits.peer_gb_s,
                 "GB/s",
                 {},
                 "",
                 {},
                 fmt::format("{} MiB", bytes >> 20)});
  }
  figures.add({"matrix product, fp32",
               matmul_tflops(gpu, sizes, DType::fp32),
               "TFLOP/s",
               {},
               "",
               {},
               fmt::format("{0} x {0} x {0}", sizes.matmul)});
  limits.matmul_tflops = matmul_tflops(gpu, sizes, DType::bf16);
  figures.add({"matrix product, bf16",
               limits.matmul_tflops,
               "TFLOP/s",
               {},
               "",
               {},
               fmt::format("{0} x {0} x {0}", sizes.matmul)});
  gpu.stream->synchronize();
}

void measure_operations(Figures& figures, const Sizes& sizes, const Limits& limits) {
  figures.begin_section("Operations that wait for memory: bytes that must move / time, against copies");
  OperationBench(sizes, elems_that_fit(sizes.elems)).run(figures, limits);
}

}  // namespace zero1::bench
