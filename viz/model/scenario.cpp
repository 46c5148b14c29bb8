#include "viz/model/scenario.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "core/base/error.h"

namespace zero1::viz {

namespace {

using trace::BucketState;
using trace::Collective;
using trace::Kind;

/// Small enough that every step can be watched on any machine, large enough for several buckets.
TrainConfig small_gpt(int dp) {
  TrainConfig config;
  config.num_layers = 2;
  config.hidden_size = 64;
  config.num_attention_heads = 4;
  config.seq_length = 32;
  config.dp = dp;
  config.micro_batch_size = 1;
  config.global_batch_size = std::int64_t{2} * dp;
  config.train_iters = 1000;
  config.threads_per_rank = 1;
  config.data_parallel.overlap_grad_reduce = true;
  config.data_parallel.overlap_param_gather = true;
  config.data_parallel.num_buckets = 4;
  return config;
}

trace::Breakpoint stop(Kind kind, int step) {
  trace::Breakpoint at;
  at.kind = kind;
  at.rank = 0;
  at.step = step;
  return at;
}

/// There in every iteration from this one on: after what is explained it can be seen again.
trace::Breakpoint from_then_on(trace::Breakpoint at) {
  at.from_step = at.step;
  at.step.reset();
  return at;
}

trace::Breakpoint stop_at_state(BucketState state, int bucket, int step) {
  trace::Breakpoint at = stop(Kind::bucket_state, step);
  at.bucket = bucket;
  at.detail = static_cast<int>(state);
  return at;
}

trace::Breakpoint stop_at_collective(Kind kind, Collective what, int step) {
  trace::Breakpoint at = stop(kind, step);
  at.detail = static_cast<int>(what);
  return at;
}

Scenario first_iteration() {
  Scenario s;
  s.name = "first-iteration";
  s.title = "The first iteration learns, the second one overlaps";
  s.explanation =
      "How often a parameter reports its gradient in one iteration is not known beforehand, so the first "
      "iteration only counts and reduces every bucket at its end. The run stops as bucket 0 is ready for the "
      "first time: on the timeline backward is over. Press R: the second stop is the same moment of the "
      "second "
      "iteration. Now the golden counts are known, and bucket 0 goes off while the layers below it have not "
      "begun their backward.";
  s.config = small_gpt(2);
  s.explained_step = 2;
  s.breakpoints = {stop_at_state(BucketState::ready, 0, 1),
                   from_then_on(stop_at_state(BucketState::ready, 0, 2))};
  s.selection.bucket = 0;
  s.selection.rank = 0;
  return s;
}

Scenario ready_counting() {
  Scenario s;
  s.name = "ready-counting";
  s.title = "A bucket waits until its last gradient is ready";
  s.explanation =
      "The run stops in front of each report of a gradient of bucket 1 on rank 0, in the second iteration. "
      "Press R and watch the count on the ownership map grow by one: the parameters report in reverse model "
      "order, the order in which they lie in the buffer. With the last report the bucket's reduction is "
      "issued, "
      "in the middle of backward; nothing else triggers it. With two microbatches only the last one counts.";
  s.config = small_gpt(2);
  s.explained_step = 2;
  trace::Breakpoint at = stop(Kind::grad_ready, 2);
  at.bucket = 1;
  s.breakpoints = {from_then_on(at)};
  s.selection.bucket = 1;
  s.selection.rank = 0;
  return s;
}

Scenario split_parameter() {
  Scenario s;
  s.name = "split-parameter";
  s.title = "Shards end where arithmetic says";
  s.explanation =
      "Each bucket is cut into four equal shards, whatever parameters lie there: h.0.mlp.c_fc.weight belongs "
      "to "
      "several ranks. The run stops before the gradient norm, when all buckets are reduced. Follow one of "
      "its "
      "elements in the element panel: one rank holds the true sum, the other three hold stale values. Press "
      "R "
      "to see its main parameter change on the owner alone, and the gather of the next iteration spread it.";
  s.config = small_gpt(4);
  s.explained_step = 3;
  trace::Breakpoint gathered = stop_at_collective(Kind::collective_wait, Collective::all_gather, 3);
  s.breakpoints = {from_then_on(stop(Kind::grad_norm, 2)), from_then_on(gathered)};
  s.follow_param = "h.0.mlp.c_fc.weight";
  s.follow_index = 5000;
  return s;
}

Scenario exposed_wait() {
  Scenario s;
  s.name = "exposed-wait";
  s.title = "A slow link leaves communication exposed";
  s.explanation =
      "The ranks are joined by a modelled link of 0.1 Gbit/s. Reductions start in the middle of backward and "
      "still last longer than what is left of it. The run stops where rank 0 begins to wait in the third "
      "iteration. Press I twice, then look at the overlap panel: it says for each bucket how much of its "
      "time "
      "was exposed and why. The buckets behind the first stand in line, the last one comes too late to hide.";
  s.config = small_gpt(2);
  s.explained_step = 5;  // after the two iterations that it asks for
  s.config.link = {0.1, 20};
  s.breakpoints = {stop_at_collective(Kind::collective_wait, Collective::reduce_scatter, 3)};
  s.selection.step = 3;
  return s;
}

Scenario tied_embedding() {
  Scenario s;
  s.name = "tied-embedding";
  s.title = "A tied embedding reports twice";
  s.explanation =
      "wte.weight is the input embedding and the output head at once. Backward adds the head's gradient "
      "first "
      "and the embedding's last, so its golden count is two, and its bucket stays open until the very end of "
      "backward. From the second iteration on the run stops before each of the two reports. Between them the "
      "element panel shows one contribution of this microbatch, after them two. Press R to go from one to "
      "the "
      "next.";
  s.explained_step = 2;
  s.config = small_gpt(2);
  trace::Breakpoint at = stop(Kind::grad_ready, 2);
  at.param = 0;
  s.breakpoints = {from_then_on(at)};
  s.follow_param = "wte.weight";
  s.follow_index = std::int64_t{' '} * s.config.hidden_size;  // the row of the space, which every text has
  s.selection.param = 0;
  return s;
}

Scenario plain_data_parallel() {
  Scenario s;
  s.name = "no-distributed-optimizer";
  s.title = "Plain data parallelism, for comparison";
  s.explanation =
      "Without the distributed optimizer every bucket is all-reduced, every rank holds all moments and makes "
      "the whole update, and nothing is gathered. The run stops before the first AdamW of the second "
      "iteration: in the element panel every rank has the same main gradient, and none is stale. The memory "
      "panel shows what that costs: the optimizer's share does not shrink with the number of ranks.";
  s.config = small_gpt(4);
  s.config.data_parallel.use_distributed_optimizer = false;
  s.config.data_parallel.overlap_param_gather = false;
  s.explained_step = 2;
  s.breakpoints = {from_then_on(stop(Kind::adamw, 2))};
  s.follow_param = "h.1.ln_2.weight";
  s.follow_index = 7;
  return s;
}

Scenario mixed_precision() {
  Scenario s;
  s.name = "mixed-precision";
  s.title = "Main parameters keep what bf16 loses";
  s.explanation =
      "The model computes with bf16 parameters; the owner of each keeps an fp32 main parameter. The run "
      "stops before the layer that reads the third iteration's update. Go back to that iteration in the "
      "element panel (<) and compare its rows: the main parameter has moved by about the learning rate, the "
      "rounded model parameter has not moved at all, and so nobody's has. Over many iterations the small "
      "steps add up in the main parameter, and only there.";
  s.config = small_gpt(2);
  s.config.param_dtype = DType::bf16;
  s.config.lr.lr = 1e-4;
  trace::Breakpoint at = stop(Kind::forward, 4);
  at.layer = 1;  // h.0
  s.explained_step = 4;
  s.breakpoints = {from_then_on(at)};
  s.follow_param = "h.0.ln_1.weight";
  s.follow_index = 3;
  return s;
}

}  // namespace

std::span<const Scenario> scenarios() {
  static const std::vector<Scenario> all{first_iteration(), ready_counting(), split_parameter(),
                                         exposed_wait(),    tied_embedding(), plain_data_parallel(),
                                         mixed_precision()};
  return all;
}

const Scenario& find_scenario(std::string_view name) {
  const auto found = std::find_if(scenarios().begin(), scenarios().end(),
                                  [&](const Scenario& scenario) { return scenario.name == name; });
  if (found != scenarios().end()) return *found;
  std::vector<std::string> names;
  for (const Scenario& scenario : scenarios()) names.push_back(scenario.name);
  throw InputError(fmt::format("--scenario '{}': expected one of {}", name, fmt::join(names, ", ")));
}

LiveRunOptions live_run_options(const Scenario& scenario) {
  LiveRunOptions options;
  options.breakpoints = scenario.breakpoints;
  options.title = scenario.title;
  options.explanation = scenario.explanation;
  options.explained_step = scenario.explained_step;
  options.again = "zero1_viz run --scenario " + scenario.name;
  options.follow = followed_element(scenario, run_shape(resolve(scenario.config)).layout);
  return options;
}

std::optional<ElementRef> followed_element(const Scenario& scenario, const Layout& layout) {
  if (scenario.follow_param.empty()) return std::nullopt;
  for (std::size_t p = 0; p < layout.specs.size(); ++p) {
    if (layout.specs[p].name == scenario.follow_param) {
      return place_of(layout, {static_cast<int>(p), scenario.follow_index}).element;
    }
  }
  throw InputError(fmt::format("scenario '{}' follows '{}', which the model does not have", scenario.name,
                               scenario.follow_param));
}

}  // namespace zero1::viz
