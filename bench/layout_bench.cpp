// How long every rank's ranges take, for a model of 175 billion parameters on 1,024 ranks.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "core/base/clock.h"
#include "core/base/units.h"
#include "core/layout/digest.h"
#include "core/layout/range_map.h"

namespace {

using namespace zero1;

constexpr std::int64_t bound_ns = 50'000'000;
constexpr int repetitions = 15;

void add(std::vector<ParamSpec>& specs, std::string name, std::vector<std::int64_t> shape) {
  specs.push_back({std::move(name), std::move(shape), DType::bf16, false, false});
}

/// GPT-3 175B with Megatron's parameter names: 96 layers, 12,288 wide.
std::vector<ParamSpec> gpt3_175b() {
  constexpr std::int64_t hidden = 12288;
  std::vector<ParamSpec> specs;
  add(specs, "embedding.word_embeddings.weight", {51200, hidden});
  add(specs, "embedding.position_embeddings.weight", {2048, hidden});
  for (int layer = 0; layer < 96; ++layer) {
    const std::string prefix = fmt::format("decoder.layers.{}.", layer);
    add(specs, prefix + "input_layernorm.weight", {hidden});
    add(specs, prefix + "input_layernorm.bias", {hidden});
    add(specs, prefix + "self_attention.linear_qkv.weight", {3 * hidden, hidden});
    add(specs, prefix + "self_attention.linear_qkv.bias", {3 * hidden});
    add(specs, prefix + "self_attention.linear_proj.weight", {hidden, hidden});
    add(specs, prefix + "self_attention.linear_proj.bias", {hidden});
    add(specs, prefix + "pre_mlp_layernorm.weight", {hidden});
    add(specs, prefix + "pre_mlp_layernorm.bias", {hidden});
    add(specs, prefix + "mlp.linear_fc1.weight", {4 * hidden, hidden});
    add(specs, prefix + "mlp.linear_fc1.bias", {4 * hidden});
    add(specs, prefix + "mlp.linear_fc2.weight", {hidden, 4 * hidden});
    add(specs, prefix + "mlp.linear_fc2.bias", {hidden});
  }
  add(specs, "decoder.final_layernorm.weight", {hidden});
  add(specs, "decoder.final_layernorm.bias", {hidden});
  return specs;
}

/// The best of several runs; other work on the machine only ever adds time.
template <class Fn>
std::int64_t best_ns(Fn&& fn) {
  std::int64_t best = std::numeric_limits<std::int64_t>::max();
  for (int i = 0; i < repetitions; ++i) {
    const std::int64_t start = now_ns();
    fn();
    best = std::min(best, now_ns() - start);
  }
  return best;
}

}  // namespace

int main() {
  LayoutOptions options;
  options.dp_size = 1024;
  options.bucket_size_elems = default_bucket_size(options.dp_size, true);
  const std::vector<ParamSpec> specs = gpt3_175b();
  const std::int64_t start = now_ns();
  const Layout layout = compute_layout(specs, options);
  std::size_t rows = build_range_map(layout, 0).row_count();
  const std::int64_t first_ns = now_ns() - start;

  const std::int64_t layout_ns = best_ns([&] { rows += compute_layout(specs, options).buffers.size(); });
  const std::int64_t map_ns = best_ns([&] { rows = build_range_map(layout, 0).row_count(); });
  const std::int64_t digest_ns =
      best_ns([&] { rows = std::max(rows, static_cast<std::size_t>(range_digest(layout, 0).rows)); });
  const std::int64_t both_ns = layout_ns + map_ns;

  fmt::print("layout of GPT-3 175B: {} parameters, {} elements, {} buckets, {} ranks; best of {}\n",
             specs.size(), format_count(layout.buffers[0].numel), layout.bucket_count(),
             format_count(options.dp_size), repetitions);
  fmt::print("  buffers and buckets      {:>10}\n", format_duration_ns(layout_ns));
  fmt::print("  every rank's ranges      {:>10}   {} rows, {:.1f} ns per row\n", format_duration_ns(map_ns),
             format_count(static_cast<std::int64_t>(rows)),
             static_cast<double>(map_ns) / static_cast<double>(rows));
  fmt::print("  the same as a digest     {:>10}\n", format_duration_ns(digest_ns));
  fmt::print("  the very first run       {:>10}   memory not yet touched\n", format_duration_ns(first_ns));
  fmt::print("formula: time(buffers and buckets) + time(every rank's ranges)\n");
  fmt::print("measured {}   bound {}   ratio {:.3f} (at most 1)\n", format_duration_ns(both_ns),
             format_duration_ns(bound_ns), static_cast<double>(both_ns) / static_cast<double>(bound_ns));
  return both_ns <= bound_ns ? 0 : 1;
}
