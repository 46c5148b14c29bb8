// Token and position embeddings.
#include "core/device/cuda/cuda_ops.h"
#include "core/device/cuda/rows.cuh"

namespace zero1::cuda {

namespace {

__device__ bool in_vocabulary(std::int32_t token, std::int64_t vocab) {
  return token >= 0 && token < vocab;
}

template <class T>
struct Embed {
  T* out;
  const std::int32_t* tokens;
  const T* wte;
  const T* wpe;
  std::int64_t vocab, seq_len, channels;

  template <int W>
  __device__ void apply(std::int64_t i) const {
    const std::int64_t c = column_of(i, channels), t = (i - c) / channels;
    const std::int64_t row = in_vocabulary(tokens[t], vocab) ? tokens[t] : 0;
    const Pack<T, W> token = load<W>(wte + row * channels + c);
    const Pack<T, W> position = load<W>(wpe + t % seq_len * channels + c);
    Pack<T, W> sum;
    for (int k = 0; k < W; ++k) sum.at[k] = from_float<T>(to_float(token.at[k]) + to_float(position.at[k]));
    store<W>(out + i, sum);
  }
};

/// The positions of one token form a list in their order: next[t] is the next position with the token of
/// t, or -1; is_first[t] marks where lists begin. n² comparisons, which for a micro-batch's few thousand
/// tokens take some 50 µs; atomics would be faster and would give another order in every run.
__global__ void link_tokens_kernel(std::int32_t* next, std::int32_t* is_first, const std::int32_t* tokens,
                                   std::int64_t n, std::int64_t vocab) {
  for (std::int64_t t = first_item(); t < n; t += item_stride()) {
    const std::int32_t token = tokens[t];
    bool seen = !in_vocabulary(token, vocab);  // a bad token starts no list
    for (std::int64_t s = 0; s < t && !seen; ++s) seen = tokens[s] == token;
    std::int64_t following = t + 1;
    while (following < n && tokens[following] != token) ++following;
    is_first[t] = seen ? 0 : 1;
    next[t] = following < n ? static_cast<std::int32_t>(following) : -1;
  }
}

/// One block per list and tile of columns: the sum stays in a register, rounded after every addition.
template <class Grad, class Low>
__global__ void add_token_rows_kernel(Grad* d_wte, const Low* d_out, const std::int32_t* tokens,
                                      const std::int32_t* next, const std::int32_t* is_first, std::int64_t n,
                                      std::int64_t channels) {
  const std::int64_t c = first_item();
  if (c >= channels) return;
  for (std::int64_t start = blockIdx.y; start < n; start += gridDim.y) {
    if (is_first[start] == 0) continue;
    Grad* target = d_wte + tokens[start] * channels + c;
    Grad sum = *target;
    for (std::int64_t t = start; t >= 0; t = next[t]) {
      sum = from_float<Grad>(to_float(sum) + to_float(d_out[t * channels + c]));
    }
    *target = sum;
  }
}

/// One thread per element of the position table; sequences are added in order.
template <class Grad, class Low>
__global__ void add_position_rows_kernel(Grad* d_wpe, const Low* d_out, std::int64_t n_tokens,
                                         std::int64_t seq_len, std::int64_t channels) {
  const std::int64_t elems = seq_len * channels;
  for (std::int64_t i = first_item(); i < elems; i += item_stride()) {
    Grad sum = d_wpe[i];
    for (std::int64_t at = i; at < n_tokens * channels; at += elems) {
      sum = from_float<Grad>(to_float(sum) + to_float(d_out[at]));
    }
    d_wpe[i] = sum;
  }
}

struct Tokens {
  const std::int32_t* data;
  std::int64_t count;
};

template <class Grad, class Low>
void add_token_rows(QueuedStream& stream, TensorView d_wte, ConstTensorView d_out, Tokens tokens,
                    std::int64_t channels) {
  auto* next = static_cast<std::int32_t*>(stream.scratch(2 * tokens.count * 4));
  std::int32_t* is_first = next + tokens.count;
  launch(&link_tokens_kernel, blocks_for(tokens.count, 128), 128, 0, stream.handle(), next, is_first,
         tokens.data, tokens.count, d_wte.numel / channels);
  launch(&add_token_rows_kernel<Grad, Low>, column_grid(channels, tokens.count), threads_per_block, 0,
         stream.handle(), pointer<Grad>(d_wte), pointer<Low>(d_out), tokens.data, next, is_first,
         tokens.count, channels);
}

}  // namespace

void CudaOps::embedding_forward(Stream& stream, TensorView out, const std::int32_t* tokens,
                                ConstTensorView wte, ConstTensorView wpe, std::int64_t n_tokens,
                                std::int64_t seq_len, std::int64_t channels) {
  check_embedding_forward(out, wte, wpe, n_tokens, seq_len, channels);
  visit_low("embedding_forward", "out", out.dtype, [&](auto type) {
    using T = decltype(type);
    QueuedStream& ours = cuda_stream(stream);
    if (out.empty()) return;
    ours.use_gpu();
    const std::int64_t vocab = wte.numel / channels;
    ours.faults().check(ours.handle(), tokens, n_tokens, vocab, TokenFault::token);
    constexpr int width = pack_width<T>;
    const Cut cut = row_cut(out.numel, channels, width, {operand(out), operand(wte), operand(wpe)});
    for_elements<width>(
        ours, out.numel, cut,
        Embed<T>{pointer<T>(out), tokens, pointer<T>(wte), pointer<T>(wpe), vocab, seq_len, channels});
  });
}

void CudaOps::embedding_backward(Stream& stream, TensorView d_wte, TensorView d_wpe, ConstTensorView d_out,
                                 const std::int32_t* tokens, std::int64_t n_tokens, std::int64_t seq_len,
                                 std::int64_t channels) {
  check_embedding_backward(d_wte, d_wpe, d_out, n_tokens, seq_len, channels);
  constexpr auto op = "embedding_backward";
  visit_low(op, "d_out", d_out.dtype, [&](auto low) {
    using Low = decltype(low);
    QueuedStream& ours = cuda_stream(stream);
    if (d_out.empty()) return;
    ours.use_gpu();
    if (d_wte.data != nullptr) {
      ours.faults().check(ours.handle(), tokens, n_tokens, d_wte.numel / channels, TokenFault::token);
      visit_grad<Low>(op, "d_wte", d_wte.dtype, [&](auto grad) {
        add_token_rows<decltype(grad), Low>(ours, d_wte, d_out, {tokens, n_tokens}, channels);
      });
    }
    if (d_wpe.data != nullptr) {
      visit_grad<Low>(op, "d_wpe", d_wpe.dtype, [&](auto grad) {
        using Grad = decltype(grad);
        launch(&add_position_rows_kernel<Grad, Low>, blocks_for(seq_len * channels), threads_per_block, 0,
               ours.handle(), pointer<Grad>(d_wpe), pointer<Low>(d_out), n_tokens, seq_len, channels);
      });
    }
  });
}

}  // namespace zero1::cuda
