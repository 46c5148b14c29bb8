// Writes events as Chrome trace event JSON, as they come.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "core/base/output_file.h"
#include "core/trace/flows.h"
#include "core/trace/reader.h"
#include "core/trace/selection.h"

namespace zero1::trace {

/// Shown as a slice, also where it took no time: spans, and the instants that arrows start at.
bool is_slice(const Event& event);

/// The document; it appears at `path` when it is finished. Without a path it is written nowhere, and only its
/// size is known.
class ChromeWriter {
 public:
  /// Throws InputError when `path` is something other than a file, Error when it cannot be written.
  ChromeWriter(const Reader& reader, const Selection& selection, const std::string& path = {});
  ChromeWriter(const ChromeWriter&) = delete;
  ChromeWriter& operator=(const ChromeWriter&) = delete;

  /// `track` numbers the tracks of a stream; the first is 0.
  void event(const Event& event, int track);
  void flow(const Event& event, int track, const FlowPoint& point);

  std::int64_t bytes() const { return written_bytes_ + static_cast<std::int64_t>(buffer_.size()); }

  /// Completes the file and gives it its name. Returns its size.
  std::int64_t finish();

 private:
  using Track = std::tuple<int, StreamId, int>;  ///< rank, stream, track

  void begin_record();
  void common(std::string_view phase, const Event& event, int track);
  void name_and_args(const Event& event);
  void arg(std::string_view key, std::int64_t value);
  void quoted_arg(std::string_view key, std::string_view json_string);
  void counter(const Event& event);
  void time(std::string_view key, std::int64_t ns);
  void title(const Event& event);
  void name_tracks();
  void metadata(std::string_view what, int rank, int tid, std::string_view arg);
  void flush_if_full();
  void flush();

  template <class... Args>
  void print(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(buffer_), format, std::forward<Args>(args)...);
  }

  std::optional<OutputFile> file_;
  const RunInfo& info_;
  const Selection& selection_;
  std::vector<std::string> params_;  ///< as JSON strings
  std::vector<std::string> layers_;
  std::set<Track> tracks_;  ///< that were written to
  fmt::memory_buffer buffer_;
  bool first_record_ = true;
  bool first_arg_ = true;
  std::int64_t written_bytes_ = 0;
};

}  // namespace zero1::trace
