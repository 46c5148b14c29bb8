// What cannot run on a machine is reported as skipped, with the reason.
#pragma once

#include <string>

namespace zero1::test {

/// The exit status of a test program in which nothing failed and something was skipped; CTest is told of it.
inline constexpr int skipped_status = 77;

/// Prints "[skipped] reason", once for each reason. What failed in the same program still fails it.
void skip(const std::string& reason);

}  // namespace zero1::test
