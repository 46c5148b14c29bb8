// What a bucket group's collectives leave in the trace.
#pragma once

#include <span>
#include <vector>

#include "core/zero1/context.h"
#include "core/zero1/param_and_grad_buffer.h"

namespace zero1 {

/// Emits the events of collectives that carry several buckets in one launch: one event per bucket, in the
/// group's order. Costs a branch when nothing is traced.
class CollectiveTrace {
 public:
  /// What is referred to must outlive this. `modelled`: the communicator's times are.
  CollectiveTrace(RankContext& context, std::span<const BucketRef> buckets, bool modelled)
      : context_(context), buckets_(buckets), modelled_(modelled) {}

  /// One span per bucket on one stream; they end in reverse order.
  class Spans {
   public:
    Spans() = default;
    Spans(Spans&&) = default;
    Spans& operator=(Spans&&) = delete;
    ~Spans() { end(); }
    void end() {
      while (!spans_.empty()) spans_.pop_back();
    }

   private:
    friend class CollectiveTrace;
    std::vector<trace::Tracer::Span> spans_;
  };

  /// An instant: every bucket of the group has changed its state.
  void state(trace::BucketState to) const;

  /// The collective is being issued (instants), and runs on the communication stream until the spans end.
  /// `first_iteration`: ready counts are still being learnt.
  [[nodiscard]] Spans issue(trace::Collective what, bool first_iteration) const;

  /// The compute stream waits for the collective until the spans end.
  [[nodiscard]] Spans wait(trace::Collective what, bool first_iteration) const;

 private:
  trace::Event event_of(trace::Kind kind, trace::Collective what, const BucketRef& bucket,
                        bool first_iteration) const;

  RankContext& context_;
  std::span<const BucketRef> buckets_;
  bool modelled_;
};

}  // namespace zero1
