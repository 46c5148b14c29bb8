#include "core/device/cpu/matmul.h"

#include <omp.h>

#include <dnnl.hpp>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "core/base/error.h"

namespace zero1::cpu {

namespace {

using dnnl::memory;

memory::desc matrix(std::int64_t rows, std::int64_t cols, bool transposed, std::int64_t stride, DType dtype) {
  const auto type = dtype == DType::fp32 ? memory::data_type::f32 : memory::data_type::bf16;
  return {{rows, cols}, type, transposed ? memory::dims{1, stride} : memory::dims{stride, 1}};
}

dnnl::primitive_attr attributes(float alpha, float beta) {
  dnnl::post_ops post;
#if DNNL_VERSION_MAJOR >= 3
  if (alpha != 1) post.append_eltwise(dnnl::algorithm::eltwise_linear, alpha, 0);
#else
  if (alpha != 1) post.append_eltwise(1, dnnl::algorithm::eltwise_linear, alpha, 0);
#endif
  if (beta != 0) post.append_sum(beta);
  dnnl::primitive_attr attr;
  attr.set_post_ops(post);
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);  // the library's own is not for several threads
  return attr;
}

dnnl::matmul::primitive_desc describe(const dnnl::engine& engine, const ProductShape& s) {
  const auto a = matrix(s.m, s.k, s.transpose_a, s.stride_a, s.in);
  const auto b = matrix(s.k, s.n, s.transpose_b, s.stride_b, s.in);
  const auto c = matrix(s.m, s.n, false, s.stride_c, s.out);
#if DNNL_VERSION_MAJOR >= 3
  return {engine, a, b, c, attributes(s.alpha, s.beta)};
#else
  return {{a, b, c}, attributes(s.alpha, s.beta), engine};
#endif
}

/// fp32 goes to the BLAS call: measured as fast as the primitive or faster on every shape of a layer.
class Sgemm final : public Product {
 public:
  Sgemm(int threads, const ProductShape& shape) : threads_(threads), shape_(shape) {}

  void operator()(const void* a, const void* b, void* c, Scratch&, int) const override {
    const ProductShape& s = shape_;
    use_threads(threads_);
    const auto status =
        dnnl_sgemm(s.transpose_a ? 'T' : 'N', s.transpose_b ? 'T' : 'N', s.m, s.n, s.k, s.alpha,
                   static_cast<const float*>(a), s.stride_a, static_cast<const float*>(b), s.stride_b, s.beta,
                   static_cast<float*>(c), s.stride_c);
    if (status != dnnl_success) throw Error("dnnl_sgemm failed with status " + std::to_string(status));
  }

 private:
  int threads_;
  ProductShape shape_;
};

class Primitive final : public Product {
 public:
  Primitive(const dnnl::engine& engine, int threads, const dnnl::matmul::primitive_desc& desc)
      : engine_(engine), threads_(threads), desc_(desc), primitive_(desc) {}

  void operator()(const void* a, const void* b, void* c, Scratch& scratch, int slot) const override {
    use_threads(threads_);
    const auto scratchpad = desc_.scratchpad_desc();
    void* pad = scratch.get<char>(slot, static_cast<std::int64_t>(scratchpad.get_size()));
    dnnl::stream stream(engine_);  // unlike primitives, streams are not for several threads
    primitive_.execute(stream,
                       {{DNNL_ARG_SRC, memory(desc_.src_desc(), engine_, const_cast<void*>(a))},
                        {DNNL_ARG_WEIGHTS, memory(desc_.weights_desc(), engine_, const_cast<void*>(b))},
                        {DNNL_ARG_DST, memory(desc_.dst_desc(), engine_, c)},
                        {DNNL_ARG_SCRATCHPAD, memory(scratchpad, engine_, pad)}});
    stream.wait();
  }

 private:
  dnnl::engine engine_;
  int threads_;
  dnnl::matmul::primitive_desc desc_;
  dnnl::matmul primitive_;
};

}  // namespace

void use_threads(int threads) {
  omp_set_num_threads(threads);
}

struct ProductCache::Impl {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  bool bf16 = false;
  std::mutex mutex;
  std::map<std::pair<int, ProductShape>, std::unique_ptr<Product>> compiled;

  Impl() {
    // Without instructions for it oneDNN emulates bf16: four times slower here than fp32 and two conversions.
    constexpr unsigned needed = dnnl_cpu_isa_avx512_core_bf16;  // a mask of everything that it builds on
    if ((static_cast<unsigned>(dnnl_get_effective_cpu_isa()) & needed) != needed) return;
    try {
      const ProductShape probe{64, 64, 64, false, false, 64, 64, 64, DType::bf16, DType::fp32};
      const std::string implementation = describe(engine, probe).impl_info_str();
      bf16 = implementation.find("ref") == std::string::npos;
    } catch (const dnnl::error&) {  // not implemented: products of this kind are widened
    }
  }

  std::unique_ptr<Product> compile(int threads, const ProductShape& shape) const {
    if (shape.in == DType::fp32) return std::make_unique<Sgemm>(threads, shape);
    use_threads(threads);  // a primitive is laid out for the threads of its making
    return std::make_unique<Primitive>(engine, threads, describe(engine, shape));
  }
};

ProductCache::ProductCache() : impl_(std::make_unique<Impl>()) {}
ProductCache::~ProductCache() = default;

/// oneDNN 2 has no fp16 product on CPUs, and oneDNN 3 has fast ones only where AVX512-FP16 is.
bool ProductCache::supports(DType dtype) const {
  return dtype == DType::fp32 || (dtype == DType::bf16 && impl_->bf16);
}

const Product& ProductCache::get(int threads, const ProductShape& shape) {
  const std::lock_guard lock(impl_->mutex);
  auto& product = impl_->compiled[{threads, shape}];
  if (!product) product = impl_->compile(threads, shape);
  return *product;
}

}  // namespace zero1::cpu
