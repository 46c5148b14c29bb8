#include <fmt/format.h>

#include <exception>
#include <mutex>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <vector>

#include "core/base/error.h"
#include "core/comm/local/local_world.h"

namespace zero1 {
namespace {

std::string what_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& exception) {
    return exception.what();
  } catch (...) {
    return "unknown exception";
  }
}

bool is_peer_error(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const PeerError&) {
    return true;
  } catch (...) {
    return false;
  }
}

/// The failures of a run, in the order in which they happened.
class Failures {
 public:
  explicit Failures(const std::function<void(int, const std::string&)>& on_failure)
      : on_failure_(on_failure) {}

  /// Called while the exception is being handled.
  void add_current(int rank) noexcept {
    const std::exception_ptr error = std::current_exception();
    {
      const std::lock_guard lock(mutex_);
      auto& first = is_peer_error(error) ? first_peer_error_ : first_;
      if (!first) first = error;
    }
    try {
      if (on_failure_) on_failure_(rank, what_of(error));
    } catch (...) {
      // What the rank threw is the news; a second exception about telling the others adds nothing.
    }
  }

  void rethrow() const {
    if (first_) std::rethrow_exception(first_);
    if (first_peer_error_) std::rethrow_exception(first_peer_error_);
  }

 private:
  const std::function<void(int, const std::string&)>& on_failure_;
  std::mutex mutex_;
  std::exception_ptr first_, first_peer_error_;
};

}  // namespace

void run_ranks(int size, const std::function<void(int rank)>& body,
               const std::function<void(int rank, const std::string& what)>& on_failure) {
  if (size < 1) throw std::invalid_argument(fmt::format("run_ranks: {} ranks, expected at least 1", size));
  Failures failures(on_failure);
  std::vector<std::thread> threads;
  threads.reserve(static_cast<std::size_t>(size));
  for (int rank = 0; rank < size; ++rank) {
    try {
      threads.emplace_back([&, rank] {
        try {
          body(rank);
        } catch (...) {
          failures.add_current(rank);
        }
      });
    } catch (const std::system_error&) {  // no thread for it; those that run must not wait for it
      failures.add_current(rank);
      break;
    }
  }
  for (auto& thread : threads) thread.join();
  failures.rethrow();
}

}  // namespace zero1
