#include "runtime/queue.h"

#include "runtime/machine.h"

namespace cuda_emulation {

Ref<Queue> Queue::open(int device, std::uint64_t number, int priority, Kind kind) {
  Ref<Queue> queue = Ref<Queue>::make(device, number, priority, kind);
  std::thread([queue] { queue->work(); }).detach();
  return queue;
}

void Queue::close() {
  const Quiet quiet;
  const std::lock_guard lock(mutex_);
  closed_ = true;
  demanded_ = submitted_;
  changed_.notify_all();
}

std::uint64_t Queue::submit(Operation* operation) {
  released(operation);
  const Quiet quiet;
  const std::lock_guard lock(mutex_);
  entries_.push_back({operation, Clock::now()});
  changed_.notify_all();
  return ++submitted_;
}

std::uint64_t Queue::submitted() const {
  const Quiet quiet;
  const std::lock_guard lock(mutex_);
  return submitted_;
}

bool Queue::finished(std::uint64_t number) {
  if (!machine().delays().on()) demand(number);
  bool is_finished = false;
  {
    const Quiet quiet;
    const std::lock_guard lock(mutex_);
    is_finished = finished_ >= number;
  }
  if (is_finished) acquired(&work_done_);
  return is_finished;
}

void Queue::demand(std::uint64_t number) {
  const Quiet quiet;
  const std::lock_guard lock(mutex_);
  if (number <= demanded_) return;
  demanded_ = number;
  changed_.notify_all();
}

void Queue::wait(std::uint64_t number) {
  wait_quietly(number);
  acquired(&work_done_);
}

void Queue::wait_quietly(std::uint64_t number) {
  demand(number);
  const Quiet quiet;
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return finished_ >= number; });
}

void Queue::work() {
  set_worker_device(device_);
  while (Operation* operation = next()) {
    acquired(operation);
    operation->run();
    done(operation);
  }
}

Operation* Queue::next() {
  const Quiet quiet;
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return closed_ || !entries_.empty(); });
  if (entries_.empty()) return nullptr;
  const Entry entry = entries_.front();
  if (lags()) {
    const std::uint64_t number = finished_ + 1;
    changed_.wait_until(lock, entry.submitted + machine().lag(), [&] { return demanded_ >= number; });
  }
  entries_.pop_front();
  const std::uint64_t number = finished_ + 1;
  lock.unlock();
  const std::uint64_t stream = static_cast<std::uint64_t>(device_) << 32 | number_;
  if (const unsigned turns = machine().delays().turns(stream, number)) {
    machine().delays().hold(turns, demanded_, number);
  }
  return entry.operation;
}

void Queue::done(Operation* operation) {
  released(&work_done_);
  const Quiet quiet;
  delete operation;
  const std::lock_guard lock(mutex_);
  ++finished_;
  changed_.notify_all();
  machine().delays().operation_ended();
}

bool Queue::lags() const {
  switch (machine().lagging()) {
    case Lagging::none: return false;
    case Lagging::compute: return priority_ >= 0;
    case Lagging::communication: return priority_ < 0;
    case Lagging::all: return true;
  }
  return false;
}

}  // namespace cuda_emulation
