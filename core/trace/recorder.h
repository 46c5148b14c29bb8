// Collects the events of a run without locks on the pipeline's threads.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/trace/event.h"

namespace zero1::trace {

/// What names the numbers in events; written into the file's header and kept by the reader.
struct RunInfo {
  int ranks = 1;
  std::vector<std::string> params;  ///< by parameter index
  std::vector<std::string> layers;  ///< by layer index
  struct Bucket {
    int buffer = 0;
    std::int64_t start = 0, end = 0;  ///< world range in the buffer, elements
    std::int64_t bytes = 0;           ///< of its gradients
  };
  std::vector<Bucket> buckets;       ///< by global bucket number
  std::string config_json = "{}";    ///< the run's configuration, for people
  std::string layout_json = "null";  ///< the `case` its layout is computed from (core/layout/json.h), or null
  std::int64_t clock_uncertainty_ns = 0;
};

struct RecorderOptions {
  std::string path;                    ///< trace file; empty: none
  std::int64_t ring_events = 1 << 16;  ///< of each ring, 1 GiB for all at most; what does not fit is dropped
  std::int64_t flush_interval_ms =
      200;  ///< how often the drain thread empties the rings and flushes the file
  /// Called on the drain thread or in drain() with what was drained: in order within a lane, lane after
  /// lane. Must not call drain(). What it throws counts as a failure of the recorder (see close()).
  std::function<void(std::span<const Event>)> sink;
};

class Lane;

/// Owns one single-producer ring per (rank, stream) and the thread that drains them into the file and
/// the sink. Lives longer than the threads that push. After a failed write it goes on feeding the sink and
/// counting, and close() tells.
class Recorder {
 public:
  Recorder(RunInfo info, RecorderOptions options);
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;
  ~Recorder();  ///< drains, flushes and closes; logs what fails

  /// The ring that events of this rank and stream go through (core/trace/lane.h); made at the first call.
  /// Each is pushed by one thread at a time. Throws Error on a rank that RunInfo does not have. Any thread.
  Lane& lane(int rank, StreamId stream);

  /// Empties all rings now, into the file and the sink. Any thread.
  void drain();

  /// Drains, writes the footer and closes the file. Throws Error on a failed write, also an earlier one,
  /// or with the message of what the sink threw. What is pushed afterwards is not looked at.
  void close();

  std::int64_t recorded() const;  ///< events drained so far
  std::int64_t dropped() const;   ///< events that found their ring full
  std::int64_t start_ns() const;  ///< now_ns() at construction: what event times are relative to
  const RunInfo& info() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace zero1::trace
