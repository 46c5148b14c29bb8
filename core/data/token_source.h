// Tokens to train on.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/data/token_file.h"

namespace zero1 {

/// A corpus cut into sequences: sequence i is tokens [i·T, i·T + T + 1): T tokens and, shifted by one,
/// T targets. There are floor((tokens - 1) / T) of them; tokens that do not fill one more are never read.
/// Immutable after construction; any thread reads.
class TokenSource : public std::enable_shared_from_this<TokenSource> {
 public:
  /// The tokens of a file (token_file.h), by default its bytes, read when they are asked for. Throws
  /// InputError as TokenFile does, and when it holds fewer than seq_len + 1. The file must stay as it is
  /// while the source lives.
  static std::shared_ptr<const TokenSource> from_file(const std::string& path, std::int64_t seq_len,
                                                      const TokenFileOptions& options = {});
  /// Generated sentences of arithmetic ("12 + 7 = 19."), exactly `bytes` bytes, a function of the seed
  /// alone on every machine: a corpus that needs no file and whose loss can fall far.
  static std::shared_ptr<const TokenSource> arithmetic(std::int64_t bytes, std::int64_t seq_len,
                                                       std::uint64_t seed);
  /// The same sequences; each pass over the corpus visits every one once, in an order that is a function
  /// of (shuffle_seed, pass). Takes no memory per sequence.
  std::shared_ptr<const TokenSource> shuffled(std::uint64_t shuffle_seed) const;

  virtual ~TokenSource() = default;
  virtual std::int64_t sequence_count() const = 0;
  virtual std::int64_t seq_len() const = 0;
  virtual std::string description() const = 0;  ///< for messages: "corpus.txt (12,000 bytes)"

  /// Sequence `index` >= 0, counted over the whole run; past the end the corpus starts over. Writes
  /// seq_len tokens and seq_len targets (host memory).
  virtual void read(std::int64_t index, std::int32_t* tokens, std::int32_t* targets) const = 0;
};

}  // namespace zero1
