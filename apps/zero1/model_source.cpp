#include "apps/zero1/model_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "ckpt/checkpoint.h"
#include "ckpt/mapped_source.h"
#include "core/base/error.h"
#include "core/data/tensor_files.h"

namespace zero1::app {

namespace {

using nlohmann::json;

/// What a source stores: parameters, the configuration (an object; empty where it has none), and values.
struct Stored {
  std::vector<ParamSpec> params;
  json config = json::object();
  std::function<void(const std::string& name, std::span<float> values)> read;
};

json parse_object(const std::string& text) {
  json parsed = json::parse(text, nullptr, false);
  return parsed.is_object() ? parsed : json::object();
}

Stored open_checkpoint(const std::string& path, std::optional<std::int64_t> step) {
  const auto checkpoint = std::make_shared<ckpt::Checkpoint>(path, step);
  Stored stored;
  stored.params = checkpoint->layout().specs;
  stored.config = parse_object(checkpoint->state().config_json);
  stored.read = [checkpoint](const std::string& name, std::span<float> values) {
    checkpoint->read(*checkpoint->find(name), ckpt::State::param,
                     {0, static_cast<std::int64_t>(values.size())}, values.data());
  };
  return stored;
}

bool is_optimizer_state(const TensorFiles& files, const std::string& name) {
  for (const ckpt::State state : {ckpt::State::exp_avg, ckpt::State::exp_avg_sq}) {
    const std::string ending = fmt::format(".{}", ckpt::name(state));
    if (name.ends_with(ending) && files.find(name.substr(0, name.size() - ending.size())) != nullptr)
      return true;
  }
  return false;
}

Stored open_safetensors(const std::string& path) {
  const auto files = std::make_shared<TensorFiles>(path);
  Stored stored;
  for (const auto& [name, tensor] : files->tensors()) {
    if (!is_optimizer_state(*files, name))
      stored.params.push_back({.name = name, .shape = tensor.entry->shape, .dtype = DType::fp32});
  }
  const auto& metadata = files->metadata();
  if (const auto state = metadata.find("zero1_state"); state != metadata.end())
    stored.config = parse_object(ckpt::parse_run_state(state->second, path).config_json);
  if (const auto model = metadata.find("zero1_model"); model != metadata.end())
    stored.config = parse_object(model->second);
  stored.read = [files](const std::string& name, std::span<float> values) {
    const TensorFiles::Tensor& tensor = *files->find(name);
    const std::vector<float> read = tensor.read_fp32({0, tensor.entry->numel()});
    std::copy(read.begin(), read.end(), values.begin());
  };
  return stored;
}

/// Puts a model together from what is stored.
class ModelBuilder {
 public:
  ModelBuilder(const std::string& source, const Stored& stored, const ModelFlags& flags)
      : source_(source), stored_(stored), flags_(flags) {}

  ModelSource build() {
    TrainConfig& c = model_.config;
    const ParamSpec* wte = find("wte.weight");
    const ParamSpec* embed = find("embed.weight");
    const ParamSpec* table = wte != nullptr ? wte : embed;
    if (table == nullptr || table->shape.size() != 2) {
      fail(
          "holds neither a GPT (wte.weight, h.0.ln_1.weight, ...) nor an MLP (embed.weight, ...) of `zero1 "
          "train`; "
          "`zero1 ckpt import` makes a checkpoint of other files");
    }
    c.model = wte != nullptr ? "gpt" : "mlp";
    c.vocab_size = table->shape[0];
    c.hidden_size = table->shape[1];
    c.num_layers = count_layers(wte != nullptr ? "h." : "hidden.");
    model_.vocab_size =
        agreed("--vocab-size", flags_.vocab_size, number("vocab_size")).value_or(c.vocab_size);
    if (model_.vocab_size < 1 || model_.vocab_size > c.vocab_size) {
      fail(fmt::format("its vocabulary has {} rows, --vocab-size is {}", c.vocab_size, model_.vocab_size));
    }
    if (wte != nullptr) set_gpt_fields();
    model_.context_tokens =
        flags_.seq_length.value_or(number("seq_length").value_or(c.max_position_embeddings));
    check_context();
    const std::string faults =
        compare_tensors(ckpt::named_shapes(make_model(c)->param_specs()),
                        map_tensors({}, ckpt::named_shapes(stored_.params), StateTensors::none, source_))
            .faults;
    if (!faults.empty()) fail("does not fit a model of `zero1 train`:" + faults);
    return std::move(model_);
  }

 private:
  [[noreturn]] void fail(const std::string& why) const {
    throw InputError(fmt::format("{}: {}", source_, why));
  }

  const ParamSpec* find(std::string_view name) const {
    const auto found = std::find_if(stored_.params.begin(), stored_.params.end(),
                                    [&](const ParamSpec& spec) { return spec.name == name; });
    return found == stored_.params.end() ? nullptr : &*found;
  }

  std::optional<std::int64_t> number(const char* key) const {
    const auto found = stored_.config.find(key);
    if (found == stored_.config.end() || !found->is_number_integer()) return std::nullopt;
    return found->get<std::int64_t>();
  }

  /// One past the largest number behind `prefix`.
  int count_layers(std::string_view prefix) const {
    int count = 0;
    for (const ParamSpec& spec : stored_.params) {
      if (!spec.name.starts_with(prefix)) continue;
      const char* const begin = spec.name.data() + prefix.size();
      int layer = 0;
      const auto [end, error] = std::from_chars(begin, spec.name.data() + spec.name.size(), layer);
      // A model has a layer more than the largest number only where it has so many parameters.
      const bool plausible = layer >= 0 && layer < static_cast<int>(stored_.params.size());
      if (error == std::errc() && plausible) count = std::max(count, layer + 1);
    }
    if (count == 0) fail(fmt::format("has no parameters {}0, {}1, ...: no layers", prefix, prefix));
    return count;
  }

  template <class Number>
  std::optional<std::int64_t> agreed(const char* flag, std::optional<Number> given,
                                     std::optional<std::int64_t> stored) const {
    if (given && stored && *given != *stored)
      fail(fmt::format("was trained with {} {}, got {}; leave the flag out", flag, *stored, *given));
    return given ? std::optional<std::int64_t>(*given) : stored;
  }

  void set_gpt_fields() {
    TrainConfig& c = model_.config;
    const ParamSpec* wpe = find("wpe.weight");
    if (wpe == nullptr || wpe->shape.size() != 2) fail("has no wpe.weight: no positions");
    c.max_position_embeddings = wpe->shape[0];
    const auto heads =
        agreed("--num-attention-heads", flags_.num_attention_heads, number("num_attention_heads"));
    if (!heads) {
      fail(
          "does not say how many attention heads the model has, and shapes do not show it: give "
          "--num-attention-heads N");
    }
    if (*heads < 1 || *heads > c.hidden_size || c.hidden_size % *heads != 0)
      fail(fmt::format("--num-attention-heads {} must divide the model's width, {}", *heads, c.hidden_size));
    c.num_attention_heads = static_cast<int>(*heads);
  }

  void check_context() {
    const std::int64_t positions = model_.config.max_position_embeddings;
    if (model_.config.model == "mlp") {
      model_.context_tokens = 1;  // it looks at one token only
    } else if (model_.context_tokens < 1 || model_.context_tokens > positions) {
      fail(fmt::format("--seq-length must lie between 1 and the model's {} positions, got {}", positions,
                       model_.context_tokens));
    }
  }

  const std::string& source_;
  const Stored& stored_;
  const ModelFlags& flags_;
  ModelSource model_;
};

}  // namespace

ModelSource open_model(const std::string& source, const ModelFlags& flags) {
  std::error_code none;
  const bool folder = std::filesystem::is_directory(source, none);
  for (const char* ending : {".json", ".h5", ".hdf5"}) {
    if (folder || !source.ends_with(ending) || source.ends_with(".safetensors.index.json")) continue;
    throw InputError(
        fmt::format("{}: generation takes a checkpoint or a .safetensors file; `zero1 ckpt import` "
                    "makes a checkpoint of other files",
                    source));
  }
  const bool file =
      !folder && (source.ends_with(".safetensors") || std::filesystem::is_regular_file(source, none));
  if (file && flags.step) throw InputError(fmt::format("{}: is a file; --ckpt-step needs a folder", source));
  Stored stored = file ? open_safetensors(source) : open_checkpoint(source, flags.step);
  ModelSource model = ModelBuilder(source, stored, flags).build();
  model.read = [specs = make_model(model.config)->param_specs(), read = std::move(stored.read)](
                   int param, std::span<float> values) {
    read(specs[static_cast<std::size_t>(param)].name, values);
  };
  return model;
}

}  // namespace zero1::app
