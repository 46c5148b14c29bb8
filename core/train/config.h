// Everything a training run can be told, and what is checked before it starts.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "core/comm/link_model.h"
#include "core/data/name_rules.h"
#include "core/data/token_file.h"
#include "core/model/model.h"
#include "core/train/batch_rampup.h"
#include "core/train/schedule.h"
#include "core/zero1/config.h"
#include "core/zero1/loss_scaler.h"

namespace zero1 {

struct TrainConfig;

/// Makes a model of one's own for a resolved configuration: one per rank, and one for the layout. All are
/// alike.
using ModelFactory = std::function<std::unique_ptr<Model>(const TrainConfig&)>;

/// Names follow the flags of `zero1 train`, which follow Megatron's.
struct TrainConfig {
  // model
  std::string model = "gpt";   ///< or "mlp"; with a model_factory: any name, for traces
  ModelFactory model_factory;  ///< empty: `model` names the model
  int num_layers = 4;
  std::int64_t hidden_size = 128;
  int num_attention_heads = 4;
  std::int64_t seq_length = 128;
  std::int64_t max_position_embeddings = 0;  ///< 0: seq_length
  DType param_dtype = DType::fp32;
  std::int64_t vocab_size = 0;  ///< every token is below it; 0: 256, the bytes
  std::int64_t make_vocab_size_divisible_by = 1;

  // data
  std::string data;        ///< a file of bytes or tokens; empty: the generated arithmetic corpus
  std::string valid_data;  ///< for evaluation
  TokenDType token_dtype = TokenDType::automatic;  ///< of both files
  bool shuffle = false;
  std::uint64_t seed = 1234;

  // batch and schedule
  int dp = 1;
  std::int64_t micro_batch_size = 1;
  std::int64_t global_batch_size = 0;  ///< 0: micro_batch_size * dp
  std::optional<BatchRampup> rampup_batch_size;
  std::int64_t train_iters = 100;
  LearningRateConfig lr;
  std::int64_t eval_interval = 0;  ///< 0: never
  std::int64_t eval_iters = 10;

  OptimizerConfig optimizer;
  DataParallelConfig data_parallel;
  LossScalerConfig loss_scale;        ///< fp16 only
  bool check_for_nan_in_loss = true;  ///< a NaN or infinite loss of any rank is an error

  // machine
  std::string device = "cpu";  ///< or "cuda"
  std::string comm;            ///< local, or nccl on GPUs; empty: nccl on GPUs, else local
  bool tf32 = false;           ///< on GPUs: fp32 matrix products in TF32
  int threads_per_rank = 0;    ///< 0: the machine's cores shared among the ranks, at least 1
  LinkModel link;

  // files
  std::string init;          ///< .safetensors to start from
  NameRules init_names;      ///< what its tensors are called
  std::string save_weights;  ///< .safetensors to write at the end
  std::string trace;         ///< trace file

  /// Of the full batch, which every iteration has without rampup_batch_size.
  std::int64_t num_microbatches() const { return global_batch_size / (micro_batch_size * dp); }
  std::int64_t tokens_per_step() const { return global_batch_size * seq_length; }
  /// The model's vocabulary. No token is one of the rows beyond vocab_size, but their logits take part in
  /// the softmax. Megatron: `padded_vocab_size`.
  std::int64_t padded_vocab_size() const {
    return (vocab_size + make_vocab_size_divisible_by - 1) / make_vocab_size_divisible_by *
           make_vocab_size_divisible_by;
  }
};

/// Fills in what depends on other fields (sizes given as 0, checks that fp16 rules out) and checks the
/// rest. Throws InputError naming the flag.
TrainConfig resolve(TrainConfig config);

/// The configured model, not yet bound.
std::unique_ptr<Model> make_model(const TrainConfig& config);

/// The resolved configuration as a JSON object, for traces and checkpoints: each field of the structures
/// above by its flag's name, but for the files that a run starts from or writes.
std::string to_json(const TrainConfig& config);

/// What a file of weights must say of the model beside names and shapes, so that others can run it: a JSON
/// object with keys of to_json.
std::string model_json(const TrainConfig& config);

}  // namespace zero1
