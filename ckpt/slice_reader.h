// What a rank saves, read out of its optimizer.
#pragma once

#include <vector>

#include "ckpt/format.h"
#include "core/layout/range_map.h"
#include "core/train/rank_trainer.h"

namespace zero1::ckpt {

/// Reads one rank's slices, as the stored layout cuts them, out of its optimizer. On the rank's thread.
class SliceReader {
 public:
  SliceReader(RankTrainer& trainer, const Layout& stored, int rank);

  std::size_t count() const { return slices_.size(); }
  std::int64_t elems(std::size_t index) const { return slices_[index].elems; }
  std::int64_t bytes() const;

  /// Elements [wanted) of slice number `index`, padding zero. Blocks until they are on the host.
  void read(std::size_t index, Range wanted, float* values);

 private:
  struct Held {
    const BucketShard* shard = nullptr;
    const ParamShard* row = nullptr;
  };
  RankTrainer& trainer_;
  std::vector<Held> held_;                     ///< by parameter
  std::vector<SliceRecord> slices_;            ///< to be written by this rank
  std::vector<std::vector<ParamShard>> rows_;  ///< by buffer, of the stored layout
};

}  // namespace zero1::ckpt
