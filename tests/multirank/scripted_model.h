// A model without mathematics: its gradients are a known function of (parameter, element, rank, step,
// microbatch), so that everything the pipeline does to them can be computed by hand.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "core/base/dtype.h"
#include "core/model/model.h"

namespace zero1::test {

/// What one run of a scripted model does differently from a healthy one.
struct Script {
  std::function<bool(int param, int step)> reports = [](int, int) { return true; };
  std::function<int(int param, int step)> times = [](int, int) { return 1; };
  std::function<float(int param, std::int64_t elem, int step, int rank)> poison;  ///< added to a gradient
  std::function<bool(int param)> fills = [](int) { return false; };               ///< Model::fills_main_grad
  bool asks = true;                                                  ///< main_grad_beta, where it fills
  std::function<bool(int param)> listed = [](int) { return true; };  ///< by a layer
  /// Called before a main_grad is filled: whether all of it is zero.
  std::function<void(int param, int step, bool all_zero)> before_fill = [](int, int, bool) {};
};

inline float scripted_gradient(int param, std::int64_t elem, int step, int rank, int microbatch) {
  const double x =
      0.37 * param + 0.011 * static_cast<double>(elem % 997) + 0.9 * step + 1.7 * rank + 0.23 * microbatch;
  return static_cast<float>(0.05 * std::sin(x) + 0.003 * std::cos(13 * x));
}

inline float scripted_initial(int param, std::int64_t elem) {
  return static_cast<float>(std::cos(0.7 * param + 0.013 * static_cast<double>(elem)));
}

/// One layer per parameter. CPU memory only: it writes gradients through the views.
class ScriptedModel : public Model {
 public:
  ScriptedModel(std::vector<ParamSpec> specs, int rank, Script script = {})
      : specs_(std::move(specs)), rank_(rank), script_(std::move(script)) {
    for (int p = 0; p < static_cast<int>(specs_.size()); ++p) {
      layers_.push_back({specs_[static_cast<std::size_t>(p)].name, {}});
      if (script_.listed(p)) layers_.back().params.push_back(p);
    }
  }

  const std::vector<ParamSpec>& param_specs() const override { return specs_; }
  const std::vector<Layer>& layers() const override { return layers_; }
  void bind(Device&, Stream&, std::vector<ParamBinding> params) override { params_ = std::move(params); }

  void forward(const Batch&, TensorView, float, ModelHooks& hooks) override {
    for (int l = 0; l < static_cast<int>(layers_.size()); ++l) {
      hooks.begin_forward(l);
      hooks.end_forward(l);
    }
  }

  void backward(ModelHooks& hooks) override {
    for (int p = static_cast<int>(specs_.size()) - 1; p >= 0; --p) {
      hooks.begin_backward(p);
      if (script_.reports(p, step)) {
        for (int t = 0; t < script_.times(p, step); ++t) {
          if (t == 0) add_gradient(p, hooks);
          hooks.grad_ready(p);
        }
      }
      hooks.end_backward(p);
    }
    ++microbatch;
  }

  void evaluate(const Batch& batch, TensorView loss_sum, ModelHooks& hooks) override {
    forward(batch, loss_sum, 0, hooks);
  }

  void next_token_logits(const Batch& batch, TensorView, ModelHooks& hooks) override {
    forward(batch, {}, 0, hooks);
  }

  std::vector<float> initial_values(int param, std::uint64_t) const override {
    std::vector<float> values(static_cast<std::size_t>(specs_[static_cast<std::size_t>(param)].numel()));
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = scripted_initial(param, static_cast<std::int64_t>(i));
    return values;
  }

  bool fills_main_grad(int param) const override { return script_.fills(param); }
  double flops_per_token(std::int64_t) const override { return 0; }

  int step = 0;  ///< the driver counts these
  int microbatch = 0;

 private:
  void add_gradient(int p, ModelHooks& hooks) {
    const TensorView grad = params_[static_cast<std::size_t>(p)].main_grad;
    const bool fills = script_.fills(p) && script_.asks && hooks.main_grad_beta(p) == 0;
    visit_dtype(grad.dtype, [&](auto zero) {
      using T = decltype(zero);
      T* out = grad.as<T>();
      if (fills) {
        const auto is_zero = [](T x) { return static_cast<float>(x) == 0; };
        script_.before_fill(p, step, std::all_of(out, out + grad.numel, is_zero));
        std::fill(out, out + grad.numel, T{});
      }
      for (std::int64_t i = 0; i < grad.numel; ++i) {
        float value = scripted_gradient(p, i, step, rank_, microbatch);
        if (script_.poison) value += script_.poison(p, i, step, rank_);
        out[i] = T(static_cast<float>(out[i]) + value);
      }
    });
  }

  std::vector<ParamSpec> specs_;
  std::vector<Layer> layers_;
  int rank_;
  Script script_;
  std::vector<ParamBinding> params_;
};

}  // namespace zero1::test
