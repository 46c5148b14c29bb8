// Small runs in this process, driven from a test as the window drives them from its frames.
#pragma once

#include <doctest/doctest.h>

#include <functional>
#include <memory>
#include <vector>

#include "core/train/trainer.h"
#include "viz/model/document.h"
#include "viz/model/event_index.h"
#include "viz/model/history.h"
#include "viz/model/live_run.h"

namespace zero1::viz::test {

/// A GPT with some thirty parameters in several buckets that cut across them.
inline TrainConfig small_run(int dp) {
  TrainConfig c;
  c.num_layers = 2;
  c.hidden_size = 24;
  c.num_attention_heads = 3;
  c.seq_length = 12;
  c.dp = dp;
  c.micro_batch_size = 1;
  c.global_batch_size = 2 * dp;
  c.train_iters = 3;
  c.lr.lr = 1e-2;
  c.threads_per_rank = 1;
  c.data_parallel.overlap_grad_reduce = true;
  c.data_parallel.overlap_param_gather = true;
  c.data_parallel.bucket_size_elems = 3000;
  return resolve(c);
}

/// One that goes on for as long as a test needs it.
inline TrainConfig endless_run(int dp = 2) {
  TrainConfig config = small_run(dp);
  config.train_iters = 1'000'000;
  return config;
}

/// Calls `frame` as the window would, with what has been recorded since, until the run is over or `frame`
/// returns false. Waits for nothing but the gate, for a moment.
inline void drive(LiveRun& live, const std::function<bool(std::span<const trace::Event>)>& frame) {
  bool goes_on = true;
  while (goes_on) {
    const bool was_over = live.over();
    bool called = false;
    live.deliver([&](std::span<const trace::Event> events) {
      called = true;
      goes_on = frame(events);
    });
    if (!called) goes_on = frame({});
    if (was_over) return;
    live.gate().wait_held(2);
  }
}

/// Lets the run come to its end; all its events.
inline std::vector<trace::Event> run_out(LiveRun& live) {
  std::vector<trace::Event> all;
  drive(live, [&](std::span<const trace::Event> events) {
    all.insert(all.end(), events.begin(), events.end());
    return true;
  });
  INFO(live.failure());
  REQUIRE(live.state() == RunState::finished);
  return all;
}

/// Waits until the run stands still.
inline void wait_stopped(LiveRun& live) {
  for (int tries = 0; live.state() != RunState::paused; ++tries) {
    REQUIRE(tries < 10'000);
    REQUIRE(!live.over());
    live.gate().wait_stopped(2);
  }
}

inline Document live_document(const TrainConfig& config, LiveRunOptions options) {
  Document document;
  document.live = std::make_shared<LiveRun>(config, std::move(options));
  document.info = document.live->info();
  document.layout = document.live->layout();
  document.events = std::make_shared<EventIndex>(document.info.ranks);
  return document;
}

inline LiveRunOptions paused() {
  LiveRunOptions options;
  options.start_paused = true;
  return options;
}

/// A stop has been reached, and all that happened before it has been taken over.
inline void settle(Document& document) {
  wait_stopped(*document.live);
  take_over(document);
}

/// Lets the run go until there are this many events, and stops it.
inline void record_some(Document& document, std::int64_t events) {
  document.live->run();
  while (document.events->size() < events && !document.live->over()) take_over(document);
  document.live->pause();
  settle(document);
}

/// Lets the run come to its end, and takes over all of it.
inline void take_all(Document& document) {
  while (!document.live->over()) take_over(document);
  take_over(document);
}

/// An endless run of two ranks that stands still: at its first event, or once there are this many.
inline Document paused_document(std::int64_t events = 0) {
  Document document = live_document(endless_run(), paused());
  if (events > 0) {
    record_some(document, events);
  } else {
    settle(document);
  }
  return document;
}

}  // namespace zero1::viz::test
