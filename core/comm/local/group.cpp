#include "core/comm/local/group.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>
#include <tuple>
#include <utility>

#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/base/units.h"

namespace zero1::local {
namespace {

/// The longest that a waiting rank sleeps before it looks at the time-out's clock.
constexpr std::chrono::milliseconds slice{50};

void relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// Waits some ten microseconds for `done`: shorter than putting a thread to sleep and waking it.
template <class Done>
void spin(const Done& done) {
  constexpr int tries = 400;
  for (int i = 0; i < tries && !done(); ++i) relax();
}

}  // namespace

Group::Group(std::string name, std::vector<int> world_ranks, const LocalWorldOptions& options,
             std::shared_ptr<Group> parent)
    : name_(std::move(name)),
      world_ranks_(std::move(world_ranks)),
      options_(options),
      parent_(std::move(parent)),
      may_spin_(world_ranks_.size() <= std::thread::hardware_concurrency()),
      issued_(world_ranks_.size(), 0),
      left_(world_ranks_.size(), false) {}

std::int64_t Group::issue(int rank) {
  const std::lock_guard lock(mutex_);
  return issued_[static_cast<std::size_t>(rank)]++;
}

std::shared_ptr<Round> Group::arrive(int rank, std::int64_t number, const Launch& launch,
                                     std::shared_ptr<Attachment> attachment) {
  std::unique_lock lock(mutex_);
  if (!failure_) fail_if_left(number);
  if (failure_) throw_failure(launch);
  auto& entry = rounds_[number];
  if (!entry) entry = std::make_shared<Round>(size());
  const std::shared_ptr<Round> round = entry;
  const Launch*& seat = round->launches[static_cast<std::size_t>(rank)];
  seat = &launch;
  round->attachments[static_cast<std::size_t>(rank)] = std::move(attachment);
  if (++round->arrived == size()) {
    complete(*round);
    rounds_.erase(number);
    changed_.notify_all();
  } else {
    await_arrivals(lock, *round, number);
  }
  if (round->ready) return round;
  seat = nullptr;  // the launch dies with the exception
  throw_failure(launch);
}

void Group::complete(Round& round) {
  if (const auto mismatch = find_mismatch(round.launches)) {
    fail({fmt::format("the ranks of '{}' made calls that do not fit each other:{}", name_, *mismatch), {}});
    return;
  }
  const Launch& launch = *round.launches.front();
  if (!launch.empty() && launch.front().kind == CallKind::split) form_groups(round);
  round.started_ns = now_ns();
  round.ready.store(true, std::memory_order_release);
}

void Group::form_groups(Round& round) {
  std::vector<std::tuple<int, int, int>> order;  // color, key, rank
  for (int rank = 0; rank < size(); ++rank) {
    const Call& call = round.launches[static_cast<std::size_t>(rank)]->front();
    order.emplace_back(call.color, call.key, rank);
  }
  std::sort(order.begin(), order.end());
  round.places.resize(order.size());
  for (std::size_t start = 0, end = 0; start < order.size(); start = end) {
    while (end < order.size() && std::get<0>(order[end]) == std::get<0>(order[start])) ++end;
    std::vector<int> world_ranks;
    for (std::size_t i = start; i < end; ++i) {
      world_ranks.push_back(world_ranks_[static_cast<std::size_t>(std::get<2>(order[i]))]);
    }
    const auto first = static_cast<std::size_t>(std::get<2>(order[start]));
    auto group = std::make_shared<Group>(round.launches[first]->front().group_name, std::move(world_ranks),
                                         options_, shared_from_this());
    children_.push_back(group);
    for (std::size_t i = start; i < end; ++i) {
      round.places[static_cast<std::size_t>(std::get<2>(order[i]))] = {group, static_cast<int>(i - start)};
    }
  }
}

void Group::await_arrivals(std::unique_lock<std::mutex>& lock, Round& round, std::int64_t number) {
  if (may_spin_) {
    lock.unlock();
    spin([&] { return round.ready.load(std::memory_order_acquire); });
    lock.lock();
  }
  // The clock adds up slices instead of reading a deadline: time during which the program is paused on
  // purpose, or stopped by a debugger, then counts for next to nothing.
  std::chrono::nanoseconds waited{0};
  while (!round.ready && !failure_) {
    const auto begin = std::chrono::steady_clock::now();
    const auto nap = std::min<std::chrono::nanoseconds>(slice, options_.timeout - waited);
    changed_.wait_for(lock, nap);
    if (round.ready || failure_) return;
    if (options_.paused) {
      lock.unlock();
      const bool paused = options_.paused();
      lock.lock();
      if (paused) continue;
    }
    waited += std::min<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - begin, nap);
    if (waited >= options_.timeout && !round.ready && !failure_) fail_late(round, number);
  }
}

void Group::depart(Round& round) {
  const auto all_departed = [&] { return round.departed.load(std::memory_order_acquire) == size(); };
  if (round.departed.fetch_add(1, std::memory_order_acq_rel) + 1 == size()) {
    { const std::lock_guard lock(mutex_); }  // nobody is between looking and falling asleep
    changed_.notify_all();
    return;
  }
  if (may_spin_) spin(all_departed);
  if (all_departed()) return;
  std::unique_lock lock(mutex_);
  changed_.wait(lock, all_departed);
}

void Group::leave(int rank) {
  const std::lock_guard lock(mutex_);
  left_[static_cast<std::size_t>(rank)] = true;
  if (failure_ || rounds_.empty()) return;
  fail_if_left(rounds_.rbegin()->first);
}

void Group::fail_if_left(std::int64_t number) {
  for (int rank = 0; rank < size(); ++rank) {
    const auto i = static_cast<std::size_t>(rank);
    if (left_[i] && issued_[i] <= number) {
      fail({fmt::format("{} has left the group (its communicator was destroyed after {} calls)",
                        rank_name(rank), format_count(issued_[i])),
            world_ranks_[i]});
      return;
    }
  }
}

void Group::fail_late(const Round& round, std::int64_t number) {
  std::string text =
      fmt::format("time-out after {} in call {} of '{}':",
                  format_duration_ns(std::chrono::nanoseconds(options_.timeout).count()), number + 1, name_);
  std::optional<int> culprit;
  for (int rank = 0; rank < size(); ++rank) {
    const auto i = static_cast<std::size_t>(rank);
    std::string state;
    if (round.launches[i] != nullptr) {
      state = describe(*round.launches[i]);
    } else if (issued_[i] > number) {
      state = "has not arrived: it has issued its call, but its stream has not reached it";
    } else {
      state = fmt::format("has not arrived: it has issued {} calls so far", format_count(issued_[i]));
    }
    if (round.launches[i] == nullptr && !culprit) culprit = world_ranks_[i];
    text += fmt::format("\n  rank {}: {}", rank, state);
  }
  fail({std::move(text), culprit});
}

void Group::fail(Failure failure) {
  if (failure_) return;
  failure_ = std::move(failure);
  changed_.notify_all();
}

void Group::abort(int rank, std::string_view reason, Reach reach) noexcept {
  try {
    const Failure failure{fmt::format("{} has stopped: {}", rank_name(rank), reason),
                          world_ranks_[static_cast<std::size_t>(rank)]};
    Group* top = this;
    while (reach == Reach::everywhere && top->parent_) top = top->parent_.get();
    if (reach == Reach::everywhere) {
      top->fail_family(failure);
    } else {
      const std::lock_guard lock(mutex_);
      fail(failure);
    }
  } catch (...) {
    // Out of memory: the peers notice by their time-out.
  }
}

void Group::fail_family(const Failure& failure) {
  const std::lock_guard lock(mutex_);
  fail(failure);
  for (const auto& weak : children_) {
    if (const auto child = weak.lock()) child->fail_family(failure);
  }
}

std::exception_ptr Group::failure() {
  const std::lock_guard lock(mutex_);
  if (!failure_) return nullptr;
  try {
    throw_failure("");
  } catch (...) {
    return std::current_exception();
  }
}

void Group::throw_failure(const Launch& launch) const {
  throw_failure(fmt::format("\n  while this rank of '{}' called: {}", name_, describe(launch)));
}

void Group::throw_failure(std::string_view context) const {
  if (!failure_->culprit) throw Error(failure_->message);
  throw PeerError(fmt::format("{}{}", failure_->message, context), *failure_->culprit);
}

std::string Group::rank_name(int rank) const {
  const int world_rank = world_ranks_[static_cast<std::size_t>(rank)];
  if (!parent_) return fmt::format("rank {} of '{}'", rank, name_);
  const Group* top = parent_.get();
  while (top->parent_) top = top->parent_.get();
  return fmt::format("rank {} of '{}' (rank {} of '{}')", rank, name_, world_rank, top->name_);
}

}  // namespace zero1::local
