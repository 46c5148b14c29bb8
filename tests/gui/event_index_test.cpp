// The index of events against a plain list of them.
#include "viz/model/event_index.h"

#include <doctest/doctest.h>

#include "tests/unit/trace_sample_run.h"

using namespace zero1;
using namespace zero1::viz;

TEST_CASE("pushed events are there after absorb, whole") {
  const trace::test::SampleRun run(3, 4);
  EventIndex index(3);
  index.push(run.events());
  CHECK(index.size() == 0);
  CHECK(index.absorb());
  CHECK_FALSE(index.absorb());
  REQUIRE(index.size() == static_cast<std::int64_t>(run.events().size()));
}
