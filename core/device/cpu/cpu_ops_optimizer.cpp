// Gradient statistics, the order-free sum of squares, and AdamW.
#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>

#include "core/device/cpu/checks.h"
#include "core/device/cpu/cpu_ops.h"
#include "core/device/cpu/vec.h"
#include "core/device/cpu/vector_math.h"

namespace zero1::cpu {

namespace {

constexpr std::uint32_t infinity_bits = 0x7F800000u;

struct GradStats {
  std::uint32_t max_bits = 0;  ///< of |x|: as unsigned integers, magnitudes order like the numbers
  std::int64_t non_finite = 0;
};

template <class T>
GradStats stats_of(const T* x, std::int64_t begin, std::int64_t end) {
  constexpr std::int64_t block = std::int64_t{1} << 24;  // counts of a lane stay below 2^32
  GradStats total;
  for (std::int64_t start = begin; start < end; start += block) {
    UintVec largest{};
    UintVec bad{};
    for_lanes(start, std::min(end, start + block), [&](std::int64_t i, auto part) {
      const UintVec magnitude = bits_of(load(x + i, part)) & 0x7FFFFFFFu;
      const UintVec finite = magnitude < infinity_bits ? magnitude : UintVec{};
      largest = finite > largest ? finite : largest;
      bad += magnitude < infinity_bits ? UintVec{} : UintVec{} + 1u;
    });
    for (int lane = 0; lane < lanes; ++lane) {
      total.max_bits = std::max(total.max_bits, std::uint32_t{largest[lane]});
      total.non_finite += bad[lane];
    }
  }
  return total;
}

using Doubles = double __attribute__((vector_size(64)));  // half the lanes of a Vec

/// Three grids that cut a square q <= bound² into slices whose sums are exact.
///
/// Let bound < 2^e, E = 2e, so q <= 2^E; and let N = 2^L >= 8 bound the number of summands. In fp64, x²
/// of an fp32 x is exact (48 bits). Slice 1 is q rounded to a multiple of g1 = 2^(E+L-53): at most 2^E,
/// so every sum of at most N slices is a multiple of g1 of at most 2^(E+L) = 2^53 g1: exact. The rest
/// q - s1 is exact, too, as it needs no more bits than q, and is at most 2^(E') = g1/2 in magnitude,
/// E' = E+L-54. Slices 2 and 3 cut it in the same manner. Exact sums do not depend on their order.
/// What is dropped is at most g3/2 per element, N g3/2 = 2^(E+4L-162) in all; when the bound is tight,
/// the sum is at least 2^(E-2), so the relative error is below 2^(4L-160): 2^-40 for 2^30 elements in
/// the worst case, and far less where the bound's element is not alone.
///
/// Rounding to a multiple of g: adding 1.5 * 2^52 g brings the sum into [2^52 g, 2^53 g), where
/// doubles are the multiples of g, as |q| <= 2^(53-L) g <= 2^50 g. Subtracting it again is exact.
struct SliceGrids {
  double magic[3];

  SliceGrids(double bound, std::int64_t total_elems) {
    int exponent = 0;
    std::frexp(bound, &exponent);
    int log_elems = 3;
    while (log_elems < 62 && (std::int64_t{1} << log_elems) < total_elems) ++log_elems;
    int top = 2 * exponent;
    for (double& m : magic) {
      const int grid = top + log_elems - 53;
      m = std::ldexp(1.5, 52 + grid);
      top = grid - 1;
    }
  }
};

template <class T>
void add_slices(const SliceGrids& grids, const T* x, std::int64_t begin, std::int64_t end, double sums[3]) {
  Doubles acc[3][2] = {};
  for_lanes(begin, end, [&](std::int64_t i, auto part) {
    const Vec v = load(x + i, part);
    float narrow_lanes[lanes];
    std::memcpy(narrow_lanes, &v, sizeof v);
    for (int half = 0; half < 2; ++half) {
      using HalfVec = float __attribute__((vector_size(32)));
      HalfVec h;
      std::memcpy(&h, narrow_lanes + half * 8, sizeof h);
      const Doubles wide = __builtin_convertvector(h, Doubles);
      Doubles rest = wide * wide;
      for (int s = 0; s < 3; ++s) {
        const Doubles slice = (rest + grids.magic[s]) - grids.magic[s];
        acc[s][half] += slice;
        rest -= slice;
      }
    }
  });
  for (int s = 0; s < 3; ++s) {
    sums[s] = 0;
    for (int lane = 0; lane < 8; ++lane) sums[s] += acc[s][0][lane] + acc[s][1][lane];
  }
}

/// torch.optim.AdamW's update, in its order of operations, with what does not change between elements
/// computed in fp64 once.
struct AdamWCoefficients {
  float decay, beta1, one_minus_beta1, beta2, one_minus_beta2, step_size, inverse_sqrt_correction2, eps;

  explicit AdamWCoefficients(const AdamWArgs& args) {
    const auto steps = static_cast<double>(args.step);
    decay = static_cast<float>(1 - args.lr * args.weight_decay);
    beta1 = static_cast<float>(args.beta1);
    one_minus_beta1 = static_cast<float>(1 - args.beta1);
    beta2 = static_cast<float>(args.beta2);
    one_minus_beta2 = static_cast<float>(1 - args.beta2);
    step_size = static_cast<float>(args.lr / (1 - std::pow(args.beta1, steps)));
    inverse_sqrt_correction2 = static_cast<float>(1 / std::sqrt(1 - std::pow(args.beta2, steps)));
    eps = static_cast<float>(args.eps);
  }
};

template <class Grad, class Model>
void adamw_range(const AdamWArgs& args, std::int64_t begin, std::int64_t end) {
  const AdamWCoefficients k(args);
  const float grad_scale = args.grad_scale != nullptr ? *args.grad_scale : 1.0F;
  float* param = args.main_param.as<float>();
  float* m = args.exp_avg.as<float>();
  float* v = args.exp_avg_sq.as<float>();
  const Grad* grad = args.grad.as<Grad>();
  Model* model = args.model_param.data != nullptr ? args.model_param.as<Model>() : nullptr;
  for_lanes(begin, end, [&](std::int64_t i, auto part) {
    const Vec g = load(grad + i, part) * grad_scale;
    const Vec new_m = load(m + i, part) * k.beta1 + g * k.one_minus_beta1;
    const Vec new_v = load(v + i, part) * k.beta2 + (g * g) * k.one_minus_beta2;
    const Vec denominator = sqrt(new_v) * k.inverse_sqrt_correction2 + k.eps;
    const Vec new_param = load(param + i, part) * k.decay - new_m / denominator * k.step_size;
    store(m + i, new_m, part);
    store(v + i, new_v, part);
    store(param + i, new_param, part);
    if (model != nullptr) store(model + i, new_param, part);
  });
}

}  // namespace

void CpuOps::grad_stats(Stream& stream, TensorView out, ConstTensorView x) {
  check("grad_stats", "out", out, DType::fp64, 2);
  visit_low("grad_stats", "x", x.dtype, [&](auto type) {
    using T = decltype(type);
    run(stream, [out, x](Workers& workers) {
      std::mutex mutex;
      double* result = out.as<double>();
      workers.split(x.numel, [&](std::int64_t begin, std::int64_t end) {
        const GradStats stats = stats_of(x.as<T>(), begin, end);
        const std::lock_guard lock(mutex);
        result[0] = std::max(result[0], static_cast<double>(std::bit_cast<float>(stats.max_bits)));
        result[1] += static_cast<double>(stats.non_finite);
      });
    });
  });
}

void CpuOps::sum_of_squares(Stream& stream, TensorView out, ConstTensorView x, const double* max_abs,
                            std::int64_t total_elems) {
  check("sum_of_squares", "out", out, DType::fp64, 3);
  if (total_elems < x.numel) {
    reject("sum_of_squares", "total_elems is " + std::to_string(total_elems) + ", but x alone has " +
                                 std::to_string(x.numel) + " elements");
  }
  visit_low("sum_of_squares", "x", x.dtype, [&](auto type) {
    using T = decltype(type);
    run(stream, [out, x, max_abs, total_elems](Workers& workers) {
      double* result = out.as<double>();
      if (x.empty() || *max_abs == 0) return;
      if (!std::isfinite(*max_abs)) {
        result[0] = std::numeric_limits<double>::quiet_NaN();
        return;
      }
      const SliceGrids grids(*max_abs, total_elems);
      std::mutex mutex;
      workers.split(x.numel, [&](std::int64_t begin, std::int64_t end) {
        double sums[3];
        add_slices(grids, x.as<T>(), begin, end, sums);
        const std::lock_guard lock(mutex);
        for (int s = 0; s < 3; ++s) result[s] += sums[s];
      });
    });
  });
}

void CpuOps::adamw(Stream& stream, const AdamWArgs& args) {
  const std::int64_t numel = args.main_param.numel;
  check_dtype("adamw", "main_param", args.main_param, DType::fp32);
  check("adamw", "exp_avg", args.exp_avg, DType::fp32, numel);
  check("adamw", "exp_avg_sq", args.exp_avg_sq, DType::fp32, numel);
  check_numel("adamw", "grad", args.grad, numel);
  if (args.model_param.data != nullptr) check_numel("adamw", "model_param", args.model_param, numel);
  if (args.step < 1) reject("adamw", "step is " + std::to_string(args.step) + ", the first update is step 1");
  const DType model_dtype = args.model_param.data != nullptr ? args.model_param.dtype : DType::fp32;
  visit_low("adamw", "grad", args.grad.dtype, [&](auto grad_type) {
    visit_low("adamw", "model_param", model_dtype, [&](auto model_type) {
      using Grad = decltype(grad_type);
      using Model = decltype(model_type);
      run(stream, [args](Workers& workers) {
        workers.split(args.main_param.numel, [&](std::int64_t begin, std::int64_t end) {
          adamw_range<Grad, Model>(args, begin, end);
        });
      });
    });
  });
}

}  // namespace zero1::cpu
