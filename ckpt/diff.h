// Compares two checkpoints element by element, whatever their layouts, in the manner of h5diff.
#pragma once

#include <string>
#include <vector>

#include "ckpt/checkpoint.h"

namespace zero1::ckpt {

struct DiffOptions {
  std::optional<double> abs_tolerance;  ///< |a - b| must exceed it to count as different
  std::optional<double> rel_tolerance;  ///< |a - b| / |a| must
  bool bitwise = false;                 ///< -0 differs from 0, and one NaN from another
  std::string param;                    ///< only this one
};

/// One parameter's and state's differences.
struct DiffRow {
  std::string param;
  State state = State::param;
  std::int64_t different = 0;  ///< elements
  std::int64_t elems = 0;
  double max_abs = 0, max_rel = 0;
  std::int64_t at = -1;  ///< flat index of the largest absolute difference
  float a = 0, b = 0;    ///< the values there
};

struct DiffReport {
  std::vector<DiffRow> rows;  ///< those that differ, largest absolute difference first
  std::string structure;      ///< parameters missing, unexpected or of another shape; else empty
  bool equal() const { return rows.empty() && structure.empty(); }
};

DiffReport diff(const Checkpoint& a, const Checkpoint& b, const DiffOptions& options);

}  // namespace zero1::ckpt
