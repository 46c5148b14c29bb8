#include "core/comm/nccl/clique.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "core/base/error.h"
#include "core/base/units.h"
#include "core/comm/nccl/nccl_check.h"

namespace zero1::nccl {
namespace {

/// A launch whose ranks have all arrived completes even if its group fails then, unless a rank's GPU is gone.
constexpr std::chrono::seconds grace{2};
constexpr std::chrono::microseconds poll_interval{20};

/// Polls a communicator that nobody else uses, for a bounded time.
void finish_quietly(ncclComm_t comm) {
  ncclResult_t state = ncclInProgress;
  const auto deadline = std::chrono::steady_clock::now() + grace;
  while (ncclCommGetAsyncError(comm, &state) == ncclSuccess && state == ncclInProgress &&
         std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(poll_interval);
  }
}

}  // namespace

Clique::Clique(std::shared_ptr<local::Group> group, const LocalWorldOptions& options)
    : group_(std::move(group)), timeout_(options.timeout) {
  for (int rank = 0; rank < group_->size(); ++rank) seats_.push_back(std::make_unique<Seat>());
}

Clique::~Clique() {
  // What a failed group has left on the GPUs may never end by itself, and whoever frees memory waits for it.
  if (group_->failure()) abort_all();
  // Finalizing is collective and, here, non-blocking; destroying then frees what is local.
  for (const auto& s : seats_) {
    if (s->comm != nullptr) static_cast<void>(ncclCommFinalize(s->comm));
  }
  for (const auto& s : seats_) {
    if (s->comm == nullptr) continue;
    finish_quietly(s->comm);
    static_cast<void>(ncclCommDestroy(s->comm));
  }
  for (const auto& s : seats_) {
    if (!s->taken && s->arriving != nullptr) static_cast<void>(ncclCommAbort(s->arriving));
  }
}

ncclConfig_t Clique::config() {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  return config;
}

void Clique::arrived(int rank) {
  Seat& own = seat(rank);
  const std::lock_guard lock(own.mutex);
  own.comm = own.arriving;
  own.taken = true;
}

void Clique::keep(std::shared_ptr<Clique> made) {
  const std::lock_guard lock(kept_mutex_);
  kept_.push_back(std::move(made));
}

void Clique::call(int rank, const std::function<void(ncclComm_t)>& issue) {
  Seat& own = seat(rank);
  const std::lock_guard lock(own.mutex);
  if (own.comm == nullptr) {
    if (const std::exception_ptr why = group_->failure()) std::rethrow_exception(why);
    throw Error(fmt::format("rank {} of '{}' has no NCCL communicator", rank, group_->name()));
  }
  issue(own.comm);
}

void Clique::settle(int rank, const std::string& what) {
  const auto deadline = std::chrono::steady_clock::now() + timeout_;
  while (true) {
    ncclResult_t state = ncclSuccess;
    call(rank, [&](ncclComm_t comm) {
      ZERO1_NCCL_CHECK(ncclCommGetAsyncError(comm, &state));
      if (state != ncclSuccess && state != ncclInProgress) {
        throw NcclError(state, what.c_str(), __FILE__, __LINE__, comm);
      }
    });
    if (state == ncclSuccess) return;
    if (std::chrono::steady_clock::now() > deadline) {
      throw Error(
          fmt::format("{}: NCCL has not taken it within {}", what, format_duration_ns(timeout_.count())));
    }
    std::this_thread::sleep_for(poll_interval);
  }
}

void Clique::take_off(int rank, std::shared_ptr<Flight> flight) {
  Seat& own = seat(rank);
  const std::lock_guard lock(own.mutex);
  own.flights.push_back(std::move(flight));
}

bool Clique::in_flight() {
  bool any = false;
  for (const auto& s : seats_) {
    const std::lock_guard lock(s->mutex);
    while (!s->flights.empty() && s->flights.front()->over()) s->flights.pop_front();
    any = any || !s->flights.empty();
  }
  return any;
}

void Clique::inspect(std::chrono::nanoseconds elapsed) {
  if (aborted_) return;
  const bool busy = in_flight();
  if (group_->failure()) {
    failed_ += elapsed;
    if (busy && failed_ >= grace) abort_all();
    return;
  }
  find_async_errors();
  std::shared_ptr<Flight> oldest;
  for (const auto& s : seats_) {
    const std::lock_guard lock(s->mutex);
    if (!s->flights.empty() && !oldest) oldest = s->flights.front();
  }
  if (oldest == nullptr || oldest != oldest_.lock()) {
    oldest_ = oldest;
    waited_ = std::chrono::nanoseconds{0};
    return;
  }
  waited_ += elapsed;
  if (waited_ >= timeout_) fail_late();
}

void Clique::find_async_errors() {
  for (int rank = 0; rank < size(); ++rank) {
    Seat& s = seat(rank);
    std::string what;
    {
      const std::lock_guard lock(s.mutex);
      if (s.comm == nullptr) continue;
      ncclResult_t state = ncclSuccess;
      const ncclResult_t asked = ncclCommGetAsyncError(s.comm, &state);
      if (asked == ncclSuccess && (state == ncclSuccess || state == ncclInProgress)) continue;
      what =
          NcclError(asked == ncclSuccess ? state : asked, "a collective", __FILE__, __LINE__, s.comm).what();
    }
    group_->abort(rank, what, local::Group::Reach::everywhere);
    return;
  }
}

void Clique::fail_late() {
  std::string text = fmt::format("time-out after {} on the GPUs:", format_duration_ns(timeout_.count()));
  int culprit = -1;
  for (int rank = 0; rank < size(); ++rank) {
    Seat& s = seat(rank);
    const std::lock_guard lock(s.mutex);
    std::string state = "has nothing under way";
    if (!s.flights.empty()) {
      const Flight& flight = *s.flights.front();
      const bool here = flight.ready.reached();
      state = fmt::format("{}: {}", flight.what,
                          here ? "under way" : "its stream has not reached it, other work is before it");
      if (!here && culprit < 0) culprit = rank;
    }
    text += fmt::format("\n  rank {}: {}", rank, state);
  }
  // Where all streams have reached the launch it is NCCL that stands still, and no rank more than another.
  group_->abort(std::max(culprit, 0), text, local::Group::Reach::everywhere);
}

void Clique::abort_all() {
  aborted_ = true;
  const std::exception_ptr why = group_->failure();
  for (const auto& s : seats_) {
    const std::lock_guard lock(s->mutex);
    // First the failure: whoever wakes up because NCCL lets go must find it.
    for (const auto& flight : s->flights) flight->failure->set(why);
  }
  for (const auto& s : seats_) {
    const std::lock_guard lock(s->mutex);
    if (s->comm != nullptr) static_cast<void>(ncclCommAbort(s->comm));
    s->comm = nullptr;
    s->flights.clear();
  }
}

}  // namespace zero1::nccl
