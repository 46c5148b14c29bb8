// One contiguous parameter buffer and one contiguous gradient buffer, and the views into them.
// Megatron: `_ParamAndGradBuffer` and `_ParamAndGradBucket` in param_and_grad_buffer.py.
#pragma once

#include "core/device/device.h"
#include "core/layout/buffer_layout.h"

namespace zero1 {

/// The memory of one buffer of the layout. A parameter's tensor and its main gradient are views into
/// it; so are a bucket and the shard of a bucket that a rank owns. Padding is zero from the start and
/// stays so: nothing but the collectives and fills ever touches it.
class ParamAndGradBuffer {
 public:
  /// Allocates both buffers and queues their zeroing on `compute`. `layout` must outlive this.
  ParamAndGradBuffer(Device& device, Stream& compute, const Layout& layout, int buffer);

  const BufferLayout& layout() const { return layout_->buffers[static_cast<std::size_t>(buffer_)]; }
  int index() const { return buffer_; }

  TensorView param_data() const { return params_.view(layout().param_dtype); }
  TensorView grad_data() const { return grads_.view(layout().grad_dtype); }

  /// By parameter index; the parameter must lie in this buffer.
  TensorView param(int param) const { return param_data().slice(world(param)); }
  TensorView main_grad(int param) const { return grad_data().slice(world(param)); }

  /// A whole bucket, padding included.
  TensorView bucket_params(int bucket) const { return param_data().slice(bucket_range(bucket)); }
  TensorView bucket_grads(int bucket) const { return grad_data().slice(bucket_range(bucket)); }

  /// The equal piece of a bucket that `rank` owns. Megatron: `shard_buffer`.
  TensorView shard_params(int bucket, int rank) const {
    return bucket_params(bucket).slice(layout().shard_in_bucket(bucket, rank));
  }
  TensorView shard_grads(int bucket, int rank) const {
    return bucket_grads(bucket).slice(layout().shard_in_bucket(bucket, rank));
  }

 private:
  Range world(int param) const { return layout_->locations[static_cast<std::size_t>(param)].world; }
  Range bucket_range(int bucket) const { return layout().buckets[static_cast<std::size_t>(bucket)].world; }

  const Layout* layout_;
  int buffer_;
  DeviceMemory params_;
  DeviceMemory grads_;
};

}  // namespace zero1
