#include "viz/model/run_watch.h"

namespace zero1::viz {

RunWatch::RunWatch(int ranks, const trace::Gate& gate, ElementProbe* element)
    : gate_(gate), element_(element) {
  for (int r = 0; r < ranks; ++r) ranks_.push_back(std::make_unique<Rank>());
}

void RunWatch::passed(const trace::Event& event, At at) noexcept {
  Rank& rank = *ranks_[static_cast<std::size_t>(event.rank)];
  const std::lock_guard lock(rank.mutex);
  advance(rank.state, event, at);
  if (element_ != nullptr && rank.trainer != nullptr) element_->passed(*rank.trainer, event, at);
}

void RunWatch::enter(int rank, RankTrainer& trainer) {
  Rank& entering = *ranks_[static_cast<std::size_t>(rank)];
  const std::lock_guard lock(entering.mutex);
  entering.trainer = &trainer;
}

void RunWatch::leave(int rank) {
  Rank& leaving = *ranks_[static_cast<std::size_t>(rank)];
  const std::lock_guard lock(leaving.mutex);
  leaving.trainer = nullptr;
  leaving.state.compute.where = ThreadState::Where::finished;
}

std::vector<RankState> RunWatch::states() const {
  std::vector<RankState> result;
  for (const auto& rank : ranks_) {
    const std::lock_guard lock(rank->mutex);
    result.push_back(rank->state);
  }
  return result;
}

bool RunWatch::all_at_rest() const {
  const std::vector<trace::Event> held = gate_.held();
  if (held.empty()) return false;
  const std::vector<RankState> now = states();
  for (int rank = 0; rank < static_cast<int>(now.size()); ++rank) {
    if (!at_rest(now, rank, held)) return false;
  }
  return true;
}

bool RunWatch::read(int rank, const std::function<void(RankTrainer&)>& look) const {
  if (element_ == nullptr || rank < 0 || static_cast<std::size_t>(rank) >= ranks_.size()) return false;
  // With every lock held no event of any rank passes, so that no collective can begin to move data.
  std::vector<std::unique_lock<std::mutex>> locks;
  std::vector<RankState> states;
  for (const auto& each : ranks_) {
    locks.emplace_back(each->mutex);
    states.push_back(each->state);
  }
  RankTrainer* trainer = ranks_[static_cast<std::size_t>(rank)]->trainer;
  if (trainer == nullptr || !at_rest(states, rank, gate_.held())) return false;
  look(*trainer);
  return true;
}

void RunWatch::abort(std::string_view reason) const {
  for (const auto& rank : ranks_) {
    const std::lock_guard lock(rank->mutex);
    if (rank->trainer != nullptr) rank->trainer->context().groups.data_parallel->abort(reason);
  }
}

}  // namespace zero1::viz
