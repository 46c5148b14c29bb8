#include "core/layout/buffer_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <tuple>
#include <unordered_map>

#include "core/base/error.h"

namespace zero1 {
namespace {

constexpr std::int64_t param_alignment_elems = 64;
constexpr std::int64_t bucket_alignment_elems = 128;
constexpr std::int64_t busbw_alignment_elems = std::int64_t{1} << 16;

/// Buckets end at multiples of this, so that every rank's shard is equally long and (128) that shards start
/// aligned; 2^16 keeps NCCL's ring algorithms at full bus bandwidth.
std::int64_t bucket_divisor(int dp_size, bool high_nccl_busbw) {
  const std::int64_t divisor = std::lcm(std::int64_t{dp_size}, bucket_alignment_elems);
  return high_nccl_busbw ? std::lcm(divisor, busbw_alignment_elems) : divisor;
}

struct Overflow {};

std::int64_t add(std::int64_t a, std::int64_t b) {
  std::int64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) throw Overflow{};
  return sum;
}

std::int64_t align_up(std::int64_t value, std::int64_t multiple) {
  const std::int64_t excess = value % multiple;
  return excess == 0 ? value : add(value, multiple - excess);
}

/// Lays parameters, given in buffer order, one after the other into the buckets of one buffer.
class BucketFiller {
 public:
  BucketFiller(BufferLayout& buffer, const LayoutOptions& options)
      : buffer_(buffer),
        bucket_size_(options.bucket_size_elems.value_or(std::numeric_limits<std::int64_t>::max())),
        divisor_(bucket_divisor(buffer.dp_size, options.pad_buckets_for_high_nccl_busbw)) {}

  /// Returns the parameter's bucket and world range.
  std::pair<int, Range> place(int param, std::int64_t numel, bool own_bucket) {
    std::int64_t start = align_up(end_, param_alignment_elems);
    if (own_bucket && !open_.params.empty()) {
      close_bucket(start);
      start = end_;
    }
    const Range world{start, add(start, numel)};
    const int bucket = static_cast<int>(buffer_.buckets.size());
    open_.params.push_back(param);
    end_ = world.end;
    align_up(end_, divisor_);  // overflow shows here, where the parameter to blame is known
    if (own_bucket || end_ - open_.world.start >= bucket_size_) close_bucket(end_);
    return {bucket, world};
  }

  void finish() {
    if (!open_.params.empty()) close_bucket(end_);
    buffer_.numel = end_;
  }

 private:
  /// Megatron: `_update_bucket_metadata`.
  void close_bucket(std::int64_t unpadded_end) {
    open_.numel_unpadded = unpadded_end - open_.world.start;
    open_.world.end = align_up(unpadded_end, divisor_);
    end_ = open_.world.end;
    buffer_.numel_unpadded += open_.numel_unpadded;
    buffer_.buckets.push_back(std::move(open_));
    open_ = BucketLayout{{end_, end_}, 0, {}};
  }

  BufferLayout& buffer_;
  const std::int64_t bucket_size_;
  const std::int64_t divisor_;
  std::int64_t end_ = 0;  ///< of what is laid out so far
  BucketLayout open_;     ///< the bucket that is being filled
};

void check_options(const LayoutOptions& options) {
  const auto check_ranks = [](std::string_view field, int ranks) {
    if (ranks >= 1 && ranks <= max_dp_size) return;
    throw InputError(fmt::format("{}: expected 1 to {} ranks, found {}", field, max_dp_size, ranks));
  };
  check_ranks("dp_size", options.dp_size);
  check_ranks("expert_dp_size", options.expert_dp_size);
  if (options.bucket_size_elems && *options.bucket_size_elems < 1) {
    throw InputError(fmt::format("bucket_size: expected 1 or more elements, or null for one bucket, found {}",
                                 *options.bucket_size_elems));
  }
}

/// Checks the list and returns every parameter's element count.
std::vector<std::int64_t> check_params(const std::vector<ParamSpec>& specs) {
  std::vector<std::int64_t> numels;
  numels.reserve(specs.size());
  std::unordered_map<std::string_view, std::size_t> first_index;
  for (std::size_t i = 0; i < specs.size(); ++i) {
    const ParamSpec& spec = specs[i];
    if (spec.name.empty()) throw InputError(fmt::format("params[{}].name: expected a name, found none", i));
    const auto [known, is_new] = first_index.emplace(spec.name, i);
    if (!is_new) {
      throw InputError(fmt::format("params[{}].name: '{}' is the name of params[{}] already", i, spec.name,
                                   known->second));
    }
    if (spec.dtype == DType::fp64) {
      throw InputError(
          fmt::format("params[{}].dtype: expected float32, bfloat16 or float16, found float64", i));
    }
    try {
      numels.push_back(spec.numel());
    } catch (const InputError& error) {
      throw InputError(fmt::format("params[{}].{}", i, error.what()));
    }
  }
  return numels;
}

/// The buffer that holds `spec`; a new one if none does. Megatron: `_allocate_buffers_for_parameters`.
int find_or_add_buffer(std::vector<BufferLayout>& buffers, const ParamSpec& spec,
                       const LayoutOptions& options) {
  const DType grad_dtype = options.grad_reduce_in_fp32 ? DType::fp32 : spec.dtype;
  const auto found = std::find_if(buffers.begin(), buffers.end(), [&](const BufferLayout& buffer) {
    return buffer.param_dtype == spec.dtype && buffer.grad_dtype == grad_dtype &&
           buffer.expert_parallel == spec.expert_parallel;
  });
  const auto index = static_cast<int>(found - buffers.begin());
  if (found == buffers.end()) {
    BufferLayout& buffer = buffers.emplace_back();
    buffer.param_dtype = spec.dtype;
    buffer.grad_dtype = grad_dtype;
    buffer.expert_parallel = spec.expert_parallel;
    buffer.dp_size = spec.expert_parallel ? options.expert_dp_size : options.dp_size;
  }
  return index;
}

/// Sums over all buffers must be safe for everybody.
void check_total(const std::vector<BufferLayout>& buffers) {
  try {
    std::int64_t total = 0;
    for (const BufferLayout& buffer : buffers) total = add(total, buffer.numel);
  } catch (const Overflow&) {
    throw InputError("params: all buffers together exceed 2^63 - 1 elements");
  }
}

}  // namespace

int Layout::bucket_count() const {
  return global_bucket(static_cast<int>(buffers.size()), 0);
}

int Layout::global_bucket(int buffer, int bucket) const {
  int before = 0;
  for (int b = 0; b < buffer; ++b) before += static_cast<int>(at(buffers, b).buckets.size());
  return before + bucket;
}

Layout compute_layout(std::vector<ParamSpec> specs, const LayoutOptions& options) {
  check_options(options);
  const std::vector<std::int64_t> numels = check_params(specs);

  Layout layout{std::move(specs), options, {}, {}};
  layout.locations.resize(layout.specs.size());
  for (std::size_t i = 0; i < layout.specs.size(); ++i) {
    layout.locations[i].buffer = find_or_add_buffer(layout.buffers, layout.specs[i], options);
  }
  std::vector<BucketFiller> fillers;
  fillers.reserve(layout.buffers.size());
  for (BufferLayout& buffer : layout.buffers) fillers.emplace_back(buffer, options);

  // From the last parameter to the first: the order in which backward finishes their gradients.
  for (std::size_t i = layout.specs.size(); i-- > 0;) {
    const ParamSpec& spec = layout.specs[i];
    ParamLocation& location = layout.locations[i];
    BucketFiller& filler = at(fillers, location.buffer);
    try {
      std::tie(location.bucket, location.world) =
          filler.place(static_cast<int>(i), numels[i], spec.shared_embedding);
    } catch (const Overflow&) {
      throw InputError(fmt::format(
          "params[{}].shape: with parameter '{}' and padding, the {} buffer exceeds 2^63 - 1 elements", i,
          spec.name, name(spec.dtype)));
    }
  }
  for (BucketFiller& filler : fillers) filler.finish();
  check_total(layout.buffers);
  return layout;
}

std::optional<std::int64_t> default_bucket_size(int dp_size, bool overlap_grad_reduce) {
  if (!overlap_grad_reduce) return std::nullopt;
  return std::max<std::int64_t>(40'000'000, std::int64_t{1'000'000} * dp_size);
}

}  // namespace zero1
