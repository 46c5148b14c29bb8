#include "ckpt/import_layout.h"

#include <fmt/format.h>

#include <map>
#include <string_view>

#include "ckpt/mapped_source.h"
#include "core/base/error.h"

namespace zero1::ckpt {
namespace {

/// The order and the marks of `layout_case`, whose parameters the source has under these names.
ChosenLayout in_order(LayoutCase layout_case, const ImportSource& source) {
  std::map<std::string_view, int> by_name;
  for (std::size_t i = 0; i < source.params().size(); ++i)
    by_name[source.params()[i].name] = static_cast<int>(i);
  ChosenLayout chosen{std::move(layout_case), {}};
  for (const ParamSpec& spec : chosen.layout_case.params) chosen.params.push_back(by_name.at(spec.name));
  return chosen;
}

/// Throws InputError that begins with `name` where no layout can be computed from it.
void check_case(const LayoutCase& layout_case, const std::string& name) {
  try {
    compute_layout(layout_case.params, layout_case.options);
  } catch (const InputError& error) {
    throw InputError(fmt::format("{}: {}", name, error.what()));
  }
}

ChosenLayout as_given(const ImportSource& source, const ImportLayout& wanted, const std::string& path) {
  check_case(*wanted.given, "--layout " + wanted.given_source);
  const TensorFit fit = compare_tensors(named_shapes(wanted.given->params), source.params());
  if (!fit.faults.empty()) {
    throw InputError(
        fmt::format("{} does not fit --layout {}:{}{}", path, wanted.given_source, fit.faults, fit.advice));
  }
  return in_order(*wanted.given, source);
}

/// What export has recorded, under the names that parameters have from now on.
ChosenLayout as_recorded(const ImportSource& source, const std::string& json, const std::string& path) {
  LayoutFile file = parse_layout_file(json, path + ": the recorded layout");
  if (file.is_list) throw InputError(fmt::format("{}: the recorded layout is a list", path));
  LayoutCase recorded = std::move(file.entries.front().layout_case);
  check_case(recorded, path + ": the recorded layout");

  std::map<std::string_view, const MappedTensor*> excluded;
  for (const MappedTensor& tensor : source.tensors()) {
    if (tensor.excluded) excluded[tensor.stored] = &tensor;
  }
  std::erase_if(recorded.params, [&](const ParamSpec& spec) { return excluded.contains(spec.name); });
  std::map<std::string_view, const MappedTensor*> by_stored_name;
  std::vector<MappedTensor> as_stored;
  for (const MappedTensor& param : source.params()) {
    by_stored_name[param.stored] = &param;
    as_stored.push_back({param.stored, param.stored, param.stored_shape()});
  }
  const TensorFit fit = compare_tensors(named_shapes(recorded.params), as_stored);
  if (!fit.faults.empty()) {
    throw InputError(fmt::format(
        "{} is not what was exported: against the layout recorded in it{}\nWithout that layout, by names: "
        "--layout none; with another one: --layout CASE.json",
        path, fit.faults));
  }
  for (ParamSpec& spec : recorded.params) {
    const MappedTensor& param = *by_stored_name.at(spec.name);
    spec.name = param.name;
    spec.shape = param.shape;
  }
  return in_order(std::move(recorded), source);
}

ChosenLayout by_names(const ImportSource& source, const ImportLayout& wanted, const std::string& path) {
  if (!wanted.dp_size) {
    throw InputError(
        fmt::format("--dp is missing: {} does not say for how many ranks the checkpoint is to be", path));
  }
  ChosenLayout chosen;
  for (std::size_t i = 0; i < source.params().size(); ++i) {
    const MappedTensor& param = source.params()[i];
    chosen.layout_case.params.push_back({param.name, param.shape, DType::fp32, false, false});
    chosen.params.push_back(static_cast<int>(i));
  }
  return chosen;
}

}  // namespace

ChosenLayout choose_layout(const ImportSource& source, const ImportLayout& wanted, const std::string& path) {
  const std::optional<std::string> recorded = wanted.ignore_recorded ? std::nullopt : source.layout_json();
  ChosenLayout chosen = wanted.given ? as_given(source, wanted, path)
                        : recorded   ? as_recorded(source, *recorded, path)
                                     : by_names(source, wanted, path);
  if (wanted.dtype) {
    for (ParamSpec& spec : chosen.layout_case.params) spec.dtype = *wanted.dtype;
  }
  LayoutOptions& options = chosen.layout_case.options;
  if (wanted.dp_size) options.dp_size = options.expert_dp_size = *wanted.dp_size;
  if (wanted.adjust) wanted.adjust(options);
  return chosen;
}

}  // namespace zero1::ckpt
