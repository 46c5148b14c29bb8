// A made-up run with everything that a trace can hold, for tests of what reads traces.
#pragma once

#include <string>
#include <vector>

#include "core/trace/file_writer.h"
#include "core/trace/intervals.h"
#include "core/trace/recorder.h"
#include "tests/unit/trace_test_support.h"

namespace zero1::trace::test {

inline RunInfo sample_run_info(int ranks) {
  RunInfo info;
  info.ranks = ranks;
  info.params = {"wte \"w\"", "h.0\\w", "ln_f"};
  info.layers = {"embed\n", "block", "head"};
  info.buckets = {{0, 0, 128, 512}, {0, 128, 256, 512}};
  info.config_json = R"({"dp":3})";
  return info;
}

/// Per rank and step: forward, backward with gradients that become ready, one reduce-scatter per bucket that
/// backward hides partly, the optimizer, and all-gathers that end in the next step. Times in odd nanoseconds.
class SampleRun {
 public:
  SampleRun(int ranks, int steps) {
    for (int rank = 0; rank < ranks; ++rank) {
      for (int step = 0; step < steps; ++step) add_step(rank, step, 10'001 * step + 7 * rank);
    }
  }
  const std::vector<Event>& events() const { return events_; }

 private:
  Event& add(Kind kind, std::int64_t begin, std::int64_t end, int bucket = -1) {
    Event event = make_event(kind, at_ + begin, at_ + end, rank_);
    event.step = step_;
    event.bucket = bucket;
    if (kind == Kind::grad_ready || kind == Kind::bucket_state || kind == Kind::memory)
      event.stream = StreamId::host;
    if (kind == Kind::collective_run) event.stream = StreamId::communication;
    events_.push_back(event);
    return events_.back();
  }

  void add_collective(Collective what, int bucket, std::int64_t issue, Interval run, Interval wait) {
    const auto detail = static_cast<std::uint8_t>(what);
    add(Kind::collective_issue, issue, issue, bucket).detail = detail;
    Event& running = add(Kind::collective_run, run.start_ns, run.end_ns, bucket);
    running.detail = detail;
    running.bytes = 512;
    running.elem_end = 128;
    running.flags = modelled_link;
    Event& waiting = add(Kind::collective_wait, wait.start_ns, wait.end_ns, bucket);
    waiting.detail = detail;
    if (what == Collective::all_gather) ++waiting.step;
  }

  void add_step(int rank, int step, std::int64_t at) {
    rank_ = rank, step_ = step, at_ = at;
    for (std::int16_t layer = 0; layer < 3; ++layer)
      add(Kind::forward, 10 + 1000 * layer, 900 + 1000 * layer).layer = layer;
    for (std::int16_t layer = 2; layer >= 0; --layer) {
      const std::int64_t begin = 3000 + 1000 * (2 - layer);
      Event& ready = add(Kind::grad_ready, begin + 500, begin + 500, layer == 0 ? 1 : 0);
      ready.param = layer;
      ready.elem_start = 64 * layer;
      ready.elem_end = 64 * layer + 61;
      add(Kind::backward, begin, begin + 950).layer = layer;
    }
    add(Kind::bucket_state, 4501, 4501, 0).detail = static_cast<std::uint8_t>(BucketState::ready);
    add_collective(Collective::reduce_scatter, 0, 4502, {4600, 6001}, {6100, 6103});
    add_collective(Collective::reduce_scatter, 1, 5502, {6001, 6801}, {6103, 6803});
    add(Kind::microbatch, 0, 6000).microbatch = 0;
    add(Kind::adamw, 6900, 7500, 0);
    add(Kind::memory, 7600, 7600).bytes = 1 << 20;
    add_collective(Collective::all_gather, 0, 7700, {7701, 10'008}, {10'002, 10'009});
    add(Kind::step, 0, 8000);
  }

  std::vector<Event> events_;
  int rank_ = 0, step_ = 0;
  std::int64_t at_ = 0;
};

inline std::string write_sample_run(const std::string& path, const std::vector<Event>& events, int ranks,
                                    bool close = true) {
  FileWriter writer(path, sample_run_info(ranks), 0);
  for (std::size_t at = 0; at < events.size(); at += 100) {
    writer.write_chunk(std::span(events).subspan(at, std::min<std::size_t>(100, events.size() - at)), 0);
  }
  if (close) writer.close(0);
  return path;
}

}  // namespace zero1::trace::test
