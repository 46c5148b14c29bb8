#include "core/trace/tracer.h"

#include <string>
#include <utility>
#include <vector>

#include "core/base/clock.h"
#include "core/trace/gate.h"
#include "core/trace/lane.h"
#include "core/trace/probe.h"
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

Tracer::Tracer(int rank, Recorder* recorder, Gate* gate, Probe* probe)
    : rank_(rank), recorder_(recorder), gate_(gate), probe_(probe) {
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
  if (gate_ != nullptr) gate_->check_stopped();
  if (recorder_ == nullptr) return;
  event.begin_ns = event.end_ns = at_ns - start_ns_;
  if (probe_ != nullptr) probe_->passed(event, Probe::At::instant);
  lanes_[static_cast<std::size_t>(event.stream)]->push(event);
}

std::string Tracer::title_of(const Event& event) const {
  const auto name_at = [](const std::vector<std::string>& names, std::int32_t index) {
    return index < 0 || static_cast<std::size_t>(index) >= names.size()
               ? std::string_view()
               : std::string_view(names[static_cast<std::size_t>(index)]);
  };
  const RunInfo& info = recorder_->info();
  return title(event, name_at(info.layers, event.layer), name_at(info.params, event.param));
}

void Tracer::record_measured(Event event, std::int64_t begin_ns, std::int64_t end_ns) {
  complete(event);
  event.stream = StreamId::host;
  event.begin_ns = begin_ns - start_ns_;
  event.end_ns = end_ns - start_ns_;
  lanes_[static_cast<std::size_t>(StreamId::host)]->push(event);
}

Tracer::Span::Span(Span&& other) noexcept
    : stream_(std::exchange(other.stream_, nullptr)),
      in_profiler_(other.in_profiler_),
      pending_(std::exchange(other.pending_, nullptr)) {}

Tracer::Span& Tracer::Span::operator=(Span&& other) noexcept {
  if (this == &other) return *this;
  end();
  stream_ = std::exchange(other.stream_, nullptr);
  in_profiler_ = other.in_profiler_;
  pending_ = std::exchange(other.pending_, nullptr);
  return *this;
}

void Tracer::Span::begin(Tracer& tracer, Stream& stream, const Event& given) {
  if (tracer.gate_ != nullptr) tracer.gate_->check_stopped();
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
  pending->probe = tracer.probe_;
  pending->lane = lane;
  pending->start_ns = tracer.start_ns_;
  stream_ = &stream;
  pending_ = pending;
  in_profiler_ = stream.has_profiler();
  if (in_profiler_) stream.begin_range(tracer.title_of(pending->event).c_str());
  stream.stamp([pending](std::int64_t reached_ns) {
    pending->event.begin_ns = pass(pending->gate, pending->event, reached_ns) - pending->start_ns;
    if (pending->probe != nullptr) pending->probe->passed(pending->event, Probe::At::begin);
  });
}

void Tracer::Span::queue_end() {
  PendingSpan* pending = std::exchange(pending_, nullptr);
  Stream* stream = std::exchange(stream_, nullptr);
  stream->stamp([pending](std::int64_t reached_ns) {
    pending->event.end_ns = reached_ns - pending->start_ns;
    if (pending->probe != nullptr) pending->probe->passed(pending->event, Probe::At::end);
    pending->lane->push(pending->event);
    pending->release();
  });
  if (in_profiler_) stream->end_range();
}

}  // namespace zero1::trace
