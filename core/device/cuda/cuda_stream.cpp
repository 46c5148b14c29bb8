#include "core/device/cuda/cuda_stream.h"

#include <nvtx3/nvToolsExt.h>

#include <bit>
#include <exception>
#include <stdexcept>
#include <utility>

#include "core/base/terminal.h"
#include "core/device/cuda/cuda_check.h"

namespace zero1::cuda {

namespace {

cudaStream_t create_handle(StreamKind kind) {
  int least = 0, greatest = 0;  // numerically: 0 is normal, the highest priority is negative
  ZERO1_CUDA_CHECK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  const int priority = kind == StreamKind::communication ? greatest : least;
  cudaStream_t handle = nullptr;
  ZERO1_CUDA_CHECK(cudaStreamCreateWithPriority(&handle, cudaStreamNonBlocking, priority));
  return handle;
}

/// Ranges nest by thread and domain: those of a rank's two streams may overlap.
nvtxDomainHandle_t range_domain(StreamKind kind) {
  static const nvtxDomainHandle_t compute = nvtxDomainCreateA("zero1 compute");
  static const nvtxDomainHandle_t communication = nvtxDomainCreateA("zero1 communication");
  return kind == StreamKind::compute ? compute : communication;
}

}  // namespace

QueuedStream::QueuedStream(std::shared_ptr<Shared> shared, StreamKind kind)
    : shared_(std::move(shared)), kind_(kind), scratch_memory_(shared_->ordinal, shared_->memory.rank()) {
  use_gpu();
  handle_ = create_handle(kind);
  faults_ = std::make_shared<TokenFaults>();
  line_ = shared_->stamps.add_line();
}

QueuedStream::~QueuedStream() {
  try {
    drain();
    if (!faults_->seen()) faults_->rethrow();
  } catch (const std::exception& error) {
    say(stderr, "zero1: a CUDA stream ended with an error nobody asked for: {}\n", Message{error.what()});
  }
  shared_->stamps.remove_line(line_);
  if (scratch_ != nullptr) scratch_memory_.free(scratch_);
  cudaStreamDestroy(handle_);
}

void QueuedStream::record(Event& event) {
  CudaEvent& ours = cuda_event(event);
  use_gpu();
  ZERO1_CUDA_CHECK(cudaEventRecord(ours.handle(), handle_));
  ours.recorded_on(faults_);
}

void QueuedStream::wait(Event& event) {
  use_gpu();
  ZERO1_CUDA_CHECK(cudaStreamWaitEvent(handle_, cuda_event(event).handle(), 0));
}

void QueuedStream::drain() {
  use_gpu();
  ZERO1_CUDA_CHECK(cudaStreamSynchronize(handle_));
  shared_->stamps.resolve(*line_);
}

void QueuedStream::synchronize() {
  drain();
  shared_->failure->rethrow();
  faults_->rethrow();
}

void QueuedStream::stamp(std::function<void(std::int64_t)> reached) {
  use_gpu();
  shared_->stamps.stamp(*line_, handle_, std::move(reached));
}

void QueuedStream::begin_range(const char* title) {
  nvtxEventAttributes_t attributes{};
  attributes.version = NVTX_VERSION;
  attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  attributes.messageType = NVTX_MESSAGE_TYPE_ASCII;
  attributes.message.ascii = title;
  nvtxDomainRangePushEx(range_domain(kind_), &attributes);
}

void QueuedStream::end_range() {
  nvtxDomainRangePop(range_domain(kind_));
}

void QueuedStream::use_gpu() const {
  ZERO1_CUDA_CHECK(cudaSetDevice(shared_->ordinal));
}

void* QueuedStream::scratch(std::int64_t bytes) {
  if (bytes <= scratch_bytes_) return scratch_;
  if (scratch_ != nullptr) scratch_memory_.free(std::exchange(scratch_, nullptr));
  scratch_bytes_ = 0;
  // Doubling ends the growth soon; queued work may go on using the old block, which stays allocated.
  const auto size = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(bytes)));
  scratch_ = scratch_memory_.allocate(size, "intermediate results", Reuse::in_stream_order);
  scratch_bytes_ = size;
  return scratch_;
}

CudaEvent::CudaEvent(std::shared_ptr<Shared> shared) : shared_(std::move(shared)) {
  ZERO1_CUDA_CHECK(cudaSetDevice(shared_->ordinal));
  ZERO1_CUDA_CHECK(cudaEventCreateWithFlags(&handle_, cudaEventDisableTiming));
}

CudaEvent::~CudaEvent() {
  cudaEventDestroy(handle_);
}

bool CudaEvent::reached() const {
  const cudaError_t code = cudaEventQuery(handle_);
  if (code == cudaErrorNotReady) return false;
  ZERO1_CUDA_CHECK(code);
  return true;
}

void CudaEvent::synchronize() {
  ZERO1_CUDA_CHECK(cudaEventSynchronize(handle_));
  shared_->failure->rethrow();
  const std::lock_guard lock(mutex_);
  if (faults_) faults_->rethrow();
}

void CudaEvent::recorded_on(std::shared_ptr<TokenFaults> faults) {
  const std::lock_guard lock(mutex_);
  faults_ = std::move(faults);
}

QueuedStream& cuda_stream(Stream& stream) {
  if (auto* ours = dynamic_cast<QueuedStream*>(&stream)) return *ours;
  throw std::invalid_argument("this stream was not created by a CUDA device");
}

CudaEvent& cuda_event(Event& event) {
  if (auto* ours = dynamic_cast<CudaEvent*>(&event)) return *ours;
  throw std::invalid_argument("this event was not created by a CUDA device");
}

}  // namespace zero1::cuda
