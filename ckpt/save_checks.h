// Whether a run will be able to save, tried before its first step.
#pragma once

#include "ckpt/train_hooks.h"

namespace zero1::ckpt {

/// Tries in the folder of --save, which is there, whatever the run's saves will need: the names `latest`,
/// `best` and those of its steps, folders, links, renaming, exchanging where a step is there already, and
/// room for one checkpoint, by estimate. Throws InputError that says what is in the way and what helps;
/// leaves nothing behind.
void check_can_save(const SaveOptions& options, const TrainConfig& config);

/// About how many bytes one checkpoint of the run takes.
std::int64_t checkpoint_bytes(const Layout& layout);

}  // namespace zero1::ckpt
