#include "core/trace/chrome_writer.h"

#include <iterator>
#include <nlohmann/json.hpp>

#include "core/device/device.h"

namespace zero1::trace {

namespace {

constexpr std::size_t buffer_bytes = 1 << 20;

// Perfetto takes process and thread 0 for the idle task, so numbers start at 1, and no two threads share one.
constexpr int tracks_per_stream = 100;
int process_of(int rank) {
  return rank + 1;
}
int thread_of(int rank, StreamId stream, int track) {
  return (rank * 3 + static_cast<int>(stream)) * tracks_per_stream + std::min(track, tracks_per_stream - 1) +
         1;
}

std::string json_string(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

/// The category, by which viewers filter and colour.
std::string_view category(const Event& event) {
  switch (event.kind) {
    case Kind::step:
    case Kind::microbatch:
    case Kind::evaluation:
    case Kind::data: return "loop";
    case Kind::forward: return "forward";
    case Kind::backward: return "backward";
    case Kind::grad_ready:
    case Kind::bucket_state: return "bucket";
    case Kind::collective_issue:
    case Kind::collective_run: return "communication";
    case Kind::collective_wait: return "exposed";
    case Kind::checkpoint_snapshot:
    case Kind::checkpoint_write:
    case Kind::checkpoint_publish:
    case Kind::checkpoint_load: return "checkpoint";
    default: return "optimizer";
  }
}

/// What a number names; null: nothing.
template <class T>
const T* at_or_null(const std::vector<T>& values, std::int64_t index) {
  return index >= 0 && index < static_cast<std::int64_t>(values.size())
             ? &values[static_cast<std::size_t>(index)]
             : nullptr;
}

std::string flag_names(std::uint16_t flags) {
  constexpr std::pair<Flags, std::string_view> names[] = {{modelled_link, "modelled link"},
                                                          {first_iteration, "first iteration"},
                                                          {coalesced, "coalesced"},
                                                          {last_microbatch, "last microbatch"},
                                                          {predicted, "predicted"}};
  std::string text;
  for (const auto& [flag, flag_name] : names) {
    if ((flags & flag) == 0) continue;
    if (!text.empty()) text += ", ";
    text += flag_name;
  }
  return text;
}

std::vector<std::string> json_strings(const std::vector<std::string>& texts) {
  std::vector<std::string> result;
  for (const std::string& text : texts) result.push_back(json_string(text));
  return result;
}

}  // namespace

bool is_slice(const Event& event) {
  if (event.kind == Kind::memory || event.kind == Kind::bucket_state) return false;
  return event.end_ns > event.begin_ns || event.kind == Kind::grad_ready || is_collective(event.kind);
}

ChromeWriter::ChromeWriter(const Reader& reader, const Selection& selection, const std::string& path)
    : info_(reader.info()),
      selection_(selection),
      params_(json_strings(info_.params)),
      layers_(json_strings(info_.layers)) {
  if (!path.empty()) file_.emplace(path);
  print(
      "{{\"displayTimeUnit\":\"ns\",\"otherData\":{{\"program\":\"ZeRO-1 "
      "Lab\",\"ranks\":{},\"dropped_events\":{},"
      "\"truncated\":{},\"clock_uncertainty_ns\":{},\"selected\":{},\"config\":{}}},\n\"traceEvents\":[",
      info_.ranks, reader.dropped(), reader.truncated(), info_.clock_uncertainty_ns,
      json_string(describe(selection)), info_.config_json);
}

void ChromeWriter::event(const Event& event, int track) {
  if (event.kind == Kind::memory) return counter(event);
  begin_record();
  if (is_slice(event)) {
    common("X", event, track);
    time("ts", event.begin_ns);
    time("dur", event.end_ns - event.begin_ns);
  } else {
    common("i", event, track);
    time("ts", event.begin_ns);
    print(",\"s\":\"t\"");
  }
  name_and_args(event);
  print("}}");
  flush_if_full();
}

void ChromeWriter::flow(const Event& event, int track, const FlowPoint& point) {
  constexpr std::string_view phases[] = {"s", "t", "f"};
  begin_record();
  common(phases[static_cast<std::size_t>(point.phase)], event, track);
  time("ts", point.at_ns);
  print(",\"id\":{},\"cat\":\"flow\",\"name\":\"{}\"", point.id,
        point.readiness ? "gradient ready" : "collective");
  // Without bp "e" an arrow's end goes to the next slice, not to the one around it.
  if (point.phase == FlowPhase::end) print(",\"bp\":\"e\"");
  print("}}");
  flush_if_full();
}

std::int64_t ChromeWriter::finish() {
  name_tracks();
  print("\n]}}\n");
  flush();
  if (file_) file_->publish();
  return written_bytes_;
}

void ChromeWriter::begin_record() {
  print("{}", first_record_ ? "\n{" : ",\n{");
  first_record_ = false;
}

void ChromeWriter::common(std::string_view phase, const Event& event, int track) {
  tracks_.insert({event.rank, event.stream, track});
  print("\"ph\":\"{}\",\"pid\":{},\"tid\":{}", phase, process_of(event.rank),
        thread_of(event.rank, event.stream, track));
}

/// Microseconds, exact to the nanosecond.
void ChromeWriter::time(std::string_view key, std::int64_t ns) {
  const std::uint64_t size = ns < 0 ? 0 - static_cast<std::uint64_t>(ns) : static_cast<std::uint64_t>(ns);
  print(",\"{}\":{}{}.{:03}", key, ns < 0 ? "-" : "", size / 1000, size % 1000);
}

/// What is written on the slice: names as JSON strings without their quotes, as others are open here.
void ChromeWriter::title(const Event& event) {
  const auto text = [](const std::string* json) {
    return json == nullptr ? std::string_view() : std::string_view(*json).substr(1, json->size() - 2);
  };
  print("{}",
        trace::title(event, text(at_or_null(layers_, event.layer)), text(at_or_null(params_, event.param))));
}

void ChromeWriter::name_and_args(const Event& event) {
  print(",\"cat\":\"{}\",\"name\":\"", category(event));
  title(event);
  print("\",\"args\":{{");
  first_arg_ = true;
  quoted_arg("kind", fmt::format("\"{}\"", name(event.kind)));
  if (event.step >= 0) arg("step", event.step);
  if (event.microbatch >= 0) arg("microbatch", event.microbatch);
  if (event.layer >= 0) arg("layer", event.layer);
  if (event.bucket >= 0) arg("bucket", event.bucket);
  if (const RunInfo::Bucket* bucket = at_or_null(info_.buckets, event.bucket)) arg("buffer", bucket->buffer);
  if (const std::string* param = at_or_null(params_, event.param))
    quoted_arg("param", *param);
  else if (event.param >= 0)
    arg("param", event.param);
  if (event.elem_end > event.elem_start) {
    quoted_arg("elements", fmt::format("\"[{}, {})\"", event.elem_start, event.elem_end));
  }
  if (event.bytes != 0) arg("bytes", event.bytes);
  if (is_collective(event.kind))
    quoted_arg("collective", fmt::format("\"{}\"", name(static_cast<Collective>(event.detail))));
  if (event.flags != 0) quoted_arg("flags", fmt::format("\"{}\"", flag_names(event.flags)));
  print("}}");
}

void ChromeWriter::arg(std::string_view key, std::int64_t value) {
  print("{}\"{}\":{}", first_arg_ ? "" : ",", key, value);
  first_arg_ = false;
}

void ChromeWriter::quoted_arg(std::string_view key, std::string_view json) {
  print("{}\"{}\":{}", first_arg_ ? "" : ",", key, json);
  first_arg_ = false;
}

/// One counter track per rank and kind of memory.
void ChromeWriter::counter(const Event& event) {
  const std::string_view kind =
      event.detail < memory_kind_count ? zero1::name(static_cast<MemoryKind>(event.detail)) : "unknown";
  begin_record();
  print("\"ph\":\"C\",\"pid\":{},\"name\":\"memory: {}\"", process_of(event.rank), kind);
  time("ts", event.begin_ns);
  print(",\"args\":{{\"bytes\":{}}}}}", event.bytes);
  flush_if_full();
}

void ChromeWriter::name_tracks() {
  for (int rank = 0; rank < info_.ranks; ++rank) {
    if (!selection_.has_rank(rank)) continue;
    metadata("process_name", rank, 0, fmt::format("\"name\":\"rank {}\"", rank));
    metadata("process_sort_index", rank, 0, fmt::format("\"sort_index\":{}", rank));
  }
  for (const auto& [rank, stream, track] : tracks_) {
    const int tid = thread_of(rank, stream, track);
    const std::string number = track == 0 ? "" : fmt::format(" {}", track + 1);
    metadata("thread_name", rank, tid, fmt::format("\"name\":\"{}{}\"", name(stream), number));
    metadata("thread_sort_index", rank, tid, fmt::format("\"sort_index\":{}", tid));
  }
}

void ChromeWriter::metadata(std::string_view what, int rank, int tid, std::string_view arg) {
  begin_record();
  print("\"ph\":\"M\",\"pid\":{},\"name\":\"{}\"", process_of(rank), what);
  if (tid != 0) print(",\"tid\":{}", tid);
  print(",\"args\":{{{}}}}}", arg);
}

void ChromeWriter::flush_if_full() {
  if (buffer_.size() >= buffer_bytes) flush();
}

void ChromeWriter::flush() {
  if (file_) file_->append({buffer_.data(), buffer_.size()});
  written_bytes_ += static_cast<std::int64_t>(buffer_.size());
  buffer_.clear();
}

}  // namespace zero1::trace
