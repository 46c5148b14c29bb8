// Traces that are whole and yet absurd: every field of every event may hold anything, with right checksums.
#include <doctest/doctest.h>

#include <cstring>
#include <nlohmann/json.hpp>
#include <random>

#include "core/base/error.h"
#include "core/trace/chrome_export.h"
#include "core/trace/summary.h"
#include "tests/unit/trace_sample_run.h"

using namespace zero1::trace;
using test::TemporaryFolder;

namespace {

/// Reads a trace in every way that the program does. False: it was refused as bad input.
bool reads(const std::string& trace, const std::string& timeline) {
  try {
    const Reader reader(trace);
    const Summary summary = summarize(reader);
    CHECK_FALSE(summary_text(summary, {true, true}).empty());
    CHECK(nlohmann::json::accept(summary_json(summary)));
    export_chrome(reader, timeline);
    CHECK(nlohmann::json::accept(test::read_file(timeline)));
    return true;
  } catch (const zero1::InputError& error) {
    CHECK(std::string(error.what()).find(trace) != std::string::npos);
    return false;
  }
}

}  // namespace

TEST_CASE("events that hold anything are summarised and exported, or refused") {
  const TemporaryFolder dir;
  const std::vector<Event> whole = test::SampleRun(2, 2).events();
  std::mt19937_64 random(11);
  constexpr unsigned char extremes[] = {0x00, 0x01, 0x7F, 0x80, 0xFE, 0xFF};
  int read = 0;
  int refused = 0;
  for (int round = 0; round < 3; ++round) {
    for (std::size_t at = 0; at < sizeof(Event); ++at) {
      std::vector<Event> events = whole;
      // One field of one event, of several, or of all.
      const std::size_t stride = round == 0 ? events.size() : round == 1 ? 7 : 1;
      const std::size_t bytes = 1 + random() % 8;
      for (std::size_t e = random() % std::min(stride, events.size()); e < events.size(); e += stride) {
        char raw[sizeof(Event)];
        std::memcpy(raw, &events[e], sizeof raw);
        for (std::size_t b = at; b < std::min(at + bytes, sizeof raw); ++b)
          raw[b] = static_cast<char>(random() % 2 == 0 ? random() : extremes[random() % 6]);
        std::memcpy(&events[e], raw, sizeof raw);
      }
      CAPTURE(round);
      CAPTURE(at);
      const std::string trace = test::write_sample_run(dir / "absurd.trace", events, 2);
      ++(reads(trace, dir / "out.json") ? read : refused);
    }
  }
  CHECK(read + refused == 3 * static_cast<int>(sizeof(Event)));
  CHECK(read > 20);
}

TEST_CASE("a small trace, cut or with one bit flipped at any byte, is summarised and exported, or refused") {
  const TemporaryFolder dir;
  const std::string bytes =
      test::read_file(test::write_sample_run(dir / "whole.trace", test::SampleRun(1, 1).events(), 1));
  const std::string path = dir / "damaged.trace";
  std::mt19937 random(13);
  for (std::size_t at = 0; at < bytes.size(); at += 1 + (at >= 512 ? random() % 5 : 0)) {
    CAPTURE(at);
    test::write_file(path, bytes.substr(0, at));
    reads(path, dir / "out.json");
    std::string flipped = bytes;
    flipped[at] = static_cast<char>(flipped[at] ^ (1 << random() % 8));
    test::write_file(path, flipped);
    reads(path, dir / "out.json");
  }
}
