// The values of one element at every stage of its way, taken from the ranks' memory as the run passes.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "core/trace/probe.h"
#include "core/train/rank_trainer.h"
#include "viz/model/element_place.h"

namespace zero1::viz {

/// What a value is, in the order of an iteration. docs/life_of_a_gradient.md tells the way.
enum class Stage : std::uint8_t {
  zeroed,       ///< local gradient at the iteration's begin
  accumulated,  ///< local gradient after one more contribution
  complete,     ///< local gradient of all microbatches, as the bucket goes to its reduction
  scaled,       ///< times the pre-scaling factor; absent where there is none
  reduced,      ///< after the reduction: the owner's is the result, elsewhere it is stale
  main_grad,    ///< fp32, as the norm sees it
  clipped,      ///< main gradient times clip coefficient (and inverse loss scale), as AdamW uses it
  exp_avg_before,
  exp_avg_sq_before,
  main_param_before,
  exp_avg,
  exp_avg_sq,
  main_param,
  model_param,    ///< main parameter rounded into the parameter buffer
  before_gather,  ///< the parameter as the gather begins: stale where it is not owned
  gathered,       ///< the parameter after the gather
};
inline constexpr int stage_count = 16;

std::string_view name(Stage stage);

/// One element of a tensor that the host can read, exactly.
double element_value(ConstTensorView view, std::int64_t index);

struct ElementSample {
  std::int64_t at_ns = 0;  ///< on the run's clock, as in events
  double value = 0;        ///< exactly what the memory held
  std::int32_t step = -1;  ///< the iteration that it belongs to: a gather to the update that it spreads
  std::int16_t rank = 0;
  std::int16_t microbatch = -1;
  std::int16_t layer = -1;  ///< whose backward contributed
  Stage stage = Stage::zeroed;
  bool stale = false;  ///< a place that does not hold the true value now
};

/// Follows one element on all ranks of a run. Each rank's threads call `passed`; everything else belongs to
/// the thread that draws.
///
/// Memory is read on the thread and at the moment at which the value stands there, in stream order, without
/// stopping or synchronising anything; docs of trace::Probe say which thread may read what.
class ElementProbe {
 public:
  static constexpr int kept_steps = 64;  ///< older samples are forgotten

  explicit ElementProbe(std::shared_ptr<const Layout> layout, int ranks);
  ~ElementProbe();

  /// From now on this element; forgets what was seen of another. Nothing: none.
  void follow(std::optional<ElementRef> element);
  const std::optional<ElementPlace>& place() const { return place_; }

  /// Takes over what has been seen since the last call.
  void update();
  /// In the order of each rank's threads.
  std::span<const ElementSample> samples() const { return samples_; }

  /// On the thread that runs the event's stream. `trainer` is that rank's.
  void passed(RankTrainer& trainer, const trace::Event& event, trace::Probe::At at);

 private:
  struct Rank;

  std::shared_ptr<const Layout> layout_;
  std::vector<std::unique_ptr<Rank>> ranks_;
  std::atomic<bool> following_{false};
  std::optional<ElementPlace> place_;
  std::vector<ElementSample> samples_;
  std::int32_t newest_step_ = -1;
};

/// What is known of one iteration at a moment: a row per stage and contribution, a column per rank.
struct ElementTable {
  struct Cell {
    double value = 0;
    bool stale = false;
    bool newest = false;  ///< nothing on this rank is later
  };
  struct Row {
    Stage stage = Stage::zeroed;
    int microbatch = -1;  ///< of a contribution
    int layer = -1;
    std::vector<std::optional<Cell>> cells;  ///< by rank
  };
  int step = -1;
  std::vector<Row> rows;  ///< in the order of an iteration; only those with a value
};

/// Samples up to `until_ns` of one iteration; step -1: of the last one that has any by then.
ElementTable element_table(std::span<const ElementSample> samples, int ranks, std::int64_t until_ns,
                           int step = -1);

}  // namespace zero1::viz
