// The timeline for Perfetto, checked by reading it back under the rules of the Chrome trace event format.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <set>

#include "core/base/error.h"
#include "core/trace/chrome_export.h"
#include "core/trace/overlap.h"
#include "core/trace/summary.h"
#include "tests/unit/trace_sample_run.h"

using namespace zero1::trace;
using nlohmann::json;
using test::TemporaryFolder;

namespace {

struct Slice {
  std::int64_t begin = 0, end = 0;
  std::string name;
  json args;
};

/// Microseconds in the file, nanoseconds here.
std::int64_t ns_of(const json& value) {
  return std::llround(value.get<double>() * 1000);
}

using TrackId = std::pair<int, int>;  // pid, tid

struct Timeline {
  std::map<TrackId, std::vector<Slice>> slices;  ///< in file order
  std::map<TrackId, std::string> names;
  std::map<int, std::string> processes;
  std::map<std::int64_t, std::vector<json>> flows;  ///< by id, in file order
  std::vector<json> instants, counters;
};

/// Parses the file and checks each event by itself.
Timeline parse(const std::string& path) {
  const json document = json::parse(test::read_file(path));
  REQUIRE(document.at("traceEvents").is_array());
  Timeline timeline;
  for (const json& event : document.at("traceEvents")) {
    const auto phase = event.at("ph").get<std::string>();
    const int pid = event.at("pid").get<int>();
    REQUIRE(pid > 0);
    if (phase == "M") {
      if (event.at("name") == "process_name") timeline.processes[pid] = event.at("args").at("name");
      if (event.at("name") == "thread_name")
        timeline.names[{pid, event.at("tid")}] = event.at("args").at("name");
      if (event.at("name") == "process_sort_index")
        REQUIRE(event.at("args").at("sort_index").is_number_integer());
      continue;
    }
    REQUIRE(event.at("ts").is_number());
    REQUIRE_FALSE(event.at("name").get<std::string>().empty());
    if (phase == "C") {
      REQUIRE(event.at("args").begin().value().is_number());
      timeline.counters.push_back(event);
      continue;
    }
    const TrackId track{pid, event.at("tid")};
    REQUIRE(track.second > 0);
    if (phase == "X") {
      const std::int64_t begin = ns_of(event.at("ts"));
      REQUIRE(ns_of(event.at("dur")) >= 0);
      timeline.slices[track].push_back(
          {begin, begin + ns_of(event.at("dur")), event.at("name"), event.at("args")});
    } else if (phase == "i") {
      REQUIRE(event.at("s") == "t");
      timeline.instants.push_back(event);
    } else {
      REQUIRE((phase == "s" || phase == "t" || phase == "f"));
      REQUIRE(event.contains("bp") == (phase == "f"));
      if (phase == "f") REQUIRE(event.at("bp") == "e");
      timeline.flows[event.at("id").get<std::int64_t>()].push_back(event);
    }
  }
  return timeline;
}

void check_nesting(const Timeline& timeline) {
  for (const auto& [track, slices] : timeline.slices) {
    REQUIRE(timeline.names.contains(track));
    std::vector<std::int64_t> open;
    std::int64_t last = INT64_MIN;
    for (const Slice& slice : slices) {
      REQUIRE(slice.begin >= last);  // equal begins: the outer one first
      last = slice.begin;
      while (!open.empty() && open.back() <= slice.begin) open.pop_back();
      if (!open.empty()) REQUIRE(slice.end <= open.back());
      open.push_back(slice.end);
    }
  }
}

/// The slice that an arrow's point binds to: the innermost around its time.
const Slice& binding(const Timeline& timeline, const json& point) {
  const std::int64_t at = ns_of(point.at("ts"));
  const Slice* found = nullptr;
  for (const Slice& slice : timeline.slices.at({point.at("pid"), point.at("tid")})) {
    if (slice.begin <= at && at <= slice.end &&
        (found == nullptr || slice.end - slice.begin <= found->end - found->begin)) {
      found = &slice;
    }
  }
  REQUIRE(found != nullptr);
  return *found;
}

/// Checks arrows and returns how often each chain of kinds occurs.
std::map<std::string, int> check_flows(const Timeline& timeline) {
  std::map<std::string, int> chains;
  for (const auto& [id, points] : timeline.flows) {
    std::map<std::int64_t, json> by_phase;
    const std::string order = "stf";
    for (const json& point : points) {
      const auto phase = order.find(point.at("ph").get<std::string>());
      REQUIRE(by_phase.emplace(static_cast<std::int64_t>(phase), point).second);
      REQUIRE(point.at("name") == points[0].at("name"));
      REQUIRE(point.at("cat") == points[0].at("cat"));
      REQUIRE(point.at("pid") == points[0].at("pid"));
    }
    REQUIRE(by_phase.contains(0));
    REQUIRE(by_phase.contains(2));
    std::string chain;
    std::int64_t last = INT64_MIN;
    for (const auto& [phase, point] : by_phase) {
      const std::int64_t at = ns_of(point.at("ts"));
      REQUIRE(at >= last);
      last = at;
      chain += (chain.empty() ? "" : " > ") + binding(timeline, point).args.at("kind").get<std::string>();
    }
    ++chains[chain];
  }
  return chains;
}

std::map<std::string, std::int64_t> durations(const Timeline& timeline) {
  std::map<std::string, std::int64_t> sums;
  for (const auto& [track, slices] : timeline.slices) {
    for (const Slice& slice : slices) sums[slice.args.at("kind")] += slice.end - slice.begin;
  }
  return sums;
}

}  // namespace

TEST_CASE("a run's timeline: tracks, slices, arrows, counters, and every nanosecond of it") {
  constexpr int ranks = 3;
  constexpr int steps = 5;
  const TemporaryFolder dir;
  std::vector<Event> events = test::SampleRun(ranks, steps).events();
  const Reader reader(test::write_sample_run(dir / "run.trace", events, ranks));
  double last_progress = 0;
  ExportOptions options;
  options.progress = [&](double share) {
    CHECK(share >= last_progress);
    last_progress = share;
  };
  const ExportResult result = export_chrome(reader, dir / "run.json", options);
  CHECK(last_progress == 1.0);
  CHECK(result.events == static_cast<std::int64_t>(events.size()));
  CHECK(result.bytes == static_cast<std::int64_t>(std::filesystem::file_size(dir / "run.json")));
  const Timeline timeline = parse(dir / "run.json");

  CHECK(timeline.processes == std::map<int, std::string>{{1, "rank 0"}, {2, "rank 1"}, {3, "rank 2"}});
  std::map<std::string, int> tracks;
  for (const auto& [track, track_name] : timeline.names) ++tracks[track_name];
  CHECK(tracks == std::map<std::string, int>{{"communication", 3}, {"compute", 3}, {"host", 3}});
  check_nesting(timeline);

  std::map<std::string, std::int64_t> expected;
  for (const Event& event : events) {
    if (event.end_ns > event.begin_ns)
      expected[std::string(name(event.kind))] += event.end_ns - event.begin_ns;
  }
  auto found = durations(timeline);
  CHECK(found["grad_ready"] == 0);
  CHECK(found["collective_issue"] == 0);
  found.erase("grad_ready");
  found.erase("collective_issue");
  CHECK(found == expected);
  CHECK(timeline.instants.size() == ranks * steps);
  CHECK(timeline.counters.size() == ranks * steps);
  CHECK(timeline.counters[0].at("args").at("bytes") == 1 << 20);
  CHECK(timeline.counters[0].at("name") == "memory: parameters");

  const auto chains = check_flows(timeline);
  CHECK(chains == std::map<std::string, int>{
                      {"grad_ready > collective_run", 3 * ranks * steps},
                      {"collective_issue > collective_run > collective_wait", 3 * ranks * steps}});
  CHECK(result.flows == 6 * ranks * steps);
}

TEST_CASE("slices carry names and arguments") {
  const TemporaryFolder dir;
  const Reader reader(test::write_sample_run(dir / "run.trace", test::SampleRun(1, 1).events(), 1));
  export_chrome(reader, dir / "run.json");
  std::map<std::string, json> by_name;
  const Timeline timeline = parse(dir / "run.json");
  for (const auto& [track, slices] : timeline.slices) {
    for (const Slice& slice : slices) by_name[slice.name] = slice.args;
  }
  REQUIRE(by_name.contains("forward embed\n"));
  CHECK(by_name["forward embed\n"].at("layer") == 0);
  REQUIRE(by_name.contains("grad_ready h.0\\w"));
  CHECK(by_name["grad_ready h.0\\w"].at("param") == "h.0\\w");
  CHECK(by_name["grad_ready h.0\\w"].at("elements") == "[64, 125)");
  CHECK(by_name["grad_ready wte \"w\""].at("bucket") == 1);
  REQUIRE(by_name.contains("reduce-scatter bucket 1"));
  CHECK(by_name["reduce-scatter bucket 1"].at("bytes") == 512);
  CHECK(by_name["reduce-scatter bucket 1"].at("buffer") == 0);
  CHECK(by_name["reduce-scatter bucket 1"].at("flags") == "modelled link");
  CHECK(by_name.contains("wait for all-gather bucket 0"));
  CHECK(by_name.contains("issue all-gather bucket 0"));
  CHECK(by_name.contains("step 0"));
}

TEST_CASE("arrows bind each gradient to the reduction that carries it") {
  const TemporaryFolder dir;
  const Reader reader(test::write_sample_run(dir / "run.trace", test::SampleRun(2, 3).events(), 2));
  export_chrome(reader, dir / "run.json");
  const Timeline timeline = parse(dir / "run.json");
  int checked = 0;
  for (const auto& [id, points] : timeline.flows) {
    if (points[0].at("name") != "gradient ready") continue;
    const json from = binding(timeline, points[0]).args;
    const json to = binding(timeline, points[1]).args;
    CHECK(from.at("bucket") == to.at("bucket"));
    CHECK(from.at("step") == to.at("step"));
    CHECK(to.at("collective") == "reduce-scatter");
    ++checked;
  }
  CHECK(checked == 18);
}

TEST_CASE("any well-formed events give a well-formed timeline") {
  const TemporaryFolder dir;
  std::mt19937 random(13);
  for (int round = 0; round < 60; ++round) {
    CAPTURE(round);
    std::vector<Event> events;
    for (int i = static_cast<int>(random() % 120); i > 0; --i) {
      const std::int64_t begin = random() % 60;
      Event event = test::make_event(static_cast<Kind>(random() % 56), begin, begin + random() % 20,
                                     static_cast<int>(random() % 2), static_cast<StreamId>(random() % 3));
      event.detail = static_cast<std::uint8_t>(random() % 9);  // some unknown
      event.bucket = static_cast<int>(random() % 5) - 1;       // some without a name
      event.param = static_cast<int>(random() % 6) - 1;
      event.layer = static_cast<std::int16_t>(random() % 6 - 1);
      event.step = static_cast<int>(random() % 3) - 1;
      event.flags = static_cast<std::uint16_t>(random());
      events.push_back(event);
    }
    const Reader reader(test::write_sample_run(dir / "run.trace", events, 2));
    export_chrome(reader, dir / "run.json");
    const Timeline timeline = parse(dir / "run.json");
    check_nesting(timeline);
    (void)check_flows(timeline);
    std::int64_t slices = 0;
    for (const auto& [track, of_track] : timeline.slices)
      slices += static_cast<std::int64_t>(of_track.size());
    CHECK(slices + static_cast<std::int64_t>(timeline.instants.size() + timeline.counters.size()) ==
          reader.count());
  }
}

TEST_CASE("overlapping spans of one stream get tracks of their own") {
  const TemporaryFolder dir;
  std::vector<Event> events;
  for (int i = 0; i < 3; ++i) {
    events.push_back(test::make_event(Kind::collective_run, 10 * i, 10 * i + 25, 0, StreamId::communication));
  }
  const Reader reader(test::write_sample_run(dir / "run.trace", events, 1));
  export_chrome(reader, dir / "run.json");
  const Timeline timeline = parse(dir / "run.json");
  check_nesting(timeline);
  std::set<std::string> names;
  for (const auto& [track, track_name] : timeline.names) names.insert(track_name);
  CHECK(names == std::set<std::string>{"communication", "communication 2", "communication 3"});
}

TEST_CASE("of spans with the same times, the one recorded later is the outer one") {
  const TemporaryFolder dir;
  const std::vector<Event> events{test::make_event(Kind::collective_wait, 5, 9),
                                  test::make_event(Kind::grad_norm, 5, 9),
                                  test::make_event(Kind::step, 5, 9)};
  const Reader reader(test::write_sample_run(dir / "run.trace", events, 1));
  export_chrome(reader, dir / "run.json");
  std::vector<std::string> kinds;
  const Timeline timeline = parse(dir / "run.json");
  for (const Slice& slice : timeline.slices.begin()->second) kinds.push_back(slice.args.at("kind"));
  CHECK(kinds == std::vector<std::string>{"step", "grad_norm", "collective_wait"});
}

TEST_CASE("times keep their nanoseconds, also after a week") {
  const TemporaryFolder dir;
  const std::int64_t week = 604'800'000'000'001;
  const Reader reader(test::write_sample_run(
      dir / "run.trace",
      {test::make_event(Kind::clip, week, week + 1), test::make_event(Kind::data, -1501, -7)}, 1));
  export_chrome(reader, dir / "run.json");
  const std::string text = test::read_file(dir / "run.json");
  CHECK(text.find("\"ts\":604800000000.001,\"dur\":0.001") != std::string::npos);
  CHECK(text.find("\"ts\":-1.501,\"dur\":1.494") != std::string::npos);
}

TEST_CASE("a part of a trace: its events, and the arrows of the whole that lie in it") {
  constexpr int ranks = 4;
  const TemporaryFolder dir;
  const std::vector<Event> events = test::SampleRun(ranks, 9).events();
  const Reader reader(test::write_sample_run(dir / "run.trace", events, ranks));
  export_chrome(reader, dir / "all.json");
  const Timeline whole = parse(dir / "all.json");
  const struct {
    const char *steps, *ranks;
  } cases[] = {{"3:6", "0,2-3"}, {"4", "1"},     {"7:", ""},     {":2", ""},
               {"", "3"},        {"0:9", "0-3"}, {"5:1000", "2"}};
  for (const auto& c : cases) {
    CAPTURE(c.steps);
    CAPTURE(c.ranks);
    ExportOptions options;
    if (*c.steps != 0) parse_steps(c.steps, options.selection);
    if (*c.ranks != 0) parse_ranks(c.ranks, options.selection);
    std::int64_t planned = 0;
    options.on_plan = [&](const ExportResult& plan) {
      planned = plan.bytes;
      CHECK_FALSE(std::filesystem::exists(dir / "part.json"));
    };
    const ExportResult result = export_chrome(reader, dir / "part.json", options);
    CHECK(planned == result.bytes);  // so few events are all looked at
    const Timeline part = parse(dir / "part.json");
    std::filesystem::remove(dir / "part.json");
    const auto selected = [&](const Event& event) {
      return options.selection.has_rank(event.rank) && options.selection.has_step(event.step);
    };
    CHECK(result.events == std::count_if(events.begin(), events.end(), selected));
    check_nesting(part);
    (void)check_flows(part);
    for (const auto& [pid, process] : part.processes) CHECK(options.selection.has_rank(pid - 1));
    CHECK(part.processes.size() ==
          (options.selection.ranks.empty() ? ranks : options.selection.ranks.size()));
    CHECK(part.names.size() == 3 * part.processes.size());

    // An arrow of the whole keeps those of its points that are in the part, if these are two or more.
    std::multiset<std::string> expected, found;
    const auto arrows_of = [](const Timeline& timeline, auto keep, std::multiset<std::string>& arrows) {
      for (const auto& [id, points] : timeline.flows) {
        std::map<double, std::string> kept;
        for (const json& point : points) {
          const json& args = binding(timeline, point).args;
          if (keep(point.at("pid").get<int>() - 1, args.at("step").get<int>()))
            kept[point.at("ts")] =
                fmt::format("{} {} {}", point.at("pid").get<int>(), args.dump(), point.at("ts").dump());
        }
        std::string arrow;
        for (const auto& [at, text] : kept) arrow += text + " > ";
        if (kept.size() > 1) arrows.insert(arrow);
      }
    };
    arrows_of(
        whole,
        [&](int rank, int step) {
          return options.selection.has_rank(rank) && options.selection.has_step(step);
        },
        expected);
    arrows_of(
        part, [](int, int) { return true; }, found);
    CHECK(found == expected);
    CHECK(result.flows == static_cast<std::int64_t>(part.flows.size()));
  }
}

TEST_CASE("the size is told within a tenth, also of what is too much to look at") {
  const TemporaryFolder dir;
  const Reader reader(test::write_sample_run(dir / "run.trace", test::SampleRun(3, 400).events(), 3));
  ExportOptions options;
  std::int64_t planned = 0;
  options.on_plan = [&](const ExportResult& plan) { planned = plan.bytes; };
  options.dry_run = true;
  CHECK(export_chrome(reader, dir / "run.json", options).bytes == planned);
  CHECK_FALSE(std::filesystem::exists(dir / "run.json"));
  options.dry_run = false;
  const ExportResult result = export_chrome(reader, dir / "run.json", options);
  CHECK(result.events > 10'000);
  CHECK(static_cast<double>(planned) == doctest::Approx(static_cast<double>(result.bytes)).epsilon(0.1));
}

TEST_CASE("the timeline appears whole or not at all") {
  const TemporaryFolder dir;
  const Reader reader(test::write_sample_run(dir / "run.trace", test::SampleRun(1, 2).events(), 1));
  CHECK_THROWS_AS(export_chrome(reader, dir / "missing/run.json"), zero1::Error);
  CHECK_THROWS_AS(export_chrome(reader, dir.path()), zero1::InputError);
  CHECK_THROWS_AS(export_chrome(reader, "/dev/null"), zero1::InputError);
  test::write_file(dir / "kept.json", "precious");
  struct Interrupted {};
  ExportOptions options;
  options.progress = [](double share) {
    if (share > 0.5) throw Interrupted();
  };
  CHECK_THROWS_AS(export_chrome(reader, dir / "kept.json", options), Interrupted);
  CHECK(test::read_file(dir / "kept.json") == "precious");
  export_chrome(reader, dir / "kept.json");
  CHECK(test::read_file(dir / "kept.json").size() > 1000);
  int files = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(dir.path())) ++files;
  CHECK(files == 2);  // no temporary ones
}

TEST_CASE("the summary says what the analysis found") {
  const TemporaryFolder dir;
  const std::vector<Event> events = test::SampleRun(3, 40).events();
  const Reader reader(test::write_sample_run(dir / "run.trace", events, 3, false));
  const Summary summary = summarize(reader);
  const OverlapReport report = analyze_overlap(events, 3);
  CHECK(summary.overlap.run == report.run);
  CHECK(summary.truncated);
  CHECK(summary.modelled_link);
  CHECK_FALSE(summary.predicted);
  const json parsed = json::parse(summary_json(summary));
  CHECK(parsed.at("events") == events.size());
  CHECK(parsed.at("truncated") == true);
  CHECK(parsed.at("steps").size() == 40);
  CHECK(parsed.at("steps")[3].at("mean").at("overlap") == report.steps[3].figures.mean.overlap);
  CHECK(parsed.at("kinds").at("grad_ready").at("count") == 360);
  CHECK(parsed.at("by_bucket").size() == 2);
  CHECK(parsed.at("by_bucket")[0].at("reduce_starts_before_backward_end_ns").at("min") == 1350);
  CHECK(parsed.at("config").at("dp") == 3);
  const std::string text = summary_text(summary);
  CAPTURE(text);
  for (const char* part :
       {"3 ranks", "not closed", "modelled link", "16 of 40 steps", "Buckets", "1.35 µs", "█"}) {
    CAPTURE(std::string(part));
    CHECK(text.find(part) != std::string::npos);
  }
  CHECK(summary_text(summary, {true, false}).find("16 of 40") == std::string::npos);
  CHECK(summary_text(summary, {true, false}).find("█") == std::string::npos);
}
