// The golden GPT cases: configuration, weights and the float64 trajectory.
#pragma once

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/train/config.h"

namespace zero1::golden {

struct GptCase {
  std::string name;
  std::string init, final, data;  ///< paths
  nlohmann::json config;
  std::vector<double> losses, grad_norms;

  /// A run of this case on `dp` ranks.
  TrainConfig train_config(int dp, std::int64_t micro_batch_size) const {
    TrainConfig c;
    c.num_layers = config.at("layers");
    c.hidden_size = config.at("d_model");
    c.num_attention_heads = config.at("heads");
    c.seq_length = config.at("seq_len");
    c.global_batch_size = config.at("global_batch");
    c.micro_batch_size = micro_batch_size;
    c.dp = dp;
    c.train_iters = static_cast<std::int64_t>(losses.size());
    c.lr.lr = config.at("lr");
    c.optimizer.weight_decay = config.at("weight_decay");
    c.optimizer.adam_beta1 = config.at("beta1");
    c.optimizer.adam_beta2 = config.at("beta2");
    c.optimizer.adam_eps = config.at("eps");
    c.optimizer.clip_grad = config.at("clip_grad");
    c.data = data;
    c.init = init;
    c.threads_per_rank = 1;
    return c;
  }
};

/// Reads `<dir>/<name>.json` and what lies beside it: weights, and `<name>.txt` or else `corpus.txt`.
inline GptCase read_gpt_case(const std::filesystem::path& dir, const std::string& name) {
  GptCase c;
  c.name = name;
  const auto path = [&](const std::string& suffix) { return (dir / (name + suffix)).string(); };
  c.init = path(".init.safetensors");
  c.final = path(".final.safetensors");
  c.data = std::filesystem::exists(path(".txt")) ? path(".txt") : (dir / "corpus.txt").string();
  const nlohmann::json json = nlohmann::json::parse(std::ifstream(path(".json")));
  c.config = json.at("config");
  for (const auto& step : json.at("float64")) {
    c.losses.push_back(step.at("loss"));
    c.grad_norms.push_back(step.at("grad_norm"));
  }
  return c;
}

/// Every case of a directory, by name.
inline std::vector<GptCase> read_gpt_cases(const std::filesystem::path& dir) {
  std::vector<std::string> names;
  const std::string suffix = ".init.safetensors";
  if (std::filesystem::is_directory(dir)) {
    for (const auto& entry : std::filesystem::directory_iterator(dir)) {
      const std::string file = entry.path().filename().string();
      if (file.ends_with(suffix)) names.push_back(file.substr(0, file.size() - suffix.size()));
    }
  }
  std::sort(names.begin(), names.end());
  std::vector<GptCase> cases;
  for (const std::string& name : names) cases.push_back(read_gpt_case(dir, name));
  return cases;
}

}  // namespace zero1::golden
