// The one event of a run: what the live view, recordings, overlap figures, the Perfetto export, order
// assertions in tests and the planner's predictions all consist of. docs/trace_format.md has the bytes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace zero1::trace {

inline constexpr std::uint32_t format_version = 1;

/// What happened. Spans have begin_ns < end_ns; instants have begin_ns == end_ns. Values are part of
/// the file format: append, never renumber.
enum class Kind : std::uint8_t {
  none = 0,
  // spans of the training loop (compute stream)
  step = 1,        ///< one whole iteration
  microbatch = 2,  ///< forward and backward of one microbatch
  forward = 3,     ///< forward of one layer
  backward = 4,    ///< backward of one layer
  evaluation = 5,  ///< one evaluation pass
  data = 6,        ///< reading the next batch
  // gradients and buckets (instants, host)
  grad_ready = 10,    ///< a parameter has reported; elem range: its buffer range (world)
  bucket_state = 11,  ///< `detail` is the new BucketState
  // collectives: issue is an instant on the compute stream, run a span on the communication stream,
  // wait a span on the stream that was held up
  collective_issue = 20,  ///< `detail` is the Collective; bytes: what this rank contributes
  collective_run = 21,
  collective_wait = 22,  ///< exposed communication
  // phases of the optimizer step (compute stream)
  scale_gradients = 30,  ///< pre-scaling by gradient_scaling_factor
  check_gradients = 31,  ///< NaN/Inf and magnitude checks
  copy_grads = 32,       ///< owned slices of gradients to fp32 main gradients
  grad_norm = 33,
  clip = 34,
  adamw = 35,
  copy_params = 36,  ///< main parameters to the parameter buffer's slice
  zero_grads = 37,
  // checkpoints (later), memory
  checkpoint_snapshot = 40,
  checkpoint_write = 41,
  checkpoint_publish = 42,
  checkpoint_load = 43,
  memory = 50,  ///< counter: `detail` is the MemoryKind, bytes the allocated bytes
};

enum class Collective : std::uint8_t {
  reduce_scatter,
  all_gather,
  all_reduce,
  broadcast,
  all_to_all,
  barrier
};

/// The life of one bucket within a step.
enum class BucketState : std::uint8_t { accumulating, ready, reducing, reduced, stepped, gathering, current };

/// Which of a rank's queues an event belongs to. Values are part of the file format.
enum class StreamId : std::uint8_t { compute = 0, communication = 1, host = 2 };

/// As Event::detail holds them.
constexpr std::uint8_t detail_of(Collective collective) {
  return static_cast<std::uint8_t>(collective);
}
constexpr std::uint8_t detail_of(BucketState state) {
  return static_cast<std::uint8_t>(state);
}

enum Flags : std::uint16_t {
  modelled_link = 1,    ///< the duration includes a modelled bandwidth or latency
  first_iteration = 2,  ///< ready counts were being learnt
  coalesced = 4,        ///< several buckets in one launch
  last_microbatch = 8,
  predicted = 16,  ///< made by a simulation, not measured
};

/// 64 bytes, little-endian, written to files as it stands. -1 in step, bucket, param, layer: none.
struct Event {
  std::int64_t begin_ns = 0;  ///< on the run's clock, from the run's start
  std::int64_t end_ns = 0;
  std::int64_t elem_start = 0;  ///< element range, half-open; in bucket coordinates for collectives,
  std::int64_t elem_end = 0;    ///< in world coordinates of the buffer for parameters
  std::int64_t bytes = 0;
  std::int32_t step = -1;
  std::int32_t bucket = -1;  ///< global bucket number: buffers in order, buckets in order
  std::int32_t param = -1;   ///< index into the model's parameters, in model order
  std::int16_t rank = 0;
  std::int16_t microbatch = -1;
  std::int16_t layer = -1;  ///< index into the model's layers
  std::uint16_t flags = 0;  ///< a union of Flags
  Kind kind = Kind::none;
  StreamId stream = StreamId::host;
  std::uint8_t detail = 0;  ///< Collective, BucketState or MemoryKind, by kind
  std::uint8_t reserved = 0;
};
static_assert(sizeof(Event) == 64);

std::string_view name(Kind kind);
/// Issue, run or wait of a collective.
constexpr bool is_collective(Kind kind) {
  return kind >= Kind::collective_issue && kind <= Kind::collective_wait;
}
std::string_view name(Collective collective);
std::string_view name(BucketState state);
std::string_view name(StreamId stream);

/// What the event is called on a timeline: "forward h.0", "wait for all-gather bucket 3". `layer` and `param`
/// are the names that its numbers stand for, empty where it has none.
std::string title(const Event& event, std::string_view layer, std::string_view param);

}  // namespace zero1::trace
