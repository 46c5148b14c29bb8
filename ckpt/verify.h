// Is what lies on disk whole?
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace zero1::ckpt {

struct VerifyReport {
  std::string folder;               ///< that was looked at
  std::vector<std::string> faults;  ///< each names its file, and the slice and parameter where it is one
  std::int64_t slices = 0;          ///< looked at
  std::int64_t bytes = 0;
};

/// Reads every byte of a checkpoint, chosen as resolve_source does: the digests of checkpoint.h5, of every
/// slice and of all bytes between them (padding included); that every logical element is stored exactly once;
/// that all values are finite, and moments such as AdamW makes (state_rules.h), with a step count; that no
/// file is missing or too many. Goes on after a fault: of a damaged checkpoint.h5 it uses whatever parts
/// still make sense. Throws InputError only where there is none.
VerifyReport verify(const std::string& source, std::optional<std::int64_t> step = {});

}  // namespace zero1::ckpt
