// What the window's index, timeline and event log cost for ten million events: time until there is something
// to see, time until all is indexed, memory per event, time per frame.
//
// viz_bench                    makes a recording in the temporary folder, measures, removes it
// viz_bench --events 1M        a smaller one
// viz_bench --keep FILE        makes FILE (if it is not there) and keeps it: for `zero1_viz open FILE`
#include <fmt/core.h>
#include <malloc.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bench/big_trace.h"
#include "bench/flags.h"
#include "core/base/clock.h"
#include "core/base/units.h"
#include "tests/gui/gui_test.h"
#include "viz/model/event_index.h"
#include "viz/model/flow_arrows.h"
#include "viz/model/timeline_drawing.h"

namespace {

using namespace zero1;
using namespace zero1::viz;

constexpr double first_picture_bound_s = 1;
constexpr double index_bound_s = 3;
constexpr double memory_bound_bytes = 48;
constexpr double frame_bound_ms = 8;
constexpr double bars_bound = 20'000;

bool all_within = true;

/// A row: the figure, and how it stands to what it may be at most. 0: it is told, not judged.
void print(const char* what, double value, const char* unit, double bound = 0) {
  fmt::print("  {:<58} {:>9.2f} {:<6}", what, value, unit);
  if (bound > 0) {
    const double ratio = value / bound;
    all_within = all_within && ratio <= 1;
    fmt::print(" bound {:>6.0f}   ratio {:.2f}{}", bound, ratio, ratio <= 1 ? "" : "   MISSED");
  }
  fmt::print("\n");
}

double since_s(std::int64_t start_ns) {
  return static_cast<double>(now_ns() - start_ns) / 1e9;
}

/// What this thread, or all of this process, has computed. Frames are measured by it: a frame's cost on one
/// core is not what others do on that core meanwhile.
double cpu_ms(clockid_t clock = CLOCK_THREAD_CPUTIME_ID) {
  timespec time{};
  ::clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_nsec) / 1e6;
}

/// Anonymous memory of this process, in bytes: what is not a file's pages.
double anonymous_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string key; status >> key;) {
    double kib = 0;
    if (key == "RssAnon:" && status >> kib) return kib * 1024;
  }
  return 0;
}

struct Screen {
  TimelineRows rows;
  TimelineDrawing drawing;
  TimeView view;

  /// The bars of a full screen at 2560 × 1440, scrolled to the top.
  std::size_t draw(const EventIndex& index) {
    rows = TimelineRows(index, {}, {});
    const auto [first, last] = rows.between(0, 1440);
    return drawing.draw(index, rows, first, last, view).size();
  }
};

/// As the window does: frames in which the index takes over what was read, and all is drawn.
void measure_opening(const std::string& path, std::shared_ptr<EventIndex>& index) {
  const double before = anonymous_bytes();
  const std::int64_t start_ns = now_ns();
  const double start_cpu_ms = cpu_ms(CLOCK_PROCESS_CPUTIME_ID);
  Screen screen;
  screen.view.set_width(2400);
  index = EventIndex::open(trace::Reader(path));
  double first_picture_s = 0, slowest_absorb_ms = 0;
  int frames = 0;
  while (index->loading()) {
    const std::int64_t frame_ns = now_ns();
    const double before_ms = cpu_ms();
    index->absorb();
    slowest_absorb_ms = std::max(slowest_absorb_ms, cpu_ms() - before_ms);
    if (index->size() > 0) {
      screen.view.fit(index->range());
      const std::size_t bars = screen.draw(*index);
      if (first_picture_s == 0 && bars > 0) first_picture_s = since_s(start_ns);
    }
    ++frames;
    const double left_s = 1.0 / 60 - since_s(frame_ns);
    if (left_s > 0) ::usleep(static_cast<useconds_t>(left_s * 1e6));
  }
  const double index_s = since_s(start_ns);
  const double index_cpu_s = (cpu_ms(CLOCK_PROCESS_CPUTIME_ID) - start_cpu_ms) / 1e3;
  ::malloc_trim(0);
  const double bytes = (anonymous_bytes() - before) / static_cast<double>(index->size());
  fmt::print("opening, in frames of 1/60 s as the window does ({} frames; absorb() took {:.1f} ms at most)\n",
             frames, slowest_absorb_ms);
  print("open() until the first picture with events", first_picture_s, "s", first_picture_bound_s);
  print("open() until the index is complete", index_s, "s", index_bound_s);
  print("of that: computing on all threads, with the frames' bars", index_cpu_s, "s");
  print("anonymous memory / events, all included", bytes, "bytes", memory_bound_bytes);
  fmt::print("  {} events\n\n", format_count(index->size()));
}

void measure_indexing_alone(const std::string& path) {
  const std::int64_t start_ns = now_ns();
  const double start_cpu_ms = cpu_ms(CLOCK_PROCESS_CPUTIME_ID), start_thread_ms = cpu_ms();
  auto index = EventIndex::open(trace::Reader(path));
  index->absorb_all();
  fmt::print("\nfor comparison: open() and absorb_all(), no frames between\n");
  print("wall time", since_s(start_ns), "s");
  const double thread_s = (cpu_ms() - start_thread_ms) / 1e3;
  print("computing: absorb(), on the drawing thread", thread_s, "s");
  print("computing: reading and packing, in the background",
        (cpu_ms(CLOCK_PROCESS_CPUTIME_ID) - start_cpu_ms) / 1e3 - thread_s, "s");
}

/// Views from the whole run to single events, at several places; each is drawn as the second of two frames.
void measure_frames(const EventIndex& index) {
  fmt::print("frames of 2400 pixels × 1440, all rows that fit: computing rows and bars, best of 3\n");
  double slowest_ms = 0;
  std::size_t most_bars = 0;
  const auto whole = static_cast<double>(index.range().end_ns - index.range().start_ns);
  for (int zoom = 0; zoom <= 24; ++zoom) {
    double zoom_ms = 0;
    std::size_t zoom_bars = 0;
    double merge_px = 0;
    for (const double place : {0.0, 0.3, 0.77}) {
      Screen screen;
      screen.view.set_width(2400);
      const double span = std::max(whole / std::pow(2.0, zoom), TimeView::least_span_ns);
      const double start = static_cast<double>(index.range().start_ns) + place * (whole - span);
      screen.view.show(start, start + span);
      screen.draw(index);
      double best_ms = 1e9;
      for (int repeat = 0; repeat < 3; ++repeat) {
        const double start_ms = cpu_ms();
        zoom_bars = std::max(zoom_bars, screen.draw(index));
        best_ms = std::min(best_ms, cpu_ms() - start_ms);
      }
      zoom_ms = std::max(zoom_ms, best_ms);
      merge_px = std::max(merge_px, screen.drawing.merge_px());
    }
    if (zoom % 3 == 0)
      fmt::print("    {:>12} in view: {:>6.2f} ms, {:>6} bars, merged below {:.0f} px\n",
                 format_duration_ns(static_cast<std::int64_t>(whole / std::pow(2.0, zoom))), zoom_ms,
                 zoom_bars, merge_px);
    slowest_ms = std::max(slowest_ms, zoom_ms);
    most_bars = std::max(most_bars, zoom_bars);
  }
  print("slowest frame over 25 zooms × 3 places", slowest_ms, "ms", frame_bound_ms);
  print("most bars", static_cast<double>(most_bars), "", bars_bound);
}

/// A panel that fills 2560 × 1440 pixels, with a recording.
struct WholeScreen {
  std::unique_ptr<Panel> panel;
  Document document;
  Theme theme;
  viz::test::Gui gui;

  WholeScreen(std::unique_ptr<Panel> shown, const std::shared_ptr<EventIndex>& index, const std::string& path)
      : panel(std::move(shown)), gui(*panel, document, theme, 2560, 1440) {
    document.info = trace::Reader(path).info();
    document.events = index;
    gui.frame(3);
  }
};

/// The panel as a whole, at 2560 × 1440: the draw lists of a frame, from the input to the last vertex.
void measure_panel(const std::shared_ptr<EventIndex>& index, const std::string& path) {
  WholeScreen screen(make_timeline_panel(), index, path);
  viz::test::Gui& gui = screen.gui;
  double slowest_ms = 0;
  int most_vertices = 0;
  for (int zoom = 0; zoom < 40; ++zoom) {
    double best_ms = 1e9;
    for (int repeat = 0; repeat < 3; ++repeat) {
      const double start_ms = cpu_ms();
      gui.frame();
      best_ms = std::min(best_ms, cpu_ms() - start_ms);
    }
    slowest_ms = std::max(slowest_ms, best_ms);
    most_vertices = std::max(most_vertices, gui.vertices());
    gui.wheel({900.0F + 30 * static_cast<float>(zoom), 400}, 2);
  }
  fmt::print("\nthe whole panel, 40 zooms from the run to single events: draw lists, best of 3\n");
  print("slowest frame", slowest_ms, "ms", frame_bound_ms);
  print("most quadrilaterals (vertices / 4)", most_vertices / 4.0, "", bars_bound);
}

/// The event log beside it: while it lists all events, and as it is scrolled through all of them.
void measure_log(const std::shared_ptr<EventIndex>& index, const std::string& path) {
  WholeScreen screen(make_log_panel(), index, path);
  viz::test::Gui& gui = screen.gui;
  const auto slowest_of = [&](int frames, const std::function<void(int)>& before) {
    double slowest_ms = 0;
    for (int i = 0; i < frames; ++i) {
      before(i);
      const double start_ms = cpu_ms();
      gui.frame();
      slowest_ms = std::max(slowest_ms, cpu_ms() - start_ms);
    }
    return slowest_ms;
  };
  fmt::print("\nthe event log of {} rows: whole frames, every one counts\n", format_count(index->size()));
  print("slowest frame while all events are listed", slowest_of(600, [](int) {}), "ms", frame_bound_ms);
  gui.move({2550, 100});
  gui.press();
  const double scrolled_ms = slowest_of(400, [](int i) {
    ImGui::GetIO().MousePos = {2550, 100.0F + 3 * static_cast<float>(i)};
  });
  gui.release();
  print("slowest frame as it is scrolled from end to end", scrolled_ms, "ms", frame_bound_ms);
  print("most quadrilaterals (vertices / 4)", gui.vertices() / 4.0, "", bars_bound);
}

void measure_questions(const EventIndex& index, const bench::BigTrace& shape) {
  constexpr int repeats = 2000;
  const trace::Interval range = index.range();
  std::int64_t found = 0;
  double start_ms = cpu_ms();
  for (int i = 0; i < repeats; ++i) {
    const std::int64_t at = range.start_ns + (range.end_ns - range.start_ns) / repeats * i;
    found += index.last_at(at, {.kind = trace::Kind::bucket_state,
                                .rank = i % shape.ranks,
                                .bucket = i % shape.buckets})
                     .has_value()
                 ? 1
                 : 0;
  }
  fmt::print("\nquestions to the index, mean of {}; {} of the first had an answer\n", repeats, found);
  print("the state of one bucket on one rank at a moment", (cpu_ms() - start_ms) * 1e3 / repeats, "us");
  start_ms = cpu_ms();
  EventId id = 0;
  for (int i = 0; i < repeats; ++i) id = index.next(id).value_or(0);
  print("the next event of any kind", (cpu_ms() - start_ms) * 1e3 / repeats, "us");
}

/// A live run: events that arrive 100,000 a second, taken over in frames.
void measure_live(const std::vector<trace::Event>& events, int ranks) {
  constexpr std::size_t per_frame = 100'000 / 60;
  EventIndex index(ranks);
  Screen screen;
  screen.view.set_width(2400);
  double slowest_ms = 0, sum_ms = 0;
  int frames = 0;
  for (std::size_t at = 0; at + per_frame <= events.size(); at += per_frame) {
    const double start_ms = cpu_ms();
    index.push(std::span(events).subspan(at, per_frame));
    index.absorb();
    screen.view.show(static_cast<double>(index.range().end_ns) - 1e9,
                     static_cast<double>(index.range().end_ns));
    screen.draw(index);
    slowest_ms = std::max(slowest_ms, cpu_ms() - start_ms);
    sum_ms += cpu_ms() - start_ms;
    ++frames;
  }
  fmt::print("\nlive, 100,000 events/s in frames of 1/60 s: push, absorb and bars\n");
  print("push to bars, slowest frame", slowest_ms, "ms", 50);
  print("mean", sum_ms / frames, "ms");
}

}  // namespace

int main(int argc, char** argv) {
  zero1::bench::Flags flags("Measures the window's index and timeline.");
  std::string events_text = "10M", keep;
  flags.add("--events", events_text, "how many events, such as 1M");
  flags.add("--keep", keep, "the recording, made if it is not there, and kept");
  flags.parse(argc, argv);

  const std::string path =
      keep.empty()
          ? (std::filesystem::temp_directory_path() / fmt::format("zero1-viz-bench-{}.trace", ::getpid()))
                .string()
          : keep;
  bench::BigTrace shape;
  const std::int64_t count = parse_count(events_text);
  if (!std::filesystem::exists(path)) {
    const std::int64_t start_ns = now_ns();
    bench::write_big_trace(path, shape, count);
    fmt::print("made {} with {} events in {:.1f} s\n\n", path, format_count(count), since_s(start_ns));
  }
  {
    std::shared_ptr<EventIndex> index;
    measure_opening(path, index);
    measure_frames(*index);
    measure_panel(index, path);
    measure_log(index, path);
    measure_questions(*index, shape);
  }
  measure_indexing_alone(path);
  measure_live(bench::first_events(shape, 1'000'000), shape.ranks);
  if (keep.empty()) std::filesystem::remove(path);
  return all_within ? 0 : 1;
}
