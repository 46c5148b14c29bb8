// Gradient statistics, the order-free sum of squares, and AdamW.
#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>

#include "core/device/adamw_coefficients.h"
#include "core/device/cpu/cpu_ops.h"
#include "core/device/cpu/grad_stats.h"
#include "core/device/cpu/vec.h"
#include "core/device/cpu/vector_math.h"
#include "core/device/slice_grids.h"

namespace zero1::cpu {

namespace {

/// Sums of the slices that SliceGrids cuts.
class SliceSums {
 public:
  explicit SliceSums(const SliceGrids& grids) : grids_(grids) {}

  void add(Vec values) {
    Doubles halves[2];
    widen_to_doubles(values, halves[0], halves[1]);
    for (int half = 0; half < 2; ++half) {
      Doubles rest = halves[half] * halves[half];
      for (int s = 0; s < 3; ++s) {
        const Doubles slice = (rest + grids_.magic[s]) - grids_.magic[s];
        sums_[s][half] += slice;
        rest -= slice;
      }
    }
  }

  void add_to(double* out) const {
    for (int s = 0; s < 3; ++s) {
      for (int lane = 0; lane < half_lanes; ++lane) out[s] += sums_[s][0][lane] + sums_[s][1][lane];
    }
  }

 private:
  SliceGrids grids_;
  Doubles sums_[3][2] = {};
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
      workers.split(x.numel, [&](std::int64_t begin, std::int64_t end) {
        const GradStats stats = stats_of(x.as<T>(), begin, end, [](auto&&...) {});
        const std::lock_guard lock(mutex);
        stats.add_to(out.as<double>());
      });
    });
  });
}

void CpuOps::grad_stats_and_scale(Stream& stream, TensorView out, TensorView x, float factor) {
  check("grad_stats_and_scale", "out", out, DType::fp64, 2);
  visit_low("grad_stats_and_scale", "x", x.dtype, [&](auto type) {
    using T = decltype(type);
    run(stream, [out, x, factor](Workers& workers) {
      std::mutex mutex;
      workers.split(x.numel, [&](std::int64_t begin, std::int64_t end) {
        T* p = x.as<T>();
        GradStats stats;
        constexpr std::int64_t block = 4096;  // stays in the L1 cache between the two
        for (std::int64_t start = begin; start < end; start += block) {
          const std::int64_t stop = std::min(start + block, end);
          stats.add(stats_of(p, start, stop, [](auto&&...) {}));
          for_lanes(start, stop,
                    [&](std::int64_t i, auto part) { store(p + i, load(p + i, part) * factor, part); });
        }
        const std::lock_guard lock(mutex);
        stats.add_to(out.as<double>());
      });
    });
  });
}

void CpuOps::sum_of_squares(Stream& stream, TensorView out, ConstTensorView x, const double* max_abs,
                            std::int64_t total_elems) {
  check_sum_of_squares(out, x, total_elems);
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
        const T* p = x.as<T>();
        SliceSums sums(grids);
        for_lanes(begin, end, [&](std::int64_t i, auto part) {
          prefetch(p + i);
          sums.add(load(p + i, part));
        });
        const std::lock_guard lock(mutex);
        sums.add_to(result);
      });
    });
  });
}

void CpuOps::grad_stats_and_sum_of_squares(Stream& stream, TensorView stats, TensorView out,
                                           ConstTensorView x, const double* guess, std::int64_t total_elems) {
  check("grad_stats_and_sum_of_squares", "stats", stats, DType::fp64, 2);
  check_sum_of_squares(out, x, total_elems);
  visit_low("grad_stats_and_sum_of_squares", "x", x.dtype, [&](auto type) {
    using T = decltype(type);
    run(stream, [stats, out, x, guess, total_elems](Workers& workers) {
      const SliceGrids grids(*guess, total_elems);
      std::mutex mutex;
      workers.split(x.numel, [&](std::int64_t begin, std::int64_t end) {
        SliceSums sums(grids);
        const GradStats found =
            stats_of(x.as<T>(), begin, end, [&](std::int64_t, auto, Vec value) { sums.add(value); });
        const std::lock_guard lock(mutex);
        found.add_to(stats.as<double>());
        sums.add_to(out.as<double>());
      });
    });
  });
}

void CpuOps::adamw(Stream& stream, const AdamWArgs& args) {
  check_adamw(args);
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
