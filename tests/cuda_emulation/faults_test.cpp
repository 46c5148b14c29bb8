// Every planted bug of planted_faults.cpp is caught: by its result, by a check of the emulation, or by the
// sanitizer that this build has. Its repaired twin is not accused.
#include <doctest/doctest.h>

#include <string>

#include "tests/support/command.h"
#include "tests/support/sanitizers.h"

using namespace zero1::test;

namespace {

constexpr int wrong_result = 3;

Outcome run_fault(const std::string& arguments, const std::string& environment = "") {
  Outcome outcome =
      run_command(environment + " " + quoted(ZERO1_BIN_DIR "/cuda_emulation_planted") + " " + arguments);
  INFO(arguments, " ", environment, ": exit status ", outcome.status, "\n", outcome.output);
  CHECK((outcome.status == 0) == (arguments.find(" fixed") != std::string::npos));
  return outcome;
}

void check_tsan_report(const Outcome& outcome) {
  CAPTURE(outcome.output);
  CHECK(outcome.says("ThreadSanitizer: data race"));
}

}  // namespace

/// Over how many of the first seeds the result is wrong.
int wrong_under_delays(const std::string& fault) {
  int wrong = 0;
  for (int seed = 1; seed <= 8; ++seed) {
    const std::string environment = "ZERO1_EMULATED_DELAYS=" + std::to_string(seed) + " ";
    wrong +=
        run_command(environment + quoted(ZERO1_BIN_DIR "/cuda_emulation_planted") + " " + fault).status ==
        wrong_result;
  }
  return wrong;
}

TEST_CASE("the repaired programs run clean, with and without lag, and in race-check mode") {
  for (const char* name :
       {"missing_wait", "early_overwrite", "missing_host_sync", "missing_syncthreads", "racing_blocks",
        "out_of_bounds", "use_after_free", "divergent_barrier", "late_memset", "early_host_write"}) {
    for (const char* environment :
         {"", "ZERO1_EMULATED_LAG=compute", "ZERO1_EMULATED_LAG=communication", "ZERO1_EMULATED_LAG=all",
          "ZERO1_EMULATED_RACE_CHECK=1", "ZERO1_EMULATED_DELAYS=1", "ZERO1_EMULATED_DELAYS=2"}) {
      run_fault(std::string(name) + " fixed", environment);
    }
  }
}

TEST_CASE("order that no event asks for comes out wrong under lag" * doctest::skip(under_tsan)) {
  CHECK(run_fault("missing_wait", "ZERO1_EMULATED_LAG=compute").status == wrong_result);
  CHECK(run_fault("early_overwrite", "ZERO1_EMULATED_LAG=communication").status == wrong_result);
  CHECK(run_fault("missing_host_sync", "ZERO1_EMULATED_LAG=all").status == wrong_result);
}

// What a lag of whole streams does not show: the late work must end at a moment between two of other streams.
TEST_CASE("random delays show what depends on when a stream gets to its work" * doctest::skip(under_tsan)) {
  CHECK(run_fault("late_memset fixed").status == 0);
  for (const char* name :
       {"late_memset", "early_host_write", "missing_wait", "early_overwrite", "missing_host_sync"}) {
    CAPTURE(name);
    CHECK(wrong_under_delays(name) > 0);
  }
}

TEST_CASE("a missing barrier gives a wrong sum" * doctest::skip(under_tsan)) {
  CHECK(run_fault("missing_syncthreads").status == wrong_result);
}

TEST_CASE("races between streams, and with the host, are data races to TSan" * doctest::skip(!under_tsan)) {
  for (const char* name : {"missing_wait", "early_overwrite", "missing_host_sync"})
    check_tsan_report(run_fault(name));
}

TEST_CASE("races inside and between blocks are data races to TSan" * doctest::skip(!under_tsan)) {
  for (const char* name : {"missing_syncthreads", "racing_blocks"}) {
    check_tsan_report(run_fault(name, "ZERO1_EMULATED_RACE_CHECK=1"));
  }
}

TEST_CASE("a write out of bounds is caught where it happens, or when the memory is freed") {
  const Outcome outcome = run_fault("out_of_bounds");
  CAPTURE(outcome.output);
  CHECK(outcome.says(under_asan ? "AddressSanitizer: use-after-poison" : "byte 0 behind the 132 bytes"));
  if (under_asan) CHECK(outcome.says("overrun_kernel"));
}

TEST_CASE("memory that was freed in another stream's order is gone") {
  run_fault("use_after_free");
}

TEST_CASE("a barrier that not all threads reach is reported, not waited for") {
  const Outcome outcome = run_fault("divergent_barrier");
  CHECK(outcome.says("a block never ends: of 32 threads 0 returned, 16 wait at __syncthreads"));
}
