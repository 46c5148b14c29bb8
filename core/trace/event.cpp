#include "core/trace/event.h"

#include <fmt/core.h>

namespace zero1::trace {

std::string_view name(Kind kind) {
  switch (kind) {
    case Kind::none: return "none";
    case Kind::step: return "step";
    case Kind::microbatch: return "microbatch";
    case Kind::forward: return "forward";
    case Kind::backward: return "backward";
    case Kind::evaluation: return "evaluation";
    case Kind::data: return "data";
    case Kind::grad_ready: return "grad_ready";
    case Kind::bucket_state: return "bucket_state";
    case Kind::collective_issue: return "collective_issue";
    case Kind::collective_run: return "collective_run";
    case Kind::collective_wait: return "collective_wait";
    case Kind::scale_gradients: return "scale_gradients";
    case Kind::check_gradients: return "check_gradients";
    case Kind::copy_grads: return "copy_grads";
    case Kind::grad_norm: return "grad_norm";
    case Kind::clip: return "clip";
    case Kind::adamw: return "adamw";
    case Kind::copy_params: return "copy_params";
    case Kind::zero_grads: return "zero_grads";
    case Kind::checkpoint_snapshot: return "checkpoint_snapshot";
    case Kind::checkpoint_write: return "checkpoint_write";
    case Kind::checkpoint_publish: return "checkpoint_publish";
    case Kind::checkpoint_load: return "checkpoint_load";
    case Kind::memory: return "memory";
  }
  return "unknown";
}

std::string_view name(Collective collective) {
  switch (collective) {
    case Collective::reduce_scatter: return "reduce-scatter";
    case Collective::all_gather: return "all-gather";
    case Collective::all_reduce: return "all-reduce";
    case Collective::broadcast: return "broadcast";
    case Collective::all_to_all: return "all-to-all";
    case Collective::barrier: return "barrier";
  }
  return "unknown";
}

std::string_view name(BucketState state) {
  switch (state) {
    case BucketState::accumulating: return "accumulating";
    case BucketState::ready: return "ready";
    case BucketState::reducing: return "reducing";
    case BucketState::reduced: return "reduced";
    case BucketState::stepped: return "stepped";
    case BucketState::gathering: return "gathering";
    case BucketState::current: return "current";
  }
  return "unknown";
}

std::string_view name(StreamId stream) {
  switch (stream) {
    case StreamId::compute: return "compute";
    case StreamId::communication: return "communication";
    case StreamId::host: return "host";
  }
  return "unknown";
}

std::string title(const Event& event, std::string_view layer, std::string_view param) {
  if (!layer.empty()) return fmt::format("{} {}", name(event.kind), layer);
  switch (event.kind) {
    case Kind::collective_issue:
    case Kind::collective_run:
    case Kind::collective_wait: {
      const std::string_view verb = event.kind == Kind::collective_issue  ? "issue "
                                    : event.kind == Kind::collective_wait ? "wait for "
                                                                          : "";
      const std::string text = fmt::format("{}{}", verb, name(static_cast<Collective>(event.detail)));
      return event.bucket < 0 ? text : fmt::format("{} bucket {}", text, event.bucket);
    }
    case Kind::step: return fmt::format("step {}", event.step);
    case Kind::microbatch: return fmt::format("microbatch {}", event.microbatch);
    case Kind::bucket_state:
      return fmt::format("bucket {} {}", event.bucket, name(static_cast<BucketState>(event.detail)));
    default: break;
  }
  if (!param.empty()) return fmt::format("{} {}", name(event.kind), param);
  return std::string(name(event.kind));
}

}  // namespace zero1::trace
