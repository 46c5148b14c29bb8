// Recordings with hostile values: bytes of a valid one are changed at random and the checksums repaired, so
// that what was changed reaches the index, the timeline and all that builds on them. Nothing may crash, hang
// or trip a sanitizer; a reader's InputError is the other right answer.
//
// timeline_fuzz [SECONDS [SEED]]
#define DOCTEST_CONFIG_IMPLEMENT  // a program of its own; what it shares with tests wants doctest

#include <doctest/doctest.h>
#include <fmt/core.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/base/file.h"
#include "core/trace/format.h"
#include "tests/gui/timeline_random_trace.h"
#include "viz/model/event_fields.h"
#include "viz/model/event_search.h"
#include "viz/model/event_words.h"
#include "viz/model/flow_arrows.h"
#include "viz/model/logical_order.h"
#include "viz/model/range_statistics.h"
#include "viz/model/timeline_drawing.h"

namespace zero1::viz {
namespace {

namespace format = trace::format;

template <class T>
T load(const std::string& bytes, std::size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

template <class T>
void store(std::string& bytes, std::size_t at, const T& value) {
  std::memcpy(bytes.data() + at, &value, sizeof value);
}

/// Where the chunks' headers lie.
std::vector<std::size_t> chunk_places(const std::string& bytes) {
  std::vector<std::size_t> places;
  const auto header = load<format::FileHeader>(bytes, 0);
  std::size_t at = 64 + static_cast<std::size_t>(format::padded(header.info_bytes));
  while (at + 64 <= bytes.size()) {
    const auto chunk = load<format::ChunkHeader>(bytes, at);
    if (chunk.magic != format::chunk_magic || chunk.count > format::max_chunk_events) break;
    places.push_back(at);
    at += 64 + 64 * static_cast<std::size_t>(chunk.count);
  }
  return places;
}

void repair(std::string& bytes, const std::vector<std::size_t>& chunks) {
  for (const std::size_t at : chunks) {
    auto chunk = load<format::ChunkHeader>(bytes, at);
    const std::size_t records = std::min(bytes.size() - at - 64, 64 * static_cast<std::size_t>(chunk.count));
    chunk.payload_checksum = format::checksum(bytes.data() + at + 64, records);
    chunk.checksum = format::header_checksum(chunk);
    store(bytes, at, chunk);
  }
}

/// Values that break arithmetic, and others.
std::int64_t nasty(RandomStream& random) {
  constexpr std::int64_t values[] = {0,         1,         -1,    INT64_MIN, INT64_MAX, INT64_MIN + 1,
                                     INT32_MAX, INT32_MIN, 32767, -32768,    255,       1'000'000};
  if (random.below(4) == 0) return static_cast<std::int64_t>(random.next());
  return values[random.below(std::size(values))];
}

/// Over its neighbours; wraps around where it already was at the end of time.
void widen(trace::Event& event, RandomStream& random) {
  const auto by = static_cast<std::uint64_t>(random.below(1'000'000));
  event.begin_ns = static_cast<std::int64_t>(static_cast<std::uint64_t>(event.begin_ns) - by);
  event.end_ns = static_cast<std::int64_t>(static_cast<std::uint64_t>(event.end_ns) + by);
}

void mutate(trace::Event& event, RandomStream& random) {
  switch (random.below(14)) {
    case 0: event.begin_ns = nasty(random); break;
    case 1: event.end_ns = nasty(random); break;
    case 2: event.begin_ns = INT64_MIN, event.end_ns = INT64_MAX; break;
    case 3: event.bucket = static_cast<std::int32_t>(nasty(random)); break;
    case 4: event.param = static_cast<std::int32_t>(nasty(random)); break;
    case 5: event.step = static_cast<std::int32_t>(nasty(random)); break;
    case 6: event.layer = static_cast<std::int16_t>(nasty(random)); break;
    case 7: event.kind = static_cast<trace::Kind>(random.below(64)); break;
    case 8: event.detail = static_cast<std::uint8_t>(random.below(256)); break;
    case 9:
      event.bytes = nasty(random), event.elem_start = nasty(random), event.elem_end = nasty(random);
      break;
    case 10: event.rank = static_cast<std::int16_t>(random.below(3)); break;
    case 11: event.stream = static_cast<trace::StreamId>(random.below(3)); break;
    case 12: widen(event, random); break;
    default:
      event.flags = static_cast<std::uint16_t>(random.next()),
      event.microbatch = static_cast<std::int16_t>(random.next());
      break;
  }
  // A reader turns away what ends before it begins, or is of a rank that is not there: that is rare here.
  if (random.below(20'000) == 0) event.rank = static_cast<std::int16_t>(nasty(random));
  if (event.end_ns < event.begin_ns && random.below(5000) != 0) std::swap(event.begin_ns, event.end_ns);
}

std::string mutated(const std::string& valid, RandomStream& random) {
  std::string bytes = valid;
  const std::vector<std::size_t> chunks = chunk_places(bytes);
  const std::int64_t changes = random.below(10) == 0 ? 3000 : 1 + random.below(200);
  for (std::int64_t i = 0; i < changes; ++i) {
    const std::size_t chunk =
        chunks[static_cast<std::size_t>(random.below(static_cast<std::int64_t>(chunks.size())))];
    const auto count = static_cast<std::int64_t>(load<format::ChunkHeader>(bytes, chunk).count);
    const std::size_t record = chunk + 64 + 64 * static_cast<std::size_t>(random.below(count));
    auto event = load<trace::Event>(bytes, record);
    mutate(event, random);
    store(bytes, record, event);
  }
  repair(bytes, chunks);
  if (random.below(8) == 0)
    bytes.resize(static_cast<std::size_t>(random.below(static_cast<std::int64_t>(bytes.size()))));
  if (random.below(8) == 0 && !bytes.empty())
    bytes[static_cast<std::size_t>(random.below(static_cast<std::int64_t>(bytes.size())))] ^=
        static_cast<char>(1 << random.below(8));
  return bytes;
}

/// Looks at an index as the window does. Returns something that depends on all of it.
std::int64_t look_at(const EventIndex& index, const trace::RunInfo& info, RandomStream& random) {
  std::int64_t sum = 0;
  TimelineRows rows(index, {}, {});
  TimelineDrawing drawing;
  TimeView view;
  view.set_width(900);
  view.fit(index.range());
  for (int zoom = 0; zoom < 10; ++zoom) {
    const auto bars = drawing.draw(index, rows, 0, rows.rows.size(), view);
    if (bars.size() > DrawLimits().most_bars) std::abort();
    for (const TimelineBar& bar : bars) sum += bar.count;
    view.zoom_at(static_cast<double>(random.below(900)), 0.1 + random.uniform() / 2);
    view.clamp_to(index.range());
    const int row = rows.row_at(static_cast<float>(random.below(1 + static_cast<std::int64_t>(rows.height))));
    if (row >= 0) sum += event_at(index, *rows.rows[static_cast<std::size_t>(row)].row, view, 450);
  }
  for (int i = 0; i < 20; ++i) {
    const EventId id = random.below(index.size());
    const trace::Event event = index.event(id);
    sum += static_cast<std::int64_t>(event_fields(event, info).size() + what(event, info).size());
    sum += index.next(id).value_or(0) +
           index.previous(id, {.rank = event.rank, .bucket = event.bucket}).value_or(0);
    sum += rows.row_of(index, id);
    sum += index.last_at(nasty(random), {.kind = event.kind, .rank = event.rank, .bucket = event.bucket})
               .value_or(0);
  }
  RangeStatistics statistics(index, {nasty(random), nasty(random)});
  statistics.advance(0);
  RangeStatistics whole(index, {INT64_MIN, INT64_MAX});
  whole.advance(0);
  sum += static_cast<std::int64_t>(whole.kinds().size());
  const trace::Interval window = with_whole_steps(index, view.window());
  if (const auto arrows = find_arrows(index, window, {}, {}))
    sum += static_cast<std::int64_t>(arrows->size());
  sum += logical_order(index, window, 3000).events->size();
  sum += EventSearch("wait bucket 1", info).next(index, random.below(index.size())).value_or(0);
  return sum;
}

struct Counts {
  int opened = 0, refused = 0, ended_early = 0;
  std::int64_t events = 0;
};

std::string valid_recording(const std::string& path) {
  const std::vector<trace::Event> events = test::random_trace(3, 12, 5);
  trace::FileWriter writer(path, test::random_trace_info(3), 0);
  for (std::size_t at = 0; at < events.size(); at += 300)
    writer.write_chunk(std::span(events).subspan(at, std::min<std::size_t>(300, events.size() - at)), 0);
  writer.close(0);
  return read_file(path);
}

void run(double seconds, std::uint64_t seed) {
  const std::string path =
      (std::filesystem::temp_directory_path() / fmt::format("zero1-timeline-fuzz-{}.trace", ::getpid()))
          .string();
  const std::string valid = valid_recording(path);
  RandomStream random(seed);
  Counts counts;
  std::int64_t sum = 0;
  const std::int64_t start_ns = now_ns();
  do {
    std::ofstream(path, std::ios::binary) << mutated(valid, random);
    try {
      trace::Reader reader(path);
      const trace::RunInfo info = reader.info();
      const auto index = EventIndex::open(std::move(reader));
      index->absorb_all();
      counts.ended_early += index->error().empty() ? 0 : 1;
      if (index->size() > 0) sum += look_at(*index, info, random);
      ++counts.opened;
      counts.events += index->size();
    } catch (const InputError&) {
      ++counts.refused;
    }
  } while (static_cast<double>(now_ns() - start_ns) < seconds * 1e9);
  std::filesystem::remove(path);
  fmt::print("{} recordings opened with {} events, {} of them ended early, {} refused; seed {}, sum {:x}\n",
             counts.opened, counts.events, counts.ended_early, counts.refused, seed,
             static_cast<std::uint64_t>(sum));
  if (counts.opened == counts.ended_early) std::exit(1);  // nothing hostile came through
}

}  // namespace
}  // namespace zero1::viz

int main(int argc, char** argv) {
  const double seconds = argc > 1 ? std::atof(argv[1]) : 2;
  const std::uint64_t seed = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1;
  zero1::viz::run(seconds, seed);
  return 0;
}
