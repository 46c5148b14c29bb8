#include "ckpt/slice_reader.h"

#include <algorithm>

namespace zero1::ckpt {
namespace {

TensorView view_of(const BucketShard& shard, State state) {
  switch (state) {
    case State::exp_avg: return shard.exp_avg;
    case State::exp_avg_sq: return shard.exp_avg_sq;
    case State::param: break;
  }
  return shard.main_param;
}

}  // namespace

SliceReader::SliceReader(RankTrainer& trainer, const Layout& stored, int rank)
    : trainer_(trainer), held_(stored.specs.size()), slices_(slices_of_rank(stored, rank)) {
  for (const BucketShard& shard : trainer.optimizer().shards()) {
    for (const ParamShard& row : shard.params) held_[static_cast<std::size_t>(row.param)] = {&shard, &row};
  }
  for (std::size_t b = 0; b < stored.buffers.size(); ++b) {
    RangeMapWalker walker(stored, static_cast<int>(b), rank);
    const auto rows = walker.next();
    rows_.emplace_back(rows.begin(), rows.end());
  }
}

std::int64_t SliceReader::bytes() const {
  std::int64_t elems = 0;
  for (const SliceRecord& slice : slices_) elems += slice.elems;
  return elems * static_cast<std::int64_t>(sizeof(float));
}

void SliceReader::read(std::size_t index, Range wanted, float* values) {
  const SliceRecord& slice = slices_[index];
  std::fill(values, values + wanted.size(), 0.0F);
  RankContext& context = trainer_.context();
  for (const ParamShard& row : rows_[static_cast<std::size_t>(slice.buffer)]) {
    const Range part = intersect(row.gbuf_local, wanted);
    if (row.bucket != slice.bucket || part.empty()) continue;
    const Held& held = held_[static_cast<std::size_t>(row.param)];
    // From this slice to the parameter, and from there to where the run holds it.
    const std::int64_t param_start = row.param_range.start + (part.start - row.gbuf_local.start);
    const Range local =
        part.normalized(param_start + held.row->gbuf_local.start - held.row->param_range.start);
    context.device.copy_to_host(context.compute, values + (part.start - wanted.start),
                                view_of(*held.shard, static_cast<State>(slice.state)).slice(local));
  }
  context.compute.synchronize();
}

}  // namespace zero1::ckpt
