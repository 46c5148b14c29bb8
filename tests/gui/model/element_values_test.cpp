// Values that the ownership map prints: what lies in a rank's memory.
#include "viz/model/element_values.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <memory>

#include "core/model/model.h"
#include "tests/gui/live_support.h"

using namespace zero1;
using namespace zero1::viz;

TEST_CASE("before the first step the buffers hold the model's initial values and no gradients") {
  for (const DType dtype : {DType::fp32, DType::bf16}) {
    TrainConfig config = viz::test::small_run(2);
    config.param_dtype = dtype;
    LiveRunOptions options;
    options.start_paused = true;
    LiveRun live(config, options);
    viz::test::wait_stopped(live);
    const auto model = make_model(config);
    const Layout& layout = *live.layout();
    for (int rank = 0; rank < 2; ++rank) {
      CAPTURE(rank);
      // A rank may still be on its way to its first event.
      ElementValues values;
      while (values.world.empty()) {
        live.gate().wait_held(2);
        values = read_values(live, rank, 0, {0, layout.buffers[0].numel});
      }
      REQUIRE(values.world == Range{0, layout.buffers[0].numel});
      for (std::size_t p = 0; p < layout.specs.size(); ++p) {
        const auto expected = model->initial_values(static_cast<int>(p), config.seed);
        const Range world = layout.locations[p].world;
        int different = 0;
        for (std::int64_t i = 0; i < world.size(); ++i) {
          const float held = values.params[static_cast<std::size_t>(world.start + i)];
          float wanted = expected[static_cast<std::size_t>(i)];
          if (dtype == DType::bf16) wanted = static_cast<float>(BFloat16(wanted));
          different += held == wanted ? 0 : 1;
        }
        CHECK(different == 0);
      }
      CHECK(std::all_of(values.gradients.begin(), values.gradients.end(), [](float g) { return g == 0; }));
    }
  }
}

TEST_CASE("a stretch beyond the buffer is cut, and a buffer there is none of gives nothing") {
  LiveRunOptions options;
  options.start_paused = true;
  LiveRun live(viz::test::small_run(1), options);
  viz::test::wait_stopped(live);
  const std::int64_t numel = live.layout()->buffers[0].numel;
  ElementValues values;
  while (values.world.empty()) {
    live.gate().wait_held(2);
    values = read_values(live, 0, 0, {numel - 3, numel + 100});
  }
  CHECK(values.world == Range{numel - 3, numel});
  CHECK(values.params.size() == 3);
  CHECK(values.gradients.size() == 3);
  CHECK(read_values(live, 0, 7, {0, 3}).world.empty());
}
