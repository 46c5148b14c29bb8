// Prepared runs for a tutorial: a configuration, where to stop and what to look at.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/train/config.h"
#include "viz/model/element_place.h"
#include "viz/model/live_run.h"
#include "viz/model/selection.h"

namespace zero1::viz {

struct Scenario {
  std::string name;  ///< of --scenario
  std::string title;
  std::string explanation;  ///< one paragraph: what to see, and what to press next
  int explained_step = 0;   ///< the last iteration that it is about
  TrainConfig config;       ///< not resolved yet
  std::vector<trace::Breakpoint> breakpoints;
  /// Names, since numbers depend on the model: looked up when the run begins. Empty: nothing.
  std::string follow_param;
  std::int64_t follow_index = 0;
  Selection selection;
};

std::span<const Scenario> scenarios();

/// Throws InputError that lists the names.
const Scenario& find_scenario(std::string_view name);

/// How the scenario's run starts: with its breakpoints, its title and its explanation.
LiveRunOptions live_run_options(const Scenario& scenario);

/// The element that it follows; nothing where it follows none. Throws InputError where the layout does not
/// have the parameter.
std::optional<ElementRef> followed_element(const Scenario& scenario, const Layout& layout);

}  // namespace zero1::viz
