// What an exception says. doctest's own `Contains` is missing from the version of Ubuntu 22.04.
#pragma once

#include <doctest/doctest.h>

#include <string>
#include <string_view>

namespace zero1::test {

/// The message of the exception that `action` must throw.
template <class Exception, class Action>
std::string message_of(Action&& action) {
  try {
    action();
  } catch (const Exception& e) {
    return e.what();
  }
  FAIL("nothing was thrown");
  return {};
}

inline bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

}  // namespace zero1::test
