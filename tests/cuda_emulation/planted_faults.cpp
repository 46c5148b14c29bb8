// Programs with one planted bug each: `cuda_emulation_planted NAME`. Exit status 0 means that nobody noticed,
// 3 that the result was wrong. With `fixed` after the name the bug is not there.
#include <nccl.h>

#include <cstdio>
#include <functional>
#include <map>
#include <string>
#include <thread>

#include "cuda_emulation/control.h"
#include "tests/cuda_emulation/test_kernels.h"
#include "tests/cuda_emulation/test_memory.h"

using namespace zero1::test;

namespace {

constexpr int unnoticed = 0;
constexpr int wrong_result = 3;

int judge(float result, float expected) {
  std::printf("result %g, expected %g\n", static_cast<double>(result), static_cast<double>(expected));
  return result == expected ? unnoticed : wrong_result;
}

/// A bucket is reduced without waiting for the kernel that writes its gradients.
int missing_wait(bool fixed) {
  const StreamOwner compute;
  const StreamOwner communication(-1);
  const EventOwner ready;
  const GpuArray<float> gradients(64);
  launch_fill(gradients.data(), 1.0F, 64, compute);
  compute.synchronize();
  ncclComm_t comm = nullptr;
  if (ncclCommInitAll(&comm, 1, nullptr) != ncclSuccess) return 1;
  launch_fill(gradients.data(), 2.0F, 64, compute);
  ZERO1_CUDA_CHECK(cudaEventRecord(ready, compute));
  if (fixed) ZERO1_CUDA_CHECK(cudaStreamWaitEvent(communication, ready));
  const GpuArray<float> reduced(64);
  if (ncclAllReduce(gradients.data(), reduced.data(), 64, ncclFloat, ncclSum, comm, communication) !=
      ncclSuccess) {
    return 1;
  }
  const float result = reduced.read(communication)[63];
  compute.synchronize();
  ncclCommDestroy(comm);
  return judge(result, 2.0F);
}

/// The next backward pass overwrites gradients that a collective may still read.
int early_overwrite(bool fixed) {
  const StreamOwner compute;
  const StreamOwner communication(-1);
  const EventOwner ready;
  const EventOwner reduced_event;
  ncclComm_t comm = nullptr;
  if (ncclCommInitAll(&comm, 1, nullptr) != ncclSuccess) return 1;
  const GpuArray<float> gradients(64);
  const GpuArray<float> reduced(64);
  launch_fill(gradients.data(), 1.0F, 64, compute);
  ZERO1_CUDA_CHECK(cudaEventRecord(ready, compute));
  ZERO1_CUDA_CHECK(cudaStreamWaitEvent(communication, ready));
  if (ncclAllReduce(gradients.data(), reduced.data(), 64, ncclFloat, ncclSum, comm, communication) !=
      ncclSuccess) {
    return 1;
  }
  ZERO1_CUDA_CHECK(cudaEventRecord(reduced_event, communication));
  if (fixed) ZERO1_CUDA_CHECK(cudaStreamWaitEvent(compute, reduced_event));
  launch_fill(gradients.data(), 2.0F, 64, compute);
  compute.synchronize();
  const float result = reduced.read(communication)[63];
  ncclCommDestroy(comm);
  return judge(result, 1.0F);
}

/// The host reads what an asynchronous copy has not brought yet.
int missing_host_sync(bool fixed) {
  const StreamOwner stream;
  const GpuArray<float> data(8);
  float* host = nullptr;
  ZERO1_CUDA_CHECK(cudaMallocHost(&host, 8 * sizeof(float)));
  host[7] = 0.0F;
  launch_fill(data.data(), 5.0F, 8, stream);
  ZERO1_CUDA_CHECK(cudaMemcpyAsync(host, data.data(), 8 * sizeof(float), cudaMemcpyDeviceToHost, stream));
  if (fixed) stream.synchronize();
  const float result = host[7];
  stream.synchronize();
  ZERO1_CUDA_CHECK(cudaFreeHost(host));
  return judge(result, 5.0F);
}

int missing_syncthreads(bool fixed) {
  const StreamOwner stream;
  const GpuArray<float> in(64, std::vector<float>(64, 1.0F), stream);
  const GpuArray<float> out(1);
  launch_tree_sum(out.data(), in.data(), 64, 64, !fixed, stream);
  return judge(out.read(stream)[0], 64.0F);
}

/// Blocks run one after another here, so that the sum comes out right.
int racing_blocks(bool fixed) {
  const StreamOwner stream;
  const GpuArray<float> out(1, {0.0F}, stream);
  launch_racing_blocks(out.data(), fixed ? 1 : 4, stream);
  return judge(out.read(stream)[0], fixed ? 1.0F : 4.0F);
}

int out_of_bounds(bool fixed) {
  const StreamOwner stream;
  const GpuArray<float> data(33);
  launch_overrun(data.data(), fixed ? 32 : 33, stream);
  return judge(data.read(stream)[32], 32.0F);
}

/// A stream uses memory that another has freed in its own order.
int use_after_free(bool fixed) {
  const StreamOwner user;
  const StreamOwner owner;
  const EventOwner used;
  float* data = nullptr;
  ZERO1_CUDA_CHECK(cudaMallocAsync(&data, 64 * sizeof(float), owner));
  cuda_emulation::set_lag(cuda_emulation::Lagging::compute);
  launch_fill(data, 1.0F, 64, user);
  ZERO1_CUDA_CHECK(cudaEventRecord(used, user));
  if (fixed) ZERO1_CUDA_CHECK(cudaStreamWaitEvent(owner, used));
  ZERO1_CUDA_CHECK(cudaFreeAsync(data, owner));
  owner.synchronize();
  user.synchronize();
  return unnoticed;
}

/// A block is cleared on the default stream, which no event orders with the streams that use the block, and
/// its next owner finds the zeros in its data.
int late_memset(bool fixed) {
  const StreamOwner compute;
  const StreamOwner communication(-1);
  ncclComm_t comm = nullptr;
  if (ncclCommInitAll(&comm, 1, nullptr) != ncclSuccess) return 1;
  const GpuArray<float> block(64);
  bool wrong = false;
  for (int turn = 0; turn < 20; ++turn) {
    // The first owner: something for a barrier to reduce.
    const std::size_t bytes = 64 * sizeof(float);
    ZERO1_CUDA_CHECK(fixed ? cudaMemsetAsync(block.data(), 0, bytes, communication)
                           : cudaMemset(block.data(), 0, bytes));
    if (ncclAllReduce(block.data(), block.data(), 1, ncclFloat, ncclMax, comm, communication) != ncclSuccess)
      return 1;
    ZERO1_CUDA_CHECK(cudaStreamSynchronize(communication));  // done with it, so it is given to the next
    launch_fill(block.data(), 7.0F, 64, compute);
    const EventOwner other_work;
    ZERO1_CUDA_CHECK(cudaEventRecord(other_work, communication));
    compute.synchronize();
    ZERO1_CUDA_CHECK(cudaEventSynchronize(other_work));
    wrong = wrong || block.read(compute)[63] != 7.0F;
  }
  ZERO1_CUDA_CHECK(cudaDeviceSynchronize());
  ncclCommDestroy(comm);
  return judge(wrong ? 0.0F : 7.0F, 7.0F);
}

/// The host writes over what an asynchronous copy from pageable memory may still read.
int early_host_write(bool fixed) {
  const StreamOwner stream;
  const GpuArray<float> data(64);
  bool wrong = false;
  for (int turn = 0; turn < 20; ++turn) {
    std::vector<float> host(64, 5.0F);
    ZERO1_CUDA_CHECK(
        cudaMemcpyAsync(data.data(), host.data(), 64 * sizeof(float), cudaMemcpyHostToDevice, stream));
    if (fixed) stream.synchronize();
    host.assign(64, 6.0F);
    const float result = data.read(stream)[63];
    wrong = wrong || result != 5.0F;
  }
  return judge(wrong ? 6.0F : 5.0F, 5.0F);
}

int divergent_barrier(bool fixed) {
  const StreamOwner stream;
  if (!fixed) launch_deadlock(32, stream);
  stream.synchronize();
  return unnoticed;
}

}  // namespace

int main(int argc, char** argv) {
  const std::map<std::string, std::function<int(bool)>> faults = {
      {"missing_wait", missing_wait},
      {"early_overwrite", early_overwrite},
      {"missing_host_sync", missing_host_sync},
      {"missing_syncthreads", missing_syncthreads},
      {"racing_blocks", racing_blocks},
      {"out_of_bounds", out_of_bounds},
      {"use_after_free", use_after_free},
      {"divergent_barrier", divergent_barrier},
      {"late_memset", late_memset},
      {"early_host_write", early_host_write},
  };
  const auto fault = argc < 2 ? faults.end() : faults.find(argv[1]);
  if (fault == faults.end()) {
    for (const auto& [name, run] : faults) std::fprintf(stderr, "%s [fixed]\n", name.c_str());
    return 2;
  }
  return fault->second(argc > 2 && std::string(argv[2]) == "fixed");
}
