#include "ckpt/import.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <memory>
#include <set>

#include "ckpt/mapped_source.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "core/base/units.h"
#include "core/data/tensor_files.h"
#include "core/layout/json.h"

namespace zero1::ckpt {
namespace {

/// The parameters that export has listed, by the names in the file. Files from elsewhere list none.
std::set<std::string> listed_params(const TensorFiles& files, bool ignore_layout, const std::string& path) {
  const auto metadata = [&](const char* key) {
    const auto found = files.metadata().find(key);
    return found == files.metadata().end() ? std::string() : found->second;
  };
  std::set<std::string> names;
  if (const std::string state = metadata(state_key); !state.empty()) {
    for (const ParamGroup& group : parse_run_state(state, path).param_groups)
      names.insert(group.params.begin(), group.params.end());
  }
  const std::string layout = ignore_layout ? "" : metadata(layout_key);
  if (layout.empty()) return names;
  for (const LayoutFile::Entry& entry : parse_layout_file(layout, path + ": the recorded layout").entries) {
    for (const ParamSpec& spec : entry.layout_case.params) names.insert(spec.name);
  }
  return names;
}

/// The tensors of safetensors files as elements by parameter; states that the files lack are zero.
class TensorSource : public ImportSource {
 public:
  TensorSource(const std::string& path, const ImportOptions& options)
      : files_(path), listed_(listed_params(files_, options.layout.ignore_recorded, path)) {
    give_names(options.names, path);
    if (options.layout.given) {
      for (const ParamSpec& spec : options.layout.given->params) given_.insert(spec.name);
    }
    for (const auto& [tensor, found] : named_) {
      if (state_of(tensor) != State::param) continue;
      const SafetensorsEntry& entry = *found.entry;
      if (!entry.foreign_dtype.empty() && options.skip_other_dtypes) {
        skipped_.push_back(fmt::format("{} ({})", printable(entry.name), entry.foreign_dtype));
        continue;
      }
      check_dtype(entry, path);
      sources_.push_back({&found, find_state(tensor, found, State::exp_avg, path),
                          find_state(tensor, found, State::exp_avg_sq, path)});
      params_.push_back(*found.mapped);
    }
    check_orphans(path);
    if (params_.empty()) throw InputError(fmt::format("{}: holds no parameter", path));
  }

  const std::vector<MappedTensor>& params() const override { return params_; }
  const std::vector<MappedTensor>& tensors() const override { return tensors_; }
  bool has(int param, State state) const override { return tensor_of(param, state) != nullptr; }
  DType dtype(int param) const override { return tensor_of(param, State::param)->entry->dtype; }
  std::optional<std::string> state_json() const override { return metadata(state_key); }
  std::optional<std::string> layout_json() const override { return metadata(layout_key); }
  std::optional<std::string> model_json() const override { return metadata(model_key); }

  void read(int param, State state, Range range, float* out) const override {
    const Named* tensor = tensor_of(param, state);
    if (tensor == nullptr) {
      std::fill(out, out + range.size(), 0.0F);
      return;
    }
    const std::vector<float> values = tensor->read_fp32(range);
    std::copy(values.begin(), values.end(), out);
  }

  /// Tensors left out, with their dtypes.
  const std::vector<std::string>& skipped() const { return skipped_; }
  std::size_t merged_shards() const { return files_.merged_shards(); }

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

  const Named* tensor_of(int param, State state) const {
    return sources_[static_cast<std::size_t>(param)][static_cast<std::size_t>(state)];
  }

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

  /// A layout says that it is a parameter, whatever its name looks like.
  bool is_listed(const std::string& tensor) const {
    return given_.contains(tensor) || listed_.contains(named_.at(tensor).mapped->stored);
  }

  void check_orphans(const std::string& path) const {
    std::vector<std::string> params;
    std::vector<std::string> listed;
    for (const MappedTensor& param : params_) {
      params.push_back(param.name);
      if (is_listed(param.name)) listed.push_back(param.name);
    }
    refuse_orphaned_states(params, listed, path);
  }

  std::optional<std::string> metadata(const std::string& key) const {
    const auto found = files_.metadata().find(key);
    return found == files_.metadata().end() ? std::nullopt : std::optional(found->second);
  }

  /// NAME.exp_avg is a state of NAME where NAME is a parameter and no layout lists it as one itself.
  State state_of(const std::string& tensor) const {
    if (is_listed(tensor)) return State::param;
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
    if (found == named_.end() || is_listed(found->first)) return nullptr;
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
  std::set<std::string> listed_;  ///< parameters that export has listed, by the names in the files
  std::set<std::string> given_;   ///< parameters of the layout that the user gives
  std::vector<MappedTensor> tensors_;
  std::map<std::string, Named, NaturalLess> named_;  ///< by the names they have from now on
  std::vector<MappedTensor> params_;
  std::vector<Sources> sources_;  ///< of params_
  std::vector<std::string> skipped_;
};

}  // namespace

ImportPlan::ImportPlan(const std::string& path, const ImportOptions& options) : path_(path) {
  if (path.ends_with(".h5") || path.ends_with(".hdf5")) {
    source_ = open_gathered(path, options.names);
  } else {
    auto source = std::make_unique<TensorSource>(path, options);
    skipped_ = source->skipped();
    if (source->merged_shards() > 0) {
      notes_.push_back(fmt::format(
          "put together from {} shards; shards do not record how many there are, so compare the shapes",
          source->merged_shards()));
    }
    source_ = std::move(source);
  }
  decide_optimizer(options.optimizer, path);
  rename_groups(state_.param_groups, source_->tensors());
  ChosenLayout chosen = choose_layout(*source_, options.layout, path);
  layout_case_ = std::move(chosen.layout_case);
  params_ = std::move(chosen.params);
}

void ImportPlan::decide_optimizer(const OptimizerFlags& flags, const std::string& path) {
  std::optional<RunState> recorded;
  if (const auto json = source_->state_json()) recorded = parse_run_state(*json, path);
  std::vector<StoredMoments> stored;
  std::vector<std::string> rounded;
  for (int p = 0; p < static_cast<int>(source_->params().size()); ++p) {
    const std::string& name = source_->params()[static_cast<std::size_t>(p)].name;
    stored.push_back({name, source_->has(p, State::exp_avg), source_->has(p, State::exp_avg_sq)});
    if (size_bytes(source_->dtype(p)) < size_bytes(DType::fp32)) rounded.push_back(name);
  }
  OptimizerState decided = decide_optimizer_state(recorded, stored, flags, path);
  state_ = std::move(decided.state);
  const std::optional<std::string> model = source_->model_json();
  if (!recorded && model) state_.config_json = model_fields(*model, path);
  moments_ = decided.moments;
  std::move(decided.notes.begin(), decided.notes.end(), std::back_inserter(notes_));
  if (!moments_ || rounded.empty()) return;
  notes_.push_back(fmt::format("{} beside moments narrower than float32: the run goes on from rounded values",
                               counted(rounded.size(), "parameter is", "parameters are")));
}

void ImportPlan::write(const std::string& folder, const WriteOptions& options) const {
  std::vector<MappedSource::Param> params;
  for (const int param : params_)
    params.push_back(mapped_param(param, source_->params()[static_cast<std::size_t>(param)]));
  const MappedSource mapped(*source_, std::move(params), options.workers);
  StateCheck check(state_, path_,
                   fmt::format("{}--reset-optimizer starts AdamW afresh, without moments",
                               state_.optimizer_steps == 0 ? "Give the count with --step N; or " : ""));
  const CheckedSource checked(mapped, layout_case_.params, moments_, check);
  WriteOptions checking = options;
  checking.before_publishing = [&] { check.finish(); };
  write_checkpoint(folder, state_, layout_case_, checked, checking);
}

}  // namespace zero1::ckpt
