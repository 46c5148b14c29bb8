// Copies and fills. Pageable host memory is special, as in CUDA: it is read and written before the call
// returns, which CUDA does not promise of asynchronous calls, so that with random delays it is not.
#include <cuda_runtime.h>

#include <cstring>
#include <string>
#include <vector>

#include "runtime/errors.h"
#include "runtime/machine.h"

using namespace cuda_emulation;

namespace {

struct Rows {
  std::size_t width;
  std::size_t height = 1;
  std::size_t dst_pitch = 0;
  std::size_t src_pitch = 0;

  std::size_t extent(std::size_t pitch) const { return height == 0 ? 0 : (height - 1) * pitch + width; }
};

void copy_rows(void* dst, const void* src, const Rows& rows) {
  for (std::size_t row = 0; row < rows.height; ++row) {
    std::memcpy(static_cast<char*>(dst) + row * rows.dst_pitch,
                static_cast<const char*>(src) + row * rows.src_pitch, rows.width);
  }
}

const char* words(const Place& place) {
  switch (place.kind) {
    case Place::Kind::pageable: return "pageable host memory";
    case Place::Kind::pinned: return "pinned host memory";
    case Place::Kind::device: return place.live ? "GPU memory" : "freed GPU memory";
  }
  return "";
}

/// Does [pointer, pointer + bytes) lie inside memory of the kind that the call says?
cudaError_t check_end(const char* call, const char* end, const void* pointer, const Place& place,
                      bool on_device, bool any, std::size_t bytes) {
  const bool is_device = place.kind == Place::Kind::device;
  const std::string what = std::string(call) + ": " + end + " " + hex(pointer) + " is " + words(place);
  if (!place.live || (!any && is_device != on_device)) {
    return fail(cudaErrorInvalidValue,
                what + (on_device ? ", expected GPU memory" : ", expected host memory"));
  }
  const auto offset = reinterpret_cast<std::uintptr_t>(pointer) - place.start;
  if (place.kind != Place::Kind::pageable && offset + bytes > place.bytes) {
    return fail(cudaErrorInvalidValue, what + " with " + std::to_string(place.bytes - offset) +
                                           " bytes left, of which the call touches " + std::to_string(bytes));
  }
  return cudaSuccess;
}

struct Copy {
  const char* call;
  void* dst;
  const void* src;
  Rows rows;
  cudaMemcpyKind kind;
};

cudaError_t copy(const Copy& c, const Ref<Queue>& queue, bool host_waits) {
  if (c.rows.width == 0 || c.rows.height == 0) return cudaSuccess;
  const Place dst_place = machine().locate(c.dst);
  const Place src_place = machine().locate(c.src);
  const bool any = c.kind == cudaMemcpyDefault;
  const bool to_device = c.kind == cudaMemcpyHostToDevice || c.kind == cudaMemcpyDeviceToDevice;
  const bool from_device = c.kind == cudaMemcpyDeviceToHost || c.kind == cudaMemcpyDeviceToDevice;
  if (const auto error = check_end(c.call, "destination", c.dst, dst_place, to_device, any,
                                   c.rows.extent(c.rows.dst_pitch))) {
    return error;
  }
  if (const auto error =
          check_end(c.call, "source", c.src, src_place, from_device, any, c.rows.extent(c.rows.src_pitch))) {
    return error;
  }
  std::uint64_t number = 0;
  const bool punctual = host_waits || !machine().delays().on();
  if (punctual && src_place.kind == Place::Kind::pageable) {
    Rows rows = c.rows;
    std::vector<char> staged(rows.width * rows.height);
    rows.dst_pitch = rows.width;
    copy_rows(staged.data(), c.src, rows);
    rows = {rows.width, rows.height, c.rows.dst_pitch, rows.width};
    number = submit_in_order(
        queue, [dst = c.dst, rows, staged = std::move(staged)] { copy_rows(dst, staged.data(), rows); });
  } else {
    number = submit_in_order(queue, [c] { copy_rows(c.dst, c.src, c.rows); });
  }
  if (host_waits || (punctual && dst_place.kind == Place::Kind::pageable)) queue->wait(number);
  return cudaSuccess;
}

cudaError_t fill(const char* call, void* dst, int value, std::size_t bytes, const Ref<Queue>& queue) {
  if (bytes == 0) return cudaSuccess;
  if (const auto error = check_end(call, "destination", dst, machine().locate(dst), true, false, bytes))
    return error;
  submit_in_order(queue, [dst, value, bytes] { std::memset(dst, value, bytes); });
  return cudaSuccess;
}

}  // namespace

cudaError_t cudaMemcpy(void* dst, const void* src, std::size_t bytes, cudaMemcpyKind kind) {
  // Copies inside GPU memory are not awaited by the host; neither does CUDA.
  const bool stays_on_gpu =
      machine().locate(dst).kind == Place::Kind::device && machine().locate(src).kind == Place::Kind::device;
  return copy({"cudaMemcpy", dst, src, {bytes}, kind}, queue_of(nullptr), !stays_on_gpu);
}

cudaError_t cudaMemcpyAsync(void* dst, const void* src, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  return copy({"cudaMemcpyAsync", dst, src, {bytes}, kind}, queue_of(stream), false);
}

cudaError_t cudaMemcpy2DAsync(void* dst, std::size_t dst_pitch, const void* src, std::size_t src_pitch,
                              std::size_t width_bytes, std::size_t height, cudaMemcpyKind kind,
                              cudaStream_t stream) {
  if (width_bytes > dst_pitch || width_bytes > src_pitch) return fail(cudaErrorInvalidValue);
  return copy({"cudaMemcpy2DAsync", dst, src, {width_bytes, height, dst_pitch, src_pitch}, kind},
              queue_of(stream), false);
}

cudaError_t cudaMemcpyPeerAsync(void* dst, int dst_device, const void* src, int src_device, std::size_t bytes,
                                cudaStream_t stream) {
  const Place dst_place = machine().locate(dst);
  const Place src_place = machine().locate(src);
  if (bytes != 0 && (dst_place.device != dst_device || src_place.device != src_device)) {
    return fail(cudaErrorInvalidValue, "cudaMemcpyPeerAsync from GPU " + std::to_string(src_device) +
                                           " to GPU " + std::to_string(dst_device) +
                                           " with pointers of GPUs " + std::to_string(src_place.device) +
                                           " and " + std::to_string(dst_place.device) + " (-1: host memory)");
  }
  return copy({"cudaMemcpyPeerAsync", dst, src, {bytes}, cudaMemcpyDeviceToDevice}, queue_of(stream), false);
}

cudaError_t cudaMemset(void* dst, int value, std::size_t bytes) {
  return fill("cudaMemset", dst, value, bytes, queue_of(nullptr));
}

cudaError_t cudaMemsetAsync(void* dst, int value, std::size_t bytes, cudaStream_t stream) {
  return fill("cudaMemsetAsync", dst, value, bytes, queue_of(stream));
}
