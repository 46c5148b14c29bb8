// The entry point of every test program.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cstdio>
#include <cstdlib>
#include <set>
#include <string>
#include <string_view>

#include "tests/support/skip.h"

namespace {

std::set<std::string>& reasons() {
  static std::set<std::string> said;
  return said;
}

/// The end of the path that `--source-file=*/…` asks for; empty: none is asked for.
std::string& wanted_file() {
  static std::string file;
  return file;
}

/// A filter that fits no test case is a mistake, not a success; cases that are skipped by their own word fit.
struct SomethingRuns : doctest::IReporter {
  explicit SomethingRuns(const doctest::ContextOptions&) {}
  void test_run_end(const doctest::TestRunStats& stats) override {
    if (stats.numTestCasesPassingFilters != 0 || skipped_by_itself) return;
    std::fputs("No test case fits the filters.\n", stderr);
    std::exit(EXIT_FAILURE);
  }
  void report_query(const doctest::QueryData&) override {}
  void test_run_start() override {}
  void test_case_start(const doctest::TestCaseData&) override {}
  void test_case_reenter(const doctest::TestCaseData&) override {}
  void test_case_end(const doctest::CurrentTestCaseStats&) override {}
  void test_case_exception(const doctest::TestCaseException&) override {}
  void subcase_start(const doctest::SubcaseSignature&) override {}
  void subcase_end() override {}
  void log_assert(const doctest::AssertData&) override {}
  void log_message(const doctest::MessageData&) override {}
  void test_case_skipped(const doctest::TestCaseData& test) override {
    if (test.m_skip && std::string(test.m_file.c_str()).ends_with(wanted_file())) skipped_by_itself = true;
  }

  bool skipped_by_itself = false;
};

REGISTER_LISTENER("something runs", 0, SomethingRuns);

}  // namespace

void zero1::test::skip(const std::string& reason) {
  if (reasons().insert(reason).second) std::printf("[skipped] %s\n", reason.c_str());
}

int main(int argc, char** argv) {
  constexpr std::string_view filter = "--source-file=*/";
  for (int i = 1; i < argc; ++i) {
    if (const std::string_view flag = argv[i]; flag.starts_with(filter))
      wanted_file() = flag.substr(filter.size());
  }
  doctest::Context context(argc, argv);
  const int status = context.run();
  return status == 0 && !reasons().empty() ? zero1::test::skipped_status : status;
}
