#include "ckpt/import.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "ckpt/mapped_source.h"
#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/file_io.h"
#include "core/base/strict_json.h"
#include "core/base/text.h"
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
class TensorSource : public ImportSource {
 public:
  TensorSource(const std::string& path, const NameRules& names, bool skip_other_dtypes) : files_(path) {
    give_names(names, path);
    for (const auto& [tensor, found] : named_) {
      if (state_of(tensor) != State::param) continue;
      const SafetensorsEntry& entry = *found.entry;
      if (!entry.foreign_dtype.empty() && skip_other_dtypes) {
        skipped_.push_back(fmt::format("{} ({})", printable(entry.name), entry.foreign_dtype));
        continue;
      }
      check_dtype(entry, path);
      sources_.push_back({&found, find_state(tensor, found, State::exp_avg, path),
                          find_state(tensor, found, State::exp_avg_sq, path)});
      params_.push_back(*found.mapped);
    }
    if (params_.empty()) throw InputError(fmt::format("{}: holds no parameter", path));
  }

  const std::vector<MappedTensor>& params() const override { return params_; }
  const std::vector<MappedTensor>& tensors() const override { return tensors_; }
  std::optional<std::string> state_json() const override { return metadata("zero1_state"); }
  std::optional<std::string> layout_json() const override { return metadata("zero1_layout"); }

  void read(int param, State state, Range range, float* out) const override {
    const Named* tensor = sources_[static_cast<std::size_t>(param)][static_cast<std::size_t>(state)];
    if (tensor == nullptr) {
      std::fill(out, out + range.size(), 0.0F);
      return;
    }
    const std::vector<float> values = tensor->file->read_fp32(*tensor->entry, range);
    std::copy(values.begin(), values.end(), out);
  }

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

  /// A tensor that is taken.
  struct Named : TensorFiles::Tensor {
    const MappedTensor* mapped = nullptr;
  };
  using Sources = std::array<const Named*, state_count>;  ///< by state; null: not there

  void give_names(const NameRules& names, const std::string& path) {
    std::vector<NamedShape> stored;
    for (const auto& [tensor, found] : files_.tensors()) stored.push_back({tensor, found.entry->shape});
    tensors_ = map_tensors(names, stored, StateTensors::beside, path);
    auto mapped = tensors_.begin();
    for (const auto& [tensor, found] : files_.tensors()) {
      if (!mapped->excluded) named_[mapped->name] = {found, &*mapped};
      ++mapped;
    }
  }

  std::optional<std::string> metadata(const std::string& key) const {
    const auto found = files_.metadata().find(key);
    return found == files_.metadata().end() ? std::nullopt : std::optional(found->second);
  }

  /// NAME.exp_avg is a state of NAME where NAME is a parameter, and a parameter otherwise.
  State state_of(const std::string& tensor) const {
    for (const State state : {State::exp_avg, State::exp_avg_sq}) {
      const std::string suffix = fmt::format(".{}", name(state));
      if (!tensor.ends_with(suffix)) continue;
      const std::string of = tensor.substr(0, tensor.size() - suffix.size());
      if (named_.contains(of) && state_of(of) == State::param) return state;
    }
    return State::param;
  }

  const Named* find_state(const std::string& param, const Named& values, State state,
                          const std::string& path) const {
    const auto found = named_.find(fmt::format("{}.{}", param, name(state)));
    if (found == named_.end()) return nullptr;
    const SafetensorsEntry& entry = *found->second.entry;
    if (entry.shape != values.entry->shape) {
      throw InputError(fmt::format("{}: '{}' does not have the shape of '{}'", path, printable(entry.name),
                                   printable(values.entry->name)));
    }
    check_dtype(entry, path);
    return &found->second;
  }

  struct NaturalLess {
    bool operator()(const std::string& a, const std::string& b) const { return natural_less(a, b); }
  };

  TensorFiles files_;
  std::vector<MappedTensor> tensors_;
  std::map<std::string, Named, NaturalLess> named_;  ///< by the names they have from now on
  std::vector<MappedTensor> params_;
  std::vector<Sources> sources_;  ///< of params_
  std::vector<std::string> skipped_;
};

}  // namespace

ImportPlan::ImportPlan(const std::string& path, const ImportOptions& options) {
  if (path.ends_with(".h5") || path.ends_with(".hdf5")) {
    source_ = open_gathered(path, options.names);
  } else {
    auto source = std::make_unique<TensorSource>(path, options.names, options.skip_other_dtypes);
    skipped_ = source->skipped();
    source_ = std::move(source);
  }
  if (const auto json = source_->state_json()) state_ = parse_run_state(*json, path);
  rename_groups(state_.param_groups, source_->tensors());
  ChosenLayout chosen = choose_layout(*source_, options.layout, path);
  layout_case_ = std::move(chosen.layout_case);
  params_ = std::move(chosen.params);
}

void ImportPlan::write(const std::string& folder, const WriteOptions& options) const {
  std::vector<MappedSource::Param> params;
  for (const int param : params_)
    params.push_back(mapped_param(param, source_->params()[static_cast<std::size_t>(param)]));
  const MappedSource mapped(*source_, std::move(params), options.workers);
  write_checkpoint(folder, state_, layout_case_, mapped, options);
}

}  // namespace zero1::ckpt
