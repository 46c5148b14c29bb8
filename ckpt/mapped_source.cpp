#include "ckpt/mapped_source.h"

#include <algorithm>
#include <list>
#include <map>
#include <mutex>
#include <string_view>

namespace zero1::ckpt {

/// Transposed matrices, the one used last in front.
struct MappedSource::Held {
  struct Matrix {
    int param;
    State state;
    std::shared_ptr<const std::vector<float>> values;
  };

  explicit Held(int most_matrices) : most(static_cast<std::size_t>(most_matrices)) {}

  template <class Make>
  std::shared_ptr<const std::vector<float>> find_or(int param, State state, Make&& make) {
    const std::lock_guard lock(mutex);
    const auto found = std::find_if(matrices.begin(), matrices.end(), [&](const Matrix& each) {
      return each.param == param && each.state == state;
    });
    if (found != matrices.end()) {
      matrices.splice(matrices.begin(), matrices, found);
    } else {
      while (matrices.size() >= most) matrices.pop_back();  // before there is one more
      matrices.push_front({param, state, std::make_shared<const std::vector<float>>(make())});
    }
    return matrices.front().values;
  }

  std::mutex mutex;
  const std::size_t most;
  std::list<Matrix> matrices;
};

namespace {

std::vector<float> read_transposed(const ElementSource& source, int param, State state,
                                   const std::vector<std::int64_t>& shape) {
  const std::int64_t rows = shape[0];
  const std::int64_t columns = shape[1];
  std::vector<float> result(static_cast<std::size_t>(rows * columns));
  constexpr std::int64_t block_elems = 256 << 10;
  const std::int64_t block_rows = std::max<std::int64_t>(1, block_elems / std::max<std::int64_t>(1, columns));
  std::vector<float> block;
  for (std::int64_t first = 0; first < rows && columns > 0; first += block_rows) {
    const std::int64_t count = std::min(block_rows, rows - first);
    block.resize(static_cast<std::size_t>(count * columns));
    source.read(param, state, {first * columns, (first + count) * columns}, block.data());
    block = transpose(block, count, columns);
    for (std::int64_t c = 0; c < columns; ++c)
      std::copy_n(block.begin() + c * count, count, result.begin() + c * rows + first);
  }
  return result;
}

}  // namespace

MappedSource::MappedSource(const ElementSource& source, std::vector<Param> params, int matrices_held)
    : source_(source), params_(std::move(params)), held_(std::make_unique<Held>(matrices_held)) {}

MappedSource::~MappedSource() = default;

void MappedSource::read(int param, State state, Range param_range, float* out) const {
  const Param& from = params_[static_cast<std::size_t>(param)];
  if (!from.turned) {
    source_.read(from.source, state, param_range, out);
    return;
  }
  const auto values = held_->find_or(
      param, state, [&] { return read_transposed(source_, from.source, state, *from.turned); });
  std::copy(values->begin() + param_range.start, values->begin() + param_range.end, out);
}

MappedSource::Param mapped_param(int index, const MappedTensor& tensor) {
  return {index, tensor.transposed ? std::optional(tensor.stored_shape()) : std::nullopt};
}

std::vector<NamedShape> named_shapes(const std::vector<ParamSpec>& specs) {
  std::vector<NamedShape> result;
  for (const ParamSpec& spec : specs) result.push_back({spec.name, spec.shape});
  return result;
}

void rename_groups(std::vector<ParamGroup>& groups, const std::vector<MappedTensor>& tensors) {
  std::map<std::string_view, const MappedTensor*> by_stored_name;
  for (const MappedTensor& tensor : tensors) by_stored_name[tensor.stored] = &tensor;
  for (ParamGroup& group : groups) {
    std::vector<std::string> params;
    for (const std::string& param : group.params) {
      const auto found = by_stored_name.find(param);
      if (found != by_stored_name.end() && !found->second->excluded) params.push_back(found->second->name);
    }
    group.params = std::move(params);
  }
}

}  // namespace zero1::ckpt
