// zero1 ckpt inspect, verify, diff, clean: looking at checkpoints.
#include "apps/zero1/cmd_ckpt.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "apps/zero1/commands.h"
#include "ckpt/diff.h"
#include "ckpt/pieces.h"
#include "ckpt/verify.h"
#include "core/base/error.h"
#include "core/base/terminal.h"
#include "core/base/units.h"

namespace zero1::app {

namespace {

struct Flags {
  std::string source;
  std::string other;
  std::optional<std::int64_t> step;
  bool json = false;
  bool all = false;
  bool force = false;
  ckpt::DiffOptions diff;
};

constexpr std::size_t shown_rows = 20;

/// Where published and unpublished folders lie beside each other.
std::string root_of(const std::string& source, const std::string& checkpoint) {
  if (source != checkpoint) return source;
  const std::size_t slash = checkpoint.find_last_of('/');
  return slash == std::string::npos ? "." : checkpoint.substr(0, slash);
}

std::vector<ckpt::Piece> pieces_of(const ckpt::Checkpoint& checkpoint, int param) {
  std::vector<ckpt::Piece> pieces;
  const std::int64_t elems = checkpoint.layout().specs[static_cast<std::size_t>(param)].numel();
  ckpt::for_each_piece(checkpoint.layout(), param, {0, elems},
                       [&](const ckpt::Piece& piece) { pieces.push_back(piece); });
  return pieces;
}

int find_param(const ckpt::Checkpoint& checkpoint, const std::string& name) {
  const std::optional<int> param = checkpoint.find(name);
  if (param) return *param;
  throw InputError(fmt::format("--param {}: no such parameter; `zero1 ckpt inspect {} --all` lists the names",
                               name, checkpoint.folder()));
}

void inspect_param(const ckpt::Checkpoint& checkpoint, const Flags& flags) {
  const int param = find_param(checkpoint, flags.diff.param);
  const ParamSpec& spec = checkpoint.layout().specs[static_cast<std::size_t>(param)];
  const std::vector<ckpt::Piece> pieces = pieces_of(checkpoint, param);
  if (flags.json) {
    auto rows = nlohmann::ordered_json::array();
    for (const ckpt::Piece& piece : pieces) {
      rows.push_back({{"file", ckpt::rank_file_name(piece.rank)},
                      {"rank", piece.rank},
                      {"buffer", piece.buffer},
                      {"bucket", piece.bucket},
                      {"local", {piece.local.start, piece.local.end}},
                      {"param", {piece.param_range.start, piece.param_range.end}}});
    }
    print_json(nlohmann::ordered_json{{"name", spec.name}, {"shape", spec.shape}, {"pieces", rows}});
    return;
  }
  say("{} [{}], {} in {}\n\n", spec.name, fmt::join(spec.shape, ", "), counted(spec.numel(), "element"),
      counted(pieces.size(), "piece"));
  say("{:<16}{:<30}{:>26}{:>26}\n", "file", "dataset", "elements of the parameter", "in the slice");
  for (std::size_t i = 0; i < pieces.size() && (flags.all || i < shown_rows); ++i) {
    const ckpt::Piece& p = pieces[i];
    say("{:<16}{:<30}{:>26}{:>26}\n", ckpt::rank_file_name(p.rank),
        fmt::format("/buffers/{}/buckets/{}/…", p.buffer, p.bucket),
        fmt::format("[{}, {})", p.param_range.start, p.param_range.end),
        fmt::format("[{}, {})", p.local.start, p.local.end));
  }
  if (!flags.all && pieces.size() > shown_rows) say("… and {} more: --all\n", pieces.size() - shown_rows);
}

std::int64_t total_bytes(const ckpt::Checkpoint& checkpoint) {
  std::int64_t bytes = 0;
  for (const ckpt::RankFileRecord& file : checkpoint.files()) bytes += file.bytes;
  return bytes;
}

std::int64_t parameter_count(const ckpt::Checkpoint& checkpoint) {
  std::int64_t elems = 0;
  for (const ParamSpec& spec : checkpoint.layout().specs) elems += spec.numel();
  return elems;
}

void inspect_json(const ckpt::Checkpoint& checkpoint, const std::vector<ckpt::Leftover>& leftovers) {
  auto json = nlohmann::ordered_json{{"folder", checkpoint.folder()},
                                     {"format_version", ckpt::format_version},
                                     {"state", nlohmann::ordered_json::parse(to_json(checkpoint.state()))},
                                     {"layout", layout_case_json(checkpoint.layout_case())},
                                     {"rank_files", checkpoint.files().size()},
                                     {"bytes", total_bytes(checkpoint)},
                                     {"elements", parameter_count(checkpoint)}};
  json["leftovers"] = nlohmann::ordered_json::array();
  for (const ckpt::Leftover& each : leftovers) {
    nlohmann::ordered_json in_use;  // null: unknown
    if (each.use != ckpt::FolderUse::unknown) in_use = each.use == ckpt::FolderUse::writing;
    json["leftovers"].push_back({{"path", each.path}, {"bytes", each.bytes}, {"in_use", in_use}});
  }
  print_json(json);
}

void inspect_table(const ckpt::Checkpoint& checkpoint, bool all) {
  const ckpt::RunState& state = checkpoint.state();
  const Layout& layout = checkpoint.layout();
  const LayoutOptions& options = layout.options;
  say("{}\n", checkpoint.folder());
  say("  step          {} ({} of AdamW), {} consumed, seed {}\n", state.step, state.optimizer_steps,
      counted(state.consumed_sequences, "sequence"), state.seed);
  say("  ranks         {}, {} in slices and HDF5's own bytes\n", counted(checkpoint.files().size(), "file"),
      format_bytes(total_bytes(checkpoint)));
  say("  layout        dp {}, {}, {} in {}\n", options.dp_size,
      options.bucket_size_elems ? "bucket size " + format_count(*options.bucket_size_elems)
                                : std::string("one bucket per buffer"),
      counted(layout.bucket_count(), "bucket"), counted(layout.buffers.size(), "buffer"));
  if (state.lr_decay_style == "constant") {
    say("  schedule      constant at {:g}, {} of warm-up\n", state.lr,
        counted(state.warmup_iters, "iteration"));
  } else {
    say("  schedule      {} from {:g} to {:g}, {} of warm-up, {} of decay\n", state.lr_decay_style, state.lr,
        state.min_lr, counted(state.warmup_iters, "iteration"), counted(state.decay_iters, "iteration"));
  }
  const auto is_fp16 = [](const ParamSpec& spec) { return spec.dtype == DType::fp16; };
  if (std::any_of(layout.specs.begin(), layout.specs.end(), is_fp16))
    say("  loss scale    {:g}\n", state.loss_scale);
  if (state.valid_loss) {
    say("  validation    loss {:.6g}, perplexity {:.4g}\n", *state.valid_loss, std::exp(*state.valid_loss));
  }
  if (state.best) {
    say("  best so far   {}validation loss {:.6g}\n",
        state.best->step == state.step ? "this one, " : fmt::format("step {}, ", state.best->step),
        state.best->valid_loss);
  }
  say("  parameters    {}, {}; main parameters and both moments in float32\n\n",
      counted(layout.specs.size(), "tensor"), counted(parameter_count(checkpoint), "element"));
  say("  {:<40}{:<10}{:>20}{:>14}  {}\n", "parameter", "dtype", "shape", "elements", "ranks");
  for (std::size_t p = 0; p < layout.specs.size() && (all || p < shown_rows); ++p) {
    const ParamSpec& spec = layout.specs[p];
    const std::vector<ckpt::Piece> pieces = pieces_of(checkpoint, static_cast<int>(p));
    std::string ranks = pieces.empty() ? "none" : std::to_string(pieces.front().rank);
    if (pieces.size() > 1) ranks += fmt::format("-{}", pieces.back().rank);
    say("  {:<40}{:<10}{:>20}{:>14}  {}\n", spec.name, name(spec.dtype),
        fmt::format("[{}]", fmt::join(spec.shape, ", ")), format_count(spec.numel()), ranks);
  }
  if (!all && layout.specs.size() > shown_rows) {
    say("  … and {} more: --all\n", layout.specs.size() - shown_rows);
  }
}

/// What is to be known and to be done of a hidden folder.
std::string advice(const ckpt::Leftover& leftover, const std::string& root) {
  switch (leftover.use) {
    case ckpt::FolderUse::none:
      return fmt::format("left behind by a run that was killed; remove: zero1 ckpt clean {}", root);
    case ckpt::FolderUse::writing: return "being written right now";
    case ckpt::FolderUse::unknown: break;
  }
  return fmt::format(
      "this file system has no locks, so that it cannot be told whether a run is writing it; when none is: "
      "zero1 ckpt clean --force {}",
      root);
}

void print_leftovers(const std::vector<ckpt::Leftover>& leftovers, const std::string& root) {
  for (const ckpt::Leftover& each : leftovers) {
    say("\n{}: {}, {}\n", each.path, format_bytes(each.bytes), advice(each, root));
  }
}

int run_inspect(const Flags& flags) {
  if (const auto leftovers = ckpt::find_leftovers(flags.source);
      !leftovers.empty() && ckpt::published_steps(flags.source).empty()) {
    print_leftovers(leftovers, flags.source);  // all that there is: a first save that was killed
  }
  const ckpt::Checkpoint checkpoint(flags.source, flags.step);
  if (!flags.diff.param.empty()) {
    inspect_param(checkpoint, flags);
    return 0;
  }
  const std::string root = root_of(flags.source, checkpoint.folder());
  const std::vector<ckpt::Leftover> leftovers = ckpt::find_leftovers(root);
  if (flags.json) {
    inspect_json(checkpoint, leftovers);
  } else {
    inspect_table(checkpoint, flags.all);
    print_leftovers(leftovers, root);
  }
  return 0;
}

int run_verify(const Flags& flags) {
  const ckpt::VerifyReport report = ckpt::verify(flags.source, flags.step);
  const std::string& folder = report.folder;
  if (flags.json) {
    print_json(nlohmann::ordered_json{
        {"folder", folder}, {"slices", report.slices}, {"bytes", report.bytes}, {"faults", report.faults}});
  } else if (report.faults.empty()) {
    say("{}: whole: {}, {}\n", folder, counted(report.slices, "slice"), format_bytes(report.bytes));
  } else {
    for (const std::string& fault : report.faults) say("{}\n", Message{fault});
    say("{}: {}\n", folder, counted(report.faults.size(), "fault"));
  }
  return report.faults.empty() ? 0 : 1;
}

void print_diff_json(const ckpt::DiffReport& report) {
  auto rows = nlohmann::ordered_json::array();
  for (const ckpt::DiffRow& row : report.rows) {
    rows.push_back({{"param", row.param},
                    {"state", ckpt::name(row.state)},
                    {"different", row.different},
                    {"elements", row.elems},
                    {"max_abs", row.max_abs},
                    {"max_rel", row.max_rel},
                    {"at", row.at}});
  }
  print_json(nlohmann::ordered_json{{"structure", report.structure}, {"rows", rows}});
}

int run_diff(const Flags& flags) {
  const ckpt::Checkpoint a(flags.source);
  const ckpt::Checkpoint b(flags.other);
  const ckpt::DiffReport report = ckpt::diff(a, b, flags.diff);
  if (flags.json) print_diff_json(report);
  if (report.equal()) return 0;
  if (flags.json) return 1;
  if (!report.structure.empty()) say("{} against {}:{}\n", b.folder(), a.folder(), Message{report.structure});
  if (!report.rows.empty()) {
    say("{:<44}{:<11}{:>14}{:>14}{:>12}{:>12}  {}\n", "parameter", "state", "different", "of", "max abs",
        "max rel", "largest at, A, B");
  }
  for (std::size_t i = 0; i < report.rows.size() && (flags.all || i < shown_rows); ++i) {
    const ckpt::DiffRow& row = report.rows[i];
    say("{:<44}{:<11}{:>14}{:>14}{:>12.3e}{:>12.3e}  [{}] {:g} {:g}\n", row.param, ckpt::name(row.state),
        format_count(row.different), format_count(row.elems), row.max_abs, row.max_rel, row.at, row.a, row.b);
  }
  if (!flags.all && report.rows.size() > shown_rows) {
    say("… and {} more: --all\n", report.rows.size() - shown_rows);
  }
  return 1;
}

int run_clean(const Flags& flags) {
  std::error_code error;
  const std::filesystem::directory_iterator readable(flags.source, error);
  if (error) throw InputError(fmt::format("{}: cannot be read: {}", flags.source, error.message()));
  const std::vector<ckpt::Leftover> leftovers = ckpt::find_leftovers(flags.source);
  ckpt::remove_leftovers(leftovers, flags.force);
  for (const ckpt::Leftover& each : leftovers) {
    const bool removed =
        each.use == ckpt::FolderUse::none || (each.use == ckpt::FolderUse::unknown && flags.force);
    say("{}: {}\n", each.path,
        removed ? fmt::format("removed, {}", format_bytes(each.bytes))
                : fmt::format("left alone: {}", advice(each, flags.source)));
  }
  if (leftovers.empty()) say("{}: nothing to remove\n", flags.source);
  return 0;
}

/// A subcommand that reads SRC and runs `action`.
CLI::App* add_reader(CLI::App& ckpt, const char* name, const char* description,
                     const std::shared_ptr<Flags>& flags, int& status, int (*action)(const Flags&)) {
  CLI::App* command = ckpt.add_subcommand(name, description);
  command->callback([flags, &status, action] { status = action(*flags); });
  return command;
}

void add_source(CLI::App& command, Flags& flags) {
  command.add_option("SRC", flags.source, "A checkpoint, or a folder of them")->required();
  command.add_option("--ckpt-step", flags.step, "Which step of a folder (default: the latest)");
}

/// Nothing is within NaN, nor within less than 0.
std::string tolerance(const std::string& text) {
  double value = 0;
  const bool fits = CLI::detail::lexical_cast(text, value) && value >= 0;
  return fits ? "" : fmt::format("a tolerance is 0 or more, not {}", text);
}

constexpr const char* ckpt_footer = R"(Examples:
  zero1 train --dp 4 --train-iters 20 --save runs  writes a checkpoint
  zero1 ckpt inspect runs                          what is in it
  zero1 ckpt verify runs                           is it whole?
  zero1 ckpt reshard runs for8 --dp 8              the same for 8 ranks
  zero1 ckpt diff runs for8                        silent: nothing differs

docs/checkpoint_format.md specifies checkpoints to the byte. This program needs no file locks; other programs
that read them with HDF5 on a network file system without locks need HDF5_USE_FILE_LOCKING=FALSE.)";

constexpr const char* inspect_examples = R"(Examples:
  zero1 ckpt inspect runs                          the latest step of a folder
  zero1 ckpt inspect runs/step_00000100            one checkpoint
  zero1 ckpt inspect runs --param wte.weight --all which rank holds which elements of it
  zero1 ckpt inspect runs --json | jq .state.step)";

constexpr const char* verify_examples = R"(Examples:
  zero1 ckpt verify runs                           status 0: whole; 1: every fault, a line each
  zero1 ckpt verify runs --ckpt-step 100 && rm -r runs/step_00000050)";

constexpr const char* diff_examples = R"(Examples:
  zero1 ckpt diff runs/step_00000100 resharded     silent and status 0 when equal
  zero1 ckpt diff run1 run2 -d 1e-6                differences above 0.000001 only
  zero1 ckpt diff run1 run2 -p 0.01 --param wte.weight
  zero1 ckpt diff run1 run2 --bitwise

With -d and -p, elements within either are equal. NaN equals NaN, except with --bitwise when its bits differ.)";

constexpr const char* clean_examples = R"(Example:
  zero1 ckpt clean runs                            removes hidden .tmp-... folders that nobody writes)";

}  // namespace

void add_ckpt_command(CLI::App& app, int& status) {
  CLI::App* ckpt = app.add_subcommand("ckpt", "Look into checkpoints, verify, compare and transform them");
  ckpt->require_subcommand(1);
  ckpt->footer(ckpt_footer);
  const auto flags = std::make_shared<Flags>();

  CLI::App* inspect = add_reader(*ckpt, "inspect", "Step, layout, sizes, parameters; reads headers only",
                                 flags, status, run_inspect);
  add_source(*inspect, *flags);
  inspect->add_option("--param", flags->diff.param, "Which rank's file holds which part of this parameter");
  inspect->add_flag("--json", flags->json, "For machines");
  inspect->add_flag("--all", flags->all, "Cut no table short");
  inspect->footer(inspect_examples);

  CLI::App* verify =
      add_reader(*ckpt, "verify", "Read every byte: digests, coverage, finite values. Status 1: faults",
                 flags, status, run_verify);
  add_source(*verify, *flags);
  verify->add_flag("--json", flags->json, "For machines");
  verify->footer(verify_examples);

  CLI::App* diff = add_reader(*ckpt, "diff", "Compare two checkpoints of any layouts. Status 1: they differ",
                              flags, status, run_diff);
  diff->add_option("A", flags->source, "A checkpoint, or a folder of them")->required();
  diff->add_option("B", flags->other, "Another")->required();
  diff->add_option("--param", flags->diff.param, "Only this parameter");
  CLI::Option* abs =
      diff->add_option("-d", flags->diff.abs_tolerance, "Differences up to this are none")->check(tolerance);
  CLI::Option* rel =
      diff->add_option("-p", flags->diff.rel_tolerance, "The same, relative to A's value")->check(tolerance);
  diff->add_flag("--bitwise", flags->diff.bitwise, "Compare bits: -0 differs from 0")
      ->excludes(abs)
      ->excludes(rel);
  diff->add_flag("--json", flags->json, "For machines");
  diff->add_flag("--all", flags->all, "Cut no table short");

  diff->footer(diff_examples);

  CLI::App* clean =
      add_reader(*ckpt, "clean", "Remove what killed runs left behind in a folder of checkpoints", flags,
                 status, run_clean);
  clean->add_option("DIR", flags->source, "The folder")->required();
  clean->add_flag("--force", flags->force,
                  "Also where locks do not tell whether a run is writing: you know that none is");

  clean->footer(clean_examples);

  add_ckpt_transforms(*ckpt);
}

}  // namespace zero1::app
