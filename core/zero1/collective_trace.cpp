#include "core/zero1/collective_trace.h"

namespace zero1 {

using trace::Kind;
using trace::StreamId;

void CollectiveTrace::state(trace::BucketState to) const {
  if (!context_.tracer.enabled()) return;
  for (const BucketRef& bucket : buckets_) {
    trace::Event event;
    event.kind = Kind::bucket_state;
    event.detail = detail_of(to);
    event.bucket = bucket.global_bucket;
    event.elem_end = bucket.layout().world.size();
    context_.tracer.instant(event);
  }
}

CollectiveTrace::Spans CollectiveTrace::issue(trace::Collective what, bool first_iteration) const {
  Spans runs;
  if (!context_.tracer.enabled()) return runs;
  for (const BucketRef& bucket : buckets_) {
    trace::Event issue = event_of(Kind::collective_issue, what, bucket, first_iteration);
    issue.stream = StreamId::host;
    context_.tracer.instant(issue);
    runs.spans_.push_back(context_.tracer.span(
        context_.communication, event_of(Kind::collective_run, what, bucket, first_iteration)));
  }
  return runs;
}

CollectiveTrace::Spans CollectiveTrace::wait(trace::Collective what, bool first_iteration) const {
  Spans waits;
  if (!context_.tracer.enabled()) return waits;
  for (const BucketRef& bucket : buckets_) {
    waits.spans_.push_back(context_.tracer.span(
        context_.compute, event_of(Kind::collective_wait, what, bucket, first_iteration)));
  }
  return waits;
}

trace::Event CollectiveTrace::event_of(Kind kind, trace::Collective what, const BucketRef& bucket,
                                       bool first_iteration) const {
  const bool gathers = what == trace::Collective::all_gather;
  const BufferLayout& buffer = bucket.buffer->layout();
  trace::Event event;
  event.kind = kind;
  event.stream = kind == Kind::collective_run ? StreamId::communication : StreamId::compute;
  event.detail = detail_of(what);
  event.bucket = bucket.global_bucket;
  event.elem_end = bucket.layout().world.size();
  event.bytes = event.elem_end * size_bytes(gathers ? buffer.param_dtype : buffer.grad_dtype);
  if (gathers) event.bytes /= buffer.dp_size;  // what this rank contributes
  if (buckets_.size() > 1) event.flags |= trace::Flags::coalesced;
  if (first_iteration) event.flags |= trace::Flags::first_iteration;
  if (modelled_) event.flags |= trace::Flags::modelled_link;
  return event;
}

}  // namespace zero1
