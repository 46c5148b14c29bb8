// One contiguous parameter buffer and one contiguous gradient buffer, and the views into them.
// Megatron: `_ParamAndGradBuffer` and `_ParamAndGradBucket` in param_and_grad_buffer.py.
#pragma once

#include <string>

#include "core/base/at.h"
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

  const BufferLayout& layout() const { return at(layout_->buffers, buffer_); }
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
  Range world(int param) const { return at(layout_->locations, param).world; }
  Range bucket_range(int bucket) const { return at(layout().buckets, bucket).world; }

  const Layout* layout_;
  int buffer_;
  DeviceMemory params_;
  DeviceMemory grads_;
};

/// One bucket of one buffer. Megatron: `_ParamAndGradBucket`.
struct BucketRef {
  const ParamAndGradBuffer* buffer = nullptr;
  int bucket = 0;         ///< within the buffer
  int global_bucket = 0;  ///< over all buffers: the number in traces and messages

  const BucketLayout& layout() const { return at(buffer->layout().buckets, bucket); }
  TensorView params() const { return buffer->bucket_params(bucket); }
  TensorView grads() const { return buffer->bucket_grads(bucket); }
  TensorView params_of(int rank) const { return buffer->shard_params(bucket, rank); }
  TensorView grads_of(int rank) const { return buffer->shard_grads(bucket, rank); }
};

/// For messages: "parameter 'h.0.ln_2.bias' (bucket 1)".
std::string describe_param(const Layout& layout, int param);

}  // namespace zero1
