// Every prepared run starts, stops where it says, and shows what it follows.
#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "core/base/error.h"
#include "tests/gui/live_support.h"
#include "tests/support/message.h"
#include "viz/model/element_probe.h"
#include "viz/model/scenario.h"

using namespace zero1;
using namespace zero1::viz;
using namespace zero1::viz::test;
using trace::Kind;

namespace {

/// Does one of the breakpoints match a held event? Its event.
std::optional<trace::Event> stopped_at(const LiveRun& live, const Scenario& scenario) {
  for (const trace::Event& event : live.held()) {
    for (const trace::Breakpoint& breakpoint : scenario.breakpoints) {
      if (breakpoint.matches(event)) return event;
    }
  }
  return std::nullopt;
}

/// Runs to the next stop at one of the scenario's breakpoints.
trace::Event next_stop(LiveRun& live, const Scenario& scenario) {
  wait_stopped(live);
  live.deliver([](std::span<const trace::Event>) {});
  const auto event = stopped_at(live, scenario);
  REQUIRE(event);
  return *event;
}

std::size_t count(LiveRun& live, Stage stage, int rank, int step) {
  const auto samples = live.element().samples();
  return static_cast<std::size_t>(std::count_if(samples.begin(), samples.end(), [&](const ElementSample& s) {
    return s.stage == stage && s.rank == rank && s.step == step;
  }));
}

}  // namespace

TEST_CASE("scenarios have distinct names and say what to see") {
  std::set<std::string> names;
  for (const Scenario& scenario : scenarios()) {
    CHECK(names.insert(scenario.name).second);
    CHECK(!scenario.title.empty());
    CHECK(scenario.explanation.size() > 200);
    CHECK(scenario.explanation.find('\n') == std::string::npos);
    CHECK(!scenario.breakpoints.empty());
    CHECK(&find_scenario(scenario.name) == &scenario);
  }
  CHECK(names.size() >= 6);
  CHECK(zero1::test::contains(zero1::test::message_of<InputError>([&] { find_scenario("no-such"); }),
                              "first-iteration, ready-counting"));
}

TEST_CASE("every scenario starts, stops at its breakpoint, and can be left there") {
  for (const Scenario& scenario : scenarios()) {
    CAPTURE(scenario.name);
    LiveRun live(resolve(scenario.config), live_run_options(scenario));
    CHECK(live.title() == scenario.title);
    CHECK(live.explanation() == scenario.explanation);
    next_stop(live, scenario);
    CHECK(live.state() == RunState::paused);
    if (scenario.follow_param.empty()) continue;
    REQUIRE(live.element().place());
    CHECK(!live.element().samples().empty());
  }
}

TEST_CASE("first-iteration: the first stop lies behind backward, the second one inside") {
  const Scenario& scenario = find_scenario("first-iteration");
  LiveRun live(resolve(scenario.config), live_run_options(scenario));
  std::vector<trace::Event> events;
  const auto layers_done = [&](int step) {
    return std::count_if(events.begin(), events.end(), [&](const trace::Event& e) {
      return e.kind == Kind::backward && e.rank == 0 && e.step == step && e.microbatch == 1;
    });
  };
  const auto take = [&](std::span<const trace::Event> batch) {
    events.insert(events.end(), batch.begin(), batch.end());
  };
  const auto layers = static_cast<std::int64_t>(live.info().layers.size());
  wait_stopped(live);
  live.deliver(take);
  REQUIRE(stopped_at(live, scenario));
  CHECK(layers_done(1) == layers);
  live.run_to_breakpoint();
  wait_stopped(live);
  live.deliver(take);
  REQUIRE(stopped_at(live, scenario));
  CHECK(layers_done(2) < layers);
}

TEST_CASE("ready-counting: one stop for each parameter of the bucket, in reverse model order") {
  const Scenario& scenario = find_scenario("ready-counting");
  LiveRun live(resolve(scenario.config), live_run_options(scenario));
  const auto& params = live.layout()->buffers[0].buckets[1].params;
  REQUIRE(params.size() > 2);
  std::vector<int> reported;
  for (std::size_t i = 0; i < params.size(); ++i) {
    reported.push_back(next_stop(live, scenario).param);
    live.run_to_breakpoint();
  }
  std::vector<int> expected = params;
  std::sort(expected.begin(), expected.end());
  std::sort(reported.begin(), reported.end());
  CHECK(reported == expected);
}

TEST_CASE("split-parameter: it is split, and only the owner holds the true gradient") {
  const Scenario& scenario = find_scenario("split-parameter");
  LiveRun live(resolve(scenario.config), live_run_options(scenario));
  next_stop(live, scenario);
  const ElementPlace place = *live.element().place();
  const Layout& layout = *live.layout();
  std::set<int> owners;
  const std::int64_t numel = layout.specs[static_cast<std::size_t>(place.element.param)].numel();
  for (std::int64_t i = 0; i < numel; ++i) owners.insert(place_of(layout, {place.element.param, i}).owner);
  CHECK(owners.size() > 1);
  int stale = 0;
  for (const ElementSample& sample : live.element().samples()) {
    if (sample.stage == Stage::reduced && sample.step == 1) stale += sample.stale ? 1 : 0;
  }
  CHECK(stale == 3);
}

TEST_CASE("tied-embedding: between the two stops one contribution more") {
  const Scenario& scenario = find_scenario("tied-embedding");
  LiveRun live(resolve(scenario.config), live_run_options(scenario));
  next_stop(live, scenario);
  const std::size_t before = count(live, Stage::accumulated, 0, 2);
  live.run_to_breakpoint();
  next_stop(live, scenario);
  CHECK(count(live, Stage::accumulated, 0, 2) == before + 1);
}

TEST_CASE("mixed-precision: the main parameter moves, its rounded copy stays") {
  const Scenario& scenario = find_scenario("mixed-precision");
  LiveRun live(resolve(scenario.config), live_run_options(scenario));
  next_stop(live, scenario);
  double main_param = 0;
  double model_param = 0;
  for (const ElementSample& sample : live.element().samples()) {
    if (sample.stage == Stage::main_param && sample.step == 3) main_param = sample.value;
    if (sample.stage == Stage::model_param && sample.step == 3) model_param = sample.value;
  }
  CHECK(main_param != 1);
  CHECK(model_param == 1);
}
