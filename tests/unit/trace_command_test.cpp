// The command line, and the Python reader of the format's description, on real files.
#include <doctest/doctest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/support/command.h"
#include "tests/support/skip.h"
#include "tests/unit/trace_sample_run.h"

using namespace zero1::trace;
using test::TemporaryFolder;
using zero1::test::Outcome;
using zero1::test::quoted;
using zero1::test::run_command;
using zero1::test::run_zero1;

TEST_CASE("zero1 trace summary and export") {
  const TemporaryFolder dir;
  const std::string trace = test::write_sample_run(dir / "run.trace", test::SampleRun(2, 3).events(), 2);
  const Outcome text = run_zero1("trace summary " + quoted(trace));
  CHECK(text.status == 0);
  CHECK(text.output.find("Communication") != std::string::npos);
  const Outcome json = run_zero1("trace summary --json " + quoted(trace));
  CHECK(json.status == 0);
  CHECK(nlohmann::json::parse(json.output).at("ranks") == 2);
  const Outcome exported = run_zero1("trace export " + quoted(trace) + " " + quoted(dir / "out.json"));
  CHECK(exported.status == 0);
  CHECK(exported.output.find("ui.perfetto.dev") != std::string::npos);
  CHECK(nlohmann::json::parse(test::read_file(dir / "out.json")).contains("traceEvents"));

  const Outcome missing = run_zero1("trace summary " + quoted(dir / "none"));
  CHECK(missing.status == 2);
  CHECK(missing.output.find("No such file") != std::string::npos);
  test::write_file(dir / "text", "This is not a trace, but it is long enough to hold a header of 64 bytes.");
  CHECK(run_zero1("trace export " + quoted(dir / "text") + " " + quoted(dir / "x.json")).status == 2);
  CHECK_FALSE(std::filesystem::exists(dir / "x.json"));
  CHECK(run_zero1("trace export " + quoted(trace) + " " + quoted(dir / "./run.trace")).status == 2);
  CHECK(run_zero1("trace summary " + quoted(trace)).status == 0);  // and has not been touched
  REQUIRE(run_command("mkfifo " + quoted(dir / "pipe")).status == 0);
  CHECK(run_zero1("trace summary " + quoted(dir / "pipe")).status == 2);  // without waiting for a writer
  CHECK(run_zero1("trace").status == 2);
  for (const char* command : {"trace summary ", "trace export "}) {
    const std::string out =
        std::string_view(command) == "trace export " ? " " + quoted(dir / "full.json") : "";
    CHECK(run_zero1(command + quoted(trace) + out + " >/dev/full").status == 1);
  }
  CHECK(run_zero1("trace export " + quoted(trace)).status == 2);
}

TEST_CASE("zero1 trace export of some steps and ranks") {
  const TemporaryFolder dir;
  const std::string run =
      "trace export " + quoted(test::write_sample_run(dir / "run.trace", test::SampleRun(3, 5).events(), 3)) +
      " ";
  const Outcome some = run_zero1(run + quoted(dir / "some.json") + " --steps 1:3 --ranks 0,2");
  CAPTURE(some.output);
  CHECK(some.status == 0);
  CHECK(some.says("some.json: about "));
  CHECK(some.says("events of ranks 0, 2, steps [1, 3)"));
  const auto document = nlohmann::json::parse(test::read_file(dir / "some.json"));
  CHECK(document.at("otherData").at("selected") == "ranks 0, 2, steps [1, 3)");
  const Outcome dry = run_zero1(run + quoted(dir / "dry.json") + " --dry-run");
  CHECK(dry.status == 0);
  CHECK(dry.says("dry.json: about "));
  CHECK_FALSE(std::filesystem::exists(dir / "dry.json"));
  const struct {
    const char *flags, *says;
  } cases[] = {
      {"--steps 7:9", "has no event of steps [7, 9): there are steps [0, 6)"},
      {"--steps 6", "there are steps [0, 6)"},
      {"--steps 3:3", "--steps '3:3': expected A:B"},
      {"--steps 3-4", "--steps '3-4'"},
      {"--steps :", "--steps ':'"},
      {"--steps -1", "--steps '-1'"},
      {"--steps 1:2:3", "--steps"},
      {"--steps 99999999999", "--steps"},
      {"--ranks 3", "has no rank 3: there are ranks [0, 3)"},
      {"--ranks 0-9", "has no rank 9"},
      {"--ranks 2-1", "--ranks '2-1': expected"},
      {"--ranks 1,,2", "--ranks"},
      {"--ranks a", "--ranks 'a'"},
      {"--ranks 0-99999", "--ranks"},
  };
  for (const auto& c : cases) {
    const Outcome outcome = run_zero1(run + quoted(dir / "none.json") + " " + c.flags);
    CAPTURE(c.flags);
    CAPTURE(outcome.output);
    CHECK(outcome.status == 2);
    CHECK(outcome.says(c.says));
    CHECK_FALSE(std::filesystem::exists(dir / "none.json"));
  }
}

TEST_CASE("the reader in docs/trace_format.md reads what the program writes") {
  if (run_command("python3 -c 'import struct'").status != 0) {
    zero1::test::skip("no python3");
    return;
  }
  const std::string document = test::read_file(std::string(ZERO1_GOLDEN_DIR) + "/../../docs/trace_format.md");
  const std::size_t begin = document.find("```python\n");
  REQUIRE(begin != std::string::npos);
  const std::string script = document.substr(begin + 10, document.find("```", begin + 10) - begin - 10);
  const TemporaryFolder dir;
  test::write_file(dir / "reader.py", script);
  const std::vector<Event> events = test::SampleRun(3, 7).events();
  for (const bool closed : {true, false}) {
    const std::string trace = test::write_sample_run(dir / "run.trace", events, 3, closed);
    const Outcome outcome = run_command("python3 " + quoted(dir / "reader.py") + " " + quoted(trace));
    CAPTURE(outcome.output);
    REQUIRE(outcome.status == 0);
    std::map<int, std::pair<std::int64_t, std::int64_t>> sums;
    for (const Event& event : events) {
      auto& [count, time] = sums[static_cast<int>(event.kind)];
      ++count;
      time += event.end_ns - event.begin_ns;
    }
    std::ostringstream expected;
    expected << "ranks 3 " << (closed ? "closed" : "truncated") << "\n";
    for (const auto& [kind, sum] : sums) expected << kind << " " << sum.first << " " << sum.second << "\n";
    CHECK(outcome.output == expected.str());
  }
}
