// What a run on GPUs says of its machine, and the errors of a machine that cannot do it.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdlib>

#include "core/base/error.h"
#include "core/train/machine_cuda.h"
#include "core/train/trainer.h"
#include "cuda_emulation/control.h"

using namespace zero1;

namespace {

TrainConfig gpu_config(int dp, const char* comm) {
  TrainConfig c;
  c.num_layers = 1;
  c.hidden_size = 24;
  c.num_attention_heads = 3;
  c.seq_length = 12;
  c.dp = dp;
  c.train_iters = 2;
  c.device = "cuda";
  c.comm = comm;
  return c;
}

template <class Call>
std::string input_error(const Call& call) {
  try {
    call();
  } catch (const InputError& error) {
    return error.what();
  }
  return "no InputError";
}

bool contains(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("flags that do not fit GPUs name what to use instead") {
  const auto rejected = [](const char* part, auto change) {
    TrainConfig config = gpu_config(2, "");
    change(config);
    const std::string error = input_error([&] { resolve(config); });
    CHECK_MESSAGE(contains(error, part), error);
  };
  rejected("--device must be cpu or cuda", [](TrainConfig& c) { c.device = "tpu"; });
  rejected("--comm must be local or nccl", [](TrainConfig& c) { c.comm = "mpi"; });
  rejected("--link-gbps and --link-latency-us are not supported with --device cuda",
           [](TrainConfig& c) { c.link.gbit_per_s = 1; });
  rejected("--comm nccl needs --device cuda", [](TrainConfig& c) {
    c.device = "cpu";
    c.comm = "nccl";
  });
  rejected("--tf32 needs --device cuda", [](TrainConfig& c) {
    c.device = "cpu";
    c.tf32 = true;
  });
  CHECK(resolve(gpu_config(2, "")).comm == "nccl");
  CHECK(resolve(TrainConfig{}).comm == "local");
}

TEST_CASE("without GPUs, and with fewer than NCCL needs, the error names the way out") {
  cuda_emulation::set_device_count(0);
  CHECK(contains(input_error([] { make_cuda_machine(resolve(gpu_config(1, "")), {}); }), "--device cpu"));
  cuda_emulation::set_device_count(2);
  const std::string few = input_error([] { make_cuda_machine(resolve(gpu_config(3, "nccl")), {}); });
  CHECK_MESSAGE(contains(few, "--dp 3, but 2 GPUs are visible. --comm local"), few);
  const std::string one = input_error([] { describe_cuda_machine(resolve(gpu_config(3, "nccl"))); });
  CHECK(one == few);
  cuda_emulation::set_device_count(4);
}

TEST_CASE("out of memory names the rank, what was asked and what is free") {
  cuda_emulation::set_device_count(2);
  cuda_emulation::set_memory_bytes(1, 4 << 20);
  TrainConfig config = gpu_config(2, "local");
  config.hidden_size = 240;
  config.num_layers = 4;
  const std::string error = input_error([&] { train(resolve(config), {}, make_cuda_machine); });
  for (const char* part : {"rank 1", "out of memory on GPU 1", "asked for", "free"}) {
    CHECK_MESSAGE(contains(error, part), error);
  }
  cuda_emulation::set_memory_bytes(1, std::size_t{8} << 30);
  cuda_emulation::set_device_count(4);
}

TEST_CASE("the machine's description shows GPUs, ranks, communicator and hardware queues") {
  cuda_emulation::set_device_count(2);
  unsetenv("CUDA_DEVICE_MAX_CONNECTIONS");
  const auto text = [](const TrainConfig& config) {
    return fmt::format("{}", fmt::join(describe_cuda_machine(resolve(config)).lines, "\n"));
  };
  const std::string nccl = text(gpu_config(2, "nccl"));
  for (const char* part : {"GPU 0: ", "GPU 1: ", "rank 1", "compute capability", "communicator: NCCL 2.",
                           "CUDA_DEVICE_MAX_CONNECTIONS 8 (not set): every stream has a hardware queue"}) {
    CHECK_MESSAGE(contains(nccl, part), nccl);
  }
  const std::string shared = text(gpu_config(12, "local"));
  CHECK_MESSAGE(contains(shared, "ranks 0, 2, 4, 6, 8, 10"), shared);
  CHECK_MESSAGE(contains(shared, "12 streams of a GPU share 8 hardware queues"), shared);
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "1", 1);
  CHECK(contains(text(gpu_config(2, "nccl")), "one hardware queue"));
  unsetenv("CUDA_DEVICE_MAX_CONNECTIONS");

  CHECK(describe_cuda_machine(resolve(gpu_config(2, "nccl"))).warnings.empty());
  cuda_emulation::set_compute_capability(1, 7, 5);
  const auto warnings = describe_cuda_machine(resolve(gpu_config(2, "nccl"))).warnings;
  REQUIRE(warnings.size() == 1);
  CHECK_MESSAGE(contains(warnings[0], "7.5"), warnings[0]);
  cuda_emulation::set_compute_capability(1, 9, 0);
  cuda_emulation::set_device_count(4);
}
