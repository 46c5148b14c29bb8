// `zero1 train --device cuda` as people call it: header, results, errors and exit status.
#include <doctest/doctest.h>

#include "tests/support/command.h"

using namespace zero1::test;

namespace {

const std::string tiny =
    "train --num-layers 1 --hidden-size 16 --num-attention-heads 2 --seq-length 8 --train-iters 2 ";

Outcome run_on(int gpus, const std::string& arguments) {
  return run_command("ZERO1_EMULATED_GPUS=" + std::to_string(gpus) + " " +
                     quoted(ZERO1_BIN_DIR "/zero1_on_virtual_gpus") + " " + arguments);
}

}  // namespace

TEST_CASE("four ranks train on one GPU without NCCL, and two on two with it") {
  const Outcome shared = run_on(1, tiny + "--device cuda --comm local --dp 4");
  CHECK_MESSAGE(shared.status == 0, shared.output);
  for (const char* part : {"GPU 0: ", "ranks 0, 1, 2, 3", "communicator: in-process",
                           "CUDA_DEVICE_MAX_CONNECTIONS", "step 2/2", "in-process on 1 GPU"}) {
    CHECK_MESSAGE(shared.says(part), shared.output);
  }
  const Outcome nccl =
      run_on(2, tiny + "--device cuda --dp 2 --bf16 --overlap-grad-reduce --overlap-param-gather");
  CHECK_MESSAGE(nccl.status == 0, nccl.output);
  CHECK_MESSAGE(nccl.says("communicator: NCCL"), nccl.output);
}

TEST_CASE("a machine that cannot do it ends with status 2 and names what to use") {
  const auto refused = [](int gpus, const std::string& flags, const char* advice) {
    const Outcome outcome = run_on(gpus, tiny + flags);
    CHECK_MESSAGE(outcome.status == 2, outcome.output);
    CHECK_MESSAGE(outcome.says(advice), outcome.output);
    CHECK_MESSAGE(!outcome.says("step 1/2"), outcome.output);
  };
  refused(0, "--device cuda", "--device cpu");
  refused(1, "--device cuda --dp 2", "--comm local");
  refused(2, "--device cuda --link-gbps 1", "--device cpu");
  const Outcome memory = run_command("ZERO1_EMULATED_GPU_MEMORY=100000 ZERO1_EMULATED_GPUS=2 " +
                                     quoted(ZERO1_BIN_DIR "/zero1_on_virtual_gpus") + " " + tiny +
                                     "--hidden-size 256 --device cuda --comm local --dp 2");
  CHECK_MESSAGE(memory.status == 2, memory.output);
  CHECK_MESSAGE(memory.says("out of memory on GPU"), memory.output);
  CHECK_MESSAGE(memory.says("rank "), memory.output);
}
