#include "viz/model/waiting.h"

#include <fmt/core.h>

#include <algorithm>

#include "viz/model/event_words.h"

namespace zero1::viz {

namespace {

using trace::Event;
using trace::Kind;
using trace::StreamId;
using Where = ThreadState::Where;

/// The event in front of which a thread of `rank` is held, or null.
const Event* held_event(std::span<const Event> held, int rank, bool communication) {
  for (const Event& event : held) {
    if (event.rank == rank && (event.stream == StreamId::communication) == communication) return &event;
  }
  return nullptr;
}

bool is_inside(const ThreadState& thread, Kind kind) {
  return thread.where == Where::inside && thread.last.kind == kind;
}

bool is_after_reduction(const ThreadState& thread) {
  return thread.where == Where::after && thread.last.kind == Kind::bucket_state &&
         thread.last.detail == static_cast<std::uint8_t>(trace::BucketState::reduced);
}

std::string with_time(const Event& event, const trace::RunInfo& info) {
  const std::string time = when(event);
  return time.empty() ? what(event, info) : fmt::format("{} ({})", what(event, info), time);
}

class Finder {
 public:
  Finder(std::span<const RankState> ranks, std::span<const Event> held, const trace::RunInfo& info)
      : ranks_(ranks), held_(held), info_(info) {}

  std::vector<Wait> find() {
    for (int rank = 0; rank < static_cast<int>(ranks_.size()); ++rank) {
      add_held(rank, false);
      add_held(rank, true);
      add_waiting(rank);
    }
    return std::move(waits_);
  }

 private:
  const RankState& state(int rank) const { return ranks_[static_cast<std::size_t>(rank)]; }

  void add_held(int rank, bool communication) {
    const Event* event = held_event(held_, rank, communication);
    if (event == nullptr) return;
    Wait wait;
    wait.rank = rank;
    wait.held = *event;
    wait.text = fmt::format("rank {} is held before {}", rank, with_time(*event, info_));
    waits_.push_back(std::move(wait));
  }

  /// Those of the other ranks that have done less of something than `rank`.
  template <class Count>
  std::vector<int> behind(int rank, Count count) const {
    std::vector<int> result;
    for (int other = 0; other < static_cast<int>(ranks_.size()); ++other) {
      const RankState& theirs = state(other);
      if (theirs.compute.where == Where::finished) continue;
      if (count(theirs) < count(state(rank))) result.push_back(other);
    }
    return result;
  }

  std::vector<int> without_run(int rank) const {
    return behind(rank, [](const RankState& s) { return s.communication.runs_begun; });
  }

  void add_waiting(int rank) {
    const RankState& mine = state(rank);
    const Event* held_run = held_event(held_, rank, true);
    const bool compute_waits = is_inside(mine.compute, Kind::collective_wait);
    if (compute_waits && held_run != nullptr) {
      add(rank,
          fmt::format("rank {} {} for its own communication stream, which is held before {}", rank,
                      waits_in(mine.compute.last), what(*held_run, info_)),
          mine.compute.last.bucket, {rank});
    } else if (is_inside(mine.communication, Kind::collective_run)) {
      const Event& run = mine.communication.last;
      // The rank's own thread may wait for a later collective of the same queue.
      const std::string who = compute_waits ? " " + waits_in(mine.compute.last)
                                            : "'s communication stream waits in the " + what(run, info_);
      const std::vector<int> missing = without_run(rank);
      if (!missing.empty() || compute_waits) add_missing(rank, who, run.bucket, missing);
    } else if (is_inside(mine.compute, Kind::grad_norm)) {
      add_if_missing(rank, " waits in the all-reduce of the gradient norm",
                     behind(rank, [](const RankState& s) { return s.norms_begun; }));
    } else if (is_after_reduction(mine.compute) && held_event(held_, rank, false) == nullptr) {
      add_if_missing(rank, " waits in the all-reduce of the loss",
                     behind(rank, [](const RankState& s) { return s.buckets_reduced; }));
    }
  }

  std::string waits_in(const Event& wait) const {
    Event run = wait;
    run.kind = Kind::collective_run;
    return "waits in the " + what(run, info_);
  }

  void add_if_missing(int rank, const std::string& who, const std::vector<int>& missing) {
    if (!missing.empty()) add_missing(rank, who, -1, missing);
  }

  void add_missing(int rank, const std::string& who, int bucket, const std::vector<int>& missing) {
    std::string text = fmt::format("rank {}{}", rank, who);
    if (missing.empty()) {
      text += ", whose data is moving";
    } else {
      text += " for " + ranks_in_words(missing);
      if (missing.size() == 1) text += ", which " + doing(missing[0]);
    }
    add(rank, std::move(text), bucket, missing);
  }

  std::string doing(int rank) const {
    for (const bool communication : {true, false}) {
      const Event* event = held_event(held_, rank, communication);
      if (event != nullptr) return "is held before " + with_time(*event, info_);
    }
    const ThreadState& compute = state(rank).compute;
    if (compute.where == Where::outside) return "has not begun";
    if (is_inside(compute, Kind::collective_wait)) return waits_in(compute.last);
    if (compute.where == Where::inside) return "is in " + with_time(compute.last, info_);
    return "has done " + with_time(compute.last, info_);
  }

  void add(int rank, std::string text, int bucket, std::vector<int> for_ranks) {
    Wait wait;
    wait.rank = rank;
    if (bucket >= 0) wait.bucket = bucket;
    wait.for_ranks = std::move(for_ranks);
    wait.text = std::move(text);
    waits_.push_back(std::move(wait));
  }

  std::span<const RankState> ranks_;
  std::span<const Event> held_;
  const trace::RunInfo& info_;
  std::vector<Wait> waits_;
};

}  // namespace

void advance(RankState& state, const Event& event, trace::Probe::At at) {
  const bool communication = event.stream == StreamId::communication;
  ThreadState& thread = communication ? state.communication : state.compute;
  thread.where = at == trace::Probe::At::begin ? Where::inside : Where::after;
  thread.last = event;
  if (at == trace::Probe::At::begin) {
    if (event.kind == Kind::collective_run) ++thread.runs_begun;
    if (event.kind == Kind::grad_norm) ++state.norms_begun;
  } else if (at == trace::Probe::At::end) {
    if (event.kind == Kind::collective_run) ++thread.runs_ended;
  } else if (is_after_reduction(thread)) {
    ++state.buckets_reduced;
  }
}

bool at_rest(std::span<const RankState> ranks, int rank, std::span<const Event> held) {
  const RankState& mine = ranks[static_cast<std::size_t>(rank)];
  if (mine.compute.where == Where::finished) return true;
  // Neither the norm nor what lies between the last reduction and it writes to a gradient or a parameter.
  const bool compute_rests = held_event(held, rank, false) != nullptr ||
                             is_inside(mine.compute, Kind::collective_wait) ||
                             is_inside(mine.compute, Kind::grad_norm) || is_after_reduction(mine.compute);
  if (!compute_rests) return false;
  if (held_event(held, rank, true) != nullptr)
    return true;  // also between the spans of one that holds others
  const ThreadState& queue = mine.communication;
  if (queue.runs_begun == queue.runs_ended) return queue.where != Where::inside;
  return std::any_of(ranks.begin(), ranks.end(), [&](const RankState& other) {
    return other.communication.runs_begun < queue.runs_begun;
  });
}

std::vector<Wait> find_waits(std::span<const RankState> ranks, std::span<const Event> held,
                             const trace::RunInfo& info) {
  return Finder(ranks, held, info).find();
}

}  // namespace zero1::viz
