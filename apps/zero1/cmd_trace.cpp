// zero1 trace: what a recorded run says, and its timeline for Perfetto.
#include <fmt/core.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "apps/zero1/commands.h"
#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/terminal.h"
#include "core/base/units.h"
#include "core/trace/chrome_export.h"
#include "core/trace/reader.h"
#include "core/trace/summary.h"

namespace zero1::app {

namespace {

/// Draws a bar on standard error, on a terminal only; gone when the work is done.
std::function<void(double)> progress_bar(std::string_view what) {
  if (isatty(STDERR_FILENO) == 0) return {};
  return [what = std::string(what), last = -1](double share) mutable {
    constexpr int width = 40;
    const int percent = static_cast<int>(share * 100);
    if (percent == last) return;
    last = percent;
    const std::string bar(static_cast<std::size_t>(share * width), '#');
    say(stderr, "\r{} [{:<{}}] {:>3}%", what, bar, width, percent);
    if (percent >= 100) say(stderr, "\r{:{}}\r", "", width + 20 + static_cast<int>(what.size()));
    std::fflush(stderr);
  };
}

bool terminal_speaks_utf8() {
  for (const char* variable : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* value = std::getenv(variable);
    if (value == nullptr || *value == '\0') continue;
    const std::string_view locale = value;
    return locale.find("UTF-8") != std::string_view::npos || locale.find("utf8") != std::string_view::npos;
  }
  return false;
}

struct SummaryFlags {
  std::string file;
  bool json = false;
  bool all_steps = false;
};

void run_summary(const SummaryFlags& flags) {
  const trace::Reader reader(flags.file);
  const trace::Summary summary = trace::summarize(reader, progress_bar("reading"));
  if (flags.json) {
    print_json_text(trace::summary_json(summary));
  } else {
    print_lines(trace::summary_text(summary, {flags.all_steps, terminal_speaks_utf8()}));
  }
}

struct ExportFlags {
  std::string file;
  std::string out;
  std::string steps;
  std::string ranks;
  bool dry_run = false;
};

trace::Selection selection_of(const ExportFlags& flags) {
  trace::Selection selection;
  const auto parse = [&](const char* flag, const std::string& text, auto parser) {
    if (text.empty()) return;
    try {
      parser(text, selection);
    } catch (const InputError& error) {
      throw InputError(fmt::format("{} {}", flag, error.what()));
    }
  };
  parse("--steps", flags.steps, trace::parse_steps);
  parse("--ranks", flags.ranks, trace::parse_ranks);
  return selection;
}

/// Before it is written: timelines become large.
void print_plan(const ExportFlags& flags, const trace::Selection& selection,
                const trace::ExportResult& plan) {
  const std::string what = trace::describe(selection);
  say(stderr, "{}: about {}, {}{}{}\n", flags.out, format_bytes(plan.bytes), counted(plan.events, "event"),
      what.empty() ? "" : " of ", what);
}

void run_export(const ExportFlags& flags) {
  if (same_file(flags.file, flags.out)) {
    throw InputError(fmt::format("{}: is the trace itself; name another file for the timeline", flags.out));
  }
  trace::ExportOptions options;
  options.selection = selection_of(flags);
  options.on_plan = [&](const trace::ExportResult& plan) { print_plan(flags, options.selection, plan); };
  options.progress = progress_bar("exporting");
  options.dry_run = flags.dry_run;
  const trace::Reader reader(flags.file);
  const trace::ExportResult result = trace::export_chrome(reader, flags.out, options);
  if (reader.truncated()) {
    say(stderr, "zero1: note: {} was not closed; exported up to its last flush\n", flags.file);
  }
  if (reader.dropped() > 0) {
    say(stderr, "zero1: note: {} dropped while recording\n", counted(reader.dropped(), "event"));
  }
  if (flags.dry_run) return;
  say("{}: {}, {}, {}; open it in https://ui.perfetto.dev\n", flags.out, counted(result.events, "event"),
      counted(result.flows, "arrow"), format_bytes(result.bytes));
}

}  // namespace

void add_trace_command(CLI::App& app, int& status) {
  (void)status;  // summary and export succeed or throw
  CLI::App* command = app.add_subcommand("trace", "Read a trace that `zero1 train --trace FILE` recorded");
  command->require_subcommand(1);

  auto summary = std::make_shared<SummaryFlags>();
  CLI::App* summary_command = command->add_subcommand(
      "summary",
      "Communication, what of it is exposed and what overlaps with compute: by rank, bucket and step");
  summary_command->add_option("FILE", summary->file, "The trace")->required();
  summary_command->add_flag("--json", summary->json, "Everything, for machines");
  summary_command->add_flag("--all-steps", summary->all_steps, "A line for each step, not a selection");
  summary_command->callback([summary] { run_summary(*summary); });

  auto flags = std::make_shared<ExportFlags>();
  CLI::App* export_command = command->add_subcommand(
      "export", "Write the timeline as Chrome trace JSON, for https://ui.perfetto.dev");
  export_command->add_option("FILE", flags->file, "The trace")->required();
  export_command->add_option("OUT.json", flags->out, "The timeline to write; replaced if it exists")
      ->required();
  export_command
      ->add_option("--steps", flags->steps,
                   "Only steps A to B without B; A alone is one step, A: and :B are open at one end")
      ->type_name("A:B");
  export_command->add_option("--ranks", flags->ranks, "Only these ranks, as 0,2-3 (with rank 3)")
      ->type_name("LIST");
  export_command->add_flag("--dry-run", flags->dry_run, "Say how large the timeline would be, write nothing");
  export_command->footer(
      "Say `--steps 3:5 --ranks 0` for a look at steps 3 and 4 of rank 0: a timeline takes about 300 bytes "
      "per\n"
      "event. Its size is told before it is written.");
  export_command->callback([flags] { run_export(*flags); });
}

}  // namespace zero1::app
