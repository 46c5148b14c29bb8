// zero1 layout: computes and shows who owns what.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iostream>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "apps/zero1/commands.h"
#include "apps/zero1/flag_values.h"
#include "apps/zero1/layout_spec.h"
#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/terminal.h"
#include "core/base/units.h"
#include "core/layout/digest.h"
#include "core/layout/json.h"
#include "core/layout/svg.h"
#include "core/layout/table.h"

namespace zero1::app {
namespace {

struct Flags {
  std::string spec;
  bool json = false;
  bool digest = false;
  bool check = false;
  bool all = false;
  std::string case_name;
  std::optional<int> rank;
  std::string param;
  std::string svg;
  std::optional<int> dp_size;
  std::optional<int> expert_dp_size;
  std::string bucket_size;
  std::optional<bool> high_nccl_busbw;
  std::optional<bool> grad_reduce_in_fp32;
};

struct ComputedCase {
  LayoutFile::Entry entry;
  std::string title;
  Layout layout;
};

void apply_overrides(const Flags& flags, LayoutOptions& options) {
  if (flags.dp_size) options.dp_size = *flags.dp_size;
  if (flags.expert_dp_size) options.expert_dp_size = *flags.expert_dp_size;
  apply_bucket_size(flags.bucket_size, options.bucket_size_elems);
  if (flags.high_nccl_busbw) options.pad_buckets_for_high_nccl_busbw = *flags.high_nccl_busbw;
  if (flags.grad_reduce_in_fp32) options.grad_reduce_in_fp32 = *flags.grad_reduce_in_fp32;
}

/// Keeps the chosen case only. A case chosen by name is printed as one case, not as a list of one.
void choose_case(LayoutFile& file, const std::string& wanted, const std::string& source) {
  std::vector<std::string> names;
  for (LayoutFile::Entry& entry : file.entries) {
    names.push_back(entry.layout_case.name);
    if (entry.layout_case.name != wanted) continue;
    file = {false, {std::move(entry)}};
    return;
  }
  throw InputError(
      fmt::format("{}: no case is named '{}'; there are: {}", source, wanted, fmt::join(names, ", ")));
}

/// The SPEC as messages name it.
std::string source_of(const Flags& flags) {
  return flags.spec == "-" ? "standard input" : flags.spec;
}

std::vector<ComputedCase> compute_all(const Flags& flags, LayoutFile& file) {
  std::vector<ComputedCase> computed;
  for (std::size_t i = 0; i < file.entries.size(); ++i) {
    LayoutFile::Entry& entry = file.entries[i];
    apply_overrides(flags, entry.layout_case.options);
    const std::string position = file.is_list ? fmt::format("entry [{}]", i) : "";
    const std::string title = entry.layout_case.name.empty() ? position : entry.layout_case.name;
    try {
      Layout layout = compute_layout(entry.layout_case.params, entry.layout_case.options);
      computed.push_back({std::move(entry), title, std::move(layout)});
    } catch (const InputError& error) {
      throw InputError(fmt::format("{}:{}{}{} {}", source_of(flags), position.empty() ? "" : " ", position,
                                   position.empty() ? "" : ":", error.what()));
    }
  }
  return computed;
}

const ComputedCase& only_case(const std::vector<ComputedCase>& cases, const Flags& flags,
                              std::string_view flag) {
  if (cases.size() == 1) return cases.front();
  throw InputError(fmt::format("{}: {} needs one case, the file has {}; choose one with --case NAME",
                               source_of(flags), flag, cases.size()));
}

int find_param(const Layout& layout, const std::string& name) {
  for (std::size_t i = 0; i < layout.specs.size(); ++i) {
    if (layout.specs[i].name == name) return static_cast<int>(i);
  }
  std::vector<std::string> similar;
  for (const ParamSpec& spec : layout.specs) {
    if (spec.name.find(name) != std::string::npos && similar.size() < 5) similar.push_back(spec.name);
  }
  const std::string hint = similar.empty() ? "" : fmt::format("; similar: {}", fmt::join(similar, ", "));
  throw InputError(fmt::format("--param: no parameter is named '{}'{}", name, hint));
}

/// `expect` of one case; a list in the form of the golden files, so that it is a SPEC again.
void print_json(const std::vector<ComputedCase>& cases, bool is_list, RangeDetail detail) {
  if (!is_list) {
    write_expect_json(std::cout, cases.front().layout, detail);
    std::cout << "\n";
    return;
  }
  std::cout << "[";
  for (std::size_t i = 0; i < cases.size(); ++i) {
    std::cout << (i == 0 ? "\n" : ",\n")
              << "{\"case\": " << printable_json(layout_case_json(cases[i].entry.layout_case).dump())
              << ",\n\"expect\": ";
    write_expect_json(std::cout, cases[i].layout, detail);
    std::cout << "}";
  }
  std::cout << "\n]\n";
}

void print_digests(const std::vector<ComputedCase>& cases) {
  for (const ComputedCase& each : cases) {
    for (std::size_t b = 0; b < each.layout.buffers.size(); ++b) {
      const RangeDigest digest = range_digest(each.layout, static_cast<int>(b));
      say("{}  {} buffer {} ({}, {})\n", digest.sha256, each.title, b, counted(digest.rows, "row"),
          counted(each.layout.buffers[b].buckets.size(), "bucket"));
    }
  }
}

/// Compares with the `expect` that the file records. Returns the exit status.
int print_check(const std::vector<ComputedCase>& cases, const std::string& source) {
  int different = 0;
  int compared = 0;
  for (const ComputedCase& each : cases) {
    if (each.entry.expect.empty()) continue;
    ++compared;
    const auto expected = nlohmann::json::parse(each.entry.expect);
    const bool has_digest =
        !expected.empty() && expected[0].is_object() && expected[0].contains("rank_ranges_sha256");
    const auto found =
        nlohmann::json::parse(expect_json(each.layout, has_digest ? RangeDetail::digest : RangeDetail::rows));
    if (found == expected) continue;
    ++different;
    const auto patch = nlohmann::json::diff(expected, found);
    say("{}: differs in {}, first at {}\n", each.title, counted(patch.size(), "place"),
        patch[0].at("path").get<std::string>());
  }
  if (compared == 0)
    throw InputError(fmt::format("{}: --check needs a recorded \"expect\", the file has none", source));
  say("{} of {} {} as recorded\n", compared - different, counted(compared, "layout"),
      compared == 1 ? "is" : "are");
  return different == 0 ? 0 : 1;
}

void print_tables(const std::vector<ComputedCase>& cases, const Flags& flags) {
  const std::size_t rows = flags.all ? std::numeric_limits<std::size_t>::max() : default_table_rows;
  if (flags.rank || !flags.param.empty()) {
    const Layout& layout = only_case(cases, flags, flags.rank ? "--rank" : "--param").layout;
    print_lines(flags.rank ? rank_table(layout, *flags.rank, rows)
                           : param_table(layout, find_param(layout, flags.param), rows));
    return;
  }
  for (std::size_t i = 0; i < cases.size(); ++i) {
    print_lines((i == 0 ? "" : "\n\n") + layout_table(cases[i].layout, cases[i].title, rows));
  }
}

int run(const Flags& flags) {
  if (!flags.svg.empty() && same_file(flags.spec, flags.svg)) {
    throw InputError(
        fmt::format("--svg {}: is the SPEC itself; name another file for the picture", flags.svg));
  }
  LayoutFile file = parse_layout_file(layout_spec_text(flags.spec), source_of(flags));
  if (!flags.case_name.empty()) choose_case(file, flags.case_name, source_of(flags));
  const std::vector<ComputedCase> cases = compute_all(flags, file);
  const auto has_experts = [](const ComputedCase& each) { return has_expert_params(each.layout.specs); };
  if (flags.expert_dp_size && std::none_of(cases.begin(), cases.end(), has_experts)) {
    throw InputError(fmt::format("--expert-dp {}: {} has no expert-parallel parameters",
                                 *flags.expert_dp_size, source_of(flags)));
  }
  int status = 0;
  if (!flags.svg.empty()) {
    const ComputedCase& drawn = only_case(cases, flags, "--svg");
    const std::string title = drawn.title.empty() ? "" : "Who owns what: " + drawn.title;
    write_file(flags.svg, ownership_svg(drawn.layout, {title}));
  }
  if (flags.check) {
    status = print_check(cases, source_of(flags));
  } else if (flags.json) {
    print_json(cases, file.is_list, flags.digest ? RangeDetail::digest : RangeDetail::rows);
  } else if (flags.digest) {
    print_digests(cases);
  } else {
    print_tables(cases, flags);
  }
  return status;
}

}  // namespace

void add_layout_command(CLI::App& app, int& status) {
  const auto flags = std::make_shared<Flags>();
  CLI::App* command =
      app.add_subcommand("layout", "Show buffers, buckets and which rank owns which interval");
  command->footer(
      R"(SPEC is a recording of a run (`zero1 train --trace`), or a JSON file with one case such as

  {"params": [{"name": "wte", "shape": [1000, 64], "dtype": "bfloat16", "shared_embedding": true},
              {"name": "fc", "shape": [256, 64], "dtype": "bfloat16"}],
   "dp_size": 4, "expert_dp_size": 4, "bucket_size": 20000,
   "pad_buckets_for_high_nccl_busbw": false, "grad_reduce_in_fp32": true}

Parameters stand in the model's order; dtype: float32, bfloat16 or float16; shared_embedding and expert_parallel
may be left out. bucket_size is in elements, or null for one bucket per buffer. The file may also hold
{"case": …, "expect": …}, where `expect` is what --json prints, or a list of either (tests/golden/README.md).
With --json, one case prints its `expect`; a list prints a list of {"case": …, "expect": …}.

Examples:
  zero1 layout run.trace --svg map.svg                   the layout of a recorded run
  zero1 layout run.trace --dp 3 --bucket-size 100K       what it would be with other options
  zero1 layout spec.json --rank 2                        all that one rank owns
  zero1 layout spec.json --param fc                      which ranks hold which part of a parameter)");
  command
      ->add_option("SPEC", flags->spec, "A recording or a JSON file, or - for JSON from the standard input")
      ->required();
  CLI::Option* json = command->add_flag("--json", flags->json, "Print `expect` as JSON");
  CLI::Option* digest =
      command->add_flag("--digest", flags->digest,
                        "Print the SHA-256 of every rank's ranges, per buffer; with --json in their place");
  CLI::Option* check =
      command
          ->add_flag("--check", flags->check, "Compare with the file's `expect`; exit status 1 if different")
          ->excludes(json)
          ->excludes(digest);
  command->add_option("--case", flags->case_name, "Of a list, only the case of this name");
  CLI::Option* rank = command->add_option("--rank", flags->rank, "Show what one rank owns, all four ranges")
                          ->excludes(json)
                          ->excludes(digest)
                          ->excludes(check);
  command->add_option("--param", flags->param, "Show which ranks hold which part of a parameter")
      ->excludes(json)
      ->excludes(digest)
      ->excludes(check)
      ->excludes(rank);
  command->add_flag("--all", flags->all, "Cut no table short");
  command->add_option("--svg", flags->svg, "Draw the ownership map into this file")->check(not_an_svg);
  command->add_option("--dp", flags->dp_size, "Instead of the file's dp_size")
      ->check(CLI::Range(1, max_dp_size))
      ->group("Explore");
  command->add_option("--expert-dp", flags->expert_dp_size, "Instead of the file's expert_dp_size")
      ->check(CLI::Range(1, max_dp_size))
      ->group("Explore");
  command
      ->add_option("--bucket-size", flags->bucket_size,
                   "Elements, such as 40M, or none for one bucket per buffer")
      ->group("Explore");
  // Functions, as these flags must tell "not given" from "no".
  command
      ->add_flag_function(
          "--pad-buckets-for-high-nccl-busbw,!--no-pad-buckets-for-high-nccl-busbw",
          [flags](std::int64_t count) { flags->high_nccl_busbw = count > 0; },
          "Pad buckets to multiples of 2^16, or not")
      ->group("Explore");
  command
      ->add_flag_function(
          "--grad-reduce-in-fp32,!--no-grad-reduce-in-fp32",
          [flags](std::int64_t count) { flags->grad_reduce_in_fp32 = count > 0; },
          "Gradients in fp32, or in the parameters' dtype")
      ->group("Explore");
  command->callback([flags, &status] { status = run(*flags); });
}

}  // namespace zero1::app
