// Ops::matmul through cuBLAS.
#include "core/device/cuda/cuda_ops.h"
#include "core/device/cuda/cuda_stream.h"

namespace zero1::cuda {

void CudaOps::matmul(Stream& stream, const MatmulArgs& args) {
  constexpr auto op = "matmul";
  check_matmul(args);
  visit_low(op, "a", args.a.dtype,
            [&](auto low) { visit_grad<decltype(low)>(op, "c", args.c.dtype, [](auto) {}); });
  const QueuedStream& ours = cuda_stream(stream);
  if (args.c.empty()) return;
  if (args.k == 0) {
    if (args.beta == 0)
      fill(stream, args.c, 0);
    else
      scale(stream, args.c, args.beta);
    return;
  }
  Product product;
  product.a = {args.a.data, args.transpose_a ? args.m : args.k, 0, args.transpose_a};
  product.b = {args.b.data, args.transpose_b ? args.k : args.n, 0, args.transpose_b};
  product.c = args.c.data;
  product.c_row = args.n;
  product.m = args.m;
  product.n = args.n;
  product.k = args.k;
  product.in = args.a.dtype;
  product.out = args.c.dtype;
  product.alpha = args.alpha;
  product.beta = args.beta;
  ours.use_gpu();
  blas_.run(ours.handle(), product);
}

}  // namespace zero1::cuda
