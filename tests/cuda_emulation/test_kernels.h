// Small kernels that the emulation's own tests launch.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace zero1::test {

/// out[i] = value.
void launch_fill(float* out, float value, int count, cudaStream_t stream);

/// data[i] += value.
void launch_add(float* data, float value, int count, cudaStream_t stream);

/// *out = the sum of `in`, by one block of full warps: shuffles, then shared memory.
void launch_sum(float* out, const float* in, int count, int block, cudaStream_t stream);

/// The same by a tree in dynamic shared memory; block a power of two. `broken` leaves out its barriers.
void launch_tree_sum(float* out, const float* in, int count, int block, bool broken, cudaStream_t stream);

/// Counts the elements above a limit with an atomic in shared memory and one per block in global memory.
void launch_count(int* out, const float* in, float limit, int count, cudaStream_t stream);

/// out[3 * i + …] = what thread i of one block gets from shuffle down by 1, up by 1, and xor 3, all in
/// segments of 8 lanes.
void launch_shuffles(int* out, int block, cudaStream_t stream);

/// Even and odd lanes vote apart: out[i] = the ballot that thread i sees of (i % 3 == 0).
void launch_ballots(std::uint32_t* out, int block, cudaStream_t stream);

/// Threads below `stop` return early, the others meet at a barrier: out[i] = how many met.
void launch_early_return(int* out, int stop, int block, cudaStream_t stream);

/// Half of the warp waits for lanes that wait at the block's barrier: never ends.
void launch_deadlock(int block, cudaStream_t stream);

/// Writes out[count], one element too many.
void launch_overrun(float* out, int count, cudaStream_t stream);

/// Every block adds to *out without an atomic: a race between blocks.
void launch_racing_blocks(float* out, int blocks, cudaStream_t stream);

/// out[i] = in[i] for pointers that come in a structure.
struct Pointers {
  const float* in;
  float* out;
  int count;
};
void launch_copy(const Pointers& pointers, cudaStream_t stream);

}  // namespace zero1::test
