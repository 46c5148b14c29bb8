#include "viz/model/change.h"

#include <algorithm>

namespace zero1::viz {

void Change::add(const trace::Event& event) {
  to_ns = std::max(to_ns, event.end_ns);
  if (event.bucket >= 0) buckets.insert(event.bucket);
  if (event.param >= 0) params.insert(event.param);
}

}  // namespace zero1::viz
