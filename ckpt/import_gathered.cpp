#include <fmt/format.h>

#include <algorithm>

#include "ckpt/gathered_file.h"
#include "ckpt/import_source.h"
#include "core/base/error.h"

namespace zero1::ckpt {
namespace {

class GatheredSource : public ImportSource {
 public:
  GatheredSource(const std::string& path, const NameRules& names) : file_(path) {
    std::vector<NamedShape> stored;
    for (const GatheredFile::Param& param : file_.params()) stored.push_back({param.name, param.shape});
    tensors_ = map_tensors(names, stored, StateTensors::none, path);
    for (int i = 0; i < static_cast<int>(tensors_.size()); ++i) {
      if (!tensors_[static_cast<std::size_t>(i)].excluded) file_index_.push_back(i);
    }
    std::sort(file_index_.begin(), file_index_.end(),
              [&](int a, int b) { return natural_less(tensor(a).name, tensor(b).name); });
    for (const int index : file_index_) params_.push_back(tensor(index));
    if (params_.empty()) throw InputError(fmt::format("{}: holds no parameter", path));
  }

  const std::vector<MappedTensor>& params() const override { return params_; }
  const std::vector<MappedTensor>& tensors() const override { return tensors_; }
  std::optional<std::string> state_json() const override { return file_.state_json(); }
  std::optional<std::string> layout_json() const override { return file_.layout_json(); }
  std::optional<std::string> model_json() const override { return file_.model_json(); }

  bool has(int param, State state) const override {
    const int index = file_index_[static_cast<std::size_t>(param)];
    return file_.params()[static_cast<std::size_t>(index)].has(state);
  }
  DType dtype(int) const override { return DType::fp32; }

  void read(int param, State state, Range range, float* out) const override {
    if (has(param, state)) {
      file_.read(file_index_[static_cast<std::size_t>(param)], state, range, out);
    } else {
      std::fill(out, out + range.size(), 0.0F);
    }
  }

 private:
  const MappedTensor& tensor(int index) const { return tensors_[static_cast<std::size_t>(index)]; }

  GatheredFile file_;
  std::vector<MappedTensor> tensors_;  ///< by index in the file
  std::vector<MappedTensor> params_;
  std::vector<int> file_index_;  ///< of each of params_
};

}  // namespace

std::unique_ptr<ImportSource> open_gathered(const std::string& path, const NameRules& names) {
  return std::make_unique<GatheredSource>(path, names);
}

}  // namespace zero1::ckpt
