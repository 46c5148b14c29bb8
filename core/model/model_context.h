// What every model's functions share: where the work goes, the parameters, and memory for activations.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "core/device/device.h"
#include "core/model/model.h"

namespace zero1 {

/// One activation, or the gradient of one: it owns its memory and passes for a view in calls of Ops.
class Activation {
 public:
  Activation() = default;
  Activation(Device& device, DType dtype, std::int64_t numel)
      : memory_(device.allocate(numel * size_bytes(dtype), MemoryKind::activations, Reuse::in_stream_order)),
        view_(memory_.data(), dtype, numel) {}
  Activation(Activation&& other) noexcept
      : memory_(std::move(other.memory_)), view_(std::exchange(other.view_, {})) {}
  Activation& operator=(Activation&& other) noexcept {
    memory_ = std::move(other.memory_);
    view_ = std::exchange(other.view_, {});
    return *this;
  }
  ~Activation() = default;

  operator TensorView() const { return view_; }       // NOLINT: an activation is used as its view
  operator ConstTensorView() const { return view_; }  // NOLINT

  /// Gives the memory back. Work that was queued before still finds it: devices free in stream order.
  void free() { *this = Activation(); }

 private:
  DeviceMemory memory_;
  TensorView view_;
};

/// Bound once, then handed to every function that queues work.
struct ModelContext {
  Device* device = nullptr;
  Stream* stream = nullptr;
  std::vector<ParamBinding> params;

  Ops& ops() const { return device->ops(); }
  ConstTensorView param(int index) const { return params[static_cast<std::size_t>(index)].param; }
  TensorView main_grad(int index) const { return params[static_cast<std::size_t>(index)].main_grad; }
  Activation allocate(DType dtype, std::int64_t numel) const { return {*device, dtype, numel}; }
};

/// Checks the bindings against the specs (count, numel, the parameters' dtype) and keeps them. Throws
/// std::invalid_argument naming the parameter.
ModelContext make_model_context(Device& device, Stream& compute, std::vector<ParamBinding> params,
                                const std::vector<ParamSpec>& specs);

/// `numel` normal numbers of mean 0: a function of the arguments alone, on every machine.
std::vector<float> normal_values(std::uint64_t seed, int param, std::int64_t numel, double stddev);

/// Throws InputError naming `field` unless 1 <= value <= 2^24, so that no product of two overflows.
void check_model_size(const char* field, std::int64_t value);

// ---- a linear layer: y = x · Wᵀ with W stored [out, in], as every framework's checkpoints have it ----

struct LinearShape {
  std::int64_t rows = 0;  ///< of x and y
  std::int64_t in = 0;    ///< width of x
  std::int64_t out = 0;   ///< width of y
};

/// y [rows, out] = x [rows, in] · Wᵀ. The bias is left to the operation that follows.
void linear_forward(const ModelContext& context, TensorView y, ConstTensorView x, int weight,
                    const LinearShape& shape);

/// W's main_grad [out, in] += d_yᵀ · x; an iteration's first fills it (Model::fills_main_grad may hold).
void linear_backward_weight(const ModelContext& context, int weight, ConstTensorView d_y, ConstTensorView x,
                            const LinearShape& shape, ModelHooks& hooks);

/// d_x [rows, in] = d_y [rows, out] · W.
void linear_backward_input(const ModelContext& context, TensorView d_x, ConstTensorView d_y, int weight,
                           const LinearShape& shape);

}  // namespace zero1
