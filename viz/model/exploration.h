// A layout that is tried out without a run: a model, and the options that can be turned.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/layout/json.h"

namespace zero1::viz {

/// A model shape by name; its parameter list is made from the sizes.
struct ModelPreset {
  std::string_view name;
  std::string_view what;  ///< "12 layers of 768, 124 M parameters"
  int num_layers = 0;
  std::int64_t hidden_size = 0;
  int num_heads = 1;
  std::int64_t vocab_size = 0;
  std::int64_t positions = 0;
};

std::span<const ModelPreset> model_presets();
std::vector<ParamSpec> param_specs(const ModelPreset& preset, DType dtype);

/// What the sliders hold. Bounds are those of the sliders; a file may hold more.
class Exploration {
 public:
  static constexpr int most_ranks = 1024;
  static constexpr std::int64_t least_bucket_elems = 1'000;
  static constexpr std::int64_t most_bucket_elems = 1'000'000'000;

  /// Begins with a small preset.
  Exploration();
  /// Begins with the cases of a SPEC file, `SPEC.json` as `zero1 layout` reads it. Throws InputError naming
  /// file and field, also where no layout can be computed of the first case.
  Exploration(std::string_view text, const std::string& source);

  struct Source {
    std::string name;
    bool from_file = false;
  };
  /// Cases of the file first, then presets.
  std::span<const Source> sources() const { return sources_; }
  int source() const { return source_; }
  /// Takes the source's parameters. Cases of a file come with their options; presets keep what is set but for
  /// the bucket size, which becomes one that suits the model.
  void choose(int source);

  const LayoutOptions& options() const { return options_; }
  void set_options(const LayoutOptions& options);
  /// Unset: as the source has it.
  std::optional<DType> dtype() const { return dtype_; }
  void set_dtype(std::optional<DType> dtype);

  /// The layout of what is set; the last good one where that cannot be laid out, and `error` says why.
  std::shared_ptr<const Layout> layout() const { return layout_; }
  const std::string& error() const { return error_; }

 private:
  void add_presets();
  void compute();

  std::vector<LayoutCase> cases_;  ///< of the file
  std::vector<Source> sources_;
  int source_ = 0;
  std::vector<ParamSpec> specs_;  ///< with the source's dtypes
  LayoutOptions options_;
  std::optional<DType> dtype_;
  std::shared_ptr<const Layout> layout_;
  std::string error_;
};

}  // namespace zero1::viz
