// What the tests of checkpoints share.
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

#include "ckpt/import.h"
#include "ckpt/write.h"
#include "core/base/random.h"

namespace zero1::test {

/// A layout with everything that makes trouble: a scalar, sizes of one, odd shapes, three dimensions, a
/// parameter without elements, two dtypes, a shared embedding.
inline LayoutCase uneven_case(int dp_size, std::optional<std::int64_t> bucket_size = {}) {
  LayoutCase result;
  result.params = {
      {"embed", {7, 5}, DType::fp32, true, false},    {"one", {1}, DType::fp32, false, false},
      {"cube", {3, 5, 7}, DType::fp32, false, false}, {"low", {11, 3}, DType::bf16, false, false},
      {"scalar", {}, DType::fp32, false, false},      {"nothing", {0, 3}, DType::fp32, false, false},
      {"wide", {2, 301}, DType::fp32, false, false},  {"tail", {5, 1, 2, 3}, DType::bf16, false, false}};
  result.options.dp_size = dp_size;
  result.options.expert_dp_size = dp_size;
  result.options.bucket_size_elems = bucket_size;
  return result;
}

/// An element's value is a function of where it is: any mistake of place shows.
class PlacedValues : public ckpt::ElementSource {
 public:
  static float value(int param, ckpt::State state, std::int64_t index) {
    const std::uint64_t key =
        mix64((static_cast<std::uint64_t>(param) << 40) ^ (static_cast<std::uint64_t>(state) << 36) ^
              static_cast<std::uint64_t>(index));
    return static_cast<float>(static_cast<double>(key >> 11) * 0x1p-53 - 0.5);
  }
  void read(int param, ckpt::State state, Range range, float* out) const override {
    for (std::int64_t i = 0; i < range.size(); ++i) out[i] = value(param, state, range.start + i);
  }
};

/// Imports `path` for so many ranks.
inline void import_as(const std::string& path, const std::string& folder, int dp_size,
                      ckpt::ImportOptions options = {}) {
  options.layout.dp_size = dp_size;
  ckpt::ImportPlan(path, options).write(folder, {});
}

/// Counts the elements of a checkpoint that are not PlacedValues'.
inline std::int64_t misplaced(const ckpt::Checkpoint& checkpoint) {
  std::int64_t wrong = 0;
  for (std::size_t p = 0; p < checkpoint.layout().specs.size(); ++p) {
    const std::int64_t elems = checkpoint.layout().specs[p].numel();
    for (const ckpt::State state : ckpt::all_states) {
      std::vector<float> values(static_cast<std::size_t>(elems), std::nanf(""));
      checkpoint.read(static_cast<int>(p), state, {0, elems}, values.data());
      for (std::int64_t i = 0; i < elems; ++i) {
        const float expected = PlacedValues::value(static_cast<int>(p), state, i);
        wrong += values[static_cast<std::size_t>(i)] == expected ? 0 : 1;
      }
    }
  }
  return wrong;
}

}  // namespace zero1::test
