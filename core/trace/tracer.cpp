#include "core/trace/tracer.h"

#include <utility>

#include "core/base/clock.h"
#include "core/trace/gate.h"
#include "core/trace/lane.h"
#include "core/trace/recorder.h"

namespace zero1::trace {

namespace {

StreamId stream_id(StreamKind kind) {
  return kind == StreamKind::compute ? StreamId::compute : StreamId::communication;
}

/// Asks the gate and tells when it let the event go: `reached_ns` where it did not hold.
std::int64_t pass(Gate* gate, const Event& event, std::int64_t reached_ns) {
  if (gate == nullptr || gate->open()) return reached_ns;
  gate->arrive(event);
  return now_ns();
}

}  // namespace

Tracer::Tracer(int rank, Recorder* recorder, Gate* gate) : rank_(rank), recorder_(recorder), gate_(gate) {
  if (recorder == nullptr) return;
  start_ns_ = recorder->start_ns();
  for (const StreamId stream : {StreamId::compute, StreamId::communication, StreamId::host}) {
    lanes_[static_cast<std::size_t>(stream)] = &recorder->lane(rank, stream);
  }
}

void Tracer::complete(Event& event) const {
  event.rank = static_cast<std::int16_t>(rank_);
  if (event.step < 0) event.step = step_;
  if (event.microbatch < 0) event.microbatch = microbatch_;
}

void Tracer::emit_instant(Event event) {
  complete(event);
  const std::int64_t at_ns = pass(gate_, event, now_ns());
  if (recorder_ == nullptr) return;
  event.begin_ns = event.end_ns = at_ns - start_ns_;
  lanes_[static_cast<std::size_t>(event.stream)]->push(event);
}

void Tracer::record_measured(Event event, std::int64_t begin_ns, std::int64_t end_ns) {
  complete(event);
  event.stream = StreamId::host;
  event.begin_ns = begin_ns - start_ns_;
  event.end_ns = end_ns - start_ns_;
  lanes_[static_cast<std::size_t>(StreamId::host)]->push(event);
}

Tracer::Span::Span(Span&& other) noexcept
    : stream_(std::exchange(other.stream_, nullptr)), pending_(std::exchange(other.pending_, nullptr)) {}

Tracer::Span& Tracer::Span::operator=(Span&& other) noexcept {
  if (this == &other) return *this;
  end();
  stream_ = std::exchange(other.stream_, nullptr);
  pending_ = std::exchange(other.pending_, nullptr);
  return *this;
}

void Tracer::Span::begin(Tracer& tracer, Stream& stream, const Event& given) {
  const StreamId id = stream_id(stream.kind());
  if (tracer.recorder_ == nullptr) {  // a gate alone has nothing to remember until the end
    Event event = given;
    tracer.complete(event);
    event.stream = id;
    stream.stamp([gate = tracer.gate_, event](std::int64_t) { gate->arrive(event); });
    return;
  }
  Lane* lane = tracer.lanes_[static_cast<std::size_t>(id)];
  PendingSpan* pending = lane->pending().acquire();
  pending->event = given;
  tracer.complete(pending->event);
  pending->event.stream = id;
  pending->gate = tracer.gate_;
  pending->lane = lane;
  pending->start_ns = tracer.start_ns_;
  stream_ = &stream;
  pending_ = pending;
  stream.stamp([pending](std::int64_t reached_ns) {
    pending->event.begin_ns = pass(pending->gate, pending->event, reached_ns) - pending->start_ns;
  });
}

void Tracer::Span::queue_end() {
  PendingSpan* pending = std::exchange(pending_, nullptr);
  std::exchange(stream_, nullptr)->stamp([pending](std::int64_t reached_ns) {
    pending->event.end_ns = reached_ns - pending->start_ns;
    pending->lane->push(pending->event);
    pending->release();
  });
}

}  // namespace zero1::trace
