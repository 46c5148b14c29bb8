// Is what lies on disk whole?
#pragma once

#include <string>
#include <vector>

namespace zero1::ckpt {

struct VerifyReport {
  std::vector<std::string> faults;  ///< each names its file, and the slice and parameter where it is one
  std::int64_t slices = 0;          ///< looked at
  std::int64_t bytes = 0;
};

/// Reads every byte of the checkpoint `folder`: the digests of checkpoint.h5, of every slice and of all
/// bytes between them (padding included); that every logical element is stored exactly once; that all values
/// are finite; that no file is missing or too many. Goes on after a fault, except where checkpoint.h5
/// itself is damaged: without it nothing is known of the rest. Throws nothing for what is wrong with the
/// checkpoint.
VerifyReport verify(const std::string& folder);

}  // namespace zero1::ckpt
