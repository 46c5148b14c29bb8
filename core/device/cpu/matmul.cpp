#include "core/device/cpu/matmul.h"

#include <map>
#include <mutex>
#include <tuple>

#include <dnnl.hpp>

#include "core/base/error.h"
#include "core/device/cpu/checks.h"
#include "core/device/cpu/cpu_ops.h"
#include "core/device/cpu/vec.h"

namespace zero1::cpu {

namespace {

using dnnl::memory;

memory::data_type onednn_type(DType dtype) {
  return dtype == DType::fp32 ? memory::data_type::f32 : memory::data_type::bf16;
}

/// What one compiled primitive depends on.
using Key = std::tuple<int, bool, bool, std::int64_t, std::int64_t, std::int64_t, DType, float, float>;

struct Compiled {
  dnnl::matmul primitive;
  memory::desc a, b, c;
};

memory::desc matrix(std::int64_t rows, std::int64_t cols, bool transposed, DType dtype) {
  const memory::dims strides = transposed ? memory::dims{1, rows} : memory::dims{cols, 1};
  return {{rows, cols}, onednn_type(dtype), strides};
}

dnnl::primitive_attr scaling(float alpha, float beta) {
  dnnl::post_ops post;
#if DNNL_VERSION_MAJOR >= 3
  if (alpha != 1) post.append_eltwise(dnnl::algorithm::eltwise_linear, alpha, 0);
#else
  if (alpha != 1) post.append_eltwise(1, dnnl::algorithm::eltwise_linear, alpha, 0);
#endif
  if (beta != 0) post.append_sum(beta);
  dnnl::primitive_attr attr;
  attr.set_post_ops(post);
  return attr;
}

template <class T>
void widen_all(Workers& workers, float* dst, const T* src, std::int64_t elems) {
  workers.split(elems, [&](std::int64_t begin, std::int64_t end) {
    for_lanes(begin, end, [&](std::int64_t i, auto part) { store(dst + i, load(src + i, part), part); });
  });
}

}  // namespace

void use_threads(int threads) {
  omp_set_num_threads(threads);
}

void sgemm(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k, float alpha,
           const float* a, std::int64_t row_stride_a, const float* b, std::int64_t row_stride_b, float beta,
           float* c, std::int64_t row_stride_c) {
  const auto status = dnnl_sgemm(transpose_a ? 'T' : 'N', transpose_b ? 'T' : 'N', m, n, k, alpha, a,
                                 row_stride_a, b, row_stride_b, beta, c, row_stride_c);
  if (status != dnnl_success) throw Error("dnnl_sgemm failed with status " + std::to_string(status));
}

struct MatmulEngine::Impl {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  std::mutex mutex;
  std::map<Key, Compiled> compiled;

  const Compiled& get(int threads, const MatmulArgs& x) {
    const Key key{threads, x.transpose_a, x.transpose_b, x.m, x.n, x.k, x.c.dtype, x.alpha, x.beta};
    if (const auto found = compiled.find(key); found != compiled.end()) return found->second;
    Compiled made;
    made.a = matrix(x.m, x.k, x.transpose_a, x.a.dtype);
    made.b = matrix(x.k, x.n, x.transpose_b, x.b.dtype);
    made.c = matrix(x.m, x.n, false, x.c.dtype);
#if DNNL_VERSION_MAJOR >= 3
    const dnnl::matmul::primitive_desc desc(engine, made.a, made.b, made.c, scaling(x.alpha, x.beta));
#else
    const dnnl::matmul::primitive_desc desc({made.a, made.b, made.c}, scaling(x.alpha, x.beta), engine);
#endif
    made.primitive = dnnl::matmul(desc);
    return compiled.emplace(key, std::move(made)).first->second;
  }

  void run_bf16(Workers& workers, const MatmulArgs& x) {
    const std::lock_guard lock(mutex);
    const Compiled& op = get(workers.threads(), x);
    memory a(op.a, engine, const_cast<void*>(x.a.data));
    memory b(op.b, engine, const_cast<void*>(x.b.data));
    memory c(op.c, engine, x.c.data);
    op.primitive.execute(stream, {{DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, b}, {DNNL_ARG_DST, c}});
    stream.wait();
  }
};

namespace {

/// Through fp32, for dtypes that oneDNN does not multiply on this machine.
template <class T>
void run_widened(Workers& workers, const MatmulArgs& x) {
  Scratch& scratch = workers.scratch();
  float* a = scratch.floats(1, x.a.numel);
  float* b = scratch.floats(2, x.b.numel);
  widen_all(workers, a, x.a.as<T>(), x.a.numel);
  widen_all(workers, b, x.b.as<T>(), x.b.numel);
  const bool low_c = x.c.dtype != DType::fp32;
  float* c = low_c ? scratch.floats(3, x.c.numel) : x.c.as<float>();
  if (low_c && x.beta != 0) widen_all(workers, c, x.c.as<T>(), x.c.numel);
  sgemm(x.transpose_a, x.transpose_b, x.m, x.n, x.k, x.alpha, a, x.transpose_a ? x.m : x.k, b,
        x.transpose_b ? x.k : x.n, x.beta, c, x.n);
  if (low_c) {
    T* out = x.c.as<T>();
    workers.split(x.c.numel, [&](std::int64_t begin, std::int64_t end) {
      for_lanes(begin, end, [&](std::int64_t i, auto part) { store(out + i, load(c + i, part), part); });
    });
  }
}

}  // namespace

MatmulEngine::MatmulEngine() : impl_(std::make_unique<Impl>()) {}
MatmulEngine::~MatmulEngine() = default;

void MatmulEngine::run(Workers& workers, const MatmulArgs& x) {
  use_threads(workers.threads());
  switch (x.a.dtype) {
    case DType::bf16: return impl_->run_bf16(workers, x);
    case DType::fp16: return run_widened<Float16>(workers, x);
    default:
      sgemm(x.transpose_a, x.transpose_b, x.m, x.n, x.k, x.alpha, x.a.as<float>(), x.transpose_a ? x.m : x.k,
            x.b.as<float>(), x.transpose_b ? x.k : x.n, x.beta, x.c.as<float>(), x.n);
  }
}

void CpuOps::matmul(Stream& stream, const MatmulArgs& args) {
  constexpr auto op = "matmul";
  if (args.m < 0 || args.n < 0 || args.k < 0) reject(op, "m, n or k is negative");
  check_numel(op, "a", args.a, args.m * args.k);
  check(op, "b", args.b, args.a.dtype, args.k * args.n);
  check_numel(op, "c", args.c, args.m * args.n);
  visit_low(op, "a", args.a.dtype,
            [&](auto low) { visit_grad<decltype(low)>(op, "c", args.c.dtype, [](auto) {}); });
  if (args.c.empty()) return;
  if (args.k == 0) {
    if (args.beta == 0)
      fill(stream, args.c, 0);
    else
      scale(stream, args.c, args.beta);
    return;
  }
  run(stream, [this, args](Workers& workers) { matmul_.run(workers, args); });
}

}  // namespace zero1::cpu
