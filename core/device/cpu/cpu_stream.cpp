#include "core/device/cpu/cpu_stream.h"

#include <stdexcept>
#include <utility>

#include "core/base/clock.h"
#include "core/base/terminal.h"

namespace zero1::cpu {

void Point::pass(std::shared_ptr<StreamError> error) {
  {
    const std::lock_guard lock(mutex_);
    error_ = std::move(error);
    passed_ = true;
  }
  passed_changed_.notify_all();
}

bool Point::passed() const {
  const std::lock_guard lock(mutex_);
  return passed_;
}

void Point::wait() const {
  std::unique_lock lock(mutex_);
  passed_changed_.wait(lock, [&] { return passed_; });
  if (!error_) return;
  error_->seen = true;
  std::rethrow_exception(error_->exception);
}

bool CpuEvent::reached() const {
  const auto current = point();
  return current == nullptr || current->passed();
}

void CpuEvent::synchronize() {
  if (const auto current = point()) current->wait();
}

void CpuEvent::set(std::shared_ptr<Point> point) {
  const std::lock_guard lock(mutex_);
  point_ = std::move(point);
}

std::shared_ptr<Point> CpuEvent::point() const {
  const std::lock_guard lock(mutex_);
  return point_;
}

void InlineStream::record(Event& event) {
  auto point = std::make_shared<Point>();
  point->pass(nullptr);
  cpu_event(event).set(std::move(point));
}

void InlineStream::wait(Event& event) {
  cpu_event(event).synchronize();
}

void InlineStream::stamp(std::function<void(std::int64_t)> reached) {
  reached(now_ns());
}

WorkerStream::WorkerStream() : StreamBase(StreamKind::communication, 1), thread_([this] { run(); }) {}

WorkerStream::~WorkerStream() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  queue_changed_.notify_one();
  thread_.join();
  if (!error_ || error_->seen) return;
  try {
    std::rethrow_exception(error_->exception);
  } catch (const std::exception& error) {
    say(stderr, "zero1: a communication stream ended with an error nobody asked for: {}\n",
        Message{error.what()});
  } catch (...) {
    say(stderr, "zero1: a communication stream ended with an unknown error nobody asked for\n");
  }
}

void WorkerStream::submit(std::function<void()> work) {
  push({std::move(work), nullptr});
}

void WorkerStream::record(Event& event) {
  auto point = std::make_shared<Point>();
  push({nullptr, point});
  cpu_event(event).set(std::move(point));
}

void WorkerStream::wait(Event& event) {
  if (auto point = cpu_event(event).point()) {
    submit([point = std::move(point)] { point->wait(); });
  }
}

void WorkerStream::synchronize() {
  auto point = std::make_shared<Point>();
  push({nullptr, point});
  point->wait();
}

void WorkerStream::stamp(std::function<void(std::int64_t)> reached) {
  submit([reached = std::move(reached)] { reached(now_ns()); });
}

void WorkerStream::push(Item item) {
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back(std::move(item));
  }
  queue_changed_.notify_one();
}

void WorkerStream::run() {
  omp_set_num_threads(1);  // what libraries start from this thread stays on it
  std::unique_lock lock(mutex_);
  while (true) {
    queue_changed_.wait(lock, [&] { return closing_ || !queue_.empty(); });
    if (queue_.empty()) return;
    Item item = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    run_item(item);
    item = {};  // captured owners go before the next wait
    lock.lock();
  }
}

void WorkerStream::run_item(Item& item) {
  if (item.point) {
    item.point->pass(error_);
  } else if (!error_) {
    try {
      item.work();
    } catch (...) {
      error_ = std::make_shared<StreamError>();
      error_->exception = std::current_exception();
    }
  }
}

StreamBase& cpu_stream(Stream& stream) {
  if (auto* ours = dynamic_cast<StreamBase*>(&stream)) return *ours;
  throw std::invalid_argument("this stream was not created by a CPU device");
}

CpuEvent& cpu_event(Event& event) {
  if (auto* ours = dynamic_cast<CpuEvent*>(&event)) return *ours;
  throw std::invalid_argument("this event was not created by a CPU device");
}

}  // namespace zero1::cpu
