#include "ckpt/diff.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "ckpt/mapped_source.h"
#include "core/base/error.h"
#include "core/base/text.h"

namespace zero1::ckpt {
namespace {

bool differs(float a, float b, const DiffOptions& options) {
  if (options.bitwise) return std::bit_cast<std::uint32_t>(a) != std::bit_cast<std::uint32_t>(b);
  if (a == b || (std::isnan(a) && std::isnan(b))) return false;
  if (!std::isfinite(a) || !std::isfinite(b)) return true;
  const double distance = std::abs(static_cast<double>(a) - static_cast<double>(b));
  if (options.abs_tolerance && distance <= *options.abs_tolerance) return false;
  if (options.rel_tolerance && distance <= *options.rel_tolerance * std::abs(static_cast<double>(a)))
    return false;
  return true;
}

void add_difference(DiffRow& row, float a, float b, std::int64_t at) {
  double distance = std::abs(static_cast<double>(a) - static_cast<double>(b));
  if (std::isnan(distance)) distance = std::numeric_limits<double>::infinity();
  ++row.different;
  if (a != 0) row.max_rel = std::max(row.max_rel, distance / std::abs(static_cast<double>(a)));
  if (row.at >= 0 && distance <= row.max_abs) return;
  row.max_abs = distance;
  row.at = at;
  row.a = a;
  row.b = b;
}

DiffRow compare(const Checkpoint& a, int param_a, const Checkpoint& b, int param_b, State state,
                const DiffOptions& options) {
  const ParamSpec& spec = a.layout().specs[static_cast<std::size_t>(param_a)];
  DiffRow row;
  row.param = spec.name;
  row.state = state;
  row.elems = spec.numel();
  constexpr std::int64_t chunk_elems = 1 << 20;
  std::vector<float> values_a;
  std::vector<float> values_b;
  for (std::int64_t at = 0; at < row.elems; at += chunk_elems) {
    const Range range{at, std::min(row.elems, at + chunk_elems)};
    values_a.resize(static_cast<std::size_t>(range.size()));
    values_b.resize(values_a.size());
    a.read(param_a, state, range, values_a.data());
    b.read(param_b, state, range, values_b.data());
    for (std::size_t i = 0; i < values_a.size(); ++i) {
      if (!differs(values_a[i], values_b[i], options)) continue;
      add_difference(row, values_a[i], values_b[i], at + static_cast<std::int64_t>(i));
    }
  }
  return row;
}

}  // namespace

DiffReport diff(const Checkpoint& a, const Checkpoint& b, const DiffOptions& options) {
  DiffReport report;
  if (options.param.empty()) {
    const std::vector<NamedShape> of_b = named_shapes(b.layout().specs);
    report.structure =
        compare_tensors(named_shapes(a.layout().specs), map_tensors({}, of_b, StateTensors::none, b.folder()))
            .faults;
  } else {
    for (const Checkpoint* each : {&a, &b}) {
      if (each->find(options.param)) continue;
      throw InputError(
          fmt::format("--param {}: no such parameter in {}; `zero1 ckpt inspect {} --all` lists the names",
                      options.param, each->folder(), each->folder()));
    }
  }
  for (std::size_t p = 0; p < a.layout().specs.size(); ++p) {
    const ParamSpec& spec = a.layout().specs[p];
    const std::optional<int> other = b.find(spec.name);
    if (!options.param.empty() && spec.name != options.param) continue;
    if (!other || b.layout().specs[static_cast<std::size_t>(*other)].shape != spec.shape) {
      if (!options.param.empty())
        report.structure = fmt::format("\n  {}: the shapes differ", printable(spec.name));
      continue;
    }
    for (const State state : all_states) {
      DiffRow row = compare(a, static_cast<int>(p), b, *other, state, options);
      if (row.different > 0) report.rows.push_back(std::move(row));
    }
  }
  std::stable_sort(report.rows.begin(), report.rows.end(),
                   [](const DiffRow& x, const DiffRow& y) { return x.max_abs > y.max_abs; });
  return report;
}

}  // namespace zero1::ckpt
