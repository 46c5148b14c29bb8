#include "viz/model/event_words.h"

#include <fmt/core.h>

#include "core/base/units.h"
#include "core/device/device.h"

namespace zero1::viz {

namespace {

using trace::Kind;

std::string name_at(const std::vector<std::string>& names, int index, const char* kind) {
  if (index >= 0 && static_cast<std::size_t>(index) < names.size())
    return names[static_cast<std::size_t>(index)];
  return fmt::format("{} {}", kind, index);
}

std::string of_bucket(int bucket) {
  return bucket < 0 ? std::string() : fmt::format(" of bucket {}", bucket);
}

std::string collective_of_bucket(const trace::Event& event) {
  return std::string(name(static_cast<trace::Collective>(event.detail))) + of_bucket(event.bucket);
}

std::string memory_kind(std::uint8_t detail) {
  if (detail >= memory_kind_count) return "memory";
  return fmt::format("memory of {}", name(static_cast<MemoryKind>(detail)));
}

/// Of the kinds that need no names of the run.
std::string phase(Kind kind) {
  switch (kind) {
    case Kind::scale_gradients: return "scaling of the gradients";
    case Kind::check_gradients: return "check of the gradients";
    case Kind::copy_grads: return "copy to main gradients";
    case Kind::grad_norm: return "gradient norm";
    case Kind::clip: return "clipping";
    case Kind::adamw: return "AdamW";
    case Kind::copy_params: return "copy to model parameters";
    case Kind::zero_grads: return "zeroing of the gradients";
    case Kind::data: return "reading data";
    case Kind::checkpoint_snapshot: return "snapshot for a checkpoint";
    case Kind::checkpoint_write: return "writing of a checkpoint";
    case Kind::checkpoint_publish: return "publishing of a checkpoint";
    case Kind::checkpoint_load: return "loading of a checkpoint";
    default: break;
  }
  const std::string_view known = name(kind);
  return known == "unknown" ? fmt::format("kind {}", static_cast<int>(kind)) : std::string(known);
}

/// Of a kind alone, whatever its detail.
std::string any(Kind kind) {
  switch (kind) {
    case Kind::collective_issue: return "issue of a collective";
    case Kind::collective_run: return "collective";
    case Kind::collective_wait: return "wait for a collective";
    case Kind::bucket_state: return "change of state";
    case Kind::grad_ready: return "gradient ready";
    default: return phase(kind);
  }
}

}  // namespace

std::string event_count(std::int64_t events) {
  return format_count(events) + (events == 1 ? " event" : " events");
}

std::string param_name(int param, const trace::RunInfo& info) {
  return name_at(info.params, param, "parameter");
}

std::string layer_name(int layer, const trace::RunInfo& info) {
  return name_at(info.layers, layer, "layer");
}

std::string what(const trace::Event& event, const trace::RunInfo& info) {
  switch (event.kind) {
    case Kind::forward:
    case Kind::backward: return fmt::format("{} of {}", name(event.kind), layer_name(event.layer, info));
    case Kind::grad_ready: return fmt::format("gradient of {} is ready", param_name(event.param, info));
    case Kind::bucket_state:
      return fmt::format("bucket {} is {}", event.bucket,
                         name(static_cast<trace::BucketState>(event.detail)));
    case Kind::collective_issue: return "issue of the " + collective_of_bucket(event);
    case Kind::collective_run: return collective_of_bucket(event);
    case Kind::collective_wait: return "wait for the " + collective_of_bucket(event);
    case Kind::memory: return memory_kind(event.detail);
    default: return phase(event.kind) + of_bucket(event.bucket);
  }
}

std::string what_happened(Kind kind, std::uint8_t detail) {
  const std::string_view collective = name(static_cast<trace::Collective>(detail));
  switch (kind) {
    case Kind::collective_issue: return fmt::format("{} issued", collective);
    case Kind::collective_run: return std::string(collective);
    case Kind::collective_wait: return fmt::format("wait for {}", collective);
    case Kind::bucket_state: return fmt::format("bucket {}", name(static_cast<trace::BucketState>(detail)));
    case Kind::memory: return memory_kind(detail);
    default: return any(kind);
  }
}

std::string when(const trace::Event& event) {
  if (event.step < 0) return {};
  if (event.microbatch < 0) return fmt::format("step {}", event.step);
  return fmt::format("step {}, microbatch {}", event.step, event.microbatch);
}

std::string describe(const trace::Breakpoint& at, const trace::RunInfo& info) {
  std::string text;
  const auto add = [&](const std::string& part) {
    if (!text.empty()) text += " · ";
    text += part;
  };
  if (at.kind) {
    trace::Event event;
    event.kind = *at.kind;
    event.bucket = at.bucket.value_or(-1);
    if (at.param) event.param = *at.param;
    if (at.layer) event.layer = static_cast<std::int16_t>(*at.layer);
    const bool has_detail = event.kind == Kind::bucket_state || event.kind == Kind::memory ||
                            event.kind == Kind::collective_issue || event.kind == Kind::collective_run ||
                            event.kind == Kind::collective_wait;
    const bool has_layer = event.kind == Kind::forward || event.kind == Kind::backward;
    const bool unnamed = (has_detail && !at.detail) || (has_layer && !at.layer) ||
                         (event.kind == Kind::grad_ready && !at.param) ||
                         (event.kind == Kind::bucket_state && !at.bucket);
    if (at.detail) event.detail = static_cast<std::uint8_t>(*at.detail);
    add("before " + (unnamed ? any(event.kind) + of_bucket(event.bucket) : what(event, info)));
    if (at.param && event.kind != Kind::grad_ready) add(param_name(*at.param, info));
    if (at.layer && !has_layer) add(layer_name(*at.layer, info));
  } else {
    add("before every event");
    if (at.bucket) add(fmt::format("bucket {}", *at.bucket));
    if (at.param) add(param_name(*at.param, info));
    if (at.layer) add(layer_name(*at.layer, info));
  }
  if (at.rank) add(fmt::format("rank {}", *at.rank));
  if (at.step) add(fmt::format("step {}", *at.step));
  if (at.from_step) add(fmt::format("from step {} on", *at.from_step));
  return text;
}

std::string ranks_in_words(const std::vector<int>& ranks) {
  if (ranks.size() == 1) return fmt::format("rank {}", ranks[0]);
  std::string text = "ranks ";
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (i > 0) text += i + 1 == ranks.size() ? " and " : ", ";
    text += fmt::format("{}", ranks[i]);
  }
  return text;
}

}  // namespace zero1::viz
