#include "viz/model/exploration.h"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "core/base/error.h"
#include "core/model/gpt.h"
#include "core/model/model.h"

namespace zero1::viz {

namespace {

constexpr std::array<ModelPreset, 7> presets{{
    {"tiny GPT", "4 layers of 128, bytes", 4, 128, 4, 256, 128},
    {"GPT-2 small", "12 layers of 768, 124 M parameters", 12, 768, 12, 50257, 1024},
    {"GPT-2 medium", "24 layers of 1024, 355 M parameters", 24, 1024, 16, 50257, 1024},
    {"GPT-2 large", "36 layers of 1280, 774 M parameters", 36, 1280, 20, 50257, 1024},
    {"GPT-2 XL", "48 layers of 1600, 1.6 G parameters", 48, 1600, 25, 50257, 1024},
    {"GPT-3 13B", "40 layers of 5120, 12.9 G parameters", 40, 5120, 40, 50257, 2048},
    {"GPT-3 175B", "96 layers of 12288, 175 G parameters", 96, 12288, 96, 50257, 2048},
}};

LayoutOptions first_options() {
  LayoutOptions options;
  options.dp_size = 4;
  options.expert_dp_size = 4;
  options.bucket_size_elems = 200'000;
  return options;
}

}  // namespace

std::span<const ModelPreset> model_presets() {
  return presets;
}

std::vector<ParamSpec> param_specs(const ModelPreset& preset, DType dtype) {
  GptConfig config;
  config.vocab_size = preset.vocab_size;
  config.max_seq_len = preset.positions;
  config.num_layers = preset.num_layers;
  config.hidden_size = preset.hidden_size;
  config.num_heads = preset.num_heads;
  config.param_dtype = dtype;
  return make_gpt(config)->param_specs();
}

Exploration::Exploration() : options_(first_options()) {
  add_presets();
  choose(0);
}

Exploration::Exploration(std::string_view text, const std::string& source) {
  LayoutFile file = parse_layout_file(text, source);
  if (file.entries.empty()) throw InputError(source + ": the list of cases is empty");
  for (std::size_t i = 0; i < file.entries.size(); ++i) {
    cases_.push_back(std::move(file.entries[i].layout_case));
    const std::string& name = cases_.back().name;
    sources_.push_back({name.empty() ? fmt::format("case {} of the file", i) : name, true});
  }
  add_presets();
  choose(0);
  if (layout_ == nullptr) throw InputError(fmt::format("{}: {}: {}", source, sources_[0].name, error_));
}

void Exploration::add_presets() {
  for (const ModelPreset& preset : presets) sources_.push_back({std::string(preset.name), false});
}

void Exploration::choose(int source) {
  source_ = source;
  const auto index = static_cast<std::size_t>(source);
  if (index < cases_.size()) {
    specs_ = cases_[index].params;
    options_ = cases_[index].options;
    dtype_.reset();
  } else {
    const ModelPreset& preset = presets[index - cases_.size()];
    specs_ = param_specs(preset, preset.num_layers > 4 ? DType::bf16 : DType::fp32);
    // A bucket size that suits one model makes millions of buckets, or one, of another.
    options_.bucket_size_elems = preset.num_layers > 4 ? default_bucket_size(options_.dp_size, true)
                                                       : first_options().bucket_size_elems;
  }
  compute();
}

void Exploration::set_options(const LayoutOptions& options) {
  if (options == options_) return;
  options_ = options;
  compute();
}

void Exploration::set_dtype(std::optional<DType> dtype) {
  if (dtype == dtype_) return;
  dtype_ = dtype;
  compute();
}

void Exploration::compute() {
  std::vector<ParamSpec> specs = specs_;
  if (dtype_) {
    for (ParamSpec& spec : specs) spec.dtype = *dtype_;
  }
  try {
    layout_ = std::make_shared<const Layout>(compute_layout(std::move(specs), options_));
    error_.clear();
  } catch (const InputError& error) {
    error_ = error.what();
  }
}

}  // namespace zero1::viz
