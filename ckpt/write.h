// Writes a whole checkpoint from any source of elements: resharding, importing, generating.
#pragma once

#include <functional>
#include <string>

#include "ckpt/checkpoint.h"

namespace zero1::ckpt {

struct WriteOptions {
  int workers = 1;                             ///< threads, each with one rank's file at a time
  std::int64_t mem_limit_bytes = 256LL << 20;  ///< for element buffers of all workers together
  bool check_space = true;                     ///< refuse beforehand when the disk has no room
  /// After every buffer written, on the workers' threads, one at a time.
  std::function<void(std::int64_t done_bytes, std::int64_t total_bytes)> on_progress;
  /// When all elements are written, before the checkpoint appears: what it throws leaves nothing behind.
  std::function<void()> before_publishing = {};
};

/// Throws InputError when there is something at `path`, even a link to nowhere. `what` it is to be: "file".
void refuse_existing(const std::string& path, const char* what);

/// Throws InputError when the file system of `folder` has less room than that.
void check_space(const std::string& folder, std::int64_t needed_bytes);

/// The bytes of all slices of a layout, padding included.
std::int64_t slice_bytes(const Layout& layout);

/// Writes the checkpoint `folder`, streaming; it appears whole or not at all, and nothing is left behind on
/// failure. `source` has the parameters of `layout_case`, by index. Throws InputError when `folder` is
/// there already or the disk has no room, Error when writing fails.
void write_checkpoint(const std::string& folder, const RunState& state, const LayoutCase& layout_case,
                      const ElementSource& source, const WriteOptions& options = {});

}  // namespace zero1::ckpt
