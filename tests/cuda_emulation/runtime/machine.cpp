#include "runtime/machine.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>

#include "runtime/errors.h"

namespace cuda_emulation {
namespace {

thread_local int this_threads_device = 0;

long long number_from_environment(const char* name, long long fallback) {
  const char* text = std::getenv(name);
  if (text == nullptr) return fallback;
  char* end = nullptr;
  const long long value = std::strtoll(text, &end, 10);
  if (end == text || *end != '\0' || value < 0)
    fatal(std::string(name) + " is '" + text + "', expected a number");
  return value;
}

Lagging lagging_from_environment() {
  const char* text = std::getenv("ZERO1_EMULATED_LAG");
  const std::string name = text == nullptr ? "none" : text;
  if (name == "none") return Lagging::none;
  if (name == "compute") return Lagging::compute;
  if (name == "communication") return Lagging::communication;
  if (name == "all") return Lagging::all;
  fatal("ZERO1_EMULATED_LAG is '" + name + "', expected none, compute, communication or all");
}

}  // namespace

Machine& machine() {
  // Never destroyed: streams that the program left open still run while it exits.
  static Machine& the_machine = *new Machine;
  return the_machine;
}

Machine::Machine()
    : device_count_(static_cast<int>(number_from_environment("ZERO1_EMULATED_GPUS", 4))),
      lagging_(lagging_from_environment()),
      lag_ms_(static_cast<int>(number_from_environment("ZERO1_EMULATED_LAG_MS", 50))),
      delays_(static_cast<std::uint64_t>(number_from_environment("ZERO1_EMULATED_DELAYS", 0))),
      race_check_(number_from_environment("ZERO1_EMULATED_RACE_CHECK", 0) != 0),
      peer_access_possible_(number_from_environment("ZERO1_EMULATED_PEER_ACCESS", 1) != 0) {
  if (device_count_ > max_devices) fatal("ZERO1_EMULATED_GPUS is above " + std::to_string(max_devices));
  const auto bytes = number_from_environment("ZERO1_EMULATED_GPU_MEMORY", 8LL << 30);
  for (int device = 0; device < max_devices; ++device) {
    heaps_[index(device)] = new Heap(device);
    heaps_[index(device)]->set_capacity(static_cast<std::size_t>(bytes));
    compute_capability_[index(device)] = 90;
  }
}

void Machine::set_device_count(int count) {
  if (count < 0 || count > max_devices) fatal("a machine of " + std::to_string(count) + " GPUs");
  device_count_ = count;
}

void Machine::set_lag(Lagging which, std::chrono::milliseconds lag) {
  lagging_ = which;
  lag_ms_ = static_cast<int>(lag.count());
}

void Machine::set_compute_capability(int device, int major, int minor) {
  compute_capability_[index(device)] = 10 * major + minor;
}

Place Machine::locate(const void* pointer) const {
  const Quiet quiet;
  for (int device = 0; device < max_devices; ++device) {
    const Heap& heap = *heaps_[index(device)];
    if (!heap.contains(pointer)) continue;
    const auto block = heap.block_of(pointer);
    if (!block) return {Place::Kind::device, device, false, 0, 0};
    return {Place::Kind::device, device, true, block->start, block->bytes};
  }
  const std::lock_guard lock(mutex_);
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  auto next = pinned_.upper_bound(address);
  if (next == pinned_.begin()) return {};
  --next;
  if (address > next->first + next->second) return {};
  return {Place::Kind::pinned, -1, true, next->first, next->second};
}

void Machine::add_pinned(void* pointer, std::size_t bytes) {
  const Quiet quiet;
  const std::lock_guard lock(mutex_);
  pinned_.emplace(reinterpret_cast<std::uintptr_t>(pointer), bytes);
}

bool Machine::remove_pinned(void* pointer) {
  const Quiet quiet;
  const std::lock_guard lock(mutex_);
  return pinned_.erase(reinterpret_cast<std::uintptr_t>(pointer)) != 0;
}

Ref<Queue> Machine::open_queue(int device, int priority, bool blocking) {
  const std::uint64_t number = ++queues_opened_[index(device)];
  Ref<Queue> queue =
      Queue::open(device, number, priority, blocking ? Queue::Kind::blocking : Queue::Kind::non_blocking);
  const Quiet quiet;
  const std::lock_guard lock(mutex_);
  queues_[index(device)].push_back(queue);
  return queue;
}

void Machine::close_queue(const Ref<Queue>& queue) {
  queue->close();
  const Quiet quiet;
  const std::lock_guard lock(mutex_);
  std::erase(queues_[index(queue->device())], queue);
}

std::vector<Ref<Queue>> Machine::queues(int device) const {
  const Quiet quiet;
  const std::lock_guard lock(mutex_);
  std::vector<Ref<Queue>> all = queues_[index(device)];
  if (default_queues_[index(device)]) all.push_back(default_queues_[index(device)]);
  return all;
}

Ref<Queue> Machine::default_queue(int device) {
  {
    const Quiet quiet;
    const std::lock_guard lock(mutex_);
    if (default_queues_[index(device)]) return default_queues_[index(device)];
  }
  Ref<Queue> queue = Queue::open(device, 0, 0, Queue::Kind::default_stream);
  const Quiet quiet;
  const std::lock_guard lock(mutex_);
  if (!default_queues_[index(device)]) default_queues_[index(device)] = queue;
  return default_queues_[index(device)];
}

bool Machine::enable_peer_access(int device, int peer, bool on) {
  const Quiet quiet;
  const std::lock_guard lock(mutex_);
  bool& enabled = peer_access_[index(device)][index(peer)];
  if (enabled == on) return false;
  enabled = on;
  return true;
}

bool Machine::can_reach(int device, int memory_of) const {
  const Quiet quiet;
  const std::lock_guard lock(mutex_);
  return device == memory_of || peer_access_[index(device)][index(memory_of)];
}

int current_device() {
  return this_threads_device;
}
void set_worker_device(int device) {
  this_threads_device = device;
}

Ref<Queue> queue_of(cudaStream_t stream) {
  return stream == nullptr ? machine().default_queue(current_device()) : stream->queue;
}

std::uint64_t submit_in_order(const Ref<Queue>& queue, Operation* operation) {
  if (!queue->blocking() && !queue->is_default()) return queue->submit(operation);
  const auto follow = [&](const Ref<Queue>& other) {
    const std::uint64_t number = other->submitted();
    if (number != 0) submit_function(*queue, [other, number] { other->wait(number); });
  };
  for (const Ref<Queue>& other : machine().queues(queue->device())) {
    if (queue->is_default() ? other->blocking() : other->is_default()) follow(other);
  }
  return queue->submit(operation);
}

// ---- control.h ----

void set_device_count(int count) {
  machine().set_device_count(count);
}
void set_memory_bytes(int device, std::size_t bytes) {
  machine().heap(device).set_capacity(bytes);
}
void set_compute_capability(int device, int major, int minor) {
  machine().set_compute_capability(device, major, minor);
}
void set_peer_access_possible(bool possible) {
  machine().set_peer_access_possible(possible);
}
void set_lag(Lagging which, std::chrono::milliseconds lag) {
  machine().set_lag(which, lag);
}
void set_delays(std::uint64_t seed) {
  machine().delays().set_seed(seed);
}
void set_race_check(bool on) {
  machine().set_race_check(on);
}
void fail_next_collective(int device, int nccl_result, Shows shows) {
  machine().set_nccl_error(device, nccl_result, shows);
}
std::size_t allocated_bytes(int device) {
  return machine().heap(device).used();
}
std::size_t live_allocations() {
  std::size_t count = 0;
  for (int device = 0; device < max_devices; ++device) count += machine().heap(device).live_allocations();
  return count;
}

}  // namespace cuda_emulation
