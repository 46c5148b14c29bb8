// zero1_viz run: trains in this process and shows it live.
#include <fmt/core.h>

#include <memory>
#include <vector>

#include "apps/zero1/train_job.h"
#include "apps/zero1_viz/at_flag.h"
#include "apps/zero1_viz/commands.h"
#include "apps/zero1_viz/view_flags.h"
#include "core/base/error.h"
#include "core/base/terminal.h"
#include "viz/app/session.h"
#include "viz/model/live_run.h"
#include "viz/model/scenario.h"

namespace zero1::app {

namespace {

struct RunFlags {
  TrainOptions train;
  bool paused = false;
  double slow = 0;
  std::string scenario;
  ViewFlags view;
};

/// Lets the run go on to where the picture is taken: the breakpoint, or its end.
void run_until_shown(viz::Document& document, bool stops) {
  constexpr std::int64_t look_every_ms = 20;
  viz::LiveRun& live = *document.live;
  while (!live.over()) {
    const bool stopped = live.gate().wait_stopped(look_every_ms);
    viz::update(document);
    if (stops && stopped && live.state() == viz::RunState::paused) break;
  }
  if (stops && live.state() == viz::RunState::finished) {
    throw InputError("--at: the run has ended without such an event");
  }
  viz::update(document);
}

void show_run(const RunFlags& flags, viz::Document document) {
  const std::shared_ptr<viz::LiveRun> live = document.live;
  apply_selection(flags.view, document);
  const bool stops = !flags.view.at.empty() || !live->breakpoints().entries().empty();
  if (!flags.view.screenshot.empty()) run_until_shown(document, stops);
  show(flags.view, std::move(document));
  if (live->state() == viz::RunState::failed) throw Error(live->failure());
}

/// The element that --select names, so that its values are kept from the first event on.
std::optional<viz::ElementRef> selected_element(const ViewFlags& flags, const TrainConfig& config) {
  RunShape shape = run_shape(config);
  viz::Document document;
  document.info = std::move(shape.info);
  document.layout = std::make_shared<const Layout>(std::move(shape.layout));
  apply_selection(flags, document);
  const viz::Selection& selection = document.selection;
  if (!selection.param || !selection.element) return std::nullopt;
  return viz::ElementRef{*selection.param, *selection.element};
}

void run(const RunFlags& flags) {
  TrainJob job(flags.train);
  job.print_origin();
  viz::LiveRunOptions options;
  options.make_machine = job.machine();
  options.start_paused = flags.paused;
  options.slow_motion = flags.slow;
  options.follow = selected_element(flags.view, job.config());
  if (!flags.view.at.empty()) options.breakpoints.push_back(parse_at(flags.view.at));
  job.observe(options.hooks);
  viz::Document document = viz::start_run(job.config(), std::move(options));
  const std::shared_ptr<viz::LiveRun> live = document.live;
  show_run(flags, std::move(document));
  if (const TrainSummary* summary = live->summary(); summary != nullptr) {
    job.finish();
    job.draw(*summary);
  }
}

/// A scenario is a whole run: flags that would change it are refused.
void run_scenario(const CLI::App& command, const RunFlags& flags) {
  for (const CLI::Option* option : command.get_options()) {
    const bool of_the_view = option->get_group() == "View" || option->get_name() == "--scenario";
    if (of_the_view || option->count() == 0) continue;
    throw InputError(fmt::format("{}: --scenario {} brings its own run; leave this flag out",
                                 option->get_name(), flags.scenario));
  }
  const viz::Scenario& scenario = viz::find_scenario(flags.scenario);
  const TrainConfig config = resolve(scenario.config);
  viz::LiveRunOptions options = viz::live_run_options(scenario);
  options.follow = viz::followed_element(scenario, run_shape(config).layout);
  options.start_paused = flags.paused;
  options.slow_motion = flags.slow;
  if (!flags.view.at.empty()) options.breakpoints = {parse_at(flags.view.at)};
  viz::Selection selection = scenario.selection;
  if (options.follow) {
    selection.param = options.follow->param;
    selection.element = options.follow->index;
  }
  viz::Document document = viz::start_run(config, std::move(options));
  document.selection.set(selection);
  show_run(flags, std::move(document));
}

std::string scenario_list() {
  std::string text;
  for (const viz::Scenario& scenario : viz::scenarios()) {
    text += fmt::format("  {:<26}{}\n", scenario.name, scenario.title);
  }
  return text;
}

}  // namespace

void add_run_command(CLI::App& app) {
  const auto flags = std::make_shared<RunFlags>();
  CLI::App* command =
      app.add_subcommand("run", "Train in this process and watch it: pause, step, follow an element");
  command->footer(
      "Every flag of `zero1 train` means the same here, and the run gives the same bits.\n"
      "--at STEP, STEP:KIND or STEP:KIND:BUCKET  stop in front of the first such event\n\n"
      "Scenarios, prepared runs that stop where there is something to see:\n" +
      scenario_list() +
      "\nExamples:\n"
      "  zero1_viz run --scenario ready-counting\n"
      "  zero1_viz run --dp 4 --overlap-grad-reduce --overlap-param-gather --link-gbps 1 --ddp-num-buckets "
      "6\n"
      "  zero1_viz run --dp 2 --paused                       stand still in front of the first event\n"
      "  zero1_viz run --dp 4 --train-iters 3 --screenshot end.png\n"
      "  zero1_viz run --dp 4 --at 2:adamw --select rank=1 --screenshot stepping.png");
  command->option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);  // as in Megatron
  add_train_flags(*command, flags->train);
  command
      ->add_option("--scenario", flags->scenario, "A prepared run, its stops and what to look at; see below")
      ->group("View")
      ->type_name("NAME");
  CLI::Option* paused = command->add_flag("--paused", flags->paused, "Begin paused")->group("View");
  command->add_option("--slow-motion", flags->slow, "Begin at so many events per second")
      ->group("View")
      ->check(number_between(0.01, 1e6));
  add_at_flag(*command, flags->view, "Stop in front of this event; see below");
  add_view_flags(*command, flags->view);
  paused->excludes("--screenshot");  // nobody would let it go on
  command->callback([command, flags] {
    if (!flags->scenario.empty()) return run_scenario(*command, *flags);
    complete_train_flags(*command, flags->train);
    if (command->get_option("--log-interval")->count() > 0) {
      flags->train.notes.emplace_back(
          "--log-interval changes nothing: the window shows every step, and prints none");
    }
    run(*flags);
  });
}

}  // namespace zero1::app
