// The rules of the layout, one by one, on lists small enough to check by hand; and what is refused.
#include <doctest/doctest.h>

#include <limits>
#include <string>

#include "core/base/error.h"
#include "core/layout/buffer_layout.h"
#include "core/layout/digest.h"
#include "core/layout/range_map.h"

using namespace zero1;

namespace {

constexpr std::int64_t largest = std::numeric_limits<std::int64_t>::max();

ParamSpec param(std::string name, std::vector<std::int64_t> shape) {
  return {std::move(name), std::move(shape)};
}

ParamSpec shared_embedding(std::string name, std::vector<std::int64_t> shape) {
  ParamSpec spec = param(std::move(name), std::move(shape));
  spec.shared_embedding = true;
  return spec;
}

LayoutOptions options(int dp_size, std::optional<std::int64_t> bucket_size = std::nullopt) {
  LayoutOptions result;
  result.dp_size = dp_size;
  result.bucket_size_elems = bucket_size;
  return result;
}

std::string refusal(std::vector<ParamSpec> specs, const LayoutOptions& given = {}) {
  try {
    compute_layout(std::move(specs), given);
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

bool starts_with(const std::string& text, std::string_view beginning) {
  return text.rfind(beginning, 0) == 0;
}

}  // namespace

TEST_CASE("parameters lie in reverse order and start at multiples of 64") {
  const Layout layout = compute_layout({param("a", {5, 7}), param("b", {}), param("c", {65})}, options(1));
  CHECK(layout.locations[2].world == Range{0, 65});
  CHECK(layout.locations[1].world == Range{128, 129});
  CHECK(layout.locations[0].world == Range{192, 227});
  CHECK(layout.buffers[0].buckets[0].world == Range{0, 256});
  CHECK(layout.buffers[0].buckets[0].numel_unpadded == 227);
}

TEST_CASE("a bucket is padded to a multiple of both the ranks and 128") {
  CHECK(compute_layout({param("a", {1})}, options(3)).buffers[0].numel == 384);
  CHECK(compute_layout({param("a", {385})}, options(3)).buffers[0].numel == 768);
  CHECK(compute_layout({param("a", {1})}, options(7)).buffers[0].numel == 896);
  CHECK(compute_layout({param("a", {1})}, options(256)).buffers[0].numel == 256);
  CHECK(compute_layout({param("a", {1})}, options(129)).buffers[0].numel == 129 * 128);
  LayoutOptions busbw = options(3);
  busbw.pad_buckets_for_high_nccl_busbw = true;
  CHECK(compute_layout({param("a", {1})}, busbw).buffers[0].numel == 3 * 65536);
  CHECK(compute_layout({param("a", {1})}, options(max_dp_size)).buffers[0].numel == max_dp_size);
}

TEST_CASE("a shared embedding has a bucket of its own, and closes the one before it") {
  const Layout layout = compute_layout(
      {param("first", {3}), shared_embedding("embedding", {100}), param("last", {7})}, options(2, 1000));
  const std::vector<BucketLayout>& buckets = layout.buffers[0].buckets;
  REQUIRE(buckets.size() == 3);
  CHECK(buckets[0].params == std::vector<int>{2});
  CHECK(buckets[1].params == std::vector<int>{1});
  CHECK(buckets[2].params == std::vector<int>{0});
  CHECK(buckets[0].numel_unpadded == 64);  // up to where the embedding would start, as Megatron counts
  CHECK(buckets[1].numel_unpadded == 100);
  CHECK(layout.locations[1].world == Range{128, 228});
}

TEST_CASE("buffers are grouped by dtypes and experts, in order of first appearance") {
  std::vector<ParamSpec> specs{param("a", {3}), param("b", {3}), param("c", {3}), param("d", {3})};
  specs[1].dtype = DType::bf16;
  specs[2].expert_parallel = true;
  LayoutOptions given = options(4);
  given.expert_dp_size = 2;
  given.grad_reduce_in_fp32 = false;
  const Layout layout = compute_layout(specs, given);
  REQUIRE(layout.buffers.size() == 3);
  CHECK(layout.buffers[0].buckets[0].params == std::vector<int>{3, 0});
  CHECK(layout.buffers[1].grad_dtype == DType::bf16);
  CHECK(layout.buffers[2].dp_size == 2);
  CHECK(layout.bucket_count() == 3);
  CHECK(layout.global_bucket(2, 0) == 2);
  given.grad_reduce_in_fp32 = true;
  CHECK(compute_layout(specs, given).buffers[1].grad_dtype == DType::fp32);
}

TEST_CASE("tensors without elements have a place and no owner") {
  const Layout layout = compute_layout({param("a", {3}), param("none", {5, 0}), param("b", {3})}, options(2));
  CHECK(layout.locations[1].world == Range{64, 64});
  CHECK(build_range_map(layout, 0).row_count() == 2);
  const Layout only_empty = compute_layout({param("none", {0})}, options(3, 1));
  CHECK(only_empty.buffers[0].numel == 0);
  CHECK(only_empty.bucket_count() == 1);
  CHECK(build_range_map(only_empty, 0).row_count() == 0);
  CHECK(compute_layout({}, options(3)).buffers.empty());
}

TEST_CASE("far more ranks than elements: some own padding only") {
  const Layout layout = compute_layout({param("a", {5})}, options(1000));
  const RangeMap map = build_range_map(layout, 0);
  CHECK(layout.buffers[0].numel == 16000);
  CHECK(map.rank_count() == 1000);
  CHECK(map.row_count() == 1);
  CHECK(map.rank(999).empty());
}

TEST_CASE("the digest is that of the documented text") {
  const Layout layout = compute_layout({param("w", {130})}, options(2));
  // printf '0 w 0:128 0:128 0:128 0:128\n--\n0 w 128:130 128:130 0:2 128:130\n--\n' | sha256sum
  const RangeDigest digest = range_digest(layout, 0);
  CHECK(digest.rows == 2);
  CHECK(digest.sha256 == "97f86ae100b5bf85cf991ac25544c2325c400d3079c9e283540bf97f7b1efde8");
}

TEST_CASE("default bucket sizes") {
  CHECK(default_bucket_size(4, true) == 40'000'000);
  CHECK(default_bucket_size(64, true) == 64'000'000);
  CHECK(default_bucket_size(max_dp_size, true) == std::int64_t{1'000'000} * max_dp_size);
  CHECK_FALSE(default_bucket_size(64, false).has_value());
}

TEST_CASE("what cannot be laid out is refused, and the message begins with the field") {
  CHECK(starts_with(refusal({param("a", {1}), param("b", {5, -3})}), "params[1].shape[1]: "));
  CHECK(starts_with(refusal({param("a", {largest, 3})}), "params[0].shape: "));
  CHECK(starts_with(refusal({param("a", {std::int64_t{1} << 32, std::int64_t{1} << 31})}),
                    "params[0].shape: "));
  CHECK(starts_with(refusal({param("a", {1}), param("b", {2}), param("a", {3})}), "params[2].name: 'a'"));
  CHECK(starts_with(refusal({param("", {1})}), "params[0].name: "));
  ParamSpec fp64 = param("a", {1});
  fp64.dtype = DType::fp64;
  CHECK(starts_with(refusal({fp64}), "params[0].dtype: "));
  CHECK(starts_with(refusal({param("a", {1})}, options(0)), "dp_size: "));
  CHECK(starts_with(refusal({param("a", {1})}, options(-4)), "dp_size: "));
  CHECK(starts_with(refusal({param("a", {1})}, options(max_dp_size + 1)), "dp_size: "));
  LayoutOptions no_experts;
  no_experts.expert_dp_size = 0;
  CHECK(starts_with(refusal({param("a", {1})}, no_experts), "expert_dp_size: "));
  CHECK(starts_with(refusal({param("a", {1})}, options(1, 0)), "bucket_size: "));
  CHECK(starts_with(refusal({param("a", {1})}, options(1, -1)), "bucket_size: "));
}

TEST_CASE("sums that overflow are refused: over parameters, by padding, over buffers") {
  constexpr std::int64_t half = std::int64_t{1} << 62;
  CHECK(starts_with(refusal({param("a", {half}), param("b", {half})}), "params[0].shape: "));
  CHECK(starts_with(refusal({param("a", {largest})}), "params[0].shape: "));
  CHECK(starts_with(refusal({param("a", {1}), param("b", {largest - 63})}), "params[1].shape: "));
  CHECK(starts_with(refusal({param("a", {largest - 200})}, options(max_dp_size - 1)), "params[0].shape: "));
  CHECK(refusal({param("a", {largest - 127})}) == "accepted");
  ParamSpec other = param("b", {half});
  other.dtype = DType::bf16;
  CHECK(starts_with(refusal({param("a", {half}), other}), "params: "));
}
