// A modelled interconnect, so that overlap is visible and testable on any machine.
#pragma once

#include <memory>

#include "core/comm/communicator.h"

namespace zero1 {

/// Per rank and direction. Zero bandwidth means infinite.
struct LinkModel {
  double gbit_per_s = 0;
  double latency_us = 0;

  bool enabled() const { return gbit_per_s > 0 || latency_us > 0; }

  /// The modelled time of a ring algorithm: all-reduce 2(n-1) steps, reduce-scatter, all-gather and
  /// all-to-all n-1, broadcast 1, each step `latency` plus its share of `total_bytes` over the bandwidth.
  std::int64_t duration_ns(int ranks, int ring_steps, std::int64_t bytes_sent) const;
};

/// Wraps a communicator: every collective (a coalesced launch counts once) keeps the stream busy for at
/// least the modelled time, measured from the moment when all ranks have arrived. CPU streams only.
std::unique_ptr<Communicator> with_link_model(std::unique_ptr<Communicator> inner, const LinkModel& link);

}  // namespace zero1
