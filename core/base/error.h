// The exceptions of the project. A program maps them to its exit status in one place.
#pragma once

#include <stdexcept>
#include <string>

namespace zero1 {

/// Something failed while running: exit status 1.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The user's flags, files or data cannot be used as they are: exit status 2. The message names the
/// flag, file or field, what was expected and what was found.
class InputError : public Error {
 public:
  using Error::Error;
};

/// A rank failed or left; raised on the ranks that were waiting for it. `failed_rank` is the culprit.
class PeerError : public Error {
 public:
  PeerError(const std::string& message, int failed_rank) : Error(message), failed_rank_(failed_rank) {}
  int failed_rank() const { return failed_rank_; }

 private:
  int failed_rank_;
};

}  // namespace zero1
