// Kernels: barriers, shuffles, votes, atomics and shared memory give what a GPU gives.
#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <numeric>

#include "tests/cuda_emulation/test_kernels.h"
#include "tests/cuda_emulation/test_memory.h"

using namespace zero1::test;

namespace {

std::vector<float> ramp(int count) {
  std::vector<float> values(static_cast<std::size_t>(count));
  std::iota(values.begin(), values.end(), 1.0F);
  return values;
}

float ramp_sum(int count) {
  return static_cast<float>(count) * static_cast<float>(count + 1) / 2;
}

}  // namespace

TEST_CASE("a sum by shuffles and shared memory") {
  const StreamOwner stream;
  for (const int count : {1, 3, 5, 7, 31, 33, 1000}) {
    for (const int block : {32, 64, 96, 256, 1024}) {
      CAPTURE(count);
      CAPTURE(block);
      const GpuArray<float> in(static_cast<std::size_t>(count), ramp(count), stream);
      const GpuArray<float> out(2);
      launch_sum(out.data(), in.data(), count, block, stream);
      const std::vector<float> result = out.read(stream);
      CHECK(result[0] == ramp_sum(count));
      CHECK(std::isnan(result[1]));  // fresh memory is full of NaNs
    }
  }
}

TEST_CASE("a shuffle from a lane that does not exist gives a NaN") {
  const StreamOwner stream;
  for (const int block : {1, 7, 31, 33, 100}) {
    CAPTURE(block);
    const GpuArray<float> in(3, ramp(3), stream);
    const GpuArray<float> out(1);
    launch_sum(out.data(), in.data(), 3, block, stream);
    CHECK(std::isnan(out.read(stream)[0]));
  }
}

TEST_CASE("a tree in dynamic shared memory needs its barriers") {
  const StreamOwner stream;
  const GpuArray<float> in(100, ramp(100), stream);
  const GpuArray<float> out(1);
  for (const int block : {1, 2, 32, 64, 128}) {
    CAPTURE(block);
    launch_tree_sum(out.data(), in.data(), 100, block, false, stream);
    CHECK(out.read(stream)[0] == ramp_sum(100));
  }
}

TEST_CASE("atomics in shared and global memory") {
  const StreamOwner stream;
  const GpuArray<float> in(333, ramp(333), stream);
  const GpuArray<int> out(1, {0}, stream);
  launch_count(out.data(), in.data(), 100.0F, 333, stream);
  CHECK(out.read(stream)[0] == 233);
}

TEST_CASE("shuffles in segments of a warp keep the own value at the edge") {
  const StreamOwner stream;
  const int block = 40;  // the second warp has eight lanes
  const GpuArray<int> out(3 * block);
  launch_shuffles(out.data(), block, stream);
  const std::vector<int> result = out.read(stream);
  for (int i = 0; i < block; ++i) {
    CAPTURE(i);
    const auto at = static_cast<std::size_t>(3 * i);
    CHECK(result[at] == (i % 8 == 7 ? i : i + 1));
    CHECK(result[at + 1] == (i % 8 == 0 ? i : i - 1));
    CHECK(result[at + 2] == (i ^ 3));
  }
}

TEST_CASE("parts of a warp vote apart") {
  const StreamOwner stream;
  const int block = 45;
  const GpuArray<std::uint32_t> out(block);
  launch_ballots(out.data(), block, stream);
  const std::vector<std::uint32_t> result = out.read(stream);
  for (int i = 0; i < block; ++i) {
    std::uint32_t expected = 0;
    for (int lane = 0; lane < 32; ++lane) {
      const int thread = i / 32 * 32 + lane;
      if (thread < block && thread % 3 == 0 && thread % 2 == i % 2) expected |= 1u << lane;
    }
    CAPTURE(i);
    CHECK(result[static_cast<std::size_t>(i)] == expected);
  }
}

TEST_CASE("threads that returned are not waited for") {
  const StreamOwner stream;
  const GpuArray<int> out(70, std::vector<int>(70, -1), stream);
  launch_early_return(out.data(), 5, 70, stream);
  const std::vector<int> result = out.read(stream);
  CHECK(result[4] == -1);
  CHECK(result[5] == 65);
  CHECK(result[69] == 65);
}
