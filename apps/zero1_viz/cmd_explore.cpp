// zero1_viz explore: shows who owns what, for options that can be turned.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>

#include "apps/zero1_viz/commands.h"
#include "apps/zero1_viz/view_flags.h"
#include "core/base/error.h"
#include "core/base/units.h"
#include "viz/app/session.h"
#include "viz/model/exploration.h"

namespace zero1::app {

namespace {

struct ExploreFlags {
  std::string spec;
  std::string model;
  std::optional<int> dp;
  std::string bucket_size;
  ViewFlags view;
};

void choose_model(viz::Exploration& exploration, const std::string& wanted) {
  const auto sources = exploration.sources();
  std::vector<std::string> names;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    if (sources[i].name == wanted) return exploration.choose(static_cast<int>(i));
    names.push_back(sources[i].name);
  }
  throw InputError(fmt::format("--model '{}': there are: {}", wanted, fmt::join(names, ", ")));
}

void run_explore(const ExploreFlags& flags) {
  viz::Document document = viz::explore(flags.spec);
  viz::Exploration& exploration = *document.exploration;
  LayoutOptions options = exploration.options();
  if (flags.dp) options.dp_size = options.expert_dp_size = *flags.dp;
  if (!flags.model.empty()) {
    exploration.set_options(options);
    choose_model(exploration, flags.model);
    options = exploration.options();
    if (flags.dp) options.dp_size = options.expert_dp_size = *flags.dp;
  }
  if (flags.bucket_size == "none") {
    options.bucket_size_elems.reset();
  } else if (!flags.bucket_size.empty()) {
    options.bucket_size_elems = parse_count(flags.bucket_size);
  }
  exploration.set_options(options);
  if (!exploration.error().empty()) throw InputError(exploration.error());
  viz::name_parts(document);
  apply_selection(flags.view, document);
  show(flags.view, std::move(document));
}

}  // namespace

void add_explore_command(CLI::App& app) {
  const auto flags = std::make_shared<ExploreFlags>();
  CLI::App* command = app.add_subcommand(
      "explore", "Try out ranks, bucket size, padding and dtypes: the ownership map redraws at once");
  command->footer(
      "SPEC.json is what `zero1 layout` reads: a case, or a list of them. Shapes of known models need no "
      "file.\n\n"
      "Examples:\n"
      "  zero1_viz explore\n"
      "  zero1_viz explore --model 'GPT-2 small' --dp 8\n"
      "  zero1_viz explore tests/golden/layout_small.json --model gpt-tiny-dp4 --screenshot map.png");
  command->add_option("SPEC.json", flags->spec, "Cases to begin with");
  command->add_option("--model", flags->model, "A case of the file, or a known shape such as 'GPT-2 small'")
      ->type_name("NAME");
  command->add_option("--dp", flags->dp, "Data-parallel ranks")->check(CLI::Range(1, max_dp_size));
  command->add_option("--bucket-size", flags->bucket_size,
                      "Elements, such as 40M; none: one bucket per buffer");
  add_view_flags(*command, flags->view);
  command->callback([flags] { run_explore(*flags); });
}

}  // namespace zero1::app
