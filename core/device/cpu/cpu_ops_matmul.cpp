// Ops::matmul: checks, the route through fp32 where a dtype has no products of its own.
#include "core/device/cpu/cpu_ops.h"
#include "core/device/cpu/vec.h"

namespace zero1::cpu {

namespace {

template <class Dst, class Src>
void convert(Workers& workers, Dst* dst, const Src* src, std::int64_t elems) {
  workers.split(elems, [&](std::int64_t begin, std::int64_t end) {
    for_lanes(begin, end, [&](std::int64_t i, auto part) { store(dst + i, load(src + i, part), part); });
  });
}

ProductShape shape_of(const MatmulArgs& x) {
  ProductShape shape;
  shape.m = x.m;
  shape.n = x.n;
  shape.k = x.k;
  shape.transpose_a = x.transpose_a;
  shape.transpose_b = x.transpose_b;
  shape.stride_a = x.transpose_a ? x.m : x.k;
  shape.stride_b = x.transpose_b ? x.k : x.n;
  shape.stride_c = x.n;
  shape.in = x.a.dtype;
  shape.out = x.c.dtype;
  shape.alpha = x.alpha;
  shape.beta = x.beta;
  return shape;
}

template <class Low>
void run_widened(Workers& workers, ProductCache& products, const MatmulArgs& x) {
  Scratch& scratch = workers.scratch();
  float* a = scratch.floats(1, x.a.numel);
  float* b = scratch.floats(2, x.b.numel);
  convert(workers, a, x.a.as<Low>(), x.a.numel);
  convert(workers, b, x.b.as<Low>(), x.b.numel);
  ProductShape shape = shape_of(x);
  shape.in = shape.out = DType::fp32;
  const Product& product = products.get(workers.threads(), shape);
  if (x.c.dtype == DType::fp32) {
    product(a, b, x.c.data, scratch, 0);
    return;
  }
  float* c = scratch.floats(3, x.c.numel);
  if (x.beta != 0) convert(workers, c, x.c.as<Low>(), x.c.numel);
  product(a, b, c, scratch, 0);
  convert(workers, x.c.as<Low>(), c, x.c.numel);
}

}  // namespace

void CpuOps::matmul(Stream& stream, const MatmulArgs& args) {
  constexpr auto op = "matmul";
  check_matmul(args);
  visit_low(op, "a", args.a.dtype, [&](auto low) {
    using Low = decltype(low);
    visit_grad<Low>(op, "c", args.c.dtype, [](auto) {});
    if (args.c.empty()) return;
    if (args.k == 0) {
      if (args.beta == 0)
        fill(stream, args.c, 0);
      else
        scale(stream, args.c, args.beta);
      return;
    }
    run(stream, [this, args](Workers& workers) {
      if (!products_.supports(args.a.dtype)) return run_widened<Low>(workers, products_, args);
      products_.get(workers.threads(), shape_of(args))(args.a.data, args.b.data, args.c.data,
                                                       workers.scratch(), 0);
    });
  });
}

}  // namespace zero1::cpu
