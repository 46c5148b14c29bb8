// The tensors of one model in safetensors, whatever files they lie in.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/data/safetensors.h"

namespace zero1 {

/// Opened from one of:
///  - a .safetensors file that is the whole model;
///  - a .safetensors.index.json, which says in which of the files beside it each tensor lies;
///  - a folder: with the one index or the one file in it, or with the shards that PyTorch's distributed
///    checkpoint writes for Hugging Face (metadata DCP_SHARDING_INFO), whose pieces become whole tensors
///    again.
/// A file that is only a part of a model is refused: one that an index beside it names together with others,
/// one that its name says is one of several, and a single such shard.
class TensorFiles {
 public:
  class Tensor {
   public:
    /// Name, dtype and shape of the whole; `bytes` only of a tensor in one piece.
    const SafetensorsEntry* entry = nullptr;

    /// Elements [range) of the whole, row-major. As SafetensorsReader::read_fp32.
    std::vector<float> read_fp32(Range range) const;

   private:
    friend class TensorFiles;
    struct Piece {
      const SafetensorsReader* file = nullptr;
      const SafetensorsEntry* entry = nullptr;
      std::vector<std::int64_t> offsets;  ///< of its first element in the whole, by dimension
    };
    void read_piece(const Piece& piece, Range range, std::vector<float>& values) const;
    std::vector<Piece> pieces_;
  };

  /// Throws InputError that names file and tensor: whatever SafetensorsReader refuses; an index that names
  /// files elsewhere or does not agree with them; pieces that overlap, leave gaps or differ in dtype; parts.
  explicit TensorFiles(const std::string& path);

  const std::map<std::string, Tensor>& tensors() const { return tensors_; }
  const Tensor* find(const std::string& name) const;
  /// Of the first file.
  const std::map<std::string, std::string>& metadata() const;
  /// How many shards were put together; 0 where tensors were whole.
  std::size_t merged_shards() const { return merged_shards_; }

 private:
  void open_file(const std::string& path);
  void open_index(const std::string& path);
  void open_folder(const std::string& path);
  void open_shards(const std::string& folder, const std::vector<std::string>& names);
  void check_same_origin(const SafetensorsReader& file, const std::string& path,
                         const std::string& name) const;
  void check_whole(Tensor& tensor, const std::string& folder);
  const SafetensorsReader& add(const std::string& path);

  std::vector<std::unique_ptr<SafetensorsReader>> files_;
  std::vector<std::unique_ptr<SafetensorsEntry>> merged_;  ///< what the entries of merged tensors point at
  std::map<std::string, Tensor> tensors_;
  std::size_t merged_shards_ = 0;
};

/// Throws InputError where the file is one part of a model in several. Opened already, as `file`.
void refuse_part_of_model(const SafetensorsReader& file, const std::string& path);

}  // namespace zero1
