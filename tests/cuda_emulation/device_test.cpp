// The device suite on an emulated GPU: the sources that nvcc builds, and what the suite cannot ask of
// every device.
#include "../conformance/device_suite.h"
#include "core/device/cpu/cpu_device.h"
#include "core/device/cuda/cuda_device.h"
#include "core/device/cuda/cuda_memory.h"
#include "cuda_emulation/control.h"

namespace zero1::test {

std::vector<Backend> backends() {
  return {{"emulated GPU", [] { return make_cuda_device({}); }}};
}

namespace {

std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

std::vector<double> zeros(std::int64_t n) {
  return std::vector<double>(static_cast<std::size_t>(n), 0);
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_CASE("a freed activation serves the next request of its size, and nobody else") {
  cuda::CudaMemory memory(0, -1);
  void* first = memory.allocate(5 << 20, "activations", Reuse::in_stream_order);
  memory.free(first);
  CHECK(memory.kept_bytes() == 6 << 20);  // in whole pages
  void* other = memory.allocate(6 << 20, "communication", Reuse::when_idle);
  CHECK(other != first);
  CHECK(memory.kept_bytes() == 6 << 20);
  void* second = memory.allocate(6 << 20, "activations", Reuse::in_stream_order);
  CHECK(second == first);
  CHECK(memory.kept_bytes() == 0);
  memory.free(other);
  CHECK(memory.kept_bytes() == 0);  // CUDA has it back
  void* small = memory.allocate(100, "activations", Reuse::in_stream_order);
  CHECK(small != first);
  memory.free(second);
  memory.free(small);
  CHECK(memory.kept_bytes() == (6 << 20) + 512);
}

TEST_CASE("a block much larger than asked is left for who needs it") {
  cuda::CudaMemory memory(0, -1);
  void* large = memory.allocate(64 << 20, "activations", Reuse::in_stream_order);
  memory.free(large);
  void* small = memory.allocate(1 << 20, "activations", Reuse::in_stream_order);
  CHECK(small != large);
  memory.free(small);
}

TEST_CASE("memory that a stream still uses when it is freed has no next owner before") {
  for (const auto lagging : {cuda_emulation::Lagging::compute, cuda_emulation::Lagging::communication}) {
    cuda_emulation::set_lag(lagging, std::chrono::milliseconds(300));
    const auto device = make_cuda_device({});
    const auto compute = device->create_stream(StreamKind::compute),
               communication = device->create_stream(StreamKind::communication);
    const auto event = device->create_event();
    Stream& late = lagging == cuda_emulation::Lagging::compute ? *compute : *communication;
    Stream& other = lagging == cuda_emulation::Lagging::compute ? *communication : *compute;
    DeviceMemory first = device->allocate(4 << 10, MemoryKind::communication);
    device->ops().fill(late, first.view(DType::fp32), 1);
    late.record(*event);
    first = DeviceMemory();
    CHECK(event->reached());
    const DeviceMemory second = device->allocate(4 << 10, MemoryKind::communication);
    device->ops().fill(other, second.view(DType::fp32), 2);
    std::vector<float> values(1 << 10);
    device->copy_to_host(other, values.data(), second.view(DType::fp32));
    other.synchronize();
    late.synchronize();
    CHECK(values == std::vector<float>(1 << 10, 2));
  }
  cuda_emulation::set_lag(cuda_emulation::Lagging::none);
}

TEST_CASE("kept blocks are given back before memory runs out; then the error says all that helps") {
  const std::size_t before = cuda_emulation::allocated_bytes(0);
  cuda_emulation::set_memory_bytes(0, before + (64 << 20));
  {
    cuda::CudaMemory memory(0, 3);
    void* first = memory.allocate(40 << 20, "activations", Reuse::in_stream_order);
    memory.free(first);
    void* second =
        memory.allocate(60 << 20, "parameters", Reuse::when_idle);  // fits only without the kept block
    CHECK(memory.kept_bytes() == 0);
    const std::string message =
        message_of([&] { (void)memory.allocate(8 << 20, "optimizer", Reuse::when_idle); });
    INFO(message);
    CHECK(contains(message, "rank 3"));
    CHECK(contains(message, "GPU 0"));
    CHECK(contains(message, "8388608 bytes asked for optimizer"));
    CHECK(contains(message, "4194304 bytes free"));
    CHECK(contains(message, "--micro-batch-size"));
    memory.free(second);
  }
  CHECK(cuda_emulation::allocated_bytes(0) == before);
  cuda_emulation::set_memory_bytes(0, std::size_t{8} << 30);
}

TEST_CASE("a device gives all of its memory back") {
  const std::size_t before = cuda_emulation::live_allocations();
  {
    const auto device = make_cuda_device({.ordinal = 1});
    const auto stream = device->create_stream(StreamKind::compute);
    const DeviceMemory x = device->allocate(1 << 20, MemoryKind::other);
    device->ops().fill(*stream, x.view(DType::fp32), 1);
    const DeviceMemory sum = device->allocate(16, MemoryKind::other);
    device->ops().fill(*stream, sum.view(DType::fp64), 0);
    device->ops().grad_stats(*stream, sum.view(DType::fp64), x.view(DType::fp32));
    stream->synchronize();
  }
  CHECK(cuda_emulation::live_allocations() == before);
}

TEST_CASE("stamps say how far from the host's clock they may be") {
  const auto device = make_cuda_device({});
  CHECK(device->clock_error_ns() >= 1000);        // an event's resolution, at least
  CHECK(device->clock_error_ns() < 100'000'000);  // a busy machine's delays, at most
}

TEST_CASE("a stamp is resolved without anybody synchronising") {
  const auto device = make_cuda_device({});
  const auto stream = device->create_stream(StreamKind::communication);
  std::atomic<std::int64_t> reached{0};
  const std::int64_t before = now_ns();
  stream->stamp([&](std::int64_t ns) { reached = ns; });
  for (int i = 0; i < 5000 && reached == 0; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  CHECK(reached >= before);
  CHECK(reached <= now_ns());
}

TEST_CASE("a bad token is thrown by events, too, and only by those of its stream recorded after it") {
  const auto device = make_cuda_device({});
  const auto stream = device->create_stream(StreamKind::compute),
             other = device->create_stream(StreamKind::communication);
  const auto event = device->create_event(), elsewhere = device->create_event();
  const DeviceMemory memory = device->allocate(64, MemoryKind::other);
  const TensorView four = memory.view(DType::fp32, 0, 4), out = memory.view(DType::fp32, 4, 4);
  const std::int32_t bad[2] = {0, 9};
  const DeviceMemory tokens = device->allocate(8, MemoryKind::other);
  device->copy_from_host(*stream, tokens.view(DType::fp32), bad);
  device->ops().fill(*stream, four, 1);
  device->ops().embedding_forward(*stream, out, static_cast<const std::int32_t*>(tokens.data()), four, four,
                                  2, 2, 2);
  stream->record(*event);
  other->record(*elsewhere);
  CHECK(contains(message_of([&] { event->synchronize(); }), "token 9 at position 1"));
  CHECK(contains(message_of([&] { stream->synchronize(); }), "vocabulary [0, 2)"));
  elsewhere->synchronize();
  other->synchronize();
}

TEST_CASE("what a communicator says of its failure comes out of every stream and event") {
  const auto device = make_cuda_device({});
  const auto stream = device->create_stream(StreamKind::compute);
  const auto event = device->create_event();
  stream->record(*event);
  dynamic_cast<CudaStream&>(*stream).failure()->set(std::make_exception_ptr(Error("rank 2 left")));
  CHECK(message_of([&] { stream->synchronize(); }) == "rank 2 left");
  CHECK(message_of([&] { event->synchronize(); }) == "rank 2 left");
}

TEST_CASE("a GPU that is not there is an input error that says how many are") {
  CHECK(contains(message_of([] { (void)make_cuda_device({.ordinal = 99}); }), "there is no GPU 99: 4 are"));
  cuda_emulation::set_device_count(0);
  const std::string message = message_of([] { (void)cuda_device_count(); });
  CHECK(contains(message, "no NVIDIA driver"));
  CHECK(contains(message, "--device cpu"));
  cuda_emulation::set_device_count(4);
}

/// What three AdamW steps on `backend` leave, and the gradient's sum of squares.
std::vector<std::vector<double>> three_steps(const Backend& backend, DType low, std::int64_t n) {
  Rig rig(backend);
  const Tensor param(rig, DType::fp32, random_values(DType::fp32, n, 1)), m(rig, DType::fp32, zeros(n)),
      v(rig, DType::fp32, zeros(n)), model(rig, low, n), grad(rig, low, random_values(low, n, 2));
  const Tensor bound(rig, DType::fp64, std::vector<double>{100}), sum(rig, DType::fp64, zeros(3));
  for (std::int64_t step = 1; step <= 3; ++step) {
    rig.ops.scale(rig.stream, grad, 0.7F);
    rig.ops.sum_of_squares(rig.stream, sum, grad, static_cast<const double*>(bound.view().data), 3 * n);
    AdamWArgs args;
    args.main_param = param;
    args.exp_avg = m;
    args.exp_avg_sq = v;
    args.grad = grad;
    args.model_param = model;
    args.lr = 0.01;
    args.weight_decay = 0.1;
    args.step = step;
    rig.ops.adamw(rig.stream, args);
    rig.ops.accumulate(rig.stream, grad, model);
  }
  return {param.read(), m.read(), v.read(), model.read(), grad.read(), sum.read()};
}

TEST_CASE("the optimizer's operations give the CPU's bits") {
  const Backend cpu{"cpu", [] { return make_cpu_device({.threads = 1}); }};
  for (const DType low : low_dtypes) {
    for (const std::int64_t n : {1, 3, 5, 7, 1003}) {
      const auto expected = three_steps(cpu, low, n), actual = three_steps(backends()[0], low, n);
      for (std::size_t i = 0; i < expected.size(); ++i) check_equal(actual[i], expected[i]);
    }
  }
}

}  // namespace
}  // namespace zero1::test
