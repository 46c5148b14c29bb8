// A run's first iteration does more than the others: threads start, memory is touched for the first time and
// matrix products are prepared. It hides the others where all share one scale.
#pragma once

#include "viz/model/event_index.h"

namespace zero1::viz {

/// Is the first iteration of the record half as long again as those behind it, or longer? Compared with the
/// median of the next few; false while there are none.
bool first_prepares(const EventIndex& events);

/// What a timeline shows at first: everything but a first iteration that prepares. Of a run that `goes_on`
/// what lies behind its first iteration, as soon as that is long enough to be seen.
trace::Interval worth_showing(const EventIndex& events, bool goes_on);

}  // namespace zero1::viz
