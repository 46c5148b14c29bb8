// A modelled interconnect, so that overlap is visible and testable on any machine.
//
// In-process ranks move a bucket at memory speed, where a real cluster would be bound by its links: with
// nothing to hide, overlapping communication and compute would show no effect. The model makes up the
// difference: the data moves for real, and then the stream stays busy, asleep, until the time has passed
// that a ring over the modelled links would have needed. The sleep stands for the link's time, takes no
// core from compute, and changes no result. Whatever includes it is labelled "modelled".
#pragma once

#include <cstdint>
#include <memory>

#include "core/comm/communicator.h"

namespace zero1 {

/// Per rank and direction. Zero bandwidth means infinite.
struct LinkModel {
  double gbit_per_s = 0;
  double latency_us = 0;

  bool enabled() const { return gbit_per_s > 0 || latency_us > 0; }

  /// ring_steps · latency + bytes_sent / bandwidth, 0 in a group of one. `bytes_sent` is what one rank
  /// sends in all steps together. With n ranks and S bytes (the longest buffer, as in
  /// core/comm/local/algorithms.h) the ring algorithms have
  ///
  ///                                   steps      bytes_sent
  ///     reduce-scatter, all-gather    n-1        S (n-1)/n
  ///     all-reduce                    2(n-1)     2S (n-1)/n
  ///     all-to-all                    n-1        the larger of what it sends to and receives from others
  ///     broadcast (pipelined)         1          S
  ///     barrier                       2(n-1)     0: an all-reduce of nothing
  ///
  /// A coalesced launch is one pass of the ring: the most steps of its calls, and the sum of their bytes.
  /// Groups that communicate at the same time do not slow each other down in this model.
  std::int64_t duration_ns(int ranks, int ring_steps, std::int64_t bytes_sent) const;
};

/// Wraps a communicator, and the groups split from it: every collective (a coalesced launch counts once)
/// keeps the stream busy for at least the modelled time, measured from the moment when all ranks have
/// arrived (Work::started_ns; where the backend cannot tell, from the end of the collective, which is
/// later). CPU streams only. `link` disabled returns `inner` itself; negative or non-finite figures throw
/// std::invalid_argument.
std::unique_ptr<Communicator> with_link_model(std::unique_ptr<Communicator> inner, const LinkModel& link);

}  // namespace zero1
