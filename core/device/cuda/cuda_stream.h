// The CUDA device's streams and events.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>

#include "core/device/cuda/cuda_device.h"
#include "core/device/cuda/cuda_memory.h"
#include "core/device/cuda/stamp_resolver.h"
#include "core/device/cuda/token_fault.h"

namespace zero1::cuda {

/// What a rank's streams share with its device.
struct Shared {
  int ordinal;
  CudaMemory memory;
  StampResolver stamps;
  std::shared_ptr<StreamFailure> failure = std::make_shared<StreamFailure>();

  /// The GPU must be current.
  Shared(int gpu, int rank) : ordinal(gpu), memory(gpu, rank), stamps(gpu) {}
};

/// A non-blocking stream: it is ordered with others by events only, never through the default stream.
class QueuedStream final : public CudaStream {
 public:
  QueuedStream(std::shared_ptr<Shared> shared, StreamKind kind);
  ~QueuedStream() override;  ///< drains; an error that nobody has seen is logged

  StreamKind kind() const override { return kind_; }
  cudaStream_t handle() const override { return handle_; }
  int ordinal() const override { return shared_->ordinal; }
  std::shared_ptr<StreamFailure> failure() const override { return shared_->failure; }

  void record(Event& event) override;
  void wait(Event& event) override;
  void synchronize() override;
  void stamp(std::function<void(std::int64_t)> reached) override;

  // NVTX ranges, one domain per kind of stream: Nsight Systems shows what the host submitted in them.
  bool has_profiler() const override { return true; }
  void begin_range(const char* title) override;
  void end_range() override;

  /// Makes this stream's GPU current: what every operation begins with.
  void use_gpu() const;

  /// At least `bytes` of memory for intermediate results, aligned to 256 bytes. Its content is valid
  /// until the next call: operations of one stream use it one after the other.
  void* scratch(std::int64_t bytes);

  TokenFaults& faults() { return *faults_; }

 private:
  void drain();

  std::shared_ptr<Shared> shared_;
  StreamKind kind_;
  cudaStream_t handle_ = nullptr;
  std::shared_ptr<TokenFaults> faults_;
  std::shared_ptr<StampResolver::Line> line_;
  CudaMemory scratch_memory_;  ///< of its own: kept blocks are in the order of this stream
  void* scratch_ = nullptr;
  std::int64_t scratch_bytes_ = 0;
};

class CudaEvent final : public Event {
 public:
  explicit CudaEvent(std::shared_ptr<Shared> shared);
  ~CudaEvent() override;

  bool reached() const override;
  void synchronize() override;

  cudaEvent_t handle() const { return handle_; }
  /// The stream's faults as of the record: `synchronize` throws them.
  void recorded_on(std::shared_ptr<TokenFaults> faults);

 private:
  std::shared_ptr<Shared> shared_;
  cudaEvent_t handle_ = nullptr;
  std::mutex mutex_;  ///< one thread may record what another waits for
  std::shared_ptr<TokenFaults> faults_;
};

/// The stream or event as one of ours; std::invalid_argument when it belongs to another kind of device.
QueuedStream& cuda_stream(Stream& stream);
CudaEvent& cuda_event(Event& event);

}  // namespace zero1::cuda
