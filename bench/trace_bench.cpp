// What recording costs the pipeline's threads, per event.
#include <fmt/core.h>

#include <unistd.h>
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "core/base/clock.h"
#include "core/device/stream.h"
#include "core/trace/gate.h"
#include "core/trace/lane.h"
#include "core/trace/reader.h"
#include "core/trace/recorder.h"
#include "core/trace/tracer.h"

namespace {

using namespace zero1;

constexpr double bound_ns = 25;
constexpr int events_per_repeat = 15'000;  // below a quarter of a ring: the drain thread stays asleep
constexpr int repeats = 200;

/// A stream that runs inline, as the CPU's compute stream does.
class InlineStream : public Stream {
 public:
  StreamKind kind() const override { return StreamKind::compute; }
  void record(zero1::Event&) override {}
  void wait(zero1::Event&) override {}
  void synchronize() override {}
  void stamp(std::function<void(std::int64_t)> reached) override { reached(now_ns()); }
};

/// The best time per event over the repeats; `between` runs outside the time.
template <class Work, class Between>
double best_ns(Work work, Between between) {
  double best = 1e9;
  for (int repeat = 0; repeat < repeats; ++repeat) {
    const std::int64_t begin = now_ns();
    for (int i = 0; i < events_per_repeat; ++i) work(i);
    best = std::min(best, static_cast<double>(now_ns() - begin) / events_per_repeat);
    between();
  }
  return best;
}

void print(const char* what, double ns, double bound = 0) {
  if (bound > 0)
    fmt::print("  {:<44} {:>7.1f} ns   bound {:>4.0f} ns   ratio {:.2f}\n", what, ns, bound, ns / bound);
  else
    fmt::print("  {:<44} {:>7.1f} ns\n", what, ns);
}

void measure_recording(const std::string& path) {
  trace::Gate gate;
  trace::RecorderOptions options;
  options.path = path;
  options.flush_interval_ms = 60'000;
  trace::Recorder recorder({}, options);
  trace::Lane& lane = recorder.lane(0, trace::StreamId::compute);
  trace::Tracer tracer(0, &recorder, &gate);
  trace::Tracer disabled;
  InlineStream stream;
  const auto drain = [&] { recorder.drain(); };
  const std::int64_t start = recorder.start_ns();
  trace::Event event{.kind = trace::Kind::forward, .stream = trace::StreamId::compute};
  std::int64_t sink = 0;

  // A new ring is not in the cache yet, and must not fault its pages in here.
  const std::int64_t begin = now_ns();
  for (int i = 0; i < events_per_repeat; ++i) lane.push(event);
  const double first_lap = static_cast<double>(now_ns() - begin) / events_per_repeat;
  recorder.drain();
  const double push = best_ns(
      [&](int i) {
        event.step = i;
        lane.push(event);
      },
      drain);
  const double clock = best_ns([&](int) { sink += now_ns(); }, [] {});
  const double with_clocks = best_ns(
      [&](int) {
        event.begin_ns = now_ns() - start;
        event.end_ns = now_ns() - start;
        lane.push(event);
      },
      drain);
  const double span = best_ns([&](int) { tracer.span(stream, {.kind = trace::Kind::forward}).end(); }, drain);
  const double instant = best_ns([&](int) { tracer.instant({.kind = trace::Kind::grad_ready}); }, drain);
  const double off =
      best_ns([&](int) { disabled.span(stream, {.kind = trace::Kind::forward}).end(); }, [] {});
  const double ask = best_ns([&](int) { gate.arrive(event); }, [] {});

  fmt::print("time per event = best of {} repeats of {} events / {}; what the pipeline's thread spends\n",
             repeats, events_per_repeat, events_per_repeat);
  print("Lane::push alone", push, bound_ns);
  print("Lane::push in the first lap of a new ring", first_lap, bound_ns);
  print("one reading of the clock", clock);
  print("two clock readings and a push", with_clocks, 2 * clock + bound_ns);
  print("Tracer::span on an inline stream (two stamps)", span, 2 * clock + bound_ns);
  print("Tracer::instant", instant, clock + bound_ns);
  print("Tracer::span, tracing off", off);
  print("Gate::arrive, running", ask);
  fmt::print("  dropped {} (sum {})\n", recorder.dropped(), sink & 1);
}

/// Draining into a file, and reading it back: bounds are what the bytes cost at 64 bytes an event.
void measure_file(const std::string& path) {
  constexpr std::int64_t total = 10'000'000;
  constexpr std::int64_t batch = 60'000;
  double drain_s = 0;
  {
    trace::RecorderOptions options;
    options.path = path;
    options.flush_interval_ms = 60'000;
    trace::Recorder recorder({}, options);
    trace::Lane& lane = recorder.lane(0, trace::StreamId::compute);
    for (std::int64_t done = 0; done < total; done += batch) {
      for (std::int64_t i = 0; i < std::min(batch, total - done); ++i) {
        lane.push({.begin_ns = done + i, .end_ns = done + i + 1, .kind = trace::Kind::forward});
      }
      const std::int64_t begin = now_ns();
      recorder.drain();
      drain_s += static_cast<double>(now_ns() - begin) / 1e9;
    }
    recorder.close();
  }
  const std::int64_t opening = now_ns();
  const trace::Reader reader(path);
  const std::int64_t opened = now_ns();
  std::int64_t sum = 0;
  reader.for_each_chunk([&](std::span<const trace::Event> events) {
    for (const trace::Event& event : events) sum += event.end_ns - event.begin_ns;
  });
  const double read_s = static_cast<double>(now_ns() - opened) / 1e9;
  const double gb = static_cast<double>(total) * sizeof(trace::Event) / 1e9;
  fmt::print("\na file of {} events ({:.2f} GB)\n", total, gb);
  fmt::print("  draining into it   {:.2f} s   {:.2f} GB/s   {:.1f} ns per event (on the drain thread)\n",
             drain_s, gb / drain_s, drain_s * 1e9 / total);
  fmt::print("  opening            {:.4f} s\n", static_cast<double>(opened - opening) / 1e9);
  fmt::print("  reading, validated {:.2f} s   {:.2f} GB/s   bound 1 s   ratio {:.2f}   ({} events)\n", read_s,
             gb / read_s, read_s, sum);
}

}  // namespace

int main() {
  const std::string path =
      (std::filesystem::temp_directory_path() / fmt::format("zero1-trace-bench-{}.trace", getpid())).string();
  measure_recording(path);
  measure_file(path);
  std::filesystem::remove(path);
  return 0;
}
