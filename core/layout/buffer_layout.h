// Which parameter lies where: buffers and buckets. Pure mathematics; the same on every rank.
// Megatron: `_ParamAndGradBuffer.__init__` in megatron/core/distributed/param_and_grad_buffer.py.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "core/base/at.h"
#include "core/base/range.h"
#include "core/layout/param_spec.h"

namespace zero1 {

/// More ranks than any machine has; a larger number is taken for a mistake.
inline constexpr int max_dp_size = 1 << 24;

struct LayoutOptions {
  int dp_size = 1;                                ///< ranks that share the dense buffers
  int expert_dp_size = 1;                         ///< ranks that share the expert-parallel buffers
  std::optional<std::int64_t> bucket_size_elems;  ///< unset: one bucket per buffer
  bool pad_buckets_for_high_nccl_busbw = false;
  bool grad_reduce_in_fp32 = true;

  friend bool operator==(const LayoutOptions&, const LayoutOptions&) = default;
};

struct BucketLayout {
  Range world;  ///< in the buffer, padding included; a multiple of dp_size long
  /// From the start to the end of the last parameter; where a shared embedding follows and so closes the
  /// bucket early, to that end aligned up to 64, as Megatron counts it.
  std::int64_t numel_unpadded = 0;
  std::vector<int> params;  ///< indices into the spec list, in buffer order

  friend bool operator==(const BucketLayout&, const BucketLayout&) = default;
};

/// Where one parameter lies.
struct ParamLocation {
  int buffer = 0;
  int bucket = 0;  ///< within the buffer
  Range world;     ///< in the buffer

  friend bool operator==(const ParamLocation&, const ParamLocation&) = default;
};

struct BufferLayout {
  DType param_dtype = DType::fp32;
  DType grad_dtype = DType::fp32;
  bool expert_parallel = false;
  int dp_size = 1;                  ///< expert_dp_size for an expert-parallel buffer
  std::int64_t numel = 0;           ///< padding included
  std::int64_t numel_unpadded = 0;  ///< sum over the buckets
  std::vector<BucketLayout> buckets;

  std::int64_t shard_elems(int bucket) const { return at(buckets, bucket).world.size() / dp_size; }
  /// What `rank` owns of `bucket`, in bucket coordinates.
  Range shard_in_bucket(int bucket, int rank) const {
    const std::int64_t size = shard_elems(bucket);
    return {rank * size, (rank + 1) * size};
  }

  friend bool operator==(const BufferLayout&, const BufferLayout&) = default;
};

/// The whole layout: an immutable value.
struct Layout {
  std::vector<ParamSpec> specs;  ///< as given, in model order
  LayoutOptions options;
  std::vector<BufferLayout> buffers;     ///< in order of first appearance
  std::vector<ParamLocation> locations;  ///< by parameter index

  /// The number of buckets over all buffers, and the global number of one: buffers in order.
  int bucket_count() const;
  int global_bucket(int buffer, int bucket) const;

  friend bool operator==(const Layout&, const Layout&) = default;
};

/// Computes the layout. Throws InputError that begins with the field, as `case` in JSON calls it
/// ("params[3].shape[1]: …"), on empty or duplicate names, negative or overflowing sizes (one shape, or
/// the sum with padding), a dtype that parameters cannot have, dp_size or expert_dp_size outside
/// [1, max_dp_size], or a bucket size < 1.
Layout compute_layout(std::vector<ParamSpec> specs, const LayoutOptions& options);

/// The run's default: max(40,000,000, 1,000,000 × dp_size) with overlap_grad_reduce, none without.
std::optional<std::int64_t> default_bucket_size(int dp_size, bool overlap_grad_reduce);

}  // namespace zero1
