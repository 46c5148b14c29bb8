// What a trace says at a glance.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>

#include "core/trace/overlap.h"
#include "core/trace/reader.h"

namespace zero1::trace {

struct KindTotals {
  std::int64_t count = 0;
  std::int64_t total_ns = 0;  ///< sum of durations
};

struct Summary {
  std::string path;
  RunInfo info;
  std::int64_t start_unix_ns = 0;
  std::int64_t events = 0;
  std::int64_t dropped = 0;
  bool truncated = false;
  std::int64_t begin_ns = 0;            ///< of the first event
  std::int64_t end_ns = 0;              ///< of the last
  bool modelled_link = false;           ///< some duration includes a modelled bandwidth or latency
  bool predicted = false;               ///< some event was predicted, not measured
  std::array<KindTotals, 256> kinds{};  ///< by Kind
  OverlapReport overlap;
};

/// Reads the whole trace once. `progress` (may be empty) is called with the share read, 0 … 1.
Summary summarize(const Reader& reader, const std::function<void(double)>& progress = {});

/// For machines. Times are integers in ns and doubles in ms, as the keys say.
std::string summary_json(const Summary& summary);

struct TextOptions {
  bool all_steps = false;  ///< else 16 at most, spread over the run
  bool unicode = true;     ///< bars in block characters, else in ASCII
};

/// For people.
std::string summary_text(const Summary& summary, const TextOptions& options = {});

}  // namespace zero1::trace
