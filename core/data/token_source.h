// Tokens to train on. A token is a byte.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace zero1 {

/// A corpus cut into sequences: sequence i is bytes [i·T, i·T + T + 1): T tokens and, shifted by one,
/// T targets. Immutable after construction; any thread reads.
class TokenSource {
 public:
  /// The bytes of a file. Throws InputError when it cannot be read or holds fewer than seq_len + 1 bytes.
  static std::shared_ptr<const TokenSource> from_file(const std::string& path, std::int64_t seq_len);
  /// Generated sentences of arithmetic, a function of the seed.
  static std::shared_ptr<const TokenSource> arithmetic(std::int64_t bytes, std::int64_t seq_len,
                                                       std::uint64_t seed);
  /// With `shuffle_seed`, each pass over the corpus visits its sequences in a seeded random order.
  std::shared_ptr<const TokenSource> shuffled(std::uint64_t shuffle_seed) const;

  virtual ~TokenSource() = default;
  virtual std::int64_t sequence_count() const = 0;
  virtual std::int64_t seq_len() const = 0;
  virtual std::string description() const = 0;

  /// Sequence `index`, counted over the whole run; past the end the corpus starts over. Writes seq_len
  /// tokens and seq_len targets.
  virtual void read(std::int64_t index, std::int32_t* tokens, std::int32_t* targets) const = 0;
};

}  // namespace zero1
