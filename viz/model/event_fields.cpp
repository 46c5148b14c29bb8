#include "viz/model/event_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/base/units.h"
#include "viz/model/event_index.h"
#include "viz/model/event_words.h"

namespace zero1::viz {

namespace {

using trace::Kind;
using trace::RunInfo;

std::string flags_text(std::uint16_t flags) {
  std::string text;
  const auto add = [&](std::uint16_t flag, const char* words) {
    if ((flags & flag) != 0) text += (text.empty() ? "" : ", ") + std::string(words);
  };
  add(trace::modelled_link, "duration includes a modelled link");
  add(trace::first_iteration, "first iteration: ready counts are being learnt");
  add(trace::coalesced, "launched together with other buckets");
  add(trace::last_microbatch, "last microbatch");
  add(trace::predicted, "predicted by a simulation, not measured");
  const auto unknown = static_cast<std::uint16_t>(flags & ~std::uint16_t{31});
  if (unknown != 0) text += fmt::format("{}flags {:#x}", text.empty() ? "" : ", ", unknown);
  return text;
}

}  // namespace

std::vector<std::pair<std::string, std::string>> event_fields(const trace::Event& event,
                                                              const RunInfo& info) {
  std::vector<std::pair<std::string, std::string>> fields;
  const auto add = [&](const char* name, std::string value) { fields.emplace_back(name, std::move(value)); };
  if (event.end_ns > event.begin_ns) {
    add("duration", format_duration_ns(duration_ns(event)));
    add("from", fmt::format("{:.6f} ms", static_cast<double>(event.begin_ns) / 1e6));
    add("to", fmt::format("{:.6f} ms", static_cast<double>(event.end_ns) / 1e6));
  } else {
    add("at", fmt::format("{:.6f} ms", static_cast<double>(event.begin_ns) / 1e6));
  }
  const bool exposed = event.kind == Kind::collective_wait && event.stream == trace::StreamId::compute;
  if (exposed) add("exposed", "the compute stream stood still for it");
  add("rank", fmt::format("{}", event.rank));
  add("stream", std::string(trace::name(event.stream)));
  if (event.step >= 0) add("step", fmt::format("{}", event.step));
  if (event.microbatch >= 0) add("microbatch", fmt::format("{}", event.microbatch));
  if (event.layer >= 0) add("layer", layer_name(event.layer, info));
  if (event.param >= 0) add("parameter", param_name(event.param, info));
  if (event.bucket >= 0) {
    const auto bucket = static_cast<std::size_t>(event.bucket);
    add("bucket", bucket < info.buckets.size()
                      ? fmt::format("{} of buffer {}, {}", event.bucket, info.buckets[bucket].buffer,
                                    format_bytes(info.buckets[bucket].bytes))
                      : fmt::format("{}", event.bucket));
  }
  if (event.elem_end > event.elem_start) {
    add("elements",
        fmt::format("[{}, {}) of the {}", format_count(event.elem_start), format_count(event.elem_end),
                    is_collective(event.kind) ? "bucket" : "buffer"));
  }
  if (event.bytes > 0) {
    add(event.kind == Kind::memory ? "allocated" : "contributes", format_bytes(event.bytes));
    const double per_second =
        static_cast<double>(event.bytes) * 1e9 / static_cast<double>(duration_ns(event));
    if (event.kind == Kind::collective_run && event.end_ns > event.begin_ns && per_second < 1e18)
      add("rate", format_bytes(static_cast<std::int64_t>(per_second)) + "/s");
  }
  if (event.flags != 0) add("note", flags_text(event.flags));
  return fields;
}

std::string time_label(double at_ns, double step_ns) {
  const auto with = [&](double unit_ns, const char* unit) {
    const int digits = std::clamp(static_cast<int>(std::ceil(std::log10(unit_ns / step_ns) - 1e-9)), 0, 9);
    return fmt::format("{:.{}f} {}", at_ns / unit_ns, digits, unit);
  };
  if (std::abs(at_ns) >= 1e9 || step_ns >= 1e9) return with(1e9, "s");
  if (std::abs(at_ns) >= 1e6 || step_ns >= 1e6) return with(1e6, "ms");
  return with(1e3, "µs");
}

}  // namespace zero1::viz
