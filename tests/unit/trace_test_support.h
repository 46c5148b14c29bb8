// What the trace's tests share: streams without a device, events at given times.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/device/stream.h"
#include "core/trace/event.h"
#include "tests/support/temporary_folder.h"

namespace zero1::trace::test {

/// Calls stamps at once (like the CPU's compute stream), or keeps them until `run` (like a queue).
class FakeStream : public Stream {
 public:
  explicit FakeStream(StreamKind kind, bool inlined = true) : kind_(kind), inlined_(inlined) {}
  StreamKind kind() const override { return kind_; }
  void record(zero1::Event&) override {}
  void wait(zero1::Event&) override {}
  void synchronize() override { run(); }
  void stamp(std::function<void(std::int64_t)> reached) override {
    if (inlined_)
      reached(now_ns());
    else
      queue_.push_back(std::move(reached));
  }
  void run() {
    for (auto& reached : queue_) reached(now_ns());
    queue_.clear();
  }
  std::size_t queued() const { return queue_.size(); }

 private:
  StreamKind kind_;
  bool inlined_;
  std::vector<std::function<void(std::int64_t)>> queue_;
};

using zero1::read_file;
using zero1::write_file;
using zero1::test::TemporaryFolder;

inline Event make_event(Kind kind, std::int64_t begin_ns, std::int64_t end_ns, int rank = 0,
                        StreamId stream = StreamId::compute) {
  Event event;
  event.kind = kind;
  event.begin_ns = begin_ns;
  event.end_ns = end_ns;
  event.rank = static_cast<std::int16_t>(rank);
  event.stream = stream;
  return event;
}

}  // namespace zero1::trace::test
