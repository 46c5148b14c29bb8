// Setting up the virtual machine: for tests. Each setting has an environment variable for programs that
// know nothing of the emulation; the variable counts until a setter is called.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace cuda_emulation {

inline constexpr int max_devices = 16;

/// How many GPUs there are; ZERO1_EMULATED_GPUS, else 4. With none there is no driver either.
void set_device_count(int count);

/// Memory of every GPU; ZERO1_EMULATED_GPU_MEMORY in bytes, else 8 GiB.
void set_memory_bytes(int device, std::size_t bytes);

void set_compute_capability(int device, int major, int minor);

/// May GPUs reach each other's memory at all? ZERO1_EMULATED_PEER_ACCESS=0 says no.
void set_peer_access_possible(bool possible);

/// Which streams dawdle. Work on a lagging stream starts when somebody waits for it (the host, an event
/// that another stream waits for, a peer's collective), or else after `lag`: order that no event asks for
/// then comes out the wrong way round. ZERO1_EMULATED_LAG=none|compute|communication|all,
/// ZERO1_EMULATED_LAG_MS.
enum class Lagging {
  none,
  compute,        ///< streams of the lowest priority
  communication,  ///< streams of a higher priority
  all,
};
void set_lag(Lagging which, std::chrono::milliseconds lag = std::chrono::milliseconds(50));

/// Random delays, as a GPU has them: CUDA promises nothing of when a stream gets to its work, and nothing of
/// when copies read and write pageable host memory. One operation in four, chosen by `seed`, lets some of
/// other streams' pass before it starts. Copies from and to pageable memory are no longer done when the call
/// returns, cudaFree waits for nobody, and asking for an event or stream hurries neither. 0: no delays.
/// ZERO1_EMULATED_DELAYS.
void set_delays(std::uint64_t seed);

/// Under TSan: every thread of a kernel becomes a thread to TSan, so that races inside and between blocks
/// are reported. Slow: for grids of few small blocks. ZERO1_EMULATED_RACE_CHECK=1. Without TSan it only
/// runs every block on an OS thread of its own.
void set_race_check(bool on);

/// When a collective's error comes to light.
enum class Shows {
  while_it_runs,  ///< as asynchronous error, once all ranks have come
  at_once,        ///< as asynchronous error, already when the call or the group's end returns
  as_result,      ///< so, and as the result of the call or of the group's end
};

/// The next collective of this GPU never ends, and its communicator reports `nccl_result` (an ncclResult_t).
void fail_next_collective(int device, int nccl_result, Shows shows = Shows::while_it_runs);

/// To show that no wait is there for nothing: the `number`-th cudaStreamWaitEvent from now on, from 0, of the
/// streams of GPU `device` does nothing, and then again each `every`-th after it (0: only that one).
/// A negative number: none is left out. Starts the count anew. ZERO1_EMULATED_SKIP_WAIT=NUMBER leaves out
/// that one on every GPU.
void skip_stream_wait(int device, std::int64_t number, std::int64_t every = 0);

/// How many there have been on this GPU since.
std::int64_t stream_waits(int device);

/// An NVTX range that was closed, in the order of closing: with the ranges of its thread and domain open
/// around it.
struct Range {
  std::string domain;
  std::string title;
  int depth;
};

/// From now on ranges are kept, or no longer; forgets those kept so far.
void watch_ranges(bool on);
std::vector<Range> ranges();

/// Memory in use on a GPU, and live allocations on all of them: for leak checks.
std::size_t allocated_bytes(int device);
std::size_t live_allocations();

}  // namespace cuda_emulation
