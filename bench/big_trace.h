// Recordings of any length with the shape of a run of this program: the events of its kinds in their
// proportions, lane after lane in chunks, as the recorder writes them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/random.h"
#include "core/trace/event.h"
#include "core/trace/file_writer.h"
#include "core/trace/format.h"

namespace zero1::bench {

/// A transformer with several parameters per layer.
struct BigTrace {
  int ranks = 8;
  int layers = 24;
  int params_per_layer = 12;
  int buckets = 20;
  int microbatches = 4;

  int params() const { return layers * params_per_layer; }
  int bucket_of_layer(int layer) const { return (layers - 1 - layer) * buckets / layers; }
};

/// One rank's step after step. Durations vary, and ranks drift apart by as much.
class BigTraceRank {
 public:
  BigTraceRank(const BigTrace& shape, int rank)
      : shape_(shape), random_(7, static_cast<std::uint64_t>(rank)), rank_(static_cast<std::int16_t>(rank)) {}

  /// Appends the events of the next step to the lists of the three streams, each in order of its ends.
  void add_step(std::vector<trace::Event> (&streams)[3]) {
    using trace::Kind;
    streams_ = &streams;
    const std::int64_t begin = now_;
    for (std::int16_t micro = 0; micro < shape_.microbatches; ++micro) {
      const std::int64_t micro_begin = now_;
      microbatch_ = micro;
      span(Kind::data, 20'000);
      for (int layer = 0; layer < shape_.layers; ++layer) {
        if (micro == 0 && layer % 4 == 0 && step_ > 0)
          wait(shape_.bucket_of_layer(layer), trace::Collective::all_gather);
        span(Kind::forward, 900'000).layer = static_cast<std::int16_t>(layer);
      }
      for (int layer = shape_.layers - 1; layer >= 0; --layer)
        backward(layer, micro + 1 == shape_.microbatches);
      put(Kind::microbatch, micro_begin, now_, trace::StreamId::compute);
    }
    microbatch_ = -1;
    for (int bucket = 0; bucket < shape_.buckets; ++bucket) wait(bucket, trace::Collective::reduce_scatter);
    for (int bucket = 0; bucket < shape_.buckets; ++bucket) span(Kind::copy_grads, 40'000).bucket = bucket;
    span(Kind::grad_norm, 300'000);
    span(Kind::clip, 60'000);
    for (int bucket = 0; bucket < shape_.buckets; ++bucket) {
      span(Kind::adamw, 200'000).bucket = bucket;
      state(bucket, trace::BucketState::stepped);
      collective(bucket, trace::Collective::all_gather);
      state(bucket, trace::BucketState::gathering);
    }
    for (std::uint8_t kind = 0; kind < 4; ++kind) {
      trace::Event& memory = put(Kind::memory, now_, now_, trace::StreamId::host);
      memory.detail = kind;
      memory.bytes = std::int64_t{1} << 30;
    }
    put(Kind::step, begin, now_, trace::StreamId::compute);
    ++step_;
  }

 private:
  trace::Event& put(trace::Kind kind, std::int64_t begin_ns, std::int64_t end_ns, trace::StreamId stream) {
    trace::Event event;
    event.kind = kind;
    event.begin_ns = begin_ns;
    event.end_ns = end_ns;
    event.stream = stream;
    event.rank = rank_;
    event.step = step_;
    event.microbatch = microbatch_;
    auto& list = (*streams_)[static_cast<int>(stream)];
    list.push_back(event);
    return list.back();
  }
  trace::Event& span(trace::Kind kind, std::int64_t typical_ns) {
    const std::int64_t begin = now_;
    now_ += typical_ns / 2 + random_.below(typical_ns);
    trace::Event& event = put(kind, begin, now_, trace::StreamId::compute);
    now_ += 200 + random_.below(2000);
    return event;
  }
  void state(int bucket, trace::BucketState state) {
    trace::Event& event = put(trace::Kind::bucket_state, now_, now_, trace::StreamId::host);
    event.bucket = bucket;
    event.detail = static_cast<std::uint8_t>(state);
    now_ += 300;
  }

  void backward(int layer, bool last) {
    const std::int64_t begin = now_;
    const int bucket = shape_.bucket_of_layer(layer);
    for (int i = shape_.params_per_layer - 1; i >= 0; --i) {
      now_ += 50'000 + random_.below(100'000);
      trace::Event& ready = put(trace::Kind::grad_ready, now_, now_, trace::StreamId::host);
      ready.bucket = bucket;
      ready.param = layer * shape_.params_per_layer + i;
      ready.elem_start = std::int64_t{1'000'000} * ready.param;
      ready.elem_end = ready.elem_start + 999'936;
    }
    if (last && (layer == 0 || shape_.bucket_of_layer(layer - 1) != bucket)) {
      state(bucket, trace::BucketState::ready);
      trace::Event& scale = put(trace::Kind::scale_gradients, now_, now_ + 40'000, trace::StreamId::compute);
      scale.bucket = bucket;
      now_ += 41'000;
      collective(bucket, trace::Collective::reduce_scatter);
      state(bucket, trace::BucketState::reducing);
    }
    now_ += 100'000 + random_.below(100'000);
    put(trace::Kind::backward, begin, now_, trace::StreamId::compute).layer =
        static_cast<std::int16_t>(layer);
    now_ += 200 + random_.below(2000);
  }

  void collective(int bucket, trace::Collective what) {
    trace::Event& issue = put(trace::Kind::collective_issue, now_, now_, trace::StreamId::compute);
    issue.bucket = bucket;
    issue.detail = static_cast<std::uint8_t>(what);
    const std::int64_t begin = std::max(now_ + 5000, communication_ns_);
    communication_ns_ = begin + 800'000 + random_.below(1'500'000);
    trace::Event& run =
        put(trace::Kind::collective_run, begin, communication_ns_, trace::StreamId::communication);
    run.bucket = bucket;
    run.detail = static_cast<std::uint8_t>(what);
    run.elem_end = 40'000'000;
    run.bytes = 80'000'000;
    now_ += 500;
  }
  void wait(int bucket, trace::Collective what) {
    const std::int64_t begin = now_;
    now_ = std::max(now_ + 2000, std::min(communication_ns_, now_ + random_.below(400'000)));
    trace::Event& event = put(trace::Kind::collective_wait, begin, now_, trace::StreamId::compute);
    event.bucket = bucket;
    event.detail = static_cast<std::uint8_t>(what);
    now_ += 500;
  }

  const BigTrace& shape_;
  RandomStream random_;
  std::vector<trace::Event> (*streams_)[3] = nullptr;
  std::int64_t now_ = 0, communication_ns_ = 0;
  std::int32_t step_ = 0;
  std::int16_t rank_;
  std::int16_t microbatch_ = -1;
};

/// Calls `take(std::span<const trace::Event>)` with chunks until they hold `count` events.
template <class Take>
void make_big_trace(const BigTrace& shape, std::int64_t count, Take take) {
  std::vector<BigTraceRank> ranks;
  for (int rank = 0; rank < shape.ranks; ++rank) ranks.emplace_back(shape, rank);
  std::vector<trace::Event> chunk;
  std::int64_t left = count;
  const auto flush = [&] {
    if (!chunk.empty()) take(std::span<const trace::Event>(chunk));
    chunk.clear();
  };
  while (left > 0) {
    for (BigTraceRank& rank : ranks) {
      std::vector<trace::Event> streams[3];
      rank.add_step(streams);
      for (const auto& stream : streams) {
        for (const trace::Event& event : stream) {
          if (left == 0) break;
          --left;
          chunk.push_back(event);
          if (chunk.size() == trace::format::max_chunk_events) flush();
        }
      }
    }
    flush();
  }
}

inline void write_big_trace(const std::string& path, const BigTrace& shape, std::int64_t count) {
  trace::RunInfo info;
  info.ranks = shape.ranks;
  for (int i = 0; i < shape.params(); ++i)
    info.params.push_back("layer" + std::to_string(i / shape.params_per_layer) + ".w" +
                          std::to_string(i % shape.params_per_layer));
  for (int i = 0; i < shape.layers; ++i) info.layers.push_back("layer" + std::to_string(i));
  for (int i = 0; i < shape.buckets; ++i)
    info.buckets.push_back({0, std::int64_t{40'000'000} * i, std::int64_t{40'000'000} * (i + 1), 80'000'000});
  trace::FileWriter writer(path, info, 0);
  make_big_trace(shape, count, [&](std::span<const trace::Event> events) { writer.write_chunk(events, 0); });
  writer.close(0);
}

inline std::vector<trace::Event> first_events(const BigTrace& shape, std::int64_t count) {
  std::vector<trace::Event> all;
  make_big_trace(shape, count, [&](std::span<const trace::Event> events) {
    all.insert(all.end(), events.begin(), events.end());
  });
  return all;
}

}  // namespace zero1::bench
