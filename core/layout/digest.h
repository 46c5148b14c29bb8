// A short fingerprint of who owns what.
#pragma once

#include <cstdint>
#include <string>

#include "core/layout/range_map.h"

namespace zero1 {

struct RangeDigest {
  std::string sha256;     ///< 64 hexadecimal digits
  std::int64_t rows = 0;  ///< over all ranks

  friend bool operator==(const RangeDigest&, const RangeDigest&) = default;
};

/// SHA-256 over, for every rank of the buffer in order, one line per row
/// "{bucket} {name} {world} {world_in_bucket} {local} {param}\n", ranges as "start:end", then "--\n".
RangeDigest range_digest(const Layout& layout, int buffer);

}  // namespace zero1
