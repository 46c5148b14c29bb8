#include "ckpt/import.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/file_io.h"
#include "core/base/strict_json.h"
#include "core/data/safetensors.h"

namespace zero1::ckpt {
namespace {

/// The tensors of one or several .safetensors files, by name.
class TensorFiles {
 public:
  struct Tensor {
    const SafetensorsReader* file = nullptr;
    const SafetensorsEntry* entry = nullptr;
  };

  explicit TensorFiles(const std::string& path) {
    if (path.ends_with(".json")) {
      open_index(path);
      return;
    }
    const SafetensorsReader& file = *files_.emplace_back(std::make_unique<SafetensorsReader>(path));
    for (const SafetensorsEntry& entry : file.entries()) tensors_[entry.name] = {&file, &entry};
  }

  const std::map<std::string, Tensor>& tensors() const { return tensors_; }
  const Tensor* find(const std::string& name) const {
    const auto found = tensors_.find(name);
    return found == tensors_.end() ? nullptr : &found->second;
  }
  /// Of the first file.
  const std::map<std::string, std::string>& metadata() const {
    static const std::map<std::string, std::string> none;
    return files_.empty() ? none : files_.front()->metadata();
  }

 private:
  void open_index(const std::string& path) {
    std::map<std::string, const SafetensorsReader*> files;
    const auto weight_map = read_weight_map(path);
    for (const auto& [tensor, file] : weight_map) {
      if (file.empty() || file.find('/') != std::string::npos || file.starts_with(".")) {
        throw InputError(fmt::format("{}: '{}' is no file beside the index", path, file));
      }
      const SafetensorsReader*& reader = files[file];
      if (reader == nullptr) {
        files_.push_back(std::make_unique<SafetensorsReader>(parent_folder(path) + "/" + file));
        reader = files_.back().get();
      }
      const SafetensorsEntry* entry = reader->find(tensor);
      if (entry == nullptr) throw InputError(fmt::format("{}: {} has no tensor '{}'", path, file, tensor));
      tensors_[tensor] = {reader, entry};
    }
    for (const auto& [file, reader] : files) {
      for (const SafetensorsEntry& entry : reader->entries()) {
        const Tensor* known = find(entry.name);
        if (known == nullptr || known->file != reader)
          throw InputError(fmt::format("{}: tensor '{}' of {} is not in the index", path, entry.name, file));
      }
    }
  }

  static std::map<std::string, std::string> read_weight_map(const std::string& path) {
    constexpr int max_depth = 64;
    const std::string text = read_file(path);
    try {
      return parse_strict_json(text, max_depth).at("weight_map").get<std::map<std::string, std::string>>();
    } catch (const std::exception& error) {
      throw InputError(fmt::format("{}: not an index of safetensors files: {}", path, error.what()));
    }
  }

  std::vector<std::unique_ptr<SafetensorsReader>> files_;
  std::map<std::string, Tensor> tensors_;
};

/// The same as elements by parameter; states that the files lack are zero.
class TensorSource : public ElementSource {
 public:
  TensorSource(const std::string& path, bool skip_other_dtypes) : files_(path) {
    // By name, the order is the same whatever files and dtypes they lie in.
    for (const auto& [tensor, found] : files_.tensors()) {
      if (state_of(tensor) != State::param) continue;
      if (!found.entry->foreign_dtype.empty() && skip_other_dtypes) {
        skipped_.push_back(fmt::format("{} ({})", tensor, found.entry->foreign_dtype));
        continue;
      }
      check_dtype(*found.entry, path);
      params_.push_back({&found, find_state(*found.entry, State::exp_avg, path),
                         find_state(*found.entry, State::exp_avg_sq, path)});
    }
    if (params_.empty()) throw InputError(fmt::format("{}: holds no parameter", path));
  }

  std::vector<ParamSpec> specs(DType dtype) const {
    std::vector<ParamSpec> specs;
    for (const Tensors& each : params_) {
      specs.push_back({each[0]->entry->name, each[0]->entry->shape, dtype, false, false});
    }
    return specs;
  }

  void read(int param, State state, Range range, float* out) const override {
    const TensorFiles::Tensor* tensor =
        params_[static_cast<std::size_t>(param)][static_cast<std::size_t>(state)];
    if (tensor == nullptr) {
      std::fill(out, out + range.size(), 0.0F);
      return;
    }
    const std::vector<float> values = tensor->file->read_fp32(*tensor->entry, range);
    std::copy(values.begin(), values.end(), out);
  }

  const std::map<std::string, std::string>& metadata() const { return files_.metadata(); }
  /// Tensors left out, with their dtypes.
  const std::vector<std::string>& skipped() const { return skipped_; }

 private:
  static void check_dtype(const SafetensorsEntry& entry, const std::string& path) {
    if (entry.foreign_dtype.empty()) return;
    throw InputError(fmt::format(
        "{}: tensor '{}' has dtype {}; parameters are F32, BF16, F16 or F64. Leave such tensors out "
        "with --skip-other-dtypes",
        path, entry.name, entry.foreign_dtype));
  }

  using Tensors = std::array<const TensorFiles::Tensor*, state_count>;  ///< by state; null: not there

  /// NAME.exp_avg is a state of NAME where NAME is a parameter, and a parameter otherwise.
  State state_of(const std::string& tensor) const {
    for (const State state : {State::exp_avg, State::exp_avg_sq}) {
      const std::string suffix = fmt::format(".{}", name(state));
      if (!tensor.ends_with(suffix)) continue;
      const std::string of = tensor.substr(0, tensor.size() - suffix.size());
      if (files_.find(of) != nullptr && state_of(of) == State::param) return state;
    }
    return State::param;
  }

  const TensorFiles::Tensor* find_state(const SafetensorsEntry& param, State state,
                                        const std::string& path) const {
    const TensorFiles::Tensor* tensor = files_.find(fmt::format("{}.{}", param.name, name(state)));
    if (tensor != nullptr && tensor->entry->shape != param.shape) {
      throw InputError(
          fmt::format("{}: '{}' does not have the shape of '{}'", path, tensor->entry->name, param.name));
    }
    if (tensor != nullptr) check_dtype(*tensor->entry, path);
    return tensor;
  }

  TensorFiles files_;
  std::vector<Tensors> params_;
  std::vector<std::string> skipped_;
};

}  // namespace

std::vector<std::string> import_safetensors(const std::string& path, const std::string& folder,
                                            const LayoutOptions& layout, DType param_dtype,
                                            const WriteOptions& options, bool skip_other_dtypes) {
  const TensorSource source(path, skip_other_dtypes);
  RunState state;
  const auto recorded = source.metadata().find("zero1_state");
  if (recorded != source.metadata().end()) state = parse_run_state(recorded->second, path);
  write_checkpoint(folder, state, {"", source.specs(param_dtype), layout}, source, options);
  return source.skipped();
}

}  // namespace zero1::ckpt
