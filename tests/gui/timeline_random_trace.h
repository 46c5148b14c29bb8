// Made-up runs with the shape of real ones, for tests of what indexes and draws them.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "core/base/random.h"
#include "core/trace/file_writer.h"
#include "tests/unit/trace_test_support.h"

namespace zero1::viz::test {

inline constexpr int random_buckets = 3, random_params = 7, random_layers = 3;

inline trace::RunInfo random_trace_info(int ranks) {
  trace::RunInfo info;
  info.ranks = ranks;
  for (int i = 0; i < random_params; ++i) info.params.push_back("h." + std::to_string(i) + ".weight");
  for (int i = 0; i < random_layers; ++i) info.layers.push_back("block " + std::to_string(i));
  for (int i = 0; i < random_buckets; ++i) info.buckets.push_back({0, 128 * i, 128 * i + 128, 512});
  return info;
}

/// One rank's side of it: a host that runs its compute stream inline, and a communication stream.
class RandomRank {
 public:
  RandomRank(int rank, std::uint64_t seed) : random_(seed, static_cast<std::uint64_t>(rank)), rank_(rank) {}

  void add_step(int step, std::vector<trace::Event>& out) {
    using trace::Kind;
    step_ = step;
    const std::int64_t step_begin = now_;
    for (std::int16_t micro = 0; micro < 2; ++micro) {
      const std::int64_t begin = now_;
      span(Kind::data, 40).microbatch = micro;
      for (std::int16_t layer = 0; layer < random_layers; ++layer) {
        if (random_.below(2) == 0) wait(layer % random_buckets, trace::Collective::all_gather);
        span(Kind::forward, 900).layer = layer;
      }
      for (std::int16_t layer = random_layers - 1; layer >= 0; --layer) backward(layer, micro == 1);
      add(Kind::microbatch, begin, now_).microbatch = micro;
    }
    for (int bucket = 0; bucket < random_buckets; ++bucket) wait(bucket, trace::Collective::reduce_scatter);
    span(Kind::grad_norm, 100);
    for (int bucket = 0; bucket < random_buckets; ++bucket) {
      span(Kind::adamw, 500).bucket = bucket;
      collective(bucket, trace::Collective::all_gather);
    }
    instant(Kind::memory).bytes = static_cast<std::int64_t>(random_.below(1 << 20));
    add(Kind::step, step_begin, now_);
    now_ += 1 + random_.below(50);
    // A chunk holds lane after lane, in order within each.
    std::stable_sort(events_.begin(), events_.end(),
                     [](const trace::Event& a, const trace::Event& b) { return a.stream < b.stream; });
    out.insert(out.end(), events_.begin(), events_.end());
    events_.clear();
  }

 private:
  trace::Event& add(trace::Kind kind, std::int64_t begin, std::int64_t end,
                    trace::StreamId stream = trace::StreamId::compute) {
    events_.push_back(trace::test::make_event(kind, begin, end, rank_, stream));
    events_.back().step = step_;
    return events_.back();
  }
  trace::Event& span(trace::Kind kind, std::int64_t most) {
    const std::int64_t begin = now_;
    now_ += 1 + random_.below(most);
    return add(kind, begin, now_);
  }
  trace::Event& instant(trace::Kind kind) { return add(kind, now_, now_, trace::StreamId::host); }

  void backward(std::int16_t layer, bool last) {
    const std::int64_t begin = now_;
    now_ += random_.below(800);
    trace::Event& ready = instant(trace::Kind::grad_ready);
    ready.bucket = layer % random_buckets;
    ready.param = layer;
    if (last) {
      trace::Event& state = instant(trace::Kind::bucket_state);
      state.bucket = layer % random_buckets;
      state.detail = static_cast<std::uint8_t>(1 + random_.below(5));
      collective(layer % random_buckets, trace::Collective::reduce_scatter);
    }
    now_ += 1 + random_.below(800);
    add(trace::Kind::backward, begin, now_).layer = layer;
  }

  void collective(int bucket, trace::Collective what) {
    trace::Event& issue = add(trace::Kind::collective_issue, now_, now_);
    issue.bucket = bucket;
    issue.detail = static_cast<std::uint8_t>(what);
    const std::int64_t begin = std::max(now_, comm_) + random_.below(30);
    comm_ = begin + 1 + random_.below(900);
    trace::Event& run = add(trace::Kind::collective_run, begin, comm_, trace::StreamId::communication);
    run.bucket = bucket;
    run.detail = static_cast<std::uint8_t>(what);
    run.bytes = 4096;
    if (random_.below(4) == 0) run.flags = trace::modelled_link;
  }
  void wait(int bucket, trace::Collective what) {
    trace::Event& waiting = span(trace::Kind::collective_wait, 30);
    waiting.bucket = bucket;
    waiting.detail = static_cast<std::uint8_t>(what);
  }

  RandomStream random_;
  std::vector<trace::Event> events_;
  std::int64_t now_ = 0, comm_ = 0;
  int rank_, step_ = 0;
};

/// In the order in which a recorder writes it.
inline std::vector<trace::Event> random_trace(int ranks, int steps, std::uint64_t seed) {
  std::vector<RandomRank> each;
  for (int rank = 0; rank < ranks; ++rank) each.emplace_back(rank, seed);
  std::vector<trace::Event> events;
  for (int step = 0; step < steps; ++step) {
    for (RandomRank& rank : each) rank.add_step(step, events);
  }
  return events;
}

/// A recording of such a run that goes with the test.
class RandomTraceFile {
 public:
  RandomTraceFile(int ranks, int steps, std::uint64_t seed = 5) : events_(random_trace(ranks, steps, seed)) {
    trace::FileWriter writer(path(), random_trace_info(ranks), 0);
    for (std::size_t at = 0; at < events_.size(); at += 1500)
      writer.write_chunk(std::span(events_).subspan(at, std::min<std::size_t>(1500, events_.size() - at)), 0);
    writer.close(0);
  }
  std::string path() const { return folder_ / "run.trace"; }
  const std::vector<trace::Event>& events() const { return events_; }

 private:
  zero1::test::TemporaryFolder folder_;
  std::vector<trace::Event> events_;
};

/// A file with these bytes that goes with the test.
class TemporaryTrace {
 public:
  explicit TemporaryTrace(const std::string& bytes) : path_(folder_.write("run.trace", bytes)) {}
  const std::string& path() const { return path_; }

 private:
  zero1::test::TemporaryFolder folder_;
  std::string path_;
};

}  // namespace zero1::viz::test
