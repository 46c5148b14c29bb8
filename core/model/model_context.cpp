#include "core/model/model_context.h"

#include <fmt/format.h>

#include <stdexcept>

#include "core/base/error.h"
#include "core/base/random.h"

namespace zero1 {

ModelContext make_model_context(Device& device, Stream& compute, std::vector<ParamBinding> params,
                                const std::vector<ParamSpec>& specs) {
  if (params.size() != specs.size()) {
    throw std::invalid_argument(
        fmt::format("the model has {} parameters, {} were bound", specs.size(), params.size()));
  }
  for (std::size_t i = 0; i < specs.size(); ++i) {
    const auto& [param, main_grad] = params[i];
    const std::int64_t numel = specs[i].numel();
    if (param.numel != numel || main_grad.numel != numel || param.dtype != specs[i].dtype) {
      throw std::invalid_argument(fmt::format(
          "parameter '{}' has {} elements of {}; bound were {} of {} and a gradient of {}", specs[i].name,
          numel, name(specs[i].dtype), param.numel, name(param.dtype), main_grad.numel));
    }
  }
  return {&device, &compute, std::move(params)};
}

std::vector<float> normal_values(std::uint64_t seed, int param, std::int64_t numel, double stddev) {
  NormalStream normal(RandomStream(seed, static_cast<std::uint64_t>(param)));
  std::vector<float> values(static_cast<std::size_t>(numel));
  for (float& value : values) value = static_cast<float>(stddev * normal.next());
  return values;
}

void check_model_size(const char* field, std::int64_t value) {
  constexpr std::int64_t largest = std::int64_t{1} << 24;
  if (value < 1 || value > largest) {
    throw InputError(fmt::format("{} is {}, expected 1 to {}", field, value, largest));
  }
}

void linear_forward(const ModelContext& context, TensorView y, ConstTensorView x, int weight,
                    const LinearShape& shape) {
  context.ops().matmul(*context.stream, {.a = x,
                                         .b = context.param(weight),
                                         .c = y,
                                         .m = shape.rows,
                                         .n = shape.out,
                                         .k = shape.in,
                                         .transpose_b = true});
}

void linear_backward_weight(const ModelContext& context, int weight, ConstTensorView d_y, ConstTensorView x,
                            const LinearShape& shape, ModelHooks& hooks) {
  context.ops().matmul(*context.stream, {.a = d_y,
                                         .b = x,
                                         .c = context.main_grad(weight),
                                         .m = shape.out,
                                         .n = shape.in,
                                         .k = shape.rows,
                                         .transpose_a = true,
                                         .beta = hooks.main_grad_beta(weight)});
}

void linear_backward_input(const ModelContext& context, TensorView d_x, ConstTensorView d_y, int weight,
                           const LinearShape& shape) {
  context.ops().matmul(
      *context.stream,
      {.a = d_y, .b = context.param(weight), .c = d_x, .m = shape.rows, .n = shape.in, .k = shape.out});
}

}  // namespace zero1
