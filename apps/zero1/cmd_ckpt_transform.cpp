// zero1 ckpt gather, reshard, export, import: what writes.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <map>
#include <memory>

#include "apps/zero1/cmd_ckpt.h"
#include "apps/zero1/cmd_ckpt_progress.h"
#include "apps/zero1/flag_values.h"
#include "apps/zero1/layout_spec.h"
#include "apps/zero1/name_flags.h"
#include "ckpt/gather.h"
#include "ckpt/import.h"
#include "ckpt/pieces.h"
#include "core/base/error.h"
#include "core/base/terminal.h"
#include "core/base/text.h"
#include "core/base/units.h"
#include "core/layout/range_map.h"

namespace zero1::app {

namespace {

struct Flags {
  std::string source;
  std::string target;
  std::optional<std::int64_t> step;
  std::optional<int> dp;
  std::optional<int> expert_dp;
  std::string bucket_size;
  std::optional<bool> high_nccl_busbw;
  int workers = 1;
  std::string mem_limit = "256MiB";
  bool dry_run = false;
  bool model_only = false;
  bool skip_other_dtypes = false;
  ckpt::OptimizerFlags optimizer;
  std::string max_shard_size;
  std::string dtype;
  std::string layout;
  std::string layout_case;
  NameRules names;
};

std::int64_t mem_limit(const Flags& flags) {
  const std::int64_t bytes = parse_bytes(flags.mem_limit);
  if (bytes < 1 << 20)
    throw InputError(fmt::format("--mem-limit must be at least 1MiB, got {}", flags.mem_limit));
  return bytes;
}

void apply_layout_flags(const Flags& flags, LayoutOptions& options) {
  if (flags.dp) options.dp_size = options.expert_dp_size = *flags.dp;
  if (flags.expert_dp) options.expert_dp_size = *flags.expert_dp;
  apply_bucket_size(flags.bucket_size, options.bucket_size_elems);
  if (flags.high_nccl_busbw) options.pad_buckets_for_high_nccl_busbw = *flags.high_nccl_busbw;
}

ckpt::WriteOptions write_options(const Flags& flags) {
  ckpt::WriteOptions options;
  options.workers = flags.workers;
  options.mem_limit_bytes = mem_limit(flags);
  options.on_progress = progress_line();
  return options;
}

/// Who reads what from where: for every rank to be written, the bytes out of every rank's file.
void print_plan(const ckpt::Checkpoint& source, const Layout& target) {
  say("{} -> {}, {} to be written\n", source.files().size(), counted(ckpt::rank_count(target), "rank"),
      format_bytes(ckpt::slice_bytes(target)));
  for (int rank = 0; rank < ckpt::rank_count(target); ++rank) {
    std::map<int, std::int64_t> elems_from;
    for (std::size_t b = 0; b < target.buffers.size(); ++b) {
      if (rank >= target.buffers[b].dp_size) continue;
      RangeMapWalker walker(target, static_cast<int>(b), rank);
      for (const ParamShard& row : walker.next()) {
        ckpt::for_each_piece(source.layout(), row.param, row.param_range,
                             [&](const ckpt::Piece& piece) { elems_from[piece.rank] += piece.local.size(); });
      }
    }
    std::string sources;
    for (const auto& [from, elems] : elems_from) {
      sources +=
          fmt::format("  {} {}", ckpt::rank_file_name(from),
                      format_bytes(elems * ckpt::state_count * static_cast<std::int64_t>(sizeof(float))));
    }
    say("{} <-{}\n", ckpt::rank_file_name(rank), sources.empty() ? "  padding only" : sources);
  }
}

void run_reshard(const Flags& flags) {
  const ckpt::Checkpoint source(flags.source, flags.step);
  LayoutCase target = source.layout_case();
  apply_layout_flags(flags, target.options);
  const Layout layout = compute_layout(target.params, target.options);
  if (flags.expert_dp && !has_expert_params(layout.specs)) {
    throw InputError(fmt::format("--expert-dp {}: {} has no expert-parallel parameters", *flags.expert_dp,
                                 source.folder()));
  }
  if (flags.dry_run) {
    ckpt::refuse_existing(flags.target, "folder");
    print_plan(source, layout);
    return;
  }
  ckpt::write_checkpoint(flags.target, source.state(), target, source, write_options(flags));
  say("{}: step {}, dp {} -> {}\n", flags.target, source.state().step, source.layout().options.dp_size,
      target.options.dp_size);
}

void run_gather(const Flags& flags) {
  const ckpt::Checkpoint source(flags.source, flags.step);
  ckpt::GatherOptions options;
  options.model_only = flags.model_only;
  options.mem_limit_bytes = mem_limit(flags);
  options.on_progress = progress_line();
  const bool safetensors = flags.target.ends_with(".safetensors");
  if (!safetensors && !flags.target.ends_with(".h5") && !flags.target.ends_with(".hdf5")) {
    throw InputError(
        fmt::format("{}: what is to be written? Its ending says it: FILE.h5 (or .hdf5), or FILE.safetensors",
                    flags.target));
  }
  if (!flags.dtype.empty()) {
    options.dtype = parse_dtype(flags.dtype);
    if (!options.dtype || !safetensors) {
      throw InputError(
          fmt::format("--dtype {}: float32, bfloat16 or float16, for a .safetensors file", flags.dtype));
    }
  }
  if (!flags.max_shard_size.empty()) {
    options.max_shard_bytes = parse_bytes(flags.max_shard_size);
    if (!safetensors || *options.max_shard_bytes < 1) {
      throw InputError(
          fmt::format("--max-shard-size {}: at least 1 byte, for a .safetensors file", flags.max_shard_size));
    }
    if (!is_utf8(flags.target)) {
      throw InputError(
          fmt::format("{}: its name is not UTF-8, and the index of --max-shard-size is JSON, which is; name "
                      "another file",
                      flags.target));
    }
  }
  options.names = flags.names;
  ckpt::GatheredFiles written;
  if (safetensors) {
    written = ckpt::gather_safetensors(source, flags.target, options);
  } else {
    written = {{flags.target}, ckpt::gather_hdf5(source, flags.target, options)};
  }
  for (const std::string& note : written.notes) say("{}\n", note);
  for (const std::string& path : written.paths) {
    say("{}: {}\n", path, format_bytes(static_cast<std::int64_t>(std::filesystem::file_size(path))));
  }
}

/// --layout: a file's only case, or the one that --case names, or a checkpoint's own.
LayoutCase given_layout(const Flags& flags) {
  if (std::filesystem::is_directory(flags.layout)) return ckpt::Checkpoint(flags.layout).layout_case();
  LayoutFile file = parse_layout_file(layout_spec_text(flags.layout), "--layout " + flags.layout);
  std::vector<std::string> names;
  for (LayoutFile::Entry& entry : file.entries) {
    if (flags.layout_case.empty() ? file.entries.size() == 1 : entry.layout_case.name == flags.layout_case)
      return std::move(entry.layout_case);
    names.push_back(entry.layout_case.name);
  }
  if (flags.layout_case.empty()) {
    throw InputError(fmt::format("--layout {}: has {}, choose one with --case NAME; there are: {}",
                                 flags.layout, counted(file.entries.size(), "case"), fmt::join(names, ", ")));
  }
  throw InputError(fmt::format("--case {}: {} has no case of that name; there are: {}", flags.layout_case,
                               flags.layout, fmt::join(names, ", ")));
}

ckpt::ImportOptions import_options(const Flags& flags) {
  ckpt::ImportOptions options;
  options.names = flags.names;
  options.optimizer = flags.optimizer;
  options.skip_other_dtypes = flags.skip_other_dtypes;
  options.layout.ignore_recorded = flags.layout == "none";
  options.layout.dp_size = flags.dp;
  options.layout.adjust = [&flags](LayoutOptions& layout) { apply_layout_flags(flags, layout); };
  if (!flags.layout.empty() && !options.layout.ignore_recorded) {
    options.layout.given = given_layout(flags);
    options.layout.given_source = flags.layout;
  } else if (!flags.layout_case.empty()) {
    throw InputError("--case needs --layout CASE.json");
  }
  if (!flags.dtype.empty()) {
    options.layout.dtype = parse_dtype(flags.dtype);
    if (!options.layout.dtype)
      throw InputError(fmt::format("--dtype {}: float32, bfloat16 or float16", flags.dtype));
  }
  return options;
}

/// What becomes of every tensor.
void print_import_plan(const ckpt::ImportPlan& plan) {
  const auto shape_of = [](const std::vector<std::int64_t>& shape) {
    return fmt::format("[{}]", fmt::join(shape, ", "));
  };
  say("{:<52}{:>20}  {}\n", "tensor", "shape", "becomes");
  for (const MappedTensor& tensor : plan.tensors()) {
    std::string becomes = "left out";
    if (!tensor.excluded) becomes = printable(tensor.name);
    if (tensor.transposed && !tensor.excluded) becomes += " " + shape_of(tensor.shape) + ", transposed";
    say("{:<52}{:>20}  {}\n", printable(tensor.stored), shape_of(tensor.stored_shape()), becomes);
  }
}

void run_import(const Flags& flags) {
  const ckpt::ImportPlan plan(flags.source, import_options(flags));
  const Layout layout = compute_layout(plan.layout_case().params, plan.layout_case().options);
  if (flags.dry_run) {
    ckpt::refuse_existing(flags.target, "folder");
    print_import_plan(plan);
  }
  for (const std::string& tensor : plan.skipped()) say("left out: {}\n", tensor);
  for (const std::string& note : describe(plan.tensors())) say("{}\n", note);
  for (const std::string& note : plan.notes()) say("{}\n", note);
  if (!flags.dry_run) plan.write(flags.target, write_options(flags));
  say("{}: {}{}, dp {}\n", flags.target, flags.dry_run ? "would have " : "",
      counted(layout.specs.size(), "parameter"), layout.options.dp_size);
}

void add_layout_flags(CLI::App& command, const std::shared_ptr<Flags>& flags) {
  command.add_option("--dp", flags->dp, "Ranks of the new checkpoint (default: as SRC says)")
      ->check(CLI::Range(1, max_dp_size));
  command
      .add_option("--expert-dp", flags->expert_dp,
                  "Ranks that share expert-parallel parameters (default: --dp)")
      ->check(CLI::Range(1, max_dp_size));
  command.add_option("--bucket-size", flags->bucket_size,
                     "Elements, such as 40M, or none for one bucket per buffer");
  command.add_flag_function(
      "--pad-buckets-for-high-nccl-busbw,!--no-pad-buckets-for-high-nccl-busbw",
      [flags](std::int64_t count) { flags->high_nccl_busbw = count > 0; },
      "Pad buckets to multiples of 2^16");
  command.add_option("--workers", flags->workers, "Files written side by side")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
}

void add_common(CLI::App& command, Flags& flags, const char* source, const char* target) {
  command.add_option("SRC", flags.source, source)->required();
  command.add_option("DST", flags.target, target)->required();
  command.add_option("--mem-limit", flags.mem_limit, "For buffers, whatever the checkpoint's size")
      ->capture_default_str();
}

constexpr const char* a_checkpoint = "A checkpoint, or a folder of them";

const std::string gather_examples = R"(Examples:
  zero1 ckpt gather runs all.h5                    the latest step: parameters, states, as h5py reads them
  zero1 ckpt export runs model.safetensors --model-only --dtype bfloat16
  zero1 ckpt export runs model.safetensors --max-shard-size 5GB   with an index, as Hugging Face cuts
  zero1 ckpt gather runs early.h5 --ckpt-step 100

  zero1 ckpt export runs for_transformers.safetensors --model-only --transpose '.*\.(c_attn|c_fc|c_proj)\.weight'

)" + std::string(pattern_help) + R"(

`gather` and `export` are the same. `zero1 ckpt import` makes the same checkpoint of what they write: the file
carries its layout. Ctrl-C leaves nothing behind.)";

constexpr const char* reshard_examples = R"(Examples:
  zero1 ckpt reshard runs for24 --dp 24 --dry-run  who would read how much from whom
  zero1 ckpt reshard runs for24 --dp 24 --workers 4
  zero1 ckpt reshard runs/step_00000100 same --bucket-size 40M      the same ranks, other buckets
  zero1 train --dp 24 --load for24 ...             though every checkpoint loads at every --dp by itself

Back at the old number of ranks every bit is the same. Ctrl-C leaves nothing behind.)";

const std::string import_examples = R"(Examples:
  zero1 ckpt import exported.safetensors back      the checkpoint that it was exported from, on the same ranks
  zero1 ckpt import gathered.h5 back --dp 8        the same for 8 ranks
  zero1 ckpt import model.safetensors.index.json runs --dp 8 --dtype bfloat16
  zero1 ckpt import gpt2.safetensors runs --dp 8 --dry-run --rename 'transformer\.(.*)=\1' \
      --exclude '.*\.attn\.(bias|masked_bias)|lm_head\.weight' --transpose '.*\.(c_attn|c_fc|c_proj)\.weight'
  zero1 ckpt import foreign.safetensors runs --layout case.json
  zero1 ckpt import shards/ runs --dp 8            PyTorch's sharded safetensors, put together
  zero1 ckpt import trained.safetensors runs --dp 8 --step 1200     moments that do not say their step
  zero1 train ... --load runs --load-weights-only  a new run from these parameters

AdamW's step count and its moments (NAME.exp_avg, NAME.exp_avg_sq of each NAME) belong together: the one without
the other is refused. Export records the step in the metadata `zero1_state`; --step gives it for other files, and
--reset-optimizer starts AdamW afresh. A file without either is a file of weights: AdamW starts at step 0.

)" + std::string(pattern_help) + R"(

Files of other programs do not say in which order a model has its parameters, which is the shared embedding and
which belong to experts; buckets, and so who owns what, depend on it. --layout says it: a SPEC as `zero1 layout`
takes it (`zero1 ckpt inspect DIR --json | jq .layout` prints one), or a checkpoint whose layout it is to be.
Without it, parameters stand in the natural order of their names, h.2 before h.10.)";

/// The command has two names.
void add_gather(CLI::App& ckpt, const char* name, const char* description,
                const std::shared_ptr<Flags>& flags) {
  CLI::App* gather = ckpt.add_subcommand(name, description);
  add_common(*gather, *flags, a_checkpoint, "FILE.h5 or FILE.safetensors");
  gather->add_option("--ckpt-step", flags->step, "Which step of a folder (default: the latest)");
  gather->add_flag("--model-only", flags->model_only, "Without the optimizer's states");
  gather->add_option(
      "--dtype", flags->dtype,
      "Of the parameters in safetensors, with --model-only (default: each one's own; float32 beside states)");
  gather->add_option("--max-shard-size", flags->max_shard_size,
                     "Several safetensors files of at most so many bytes, such as 5GB, and the index that "
                     "Hugging Face's libraries read");
  add_name_flags(*gather, flags->names);
  gather->callback([flags] { run_interruptible([&] { run_gather(*flags); }); });
  gather->footer(gather_examples);
}

}  // namespace

void add_ckpt_transforms(CLI::App& ckpt) {
  const auto flags = std::make_shared<Flags>();
  add_gather(ckpt, "gather", "One file in model space: HDF5, or safetensors by its ending", flags);
  add_gather(ckpt, "export", "The same as gather", flags);

  CLI::App* reshard = ckpt.add_subcommand("reshard", "The same checkpoint for another number of ranks");
  add_common(*reshard, *flags, a_checkpoint, "The new checkpoint's folder");
  reshard->add_option("--ckpt-step", flags->step, "Which step of a folder (default: the latest)");
  add_layout_flags(*reshard, flags);
  reshard->add_flag("--dry-run", flags->dry_run, "Print who reads what from where, write nothing");
  reshard->callback([flags] { run_interruptible([&] { run_reshard(*flags); }); });
  reshard->footer(reshard_examples);

  CLI::App* importer = ckpt.add_subcommand(
      "import",
      "A checkpoint from safetensors or gathered HDF5, with optimizer states where the file has them");
  add_common(
      *importer, *flags,
      "FILE.safetensors, the .safetensors.index.json of several, a folder of them, or a gathered FILE.h5",
      "The new checkpoint's folder");
  importer->add_option("--dtype", flags->dtype,
                       "Of all parameters in training (default: as the layout says, else float32)");
  importer
      ->add_option("--layout", flags->layout,
                   "Order, marks and dtypes of parameters, and the options: a SPEC of `zero1 layout`, or a "
                   "checkpoint; none: by names (default: as SRC was exported, else by names)")
      ->type_name("CASE.json");
  importer->add_option("--case", flags->layout_case, "Of a list in CASE.json, the case of this name");
  add_layout_flags(*importer, flags);
  importer
      ->add_option("--step", flags->optimizer.step,
                   "Steps of AdamW that the moments in SRC come from, where SRC does not record it")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 53))
      ->type_name("N");
  importer->add_flag(
      "--reset-optimizer", flags->optimizer.reset,
      "Without moments, AdamW's step count 0; iteration, schedule and data position as recorded");
  importer->add_flag("--skip-other-dtypes", flags->skip_other_dtypes,
                     "Leave out tensors that are no floating-point numbers, such as masks and counters");
  importer->add_flag("--dry-run", flags->dry_run, "Print what becomes of each tensor, write nothing");
  add_name_flags(*importer, flags->names);
  importer->callback([flags] { run_interruptible([&] { run_import(*flags); }); });
  importer->footer(import_examples);
}

}  // namespace zero1::app
