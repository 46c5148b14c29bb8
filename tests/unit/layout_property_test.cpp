// Layouts of random parameter lists, against the laws they must obey and against slow, obvious code.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <numeric>
#include <random>
#include <string>

#include "core/base/dtype.h"
#include "core/layout/owners.h"
#include "core/layout/range_map.h"

using namespace zero1;

namespace {

constexpr int case_count = 400;
constexpr int nobody = -1;

/// Random lists with uneven shapes, scalars, empty tensors, experts and shared embeddings.
class CaseGenerator {
 public:
  explicit CaseGenerator(unsigned seed) : random_(seed) {}

  Layout next() {
    std::vector<ParamSpec> specs(static_cast<std::size_t>(pick({1, 1, 2, 3, 5, 7, 12})));
    for (std::size_t i = 0; i < specs.size(); ++i) {
      ParamSpec& spec = specs[i];
      spec.name = "p" + std::to_string(i);
      const int dims = pick({0, 1, 1, 2, 2, 3});
      for (int d = 0; d < dims; ++d) spec.shape.push_back(pick({1, 3, 5, 7, 16, 31, 63, 64, 65}));
      if (dims == 3) spec.shape[1] = pick({0, 1, 2});
      spec.dtype =
          std::array{DType::fp32, DType::bf16, DType::fp16}[static_cast<std::size_t>(pick({0, 1, 1, 1, 2}))];
      spec.shared_embedding = pick({0, 0, 0, 0, 1}) == 1;
      spec.expert_parallel = pick({0, 0, 0, 1}) == 1;
    }
    LayoutOptions options;
    options.dp_size = pick({1, 2, 3, 4, 5, 7, 8, 48, 96, 129});
    options.expert_dp_size = pick({1, 2, 3, 5});
    const int bucket_size = pick({0, 1, 63, 64, 65, 500, 1000, 4096});
    if (bucket_size > 0) options.bucket_size_elems = bucket_size;
    options.pad_buckets_for_high_nccl_busbw = pick({0, 0, 0, 0, 0, 0, 0, 1}) == 1;
    options.grad_reduce_in_fp32 = pick({0, 1}) == 1;
    return compute_layout(std::move(specs), options);
  }

 private:
  int pick(std::initializer_list<int> choices) {
    std::uniform_int_distribution<std::size_t> index(0, choices.size() - 1);
    return choices.begin()[index(random_)];
  }

  std::mt19937 random_;
};

template <class Fn>
void for_every_buffer(Fn&& fn) {
  CaseGenerator generator(20260822);
  for (int i = 0; i < case_count; ++i) {
    const Layout layout = generator.next();
    CAPTURE(i);
    for (int b = 0; b < static_cast<int>(layout.buffers.size()); ++b) {
      CAPTURE(b);
      fn(layout, b);
    }
  }
}

const BufferLayout& buffer_of(const Layout& layout, int b) {
  return layout.buffers[static_cast<std::size_t>(b)];
}

/// For every element of the buffer its parameter, or nobody for padding.
std::vector<int> element_params(const Layout& layout, int b) {
  std::vector<int> params(static_cast<std::size_t>(buffer_of(layout, b).numel), nobody);
  for (std::size_t p = 0; p < layout.specs.size(); ++p) {
    const ParamLocation& location = layout.locations[p];
    if (location.buffer != b) continue;
    for (std::int64_t e = location.world.start; e < location.world.end; ++e) {
      REQUIRE(params[static_cast<std::size_t>(e)] == nobody);  // no two parameters overlap
      params[static_cast<std::size_t>(e)] = static_cast<int>(p);
    }
  }
  return params;
}

/// What a rank owns, found by asking every element of the buffer.
std::vector<ParamShard> brute_force_rows(const Layout& layout, int b, int rank) {
  const BufferLayout& buffer = buffer_of(layout, b);
  const std::vector<int> params = element_params(layout, b);
  std::vector<ParamShard> rows;
  for (int k = 0; k < static_cast<int>(buffer.buckets.size()); ++k) {
    const std::int64_t bucket_start = buffer.buckets[static_cast<std::size_t>(k)].world.start;
    const std::int64_t shard_elems =
        buffer.buckets[static_cast<std::size_t>(k)].world.size() / buffer.dp_size;
    const std::int64_t shard_start = bucket_start + rank * shard_elems;
    int open = nobody;
    for (std::int64_t e = shard_start; e < shard_start + shard_elems; ++e) {
      const int param = params[static_cast<std::size_t>(e)];
      if (param != nobody && param != open) {
        const std::int64_t param_start = layout.locations[static_cast<std::size_t>(param)].world.start;
        rows.push_back({k,
                        param,
                        {e, e},
                        {e - bucket_start, e - bucket_start},
                        {e - shard_start, e - shard_start},
                        {e - param_start, e - param_start}});
      }
      open = param;
      if (param == nobody) continue;
      for (Range* range : {&rows.back().gbuf_world, &rows.back().gbuf_world_in_bucket,
                           &rows.back().gbuf_local, &rows.back().param_range}) {
        ++range->end;
      }
    }
  }
  return rows;
}

}  // namespace

TEST_CASE("buckets tile the buffer, and every one splits into equal aligned shards") {
  for_every_buffer([](const Layout& layout, int b) {
    const BufferLayout& buffer = buffer_of(layout, b);
    const std::int64_t divisor =
        std::lcm(std::lcm<std::int64_t>(buffer.dp_size, 128),
                 layout.options.pad_buckets_for_high_nccl_busbw ? std::int64_t{65536} : std::int64_t{1});
    std::int64_t at = 0;
    std::int64_t unpadded = 0;
    for (const BucketLayout& bucket : buffer.buckets) {
      CHECK(bucket.world.start == at);
      CHECK(bucket.world.size() % divisor == 0);
      CHECK(bucket.world.size() - bucket.numel_unpadded >= 0);
      CHECK(bucket.world.size() - bucket.numel_unpadded < divisor);
      CHECK_FALSE(bucket.params.empty());
      at = bucket.world.end;
      unpadded += bucket.numel_unpadded;
    }
    CHECK(at == buffer.numel);
    CHECK(unpadded == buffer.numel_unpadded);
  });
}

TEST_CASE("parameters lie in reverse model order, aligned, inside their bucket, each once") {
  for_every_buffer([](const Layout& layout, int b) {
    const BufferLayout& buffer = buffer_of(layout, b);
    std::vector<int> in_buffer_order;
    for (int k = 0; k < static_cast<int>(buffer.buckets.size()); ++k) {
      const BucketLayout& bucket = buffer.buckets[static_cast<std::size_t>(k)];
      for (const int param : bucket.params) {
        const ParamLocation& location = layout.locations[static_cast<std::size_t>(param)];
        const ParamSpec& spec = layout.specs[static_cast<std::size_t>(param)];
        CHECK(location.buffer == b);
        CHECK(location.bucket == k);
        CHECK(location.world.start % 64 == 0);
        CHECK(location.world.size() == spec.numel());
        CHECK(intersect(location.world, bucket.world) == location.world);
        CHECK(spec.dtype == buffer.param_dtype);
        CHECK(spec.expert_parallel == buffer.expert_parallel);
        if (spec.shared_embedding) CHECK(bucket.params.size() == 1);
        in_buffer_order.push_back(param);
      }
    }
    std::vector<int> expected;
    for (int p = static_cast<int>(layout.specs.size()); p-- > 0;) {
      if (layout.locations[static_cast<std::size_t>(p)].buffer == b) expected.push_back(p);
    }
    CHECK(in_buffer_order == expected);
  });
}

TEST_CASE("a bucket closes as soon as it has reached the bucket size, and not before") {
  for_every_buffer([](const Layout& layout, int b) {
    const BufferLayout& buffer = buffer_of(layout, b);
    for (std::size_t k = 0; k < buffer.buckets.size(); ++k) {
      const BucketLayout& bucket = buffer.buckets[k];
      const auto world_of = [&](int param) {
        return layout.locations[static_cast<std::size_t>(param)].world;
      };
      const auto is_shared = [&](int param) {
        return layout.specs[static_cast<std::size_t>(param)].shared_embedding;
      };
      const std::optional<std::int64_t> size = layout.options.bucket_size_elems;
      // All but the last parameter left it open …
      for (std::size_t i = 0; size && i + 1 < bucket.params.size(); ++i) {
        CHECK(world_of(bucket.params[i]).end - bucket.world.start < *size);
      }
      // … and the last one closed it, unless the buffer ended or a shared embedding stood on either side.
      const bool last = k + 1 == buffer.buckets.size();
      const bool around_shared =
          is_shared(bucket.params.back()) || (!last && is_shared(buffer.buckets[k + 1].params[0]));
      if (!last && !around_shared) {
        REQUIRE(size.has_value());
        CHECK(world_of(bucket.params.back()).end - bucket.world.start >= *size);
      }
    }
  });
}

TEST_CASE("every element has one owner, ranges tile parameters, padding is nobody's parameter") {
  for_every_buffer([](const Layout& layout, int b) {
    const BufferLayout& buffer = buffer_of(layout, b);
    if (buffer.numel > 200'000) return;
    const std::vector<int> params = element_params(layout, b);
    std::vector<int> shard_owners(params.size(), 0);
    std::vector<int> row_params(params.size(), nobody);
    std::vector<std::int64_t> next_in_param(layout.specs.size(), 0);
    const RangeMap map = build_range_map(layout, b);
    REQUIRE(map.rank_count() == buffer.dp_size);
    for (int rank = 0; rank < buffer.dp_size; ++rank) {
      for (int k = 0; k < static_cast<int>(buffer.buckets.size()); ++k) {
        const std::int64_t bucket_start = buffer.buckets[static_cast<std::size_t>(k)].world.start;
        const Range world = buffer.shard_in_bucket(k, rank).shifted(bucket_start);
        for (std::int64_t e = world.start; e < world.end; ++e) ++shard_owners[static_cast<std::size_t>(e)];
      }
      for (const ParamShard& row : map.rank(rank)) {
        CHECK_FALSE(row.gbuf_world.empty());
        CHECK(row.gbuf_world.size() == row.param_range.size());
        for (std::int64_t e = row.gbuf_world.start; e < row.gbuf_world.end; ++e) {
          REQUIRE(row_params[static_cast<std::size_t>(e)] == nobody);
          row_params[static_cast<std::size_t>(e)] = row.param;
        }
        // Ranks in order own a parameter's parts in order, so that tiling means: no gap, no overlap.
        std::int64_t& next = next_in_param[static_cast<std::size_t>(row.param)];
        CHECK(row.param_range.start == next);
        next = row.param_range.end;
      }
    }
    CHECK(std::all_of(shard_owners.begin(), shard_owners.end(), [](int owners) { return owners == 1; }));
    CHECK(row_params == params);
    for (std::size_t p = 0; p < layout.specs.size(); ++p) {
      if (layout.locations[p].buffer == b) CHECK(next_in_param[p] == layout.specs[p].numel());
    }
  });
}

TEST_CASE("every rank's rows are what asking every element gives") {
  for_every_buffer([](const Layout& layout, int b) {
    const BufferLayout& buffer = buffer_of(layout, b);
    if (buffer.numel > 20'000) return;
    const RangeMap map = build_range_map(layout, b);
    std::size_t rows = 0;
    RangeMapWalker walker(layout, b);
    for (int rank = 0; rank < buffer.dp_size; rank += 1 + buffer.dp_size / 16) {
      CAPTURE(rank);
      const std::span<const ParamShard> found = map.rank(rank);
      CHECK(std::vector(found.begin(), found.end()) == brute_force_rows(layout, b, rank));
    }
    while (!walker.done()) {
      const int rank = walker.rank();
      const std::span<const ParamShard> walked = walker.next();
      CHECK(std::equal(walked.begin(), walked.end(), map.rank(rank).begin(), map.rank(rank).end()));
      RangeMapWalker from_here(layout, b, rank);
      const std::span<const ParamShard> again = from_here.next();
      CHECK(std::equal(again.begin(), again.end(), walked.begin(), walked.end()));
      rows += walked.size();
    }
    CHECK(rows == map.row_count());
  });
}

TEST_CASE("the owners of a parameter are the ranks that have a row of it") {
  for_every_buffer([](const Layout& layout, int b) {
    const RangeMap map = build_range_map(layout, b);
    for (int p = 0; p < static_cast<int>(layout.specs.size()); ++p) {
      if (layout.locations[static_cast<std::size_t>(p)].buffer != b) continue;
      const Range owners = owners_of(layout, p);
      for (int rank = 0; rank < map.rank_count(); ++rank) {
        const auto rows = map.rank(rank);
        const bool has_row =
            std::any_of(rows.begin(), rows.end(), [&](const ParamShard& row) { return row.param == p; });
        CHECK(owners.contains(rank) == has_row);
      }
    }
  });
}
