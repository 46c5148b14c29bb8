// zero1_viz open: shows a recording.
#include <fmt/core.h>

#include <cstdint>
#include <memory>

#include "apps/zero1_viz/at_flag.h"
#include "apps/zero1_viz/commands.h"
#include "apps/zero1_viz/view_flags.h"
#include "core/base/error.h"
#include "viz/app/session.h"
#include "viz/model/event_index.h"

namespace zero1::app {

namespace {

struct OpenFlags {
  std::string file;
  ViewFlags view;
};

/// The event that --at names: by its number, or the first of a step, kind and bucket.
viz::EventId find_event(const viz::EventIndex& events, const std::string& text) {
  if (text.find(':') != std::string::npos) {
    const trace::Breakpoint at = parse_at(text);
    const auto found = events.first_after(INT64_MIN, {.kind = at.kind, .bucket = at.bucket, .step = at.step});
    if (found) return *found;
    throw InputError(fmt::format("--at {}: there is no such event in this recording", text));
  }
  const auto id = parse_number(text);
  if (id && *id >= 0 && *id < events.size()) return *id;
  throw InputError(fmt::format(
      "--at {}: expected the number of an event, of which this recording has {}, numbered from 0; or "
      "STEP:KIND or STEP:KIND:BUCKET, such as 3:adamw",
      text, events.size()));
}

/// Goes back to the moment of an event, and selects it.
void go_to_event(viz::Document& document, const std::string& text) {
  viz::EventIndex& events = *document.events;
  events.absorb_all();
  const viz::EventId id = find_event(events, text);
  const trace::Event event = events.event(id);
  document.moment = {false, event.end_ns};
  viz::Selection selection = document.selection;
  selection.event = id;
  if (!selection.rank) selection.rank = event.rank;
  if (!selection.bucket && event.bucket >= 0) selection.bucket = event.bucket;
  document.selection.set(selection);
}

void run_open(const OpenFlags& flags) {
  viz::Document document = viz::open_recording(flags.file);
  if (!flags.view.screenshot.empty()) {
    document.events->absorb_all();
    if (!document.events->error().empty()) throw InputError(document.events->error());
  }
  apply_selection(flags.view, document);
  if (!flags.view.at.empty()) go_to_event(document, flags.view.at);
  show(flags.view, std::move(document));
}

}  // namespace

void add_open_command(CLI::App& app) {
  const auto flags = std::make_shared<OpenFlags>();
  CLI::App* command = app.add_subcommand("open", "Show a recording that `zero1 train --trace FILE` made");
  command->footer(
      "--at EVENT  the window shows the moment after this event, and the timeline its iteration: its "
      "number,\n"
      "            or STEP:KIND or STEP:KIND:BUCKET for the first such event, such as 3:adamw\n\n"
      "Examples:\n"
      "  zero1 train --dp 4 --train-iters 20 --overlap-grad-reduce --trace run.trace\n"
      "  zero1_viz open run.trace\n"
      "  zero1_viz open run.trace --at 3:grad_norm\n"
      "  zero1_viz open run.trace --at 5000 --select rank=1 --screenshot moment.png");
  command->add_option("FILE", flags->file, "The recording")->required();
  add_at_flag(*command, flags->view, "The moment after this event, and its iteration; see below");
  add_view_flags(*command, flags->view);
  command->callback([flags] { run_open(*flags); });
}

}  // namespace zero1::app
