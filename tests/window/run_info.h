// What a recording says of a run with a given layout.
#pragma once

#include <nlohmann/json.hpp>

#include "core/layout/json.h"
#include "core/trace/recorder.h"

namespace zero1::viz::test {

/// Names that are not UTF-8 are replaced in the layout, as JSON cannot hold them.
inline trace::RunInfo info_of(const LayoutCase& c) {
  const Layout layout = compute_layout(c.params, c.options);
  trace::RunInfo info;
  info.ranks = c.options.dp_size;
  for (const ParamSpec& spec : layout.specs) info.params.push_back(spec.name);
  for (std::size_t b = 0; b < layout.buffers.size(); ++b) {
    for (const BucketLayout& bucket : layout.buffers[b].buckets) {
      info.buckets.push_back(
          {static_cast<int>(b), bucket.world.start, bucket.world.end, 4 * bucket.world.size()});
    }
  }
  info.layout_json =
      layout_case_json(c).dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  return info;
}

}  // namespace zero1::viz::test
