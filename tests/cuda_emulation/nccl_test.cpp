// NCCL: results, rendezvous on streams, initialisation, splitting, errors and abort.
#include <cuda_bf16.h>
#include <doctest/doctest.h>
#include <nccl.h>

#include <chrono>
#include <functional>
#include <memory>
#include <thread>

#include "cuda_emulation/control.h"
#include "tests/cuda_emulation/test_kernels.h"
#include "tests/cuda_emulation/test_memory.h"

using namespace zero1::test;
using namespace std::chrono_literals;

namespace {

#define NCCL_OK(call) REQUIRE((call) == ncclSuccess)

/// Runs `body(rank, comm, stream)` for every rank, each on its own thread and GPU.
void for_each_rank(int ranks, const std::function<void(int, ncclComm_t, cudaStream_t)>& body) {
  ncclUniqueId id;
  NCCL_OK(ncclGetUniqueId(&id));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      ZERO1_CUDA_CHECK(cudaSetDevice(rank));
      ncclComm_t comm = nullptr;
      NCCL_OK(ncclCommInitRank(&comm, ranks, id, rank));
      {
        const StreamOwner stream(-1);
        body(rank, comm, stream);
        stream.synchronize();
      }
      NCCL_OK(ncclCommDestroy(comm));
    });
  }
  for (std::thread& thread : threads) thread.join();
}

/// Rank r's element i.
float input(int rank, std::size_t i) {
  return static_cast<float>(rank + 1) * 0.5F + static_cast<float>(i);
}

std::vector<float> inputs(int rank, std::size_t count) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = input(rank, i);
  return values;
}

float sum_of(int ranks, std::size_t i) {
  float sum = 0;
  for (int rank = 0; rank < ranks; ++rank) sum += input(rank, i);
  return sum;
}

}  // namespace

TEST_CASE("collectives of one to five ranks, in place and not, grouped") {
  cuda_emulation::set_device_count(5);
  for (const int ranks : {1, 2, 3, 5}) {
    CAPTURE(ranks);
    for_each_rank(ranks, [&](int rank, ncclComm_t comm, cudaStream_t stream) {
      const std::size_t count = 7;
      const auto n = static_cast<std::size_t>(ranks);
      const auto r = static_cast<std::size_t>(rank);
      const GpuArray<float> whole(n * count, inputs(rank, n * count), stream);
      const GpuArray<float> piece(count);
      const GpuArray<float> gathered(n * count);
      const GpuArray<float> all(count, inputs(rank, count), stream);
      NCCL_OK(ncclReduceScatter(whole.data(), piece.data(), count, ncclFloat, ncclAvg, comm, stream));
      NCCL_OK(ncclAllGather(piece.data(), gathered.data(), count, ncclFloat, comm, stream));
      NCCL_OK(ncclGroupStart());
      NCCL_OK(
          ncclReduceScatter(whole.data(), whole.data() + r * count, count, ncclFloat, ncclSum, comm, stream));
      NCCL_OK(ncclAllReduce(all.data(), all.data(), count, ncclFloat, ncclMax, comm, stream));
      NCCL_OK(ncclGroupEnd());
      const std::vector<float> averages = gathered.read(stream);
      const std::vector<float> sums = whole.read(stream);
      const std::vector<float> maxima = all.read(stream);
      for (std::size_t i = 0; i < n * count; ++i) {
        CHECK(averages[i] == sum_of(ranks, i) / static_cast<float>(ranks));
        CHECK(sums[i] == (i / count == r ? sum_of(ranks, i) : input(rank, i)));
      }
      for (std::size_t i = 0; i < count; ++i) CHECK(maxima[i] == input(ranks - 1, i));
    });
  }
}

TEST_CASE("bf16 is summed in fp32 and rounded once") {
  for_each_rank(4, [](int rank, ncclComm_t comm, cudaStream_t stream) {
    // 256 + 1 + 1 + 1: in bf16 each step would round back to 256.
    const GpuArray<__nv_bfloat16> value(1, {__float2bfloat16(rank == 0 ? 256.0F : 1.0F)}, stream);
    NCCL_OK(ncclAllReduce(value.data(), value.data(), 1, ncclBfloat16, ncclSum, comm, stream));
    CHECK(static_cast<float>(value.read(stream)[0]) == static_cast<float>(__float2bfloat16(259.0F)));
  });
}

TEST_CASE("broadcast, and an all-to-all of sends and receives in one group") {
  for_each_rank(3, [](int rank, ncclComm_t comm, cudaStream_t stream) {
    const GpuArray<float> data(5, std::vector<float>(5, static_cast<float>(rank)), stream);
    NCCL_OK(ncclBroadcast(data.data(), data.data(), 5, ncclFloat, 2, comm, stream));
    CHECK(data.read(stream)[4] == 2.0F);
    const GpuArray<float> out(3, inputs(rank, 3), stream);
    const GpuArray<float> in(3);
    NCCL_OK(ncclGroupStart());
    for (int peer = 0; peer < 3; ++peer) {
      NCCL_OK(ncclSend(out.data() + peer, 1, ncclFloat, peer, comm, stream));
      NCCL_OK(ncclRecv(in.data() + peer, 1, ncclFloat, peer, comm, stream));
    }
    NCCL_OK(ncclGroupEnd());
    const std::vector<float> received = in.read(stream);
    for (int peer = 0; peer < 3; ++peer) {
      CHECK(received[static_cast<std::size_t>(peer)] == input(peer, static_cast<std::size_t>(rank)));
    }
  });
}

TEST_CASE("a collective waits on its stream for the slowest rank") {
  for_each_rank(2, [](int rank, ncclComm_t comm, cudaStream_t stream) {
    const GpuArray<float> data(1, {1.0F}, stream);
    if (rank == 1) {
      ZERO1_CUDA_CHECK(cudaLaunchHostFunc(
          stream, [](void*) { std::this_thread::sleep_for(30ms); }, nullptr));
    }
    const auto start = std::chrono::steady_clock::now();
    NCCL_OK(ncclAllReduce(data.data(), data.data(), 1, ncclFloat, ncclSum, comm, stream));
    CHECK(data.read(stream)[0] == 2.0F);
    if (rank == 0) CHECK(std::chrono::steady_clock::now() - start > 15ms);
  });
}

TEST_CASE("ranks of lagging streams still meet") {
  cuda_emulation::set_lag(cuda_emulation::Lagging::communication, 10s);
  const auto start = std::chrono::steady_clock::now();
  for_each_rank(3, [](int rank, ncclComm_t comm, cudaStream_t stream) {
    const GpuArray<float> data(1, {1.0F}, stream);
    NCCL_OK(ncclAllReduce(data.data(), data.data(), 1, ncclFloat, ncclSum, comm, stream));
    if (rank == 0) CHECK(data.read(stream)[0] == 3.0F);  // demands the other ranks' streams
  });
  CHECK(std::chrono::steady_clock::now() - start < 5s);
  cuda_emulation::set_lag(cuda_emulation::Lagging::none);
}

TEST_CASE("initialisation without blocking is in progress until the last rank has come") {
  ncclUniqueId id;
  NCCL_OK(ncclGetUniqueId(&id));
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t comms[2] = {};
  ncclResult_t state = ncclSuccess;
  ZERO1_CUDA_CHECK(cudaSetDevice(0));
  CHECK(ncclCommInitRankConfig(&comms[0], 2, id, 0, &config) == ncclInProgress);
  NCCL_OK(ncclCommGetAsyncError(comms[0], &state));
  CHECK(state == ncclInProgress);
  ZERO1_CUDA_CHECK(cudaSetDevice(1));
  CHECK(ncclCommInitRankConfig(&comms[1], 2, id, 1, &config) == ncclInProgress);
  for (ncclComm_t comm : comms) {
    NCCL_OK(ncclCommGetAsyncError(comm, &state));
    CHECK(state == ncclSuccess);
  }
  for (ncclComm_t comm : comms) NCCL_OK(ncclCommDestroy(comm));
  ZERO1_CUDA_CHECK(cudaSetDevice(0));
}

TEST_CASE("two ranks on one GPU are refused") {
  const int devices[] = {1, 1};
  ncclComm_t comms[2] = {};
  CHECK(ncclCommInitAll(comms, 2, devices) == ncclInvalidUsage);
  for (ncclComm_t comm : comms) NCCL_OK(ncclCommDestroy(comm));
}

TEST_CASE("split orders by key and leaves out who wants no color") {
  for_each_rank(4, [](int rank, ncclComm_t comm, cudaStream_t stream) {
    ncclComm_t half = nullptr;
    NCCL_OK(ncclCommSplit(comm, rank == 3 ? NCCL_SPLIT_NOCOLOR : 7, -rank, &half, nullptr));
    CHECK((half == nullptr) == (rank == 3));
    if (half == nullptr) return;
    int new_rank = -1;
    int size = 0;
    NCCL_OK(ncclCommUserRank(half, &new_rank));
    NCCL_OK(ncclCommCount(half, &size));
    CHECK(new_rank == 2 - rank);
    CHECK(size == 3);
    const GpuArray<float> data(1, {static_cast<float>(rank)}, stream);
    NCCL_OK(ncclAllReduce(data.data(), data.data(), 1, ncclFloat, ncclSum, half, stream));
    CHECK(data.read(stream)[0] == 3.0F);
    NCCL_OK(ncclCommDestroy(half));
  });
}

TEST_CASE("a split without blocking gives its communicators when all ranks have asked, and not at once") {
  ncclComm_t comms[2] = {};
  ncclComm_t halves[2] = {};
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclUniqueId id;
  NCCL_OK(ncclGetUniqueId(&id));
  ncclResult_t state = ncclSuccess;
  for (const int rank : {0, 1}) {
    ZERO1_CUDA_CHECK(cudaSetDevice(rank));
    CHECK(ncclCommInitRankConfig(&comms[rank], 2, id, rank, &config) == ncclInProgress);
  }
  CHECK(ncclCommSplit(comms[0], 0, 0, &halves[0], &config) == ncclInProgress);
  std::this_thread::sleep_for(20ms);
  NCCL_OK(ncclCommGetAsyncError(comms[0], &state));
  CHECK(state == ncclInProgress);  // and halves[0] is not to be looked at
  CHECK(ncclCommSplit(comms[1], 0, 0, &halves[1], &config) == ncclInProgress);
  for (const int rank : {0, 1}) {
    do {
      NCCL_OK(ncclCommGetAsyncError(comms[rank], &state));
    } while (state == ncclInProgress);
    CHECK(state == ncclSuccess);
    NCCL_OK(ncclCommGetAsyncError(halves[rank], &state));
    CHECK(state == ncclSuccess);
  }
  for (ncclComm_t comm : {comms[0], comms[1], halves[0], halves[1]}) NCCL_OK(ncclCommDestroy(comm));
}

TEST_CASE("a split ends without a communicator where its rank aborts") {
  ncclComm_t comm = nullptr;
  ncclComm_t half = nullptr;
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t peer = nullptr;
  ncclUniqueId id;
  NCCL_OK(ncclGetUniqueId(&id));
  ZERO1_CUDA_CHECK(cudaSetDevice(0));
  CHECK(ncclCommInitRankConfig(&comm, 2, id, 0, &config) == ncclInProgress);
  ZERO1_CUDA_CHECK(cudaSetDevice(1));
  CHECK(ncclCommInitRankConfig(&peer, 2, id, 1, &config) == ncclInProgress);
  CHECK(ncclCommSplit(comm, 0, 0, &half, &config) == ncclInProgress);
  NCCL_OK(ncclCommAbort(comm));
  std::this_thread::sleep_for(20ms);
  CHECK(half == nullptr);
  NCCL_OK(ncclCommAbort(peer));
}

TEST_CASE("a rank that never comes blocks the others until they abort") {
  const int devices[] = {0, 1};
  ncclComm_t comms[2] = {};
  NCCL_OK(ncclCommInitAll(comms, 2, devices));
  ZERO1_CUDA_CHECK(cudaSetDevice(0));
  const StreamOwner stream;
  const GpuArray<float> data(1, {1.0F}, stream);
  NCCL_OK(ncclAllReduce(data.data(), data.data(), 1, ncclFloat, ncclSum, comms[0], stream));
  std::this_thread::sleep_for(30ms);
  CHECK(cudaStreamQuery(stream) == cudaErrorNotReady);
  NCCL_OK(ncclCommAbort(comms[1]));  // its peer does not learn of it
  std::this_thread::sleep_for(10ms);
  CHECK(cudaStreamQuery(stream) == cudaErrorNotReady);
  NCCL_OK(ncclCommAbort(comms[0]));
  stream.synchronize();
}

TEST_CASE("different calls, and an error put in by the test, are asynchronous errors") {
  for (const bool mismatch : {true, false}) {
    CAPTURE(mismatch);
    ncclComm_t comms[2] = {};
    NCCL_OK(ncclCommInitAll(comms, 2, nullptr));
    if (!mismatch) cuda_emulation::fail_next_collective(0, ncclSystemError);
    std::vector<std::unique_ptr<StreamOwner>> streams;
    std::vector<std::unique_ptr<GpuArray<float>>> arrays;
    for (const int rank : {0, 1}) {
      ZERO1_CUDA_CHECK(cudaSetDevice(rank));
      streams.push_back(std::make_unique<StreamOwner>());
      arrays.push_back(std::make_unique<GpuArray<float>>(4, std::vector<float>(4, 1.0F), *streams.back()));
      float* const data = arrays.back()->data();
      const std::size_t count = mismatch && rank == 1 ? 3 : 4;
      NCCL_OK(ncclAllReduce(data, data, count, ncclFloat, ncclSum, comms[rank], *streams.back()));
    }
    ncclResult_t state = ncclSuccess;
    for (; state == ncclSuccess; std::this_thread::sleep_for(1ms))
      NCCL_OK(ncclCommGetAsyncError(comms[0], &state));
    CHECK(state == (mismatch ? ncclInvalidUsage : ncclSystemError));
    CHECK(cudaStreamQuery(*streams[0]) == cudaErrorNotReady);
    for (ncclComm_t comm : comms) NCCL_OK(ncclCommAbort(comm));
    for (const auto& stream : streams) stream->synchronize();
  }
  ZERO1_CUDA_CHECK(cudaSetDevice(0));
}

TEST_CASE("host memory, short buffers and odd overlaps are refused") {
  ncclComm_t comm = nullptr;
  NCCL_OK(ncclCommInitAll(&comm, 1, nullptr));
  ZERO1_CUDA_CHECK(cudaSetDevice(0));
  const StreamOwner stream;
  const GpuArray<float> data(4, std::vector<float>(4, 1.0F), stream);
  float host = 0;
  CHECK(ncclAllReduce(&host, &host, 1, ncclFloat, ncclSum, comm, stream) == ncclInvalidArgument);
  CHECK(ncclAllReduce(data.data(), data.data(), 5, ncclFloat, ncclSum, comm, stream) == ncclInvalidArgument);
  CHECK(ncclAllGather(data.data(), data.data() + 1, 2, ncclFloat, comm, stream) == ncclInvalidArgument);
  ZERO1_CUDA_CHECK(cudaSetDevice(1));
  {
    const StreamOwner elsewhere;
    CHECK(ncclAllReduce(data.data(), data.data(), 4, ncclFloat, ncclSum, comm, elsewhere) ==
          ncclInvalidUsage);
  }
  ZERO1_CUDA_CHECK(cudaSetDevice(0));
  NCCL_OK(ncclCommDestroy(comm));
}
