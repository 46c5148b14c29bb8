// The entry point of every test program.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cstdio>
#include <set>
#include <string>

#include "tests/support/skip.h"

namespace {

std::set<std::string>& reasons() {
  static std::set<std::string> said;
  return said;
}

}  // namespace

void zero1::test::skip(const std::string& reason) {
  if (reasons().insert(reason).second) std::printf("[skipped] %s\n", reason.c_str());
}

int main(int argc, char** argv) {
  doctest::Context context(argc, argv);
  const int status = context.run();
  return status == 0 && !reasons().empty() ? zero1::test::skipped_status : status;
}
