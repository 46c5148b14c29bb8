#include "core/comm/local_gpu/collectives.h"

#include <algorithm>
#include <numeric>

#include "core/comm/gpu/cuda_resources.h"
#include "core/comm/local_gpu/reduce.h"

namespace zero1::local_gpu {
namespace {

/// Staging memory of a rank: long enough copies to run at the link's speed.
constexpr std::int64_t staging_bytes = 16 << 20;
/// Whole cache lines, and what vectorised loads need.
constexpr std::int64_t line_bytes = 256;

/// May kernels on GPU `reader` read the memory of GPU `owner`? Opens the way if there is one.
bool open_peer_access(int reader, int owner) {
  if (reader == owner) return true;
  int possible = 0;
  ZERO1_CUDA_CHECK(cudaDeviceCanAccessPeer(&possible, reader, owner));
  if (possible == 0) return false;
  const gpu::CurrentGpu current(reader);
  const cudaError_t code = cudaDeviceEnablePeerAccess(owner, 0);
  if (code == cudaErrorPeerAccessAlreadyEnabled) {
    static_cast<void>(cudaGetLastError());  // not an error here, and not to be found by the next check
  } else if (code != cudaSuccess) {
    throw CudaError(code, "cudaDeviceEnablePeerAccess", __FILE__, __LINE__);
  }
  return true;
}

}  // namespace

Lane::Lane(Device& device, std::vector<int> ordinals, int rank)
    : device_(device), ordinals_(std::move(ordinals)), rank_(rank) {
  for (const int owner : ordinals_) readable_.push_back(open_peer_access(ordinal(), owner));
}

void Lane::queue(cudaStream_t stream, Calls calls) {
  switch (calls.front()->kind) {
    case local::CallKind::reduce_scatter: return reduce_scatter(stream, calls);
    case local::CallKind::all_gather: return all_gather(stream, calls);
    case local::CallKind::all_reduce: return all_reduce(stream, calls);
    case local::CallKind::broadcast: return broadcast(stream, calls);
    case local::CallKind::all_to_all: return all_to_all(stream, calls);
    case local::CallKind::barrier:
    case local::CallKind::split: return;
  }
}

/// Rank r reduces the r-th piece of all inputs into its output.
void Lane::reduce_scatter(cudaStream_t stream, Calls calls) {
  const Call& own = *calls[static_cast<std::size_t>(rank_)];
  // In place, the output is this rank's piece of its own input, which no peer reads.
  reduce(stream, calls, Range{0, own.out.numel}.shifted(rank_ * own.out.numel), own.out.data);
}

/// Rank r copies every rank's input into its own output.
void Lane::all_gather(cudaStream_t stream, Calls calls) {
  const Call& own = *calls[static_cast<std::size_t>(rank_)];
  for (int step = 0; step < size(); ++step) {
    const int peer = (rank_ + step) % size();  // each begins elsewhere, so that they do not crowd one GPU
    const ConstTensorView from = calls[static_cast<std::size_t>(peer)]->in;
    const TensorView to = own.out.slice(Range{0, from.numel}.shifted(peer * from.numel));
    copy(stream, rank_, to.data, peer, from.data, from.bytes());
  }
}

/// Rank r reduces the r-th piece of all data in its own memory and copies the result to all others. Every
/// element is computed once, by one rank, so that all ranks get the same bits.
void Lane::all_reduce(cudaStream_t stream, Calls calls) {
  const TensorView own = calls[static_cast<std::size_t>(rank_)]->out;
  const std::int64_t line_elems = line_bytes / size_bytes(own.dtype);
  const std::int64_t lines = (own.numel + line_elems - 1) / line_elems;
  const std::int64_t piece_elems = (lines + size() - 1) / size() * line_elems;
  const Range piece = intersect({0, own.numel}, Range{0, piece_elems}.shifted(rank_ * piece_elems));
  if (piece.empty()) return;
  const TensorView result = own.slice(piece);
  reduce(stream, calls, piece, result.data);
  for (int step = 1; step < size(); ++step) {
    const int peer = (rank_ + step) % size();
    const TensorView to = calls[static_cast<std::size_t>(peer)]->out.slice(piece);
    copy(stream, peer, to.data, rank_, result.data, result.bytes());
  }
}

/// Every rank but the root copies the root's data.
void Lane::broadcast(cudaStream_t stream, Calls calls) {
  const Call& own = *calls[static_cast<std::size_t>(rank_)];
  const ConstTensorView from = calls[static_cast<std::size_t>(own.root)]->in;
  copy(stream, rank_, own.out.data, own.root, from.data, from.bytes());
}

/// Rank r copies from every rank the piece that is meant for it.
void Lane::all_to_all(cudaStream_t stream, Calls calls) {
  const Call& own = *calls[static_cast<std::size_t>(rank_)];
  std::int64_t out_start = 0;
  for (int peer = 0; peer < size(); ++peer) {
    const Call& call = *calls[static_cast<std::size_t>(peer)];
    const auto first = call.send_counts.begin();
    const std::int64_t in_start = std::accumulate(first, first + rank_, std::int64_t{0});
    const std::int64_t count = own.receive_counts[static_cast<std::size_t>(peer)];
    const ConstTensorView from = call.in.slice({in_start, in_start + count});
    copy(stream, rank_, own.out.slice({out_start, out_start + count}).data, peer, from.data, from.bytes());
    out_start += count;
  }
}

void Lane::copy(cudaStream_t stream, int to_rank, void* to, int from_rank, const void* from,
                std::int64_t bytes) {
  if (bytes == 0 || to == from) return;
  const int to_gpu = ordinals_[static_cast<std::size_t>(to_rank)];
  const int from_gpu = ordinals_[static_cast<std::size_t>(from_rank)];
  const auto count = static_cast<std::size_t>(bytes);
  if (to_gpu == from_gpu) {
    ZERO1_CUDA_CHECK(cudaMemcpyAsync(to, from, count, cudaMemcpyDeviceToDevice, stream));
  } else {
    ZERO1_CUDA_CHECK(cudaMemcpyPeerAsync(to, to_gpu, from, from_gpu, count, stream));
  }
}

void Lane::reduce(cudaStream_t stream, Calls calls, Range range, void* out) {
  if (range.empty()) return;
  const Call& own = *calls[static_cast<std::size_t>(rank_)];
  const DType dtype = own.out.dtype;
  const auto far = std::count(readable_.begin(), readable_.end(), false);
  std::int64_t block_elems = range.size();
  std::int64_t seat_elems = 0;  // staging for one block of one rank
  if (far > 0) {
    if (!staged()) staging_ = device_.allocate(staging_bytes, MemoryKind::communication);
    seat_elems = staging_bytes / far / line_bytes * line_bytes / size_bytes(dtype);
    block_elems = std::min(block_elems, seat_elems);
  }
  const TensorView result(out, dtype, range.size());
  for (Range block{range.start, 0}; block.start < range.end; block.start = block.end) {
    block.end = std::min(block.start + block_elems, range.end);
    std::vector<const void*> inputs;
    std::int64_t seat = 0;
    for (int peer = 0; peer < size(); ++peer) {
      const ConstTensorView from = calls[static_cast<std::size_t>(peer)]->in.slice(block);
      inputs.push_back(from.data);
      if (readable_[static_cast<std::size_t>(peer)]) continue;
      const TensorView staged_input = staging_.view(dtype, seat++ * seat_elems, block.size());
      copy(stream, rank_, staged_input.data, peer, from.data, from.bytes());
      inputs.back() = staged_input.data;
    }
    local_gpu::reduce(stream, dtype, own.op, inputs, result.slice(block.shifted(-range.start)).data,
                      block.size());
  }
}

}  // namespace zero1::local_gpu
