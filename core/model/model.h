// What a model must offer so that the pipeline can train it. mlp.h is the smallest example.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/device/device.h"
#include "core/layout/param_spec.h"

namespace zero1 {

/// A unit of forward and backward, for waiting on parameters and for the trace.
struct Layer {
  std::string name;
  std::vector<int> params;  ///< indices of the parameters that its forward reads
};

/// One parameter's place in the buffers. `main_grad` has the same numel; backward adds into it.
struct ParamBinding {
  TensorView param;
  TensorView main_grad;
};

/// One microbatch on one rank: `sequences` rows of seq_len tokens and their targets. Device pointers,
/// which must stay valid and unchanged until backward has run (after evaluate: until it has).
struct Batch {
  const std::int32_t* tokens = nullptr;
  const std::int32_t* targets = nullptr;
  std::int64_t sequences = 0;
  std::int64_t seq_len = 0;
  std::int64_t n_tokens() const { return sequences * seq_len; }
};

/// What the model tells the pipeline while it runs. Megatron: the forward pre-hooks and the gradient
/// hooks of `DistributedDataParallel`. Called on the rank's thread, in pairs, never nested.
class ModelHooks {
 public:
  virtual ~ModelHooks() = default;
  /// Before a layer's forward reads its parameters: waits for their all-gathers.
  virtual void begin_forward(int layer) { (void)layer; }
  virtual void end_forward(int layer) { (void)layer; }
  virtual void begin_backward(int layer) { (void)layer; }
  virtual void end_backward(int layer) { (void)layer; }
  /// Asked before a contribution that covers all of the parameter's main_grad, where Model::fills_main_grad
  /// holds: 0 for the first of an iteration, which is written over whatever main_grad holds; else 1, it is
  /// added.
  virtual float main_grad_beta(int param) {
    (void)param;
    return 1;
  }
  /// All work that adds this contribution into the parameter's main_grad has been queued. Called once
  /// per contribution: twice for a tied embedding.
  virtual void grad_ready(int param) { (void)param; }
};

/// A model on one rank. Used by the rank's thread; all device work goes to the compute stream given to
/// `bind`. Activations of a microbatch live from `forward` to the point of `backward` that needs them last.
class Model {
 public:
  virtual ~Model() = default;

  virtual const std::vector<ParamSpec>& param_specs() const = 0;  ///< in model order
  virtual const std::vector<Layer>& layers() const = 0;  ///< in forward order; each parameter in one or more

  /// Gives the model its memory: views into the buffers, by parameter index.
  virtual void bind(Device& device, Stream& compute, std::vector<ParamBinding> params) = 0;

  /// Runs forward and adds Σ of the per-token losses to loss_sum (fp64[1] on the device).
  /// `loss_grad_scale` is what each token's loss is multiplied by for backward. The parameters must not
  /// change between forward and backward.
  virtual void forward(const Batch& batch, TensorView loss_sum, float loss_grad_scale, ModelHooks& hooks) = 0;

  /// Backward of the last forward: adds into every main_grad.
  virtual void backward(ModelHooks& hooks) = 0;

  /// Whether what backward contributes first to the parameter covers all of main_grad and goes by
  /// ModelHooks::main_grad_beta. Such a main_grad is not zeroed before an iteration.
  virtual bool fills_main_grad(int param) const {
    (void)param;
    return false;
  }

  /// Forward for the loss alone; keeps nothing.
  virtual void evaluate(const Batch& batch, TensorView loss_sum, ModelHooks& hooks) = 0;

  /// Forward for the token that follows each sequence: writes `logits`, [sequences, vocabulary] of the
  /// parameters' dtype. The batch needs no targets. Keeps nothing.
  virtual void next_token_logits(const Batch& batch, TensorView logits, ModelHooks& hooks) = 0;

  /// The initial values of one parameter in fp32, a function of (seed, param) alone: the same on every
  /// rank and for every dtype.
  virtual std::vector<float> initial_values(int param, std::uint64_t seed) const = 0;

  /// Floating-point operations of forward and backward for one token.
  virtual double flops_per_token(std::int64_t seq_len) const = 0;
};

}  // namespace zero1
