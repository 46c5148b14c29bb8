// Trace files: what was recorded comes back, and whatever is not right is told with words.
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <random>

#include "core/base/error.h"
#include "core/trace/file_writer.h"
#include "core/trace/format.h"
#include "core/trace/lane.h"
#include "core/trace/reader.h"
#include "core/trace/recorder.h"
#include "tests/support/message.h"
#include "tests/unit/trace_test_support.h"

using namespace zero1::trace;
using test::make_event;
using test::TemporaryFolder;
using zero1::Error;
using zero1::InputError;
using zero1::test::contains;

namespace {

RunInfo sample_info() {
  RunInfo info;
  info.ranks = 3;
  info.params = {"wte.weight", "h.0.\"quoted\"\n", "ünicode", "not utf-8: \xff"};
  info.layers = {"embedding"};
  info.buckets = {{0, 0, 128, 512}, {1, 128, 7'000'000'000, 28'000'000'000}};
  info.config_json = R"({"lr":0.001,"dp":3})";
  info.layout_json = R"({"params":[]})";
  info.clock_uncertainty_ns = 17;
  return info;
}

std::vector<Event> sample_events(int count, unsigned seed = 1) {
  std::mt19937_64 random(seed);
  std::vector<Event> events;
  for (int i = 0; i < count; ++i) {
    const auto begin = static_cast<std::int64_t>(random() % 1'000'000);
    Event event = make_event(static_cast<Kind>(random() % 54), begin,
                             begin + static_cast<std::int64_t>(random() % 1000),
                             static_cast<int>(random() % 3), static_cast<StreamId>(random() % 3));
    event.elem_start = static_cast<std::int64_t>(random());
    event.elem_end = static_cast<std::int64_t>(random());
    event.bytes = static_cast<std::int64_t>(random());
    event.step = i;
    event.flags = static_cast<std::uint16_t>(random());
    event.detail = static_cast<std::uint8_t>(random());
    events.push_back(event);
  }
  return events;
}

/// A file of chunks of the given sizes.
std::string write_trace(const std::string& path, const std::vector<Event>& events,
                        std::vector<std::size_t> chunks, bool close, std::int64_t dropped = 0) {
  FileWriter writer(path, sample_info(), 1234);
  std::size_t at = 0;
  for (const std::size_t count : chunks) {
    writer.write_chunk(std::span(events).subspan(at, count), dropped);
    at += count;
  }
  if (close) writer.close(dropped);
  return path;
}

bool same(const std::vector<Event>& a, const std::vector<Event>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(Event)) == 0);
}

/// The message of opening and reading everything; empty: it worked.
std::string complaint(const std::string& path) {
  try {
    const Reader reader(path);
    (void)reader.read_all();
    return {};
  } catch (const InputError& error) {
    return error.what();
  }
}

}  // namespace

TEST_CASE("what is written comes back: header, records, drops, chunks") {
  const TemporaryFolder dir;
  const auto events = sample_events(16'384 + 13);
  const std::string path = write_trace(dir / "a.trace", events, {1, 3, 5, 4, 16'384}, true, 7);
  const Reader reader(path);
  CHECK(reader.count() == static_cast<std::int64_t>(events.size()));
  CHECK(reader.dropped() == 7);
  CHECK_FALSE(reader.truncated());
  CHECK(same(reader.read_all(), events));
  const RunInfo info = reader.info();
  CHECK(info.ranks == 3);
  REQUIRE(info.params.size() == 4);
  CHECK(info.params[1] == "h.0.\"quoted\"\n");
  CHECK(info.params[2] == "ünicode");
  CHECK(contains(info.params[3], "not utf-8: "));
  CHECK(info.layers == std::vector<std::string>{"embedding"});
  REQUIRE(info.buckets.size() == 2);
  CHECK(info.buckets[1].end == 7'000'000'000);
  CHECK(info.buckets[1].bytes == 28'000'000'000);
  CHECK(info.config_json == R"({"lr":0.001,"dp":3})");
  CHECK(info.layout_json == R"({"params":[]})");
  CHECK(info.clock_uncertainty_ns == 17);

  REQUIRE(reader.chunks().size() == 5);
  std::vector<Event> chunk;
  for (const std::size_t index : {4U, 0U, 2U}) {  // in any order
    reader.read_chunk(index, chunk);
    const Reader::Chunk about = reader.chunks()[index];
    REQUIRE(static_cast<std::int64_t>(chunk.size()) == about.count);
    CHECK(std::memcmp(chunk.data(), events.data() + about.first, chunk.size() * sizeof(Event)) == 0);
    std::int64_t begin = INT64_MAX;
    std::int64_t end = INT64_MIN;
    for (const Event& event : chunk)
      begin = std::min(begin, event.begin_ns), end = std::max(end, event.end_ns);
    CHECK(about.begin_ns == begin);
    CHECK(about.end_ns == end);
  }
}

TEST_CASE("an empty trace is a trace") {
  const TemporaryFolder dir;
  const Reader closed(write_trace(dir / "closed", {}, {}, true));
  CHECK(closed.count() == 0);
  CHECK_FALSE(closed.truncated());
  const Reader open(write_trace(dir / "open", {}, {}, false));
  CHECK(open.count() == 0);
  CHECK(open.truncated());
  CHECK(open.read_all().empty());
}

TEST_CASE("the recorder's file holds what its lanes were given, in order") {
  const TemporaryFolder dir;
  const std::string path = dir / "run.trace";
  constexpr int per_lane = 40'000;
  RecorderOptions options;
  options.path = path;
  options.flush_interval_ms = 60'000;
  {
    Recorder recorder(sample_info(), options);
    for (int rank = 0; rank < 3; ++rank) {
      for (int i = 0; i < per_lane; ++i) {
        Event event = make_event(Kind::forward, i, i + 1, rank, StreamId::compute);
        event.step = i;
        REQUIRE(recorder.lane(rank, StreamId::compute).push(event));
      }
    }
  }  // closes
  const Reader reader(path);
  CHECK_FALSE(reader.truncated());
  CHECK(reader.count() == 3 * per_lane);
  std::int32_t next[3] = {0, 0, 0};
  reader.for_each_chunk([&](std::span<const Event> events) {
    CHECK(events.size() <= format::max_chunk_events);
    for (const Event& event : events) REQUIRE(event.step == next[event.rank]++);
  });
}

TEST_CASE("a killed process leaves everything up to its last flush") {
  const TemporaryFolder dir;
  const std::string path = dir / "killed.trace";
  const pid_t child = fork();
  if (child == 0) {
    RecorderOptions options;
    options.path = path;
    options.flush_interval_ms = 60'000;
    Recorder recorder(sample_info(), options);
    Lane& lane = recorder.lane(0, StreamId::host);
    for (int i = 0; i < 1000; ++i) lane.push(make_event(Kind::grad_ready, i, i));
    recorder.drain();
    for (int i = 0; i < 1000; ++i) lane.push(make_event(Kind::grad_ready, i, i));
    kill(getpid(), SIGKILL);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFSIGNALED(status));
  const Reader reader(path);
  CHECK(reader.truncated());
  CHECK(reader.count() == 1000);
  CHECK(reader.read_all().size() == 1000);
}

TEST_CASE("cut at any byte: the whole chunks before are there, or it is an error with words") {
  const TemporaryFolder dir;
  const auto events = sample_events(9);
  const std::string bytes = test::read_file(write_trace(dir / "whole", events, {1, 3, 5}, true));
  const std::string path = dir / "cut";
  const std::size_t records_start = bytes.size() - 64 - 9 * 64 - 3 * 64;
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    CAPTURE(size);
    test::write_file(path, bytes.substr(0, size));
    if (size < records_start) {
      REQUIRE_FALSE(complaint(path).empty());
      continue;
    }
    const Reader reader(path);
    REQUIRE(reader.truncated());
    const std::size_t body = size - records_start;
    const std::size_t whole = body >= 12 * 64 ? 9 : body >= 6 * 64 ? 4 : body >= 2 * 64 ? 1 : 0;
    REQUIRE(reader.count() == static_cast<std::int64_t>(whole));
    REQUIRE(same(reader.read_all(), {events.begin(), events.begin() + static_cast<std::ptrdiff_t>(whole)}));
  }
}

TEST_CASE("one flipped bit anywhere in a closed file is found") {
  const TemporaryFolder dir;
  const auto events = sample_events(9);
  const std::string bytes = test::read_file(write_trace(dir / "whole", events, {1, 3, 5}, true));
  const std::string path = dir / "flipped";
  std::mt19937 random(3);
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    CAPTURE(at);
    std::string damaged = bytes;
    damaged[at] = static_cast<char>(damaged[at] ^ (1 << random() % 8));
    test::write_file(path, damaged);
    std::string message;
    bool truncated = false;
    try {
      const Reader reader(path);
      truncated = reader.truncated();
      (void)reader.read_all();
    } catch (const InputError& error) {
      message = error.what();
    }
    const bool in_footer = at >= bytes.size() - 64;
    const bool in_padding = message.empty() && !truncated;
    // Padding carries nothing; without its footer the file looks like one that was never closed.
    if (in_padding)
      REQUIRE(bytes[at] == '\0');
    else if (in_footer)
      REQUIRE(truncated);
    else
      REQUIRE(contains(message, path));
  }
}

TEST_CASE("random bytes and random damage never crash") {
  const TemporaryFolder dir;
  const auto events = sample_events(40);
  const std::string bytes = test::read_file(write_trace(dir / "whole", events, {7, 33}, true));
  const std::string path = dir / "hostile";
  std::mt19937_64 random(5);
  for (int round = 0; round < 2000; ++round) {
    std::string damaged = bytes.substr(0, random() % 5 == 0 ? random() % bytes.size() : bytes.size());
    for (std::uint64_t i = random() % 20; i > 0 && !damaged.empty(); --i) {
      damaged[random() % damaged.size()] = static_cast<char>(random());
    }
    test::write_file(path, damaged);
    (void)complaint(path);
  }
}

namespace {

/// A closed file whose headers are made wrong on purpose, with right checksums.
template <class Change>
std::string forged(const TemporaryFolder& dir, std::vector<Event> events, Change change) {
  const std::string path = write_trace(dir / "forged", events, {events.size()}, true);
  std::string bytes = test::read_file(path);
  change(bytes);
  test::write_file(path, bytes);
  return complaint(path);
}

template <class Header, class Change>
void rewrite(std::string& bytes, std::size_t offset, Change change) {
  Header header;
  std::memcpy(&header, bytes.data() + offset, sizeof header);
  change(header);
  header.checksum = format::header_checksum(header);
  std::memcpy(bytes.data() + offset, &header, sizeof header);
}

}  // namespace

TEST_CASE("files that are wrong in a well-formed way are refused by name") {
  const TemporaryFolder dir;
  const auto events = sample_events(3);
  const std::size_t chunk =
      test::read_file(write_trace(dir / "size", events, {3}, true)).size() - 64 - 4 * 64;
  const auto header = [&](auto change) {
    return forged(dir, events, [&](std::string& bytes) { rewrite<format::FileHeader>(bytes, 0, change); });
  };
  CHECK(contains(header([](auto& h) { h.version = 2; }),
                 "trace format version 2; this program reads version 1"));
  CHECK(contains(header([](auto& h) { h.byte_order = 0x04030201; }), "byte order"));
  CHECK(contains(header([](auto& h) { h.record_bytes = 72; }), "records of 72 bytes, expected 64"));
  CHECK(contains(header([](auto& h) { h.info_bytes = std::uint64_t{1} << 60; }), "64 MiB at most"));
  CHECK(contains(header([](auto& h) { h.info_bytes = 1 << 20; }), "ends inside the run information"));
  CHECK(contains(header([](auto& h) { h.info_checksum ^= 1; }), "run information's checksum"));
  CHECK(contains(header([](auto& h) { h.magic[0] = 'x'; }), "not a trace"));

  const auto chunk_header = [&](auto change) {
    return forged(dir, events,
                  [&](std::string& bytes) { rewrite<format::ChunkHeader>(bytes, chunk, change); });
  };
  CHECK(contains(chunk_header([](auto& h) { h.count = UINT64_MAX; }),
                 "a chunk of 18446744073709551615 records"));
  CHECK(contains(chunk_header([](auto& h) { h.count = 0; }), "a chunk of 0 records"));
  CHECK(contains(chunk_header([](auto& h) { h.first = 5; }), "begins with record 5, expected 0"));
  CHECK(contains(chunk_header([](auto& h) { h.count = 2; }), "no chunk where one must begin"));
  CHECK(contains(chunk_header([](auto& h) { h.payload_checksum ^= 1; }), "checksum of records 0 … 2"));
  CHECK(contains(forged(dir, events,
                        [&](std::string& bytes) {
                          rewrite<format::Footer>(bytes, bytes.size() - 64, [](auto& f) { f.records = 4; });
                        }),
                 "the footer counts 4 records in 1 chunks, found 3 in 1"));

  auto bad_rank = events;
  bad_rank[1].rank = 3;
  CHECK(contains(forged(dir, bad_rank, [](std::string&) {}), "record 1 names rank 3 of 3"));
  auto bad_time = events;
  bad_time[2].end_ns = bad_time[2].begin_ns - 1;
  CHECK(contains(forged(dir, bad_time, [](std::string&) {}), "record 2 ends at"));
  auto bad_stream = events;
  bad_stream[0].stream = static_cast<StreamId>(9);
  CHECK(contains(forged(dir, bad_stream, [](std::string&) {}), "names stream 9"));
}

TEST_CASE("run information that is JSON but not ours names the field") {
  const std::string good = format::to_json(sample_info());
  CHECK(format::from_json(good, "f").ranks == 3);
  const auto message = [](const std::string& text) {
    try {
      format::from_json(text, "f");
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  CHECK(contains(message("[]"), "not a JSON object"));
  CHECK(contains(message("{"), "not a JSON object"));
  CHECK(contains(message(std::string(100'000, '[')), "not a JSON object"));
  CHECK(contains(message("{}"), "\"ranks\""));
  CHECK(contains(message(R"({"ranks":0})"), "\"ranks\" is not in 1 … 32767, but 0"));
  CHECK(contains(message(R"({"ranks":18446744073709551615})"), "\"ranks\""));
  CHECK(contains(message(R"({"ranks":1.5})"), "a whole number"));
  CHECK(contains(message(R"({"ranks":1,"params":[1]})"), "\"params\" is not an array of strings"));
  CHECK(contains(message(R"({"ranks":1,"params":[],"layers":{}})"), "\"layers\""));
  CHECK(contains(message(R"({"ranks":1,"params":[],"layers":[],"buckets":[3]})"), "\"buckets\""));
  CHECK_THROWS_AS(format::to_json([] {
                    RunInfo info;
                    info.config_json = "{not json";
                    return info;
                  }()),
                  InputError);
}

TEST_CASE("things that are no trace files") {
  const TemporaryFolder dir;
  CHECK(contains(complaint(dir / "missing"), "No such file"));
  CHECK(contains(complaint(dir.path()), "regular file"));
  CHECK(contains(complaint("/dev/null"), "regular file"));
  test::write_file(dir / "text", std::string(500, 'x'));
  CHECK(contains(complaint(dir / "text"), "not a trace"));
}

TEST_CASE("recording to a file that is being read leaves the reader unharmed") {
  const TemporaryFolder dir;
  const auto events = sample_events(5);
  const Reader reader(write_trace(dir / "same", events, {5}, true));
  write_trace(dir / "same", sample_events(3, 2), {3}, true);
  CHECK(same(reader.read_all(), events));
  CHECK(Reader(dir / "same").count() == 3);
}
