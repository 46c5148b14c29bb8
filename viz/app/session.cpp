#include "viz/app/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/layout/json.h"
#include "core/trace/reader.h"
#include "viz/model/event_index.h"
#include "viz/model/exploration.h"
#include "viz/model/history.h"

namespace zero1::viz {

namespace {

/// Whether the buckets that events are numbered by are those of the layout.
bool same_buckets(const trace::RunInfo& info, const Layout& layout) {
  if (info.params.size() != layout.specs.size()) return false;
  std::size_t bucket = 0;
  for (std::size_t b = 0; b < layout.buffers.size(); ++b) {
    for (const BucketLayout& each : layout.buffers[b].buckets) {
      if (bucket == info.buckets.size()) return false;
      const trace::RunInfo::Bucket& told = info.buckets[bucket++];
      if (told.buffer != static_cast<int>(b) || told.start != each.world.start ||
          told.end != each.world.end) {
        return false;
      }
    }
  }
  return bucket == info.buckets.size();
}

/// Sets the layout that the recording tells, or the error that says why there is none.
void read_layout(Document& document) {
  try {
    const auto json = nlohmann::json::parse(document.info.layout_json);
    if (json.is_null()) {
      document.error = "no ownership map: this recording does not tell its layout";
      return;
    }
    LayoutCase layout_case = parse_layout_case(json);
    auto layout =
        std::make_shared<const Layout>(compute_layout(std::move(layout_case.params), layout_case.options));
    if (!same_buckets(document.info, *layout)) {
      document.error = "no ownership map: the recording's layout and its buckets disagree";
      return;
    }
    document.layout = std::move(layout);
  } catch (const nlohmann::json::exception& error) {
    document.error = fmt::format("no ownership map: the recording's layout is no JSON: {}", error.what());
  } catch (const InputError& error) {
    document.error = fmt::format("no ownership map: the recording's layout: {}", error.what());
  }
}

trace::RunInfo run_info(const Layout& layout) {
  trace::RunInfo info;
  info.ranks = 1;
  for (const ParamSpec& spec : layout.specs) info.params.push_back(spec.name);
  for (std::size_t b = 0; b < layout.buffers.size(); ++b) {
    const BufferLayout& buffer = layout.buffers[b];
    info.ranks = std::max(info.ranks, buffer.dp_size);
    for (const BucketLayout& bucket : buffer.buckets) {
      info.buckets.push_back({static_cast<int>(b), bucket.world.start, bucket.world.end,
                              bucket.world.size() * size_bytes(buffer.grad_dtype)});
    }
  }
  return info;
}

}  // namespace

Document open_recording(const std::string& path) {
  trace::Reader reader(path);
  Document document;
  document.title = path;
  document.info = reader.info();
  read_layout(document);
  if (reader.truncated() && document.error.empty()) {
    document.error = "the recording was not closed: it is shown up to its last flush";
  }
  document.events = EventIndex::open(std::move(reader));
  return document;
}

Document start_run(const TrainConfig& config, LiveRunOptions options) {
  Document document;
  document.title = options.title.empty() ? "run" : options.title;
  document.live = std::make_shared<LiveRun>(config, std::move(options));
  document.info = document.live->info();
  document.layout = document.live->layout();
  document.events = std::make_shared<EventIndex>(document.info.ranks);
  return document;
}

Document explore(const std::string& path) {
  Document document;
  if (path.empty()) {
    document.title = "explore";
    document.exploration = std::make_shared<Exploration>();
  } else {
    document.title = path;
    document.exploration = std::make_shared<Exploration>(read_file(path), path);
  }
  document.layout = document.exploration->layout();
  name_parts(document);
  return document;
}

void name_parts(Document& document) {
  if (document.exploration == nullptr) return;
  document.layout = document.exploration->layout();
  document.info = run_info(*document.layout);
}

void update(Document& document) {
  if (document.exploration != nullptr && document.layout != document.exploration->layout()) {
    name_parts(document);
  }
  if (document.events == nullptr) return;
  EventIndex& events = *document.events;
  if (document.live == nullptr) events.absorb();
  take_over(document);
  if (document.live != nullptr && document.live->state() == RunState::failed) {
    document.error = document.live->failure();
  }
  if (!events.error().empty()) document.error = events.error();
}

bool moving(const Document& document) {
  if (document.live != nullptr && !document.live->over()) return true;
  return document.events != nullptr && document.events->loading();
}

}  // namespace zero1::viz
