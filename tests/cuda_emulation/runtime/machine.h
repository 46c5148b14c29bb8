// The virtual machine: its GPUs, their streams, memory and settings. One per process, as CUDA's is.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <map>
#include <mutex>
#include <vector>

#include "cuda_emulation/control.h"
#include "runtime/delays.h"
#include "runtime/heap.h"
#include "runtime/queue.h"

namespace cuda_emulation {

/// What an address is.
struct Place {
  enum class Kind { pageable, pinned, device } kind = Kind::pageable;
  int device = -1;
  bool live = true;          ///< false: a GPU's address without an allocation, or freed
  std::uintptr_t start = 0;  ///< of the allocation
  std::size_t bytes = 0;
};

class Machine {
 public:
  Machine();

  int device_count() const { return device_count_.load(std::memory_order_relaxed); }
  Lagging lagging() const { return lagging_.load(std::memory_order_relaxed); }
  std::chrono::milliseconds lag() const {
    return std::chrono::milliseconds(lag_ms_.load(std::memory_order_relaxed));
  }
  bool race_check() const { return race_check_.load(std::memory_order_relaxed); }
  bool peer_access_possible() const { return peer_access_possible_.load(std::memory_order_relaxed); }

  Delays& delays() { return delays_; }

  void set_device_count(int count);
  void set_lag(Lagging which, std::chrono::milliseconds lag);
  void set_race_check(bool on) { race_check_ = on; }
  void set_peer_access_possible(bool possible) { peer_access_possible_ = possible; }
  void set_compute_capability(int device, int major, int minor);
  int compute_capability(int device) const { return compute_capability_[index(device)].load(); }

  /// The error that the GPU's next collective is to show so, once; 0 is none.
  int take_nccl_error(int device, Shows shows) { return nccl_error(device, shows).exchange(0); }
  void set_nccl_error(int device, int result, Shows shows) { nccl_error(device, shows) = result; }

  Heap& heap(int device) { return *heaps_[index(device)]; }
  Place locate(const void* pointer) const;
  void add_pinned(void* pointer, std::size_t bytes);
  bool remove_pinned(void* pointer);

  Ref<Queue> open_queue(int device, int priority, bool blocking);
  void close_queue(const Ref<Queue>& queue);
  std::vector<Ref<Queue>> queues(int device) const;  ///< open ones, the default stream's too if it was used
  Ref<Queue> default_queue(int device);

  bool enable_peer_access(int device, int peer, bool on);  ///< false if it was so already
  bool can_reach(int device, int memory_of) const;

 private:
  static std::size_t index(int device) { return static_cast<std::size_t>(device); }
  std::atomic<int>& nccl_error(int device, Shows shows) {
    return nccl_errors_[index(device)][static_cast<std::size_t>(shows)];
  }

  std::atomic<int> device_count_;
  std::atomic<Lagging> lagging_;
  std::atomic<int> lag_ms_;
  Delays delays_;
  std::atomic<bool> race_check_;
  std::atomic<bool> peer_access_possible_;
  std::array<std::atomic<int>, max_devices> compute_capability_;            ///< 10 * major + minor
  std::array<std::array<std::atomic<int>, 3>, max_devices> nccl_errors_{};  ///< by Shows
  std::array<Heap*, max_devices> heaps_;
  mutable std::mutex mutex_;
  std::map<std::uintptr_t, std::size_t> pinned_;
  std::array<std::vector<Ref<Queue>>, max_devices> queues_;
  std::array<std::atomic<std::uint64_t>, max_devices> queues_opened_{};
  std::array<Ref<Queue>, max_devices> default_queues_;
  std::array<std::array<bool, max_devices>, max_devices> peer_access_{};
};

Machine& machine();

int current_device();
void set_worker_device(int device);

}  // namespace cuda_emulation

struct CUstream_st {
  cuda_emulation::Ref<cuda_emulation::Queue> queue;
};

namespace cuda_emulation {

/// The stream's queue; that of the current GPU's default stream for null.
Ref<Queue> queue_of(cudaStream_t stream);

/// Takes ownership of the operation, and orders it with the default stream as CUDA does.
std::uint64_t submit_in_order(const Ref<Queue>& queue, Operation* operation);

template <class Function>
std::uint64_t submit_in_order(const Ref<Queue>& queue, Function function) {
  Operation* operation = nullptr;
  {
    const Quiet quiet;
    operation = new FunctionOperation<Function>(std::move(function));
  }
  return submit_in_order(queue, operation);
}

}  // namespace cuda_emulation
