#include "core/comm/nccl/nccl_communicator.h"

#include <fmt/format.h>

#include <utility>

#include "core/base/error.h"
#include "core/comm/local_gpu/reduce.h"
#include "core/comm/nccl/nccl_check.h"

namespace zero1::nccl {
namespace {

using local::Call;
using local::CallKind;

ncclDataType_t nccl_type(DType dtype) {
  switch (dtype) {
    case DType::fp32: return ncclFloat32;
    case DType::bf16: return ncclBfloat16;
    case DType::fp16: return ncclFloat16;
    case DType::fp64: return ncclFloat64;
  }
  throw Error("NCCL: unknown dtype");
}

ncclRedOp_t nccl_op(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum: return ncclSum;
    case ReduceOp::average: return ncclAvg;
    case ReduceOp::max: return ncclMax;
  }
  throw Error("NCCL: unknown reduction");
}

std::size_t count(ConstTensorView view) {
  return static_cast<std::size_t>(view.numel);
}

bool is_maximum(const Call& call) {
  return call.op == ReduceOp::max &&
         (call.kind == CallKind::reduce_scatter || call.kind == CallKind::all_reduce) && !call.out.empty();
}

/// The maximum over the ranks of what has been gathered, one rank's elements after another.
void reduce_maximum(cudaStream_t stream, const Call& call, ConstTensorView gathered) {
  std::vector<const void*> inputs;
  for (std::int64_t start = 0; start < gathered.numel; start += call.out.numel) {
    inputs.push_back(gathered.slice({start, start + call.out.numel}).data);
  }
  local_gpu::reduce(stream, call.out.dtype, ReduceOp::max, inputs, call.out.data, call.out.numel);
}

}  // namespace

NcclCommunicator::NcclCommunicator(std::shared_ptr<local::Group> group, int rank, Device& device, int ordinal,
                                   std::shared_ptr<Watch> watch, std::shared_ptr<Clique> clique)
    : CallCommunicator(std::move(group), rank),
      device_(device),
      ordinal_(ordinal),
      watch_(std::move(watch)),
      clique_(std::move(clique)),
      barrier_(device.allocate(size_bytes(DType::fp32), MemoryKind::communication)) {}

NcclCommunicator::~NcclCommunicator() {
  try {
    if (last_) last_->synchronize();  // what was issued still runs, and uses barrier_
  } catch (const std::exception&) {
    // The launch has failed: nothing runs any more, and whoever waited for it has been told.
  }
}

std::string NcclCommunicator::description() const {
  return nccl_version();
}

Work NcclCommunicator::launch(Stream& stream, local::Launch calls) {
  CudaStream& cuda = gpu::require_cuda_stream(stream, ordinal_);
  const gpu::CurrentGpu current(ordinal_);
  // Memory may be allocated and freed only before the ranks meet: both can wait for GPUs, and behind the
  // meeting a peer's GPU may already be waiting for this rank's kernel.
  const std::vector<TensorView> staging = stage(calls);
  // NCCL itself would wait forever for a rank that calls something else, or write beyond a shorter buffer.
  const auto round = group()->arrive(rank(), group()->issue(rank()), calls);
  group()->depart(*round);
  const std::string what = local::describe(calls);
  const auto flight = std::make_shared<Flight>(what, cuda.failure());
  try {
    if (last_ && last_stream_ != cuda.handle()) stream.wait(*last_);  // it used the same staging memory
    flight->ready.record(cuda.handle());
    clique_->take_off(rank(), flight);
    clique_->call(rank(), [&](ncclComm_t comm) {
      NcclGroup together;
      for (std::size_t i = 0; i < calls.size(); ++i) issue(comm, calls[i], staging[i], cuda.handle());
      together.end();
    });
    try {
      clique_->settle(rank(), what);  // only now it is on the stream
    } catch (const NcclError& error) {
      // It may have failed there already: as when the watch finds that, whoever waits for it is told.
      group()->abort(rank(), error.what(), local::Group::Reach::everywhere);
    }
    for (std::size_t i = 0; i < calls.size(); ++i) {
      if (is_maximum(calls[i])) reduce_maximum(cuda.handle(), calls[i], staging[i]);
    }
    flight->done.record(cuda.handle());
    flight->queued = true;
  } catch (const std::exception& error) {
    // The peers' kernels wait for this one's, or what is on the stream for theirs: the watch will stop them.
    group()->abort(rank(), error.what(), local::Group::Reach::everywhere);
    throw;
  }
  last_ = device_.create_event();
  last_stream_ = cuda.handle();
  stream.record(*last_);
  return Work(last_);
}

std::vector<TensorView> NcclCommunicator::stage(const local::Launch& calls) {
  constexpr std::int64_t line_bytes = 256;
  std::vector<std::int64_t> starts;
  std::int64_t bytes = 0;
  for (const Call& call : calls) {
    starts.push_back(bytes);
    if (is_maximum(call)) bytes += (size() * call.out.bytes() + line_bytes - 1) / line_bytes * line_bytes;
  }
  if (bytes > staging_.bytes()) {
    staging_ = DeviceMemory();  // waits for whoever uses it
    staging_ = device_.allocate(bytes, MemoryKind::communication);
  }
  std::vector<TensorView> views;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const Call& call = calls[i];
    const DType dtype = call.out.dtype;
    views.push_back(is_maximum(call)
                        ? staging_.view(dtype, starts[i] / size_bytes(dtype), size() * call.out.numel)
                        : TensorView());
  }
  return views;
}

void NcclCommunicator::issue(ncclComm_t comm, const Call& call, TensorView staging, cudaStream_t stream) {
  const ncclDataType_t type = nccl_type(call.out.dtype);
  void* out = call.out.data;
  const void* in = call.in.data;
  if (call.kind == CallKind::barrier) {
    ZERO1_CUDA_CHECK(cudaMemsetAsync(barrier_.data(), 0, static_cast<std::size_t>(barrier_.bytes()), stream));
    ZERO1_NCCL_CHECK(ncclAllReduce(barrier_.data(), barrier_.data(), 1, ncclFloat32, ncclMax, comm, stream));
    return;
  }
  if (call.kind == CallKind::all_to_all) return issue_all_to_all(comm, call, stream);
  if (call.out.empty()) return;
  if (is_maximum(call)) return issue_maximum(comm, call, staging, stream);
  switch (call.kind) {
    case CallKind::reduce_scatter:
      ZERO1_NCCL_CHECK(ncclReduceScatter(in, out, count(call.out), type, nccl_op(call.op), comm, stream));
      return;
    case CallKind::all_gather:
      ZERO1_NCCL_CHECK(ncclAllGather(in, out, count(call.in), type, comm, stream));
      return;
    case CallKind::all_reduce:
      ZERO1_NCCL_CHECK(ncclAllReduce(in, out, count(call.out), type, nccl_op(call.op), comm, stream));
      return;
    case CallKind::broadcast:
      ZERO1_NCCL_CHECK(ncclBroadcast(in, out, count(call.out), type, call.root, comm, stream));
      return;
    case CallKind::all_to_all:
    case CallKind::barrier:
    case CallKind::split: return;
  }
}

/// NCCL has no all-to-all of uneven pieces; sends and receives within one group are one.
void NcclCommunicator::issue_all_to_all(ncclComm_t comm, const Call& call, cudaStream_t stream) {
  const ncclDataType_t type = nccl_type(call.out.dtype);
  std::int64_t in_start = 0;
  std::int64_t out_start = 0;
  for (int peer = 0; peer < size(); ++peer) {
    const auto p = static_cast<std::size_t>(peer);
    const ConstTensorView from = call.in.slice({in_start, in_start + call.send_counts[p]});
    const TensorView to = call.out.slice({out_start, out_start + call.receive_counts[p]});
    if (!from.empty()) ZERO1_NCCL_CHECK(ncclSend(from.data, count(from), type, peer, comm, stream));
    if (!to.empty()) ZERO1_NCCL_CHECK(ncclRecv(to.data, count(to), type, peer, comm, stream));
    in_start += from.numel;
    out_start += to.numel;
  }
}

/// Gathers what is to be reduced: of an all-reduce all elements, of a reduce-scatter this rank's piece.
void NcclCommunicator::issue_maximum(ncclComm_t comm, const Call& call, TensorView staging,
                                     cudaStream_t stream) {
  const ncclDataType_t type = nccl_type(call.out.dtype);
  const std::size_t numel = count(call.out);
  if (call.kind == CallKind::all_reduce) {
    ZERO1_NCCL_CHECK(ncclAllGather(call.in.data, staging.data, numel, type, comm, stream));
    return;
  }
  for (int peer = 0; peer < size(); ++peer) {
    const Range piece = Range{0, call.out.numel}.shifted(peer * call.out.numel);
    ZERO1_NCCL_CHECK(ncclSend(call.in.slice(piece).data, numel, type, peer, comm, stream));
    ZERO1_NCCL_CHECK(ncclRecv(staging.slice(piece).data, numel, type, peer, comm, stream));
  }
}

std::unique_ptr<Communicator> NcclCommunicator::join(const std::vector<local::Round::Place>& places) {
  const local::Round::Place& own = places[static_cast<std::size_t>(rank())];
  const gpu::CurrentGpu current(ordinal_);
  // NCCL's colors must not be negative: the new group's first rank here stands for it.
  int color = 0;
  while (places[static_cast<std::size_t>(color)].group != own.group) ++color;
  std::shared_ptr<Clique> clique = watch_->clique(own.group);
  ncclConfig_t config = Clique::config();
  const std::string what = fmt::format("splitting '{}' off '{}'", own.group->name(), name());
  try {
    clique_->call(rank(), [&](ncclComm_t comm) {
      ZERO1_NCCL_CHECK(ncclCommSplit(comm, color, own.rank, clique->arrival(own.rank), &config));
    });
    clique_->settle(rank(), what);
    clique->arrived(own.rank);
    clique->settle(own.rank, what);
  } catch (const std::exception& error) {
    clique_->keep(clique);
    group()->abort(rank(), error.what(), local::Group::Reach::everywhere);
    throw;
  }
  return std::make_unique<NcclCommunicator>(own.group, own.rank, device_, ordinal_, watch_,
                                            std::move(clique));
}

}  // namespace zero1::nccl
