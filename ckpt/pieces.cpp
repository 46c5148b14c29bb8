#include "ckpt/pieces.h"

namespace zero1::ckpt {
namespace {

/// The boxes of `flat`, counted inside the sub-array that `prefix` fixes the leading indices of.
void append_boxes(const std::vector<std::int64_t>& shape, std::vector<std::int64_t>& prefix, Range flat,
                  std::vector<Box>& boxes) {
  if (flat.empty()) return;
  const std::size_t dim = prefix.size();
  std::int64_t row = 1;  // elements of one index of this dimension
  for (std::size_t d = dim + 1; d < shape.size(); ++d) row *= shape[d];

  const auto whole_rows = [&](Range rows) {
    if (rows.empty()) return;
    Box box{prefix, std::vector<std::int64_t>(dim, 1)};
    box.start.push_back(rows.start);
    box.count.push_back(rows.size());
    for (std::size_t d = dim + 1; d < shape.size(); ++d) {
      box.start.push_back(0);
      box.count.push_back(shape[d]);
    }
    boxes.push_back(std::move(box));
  };
  const auto part_of_row = [&](std::int64_t index, Range inside) {
    prefix.push_back(index);
    append_boxes(shape, prefix, inside, boxes);
    prefix.pop_back();
  };

  const std::int64_t first_whole = (flat.start + row - 1) / row;
  const std::int64_t end_whole = flat.end / row;
  if (first_whole > end_whole) {  // begins and ends inside one row
    part_of_row(end_whole, flat.shifted(-end_whole * row));
    return;
  }
  if (flat.start < first_whole * row) {
    part_of_row(first_whole - 1, {flat.start - (first_whole - 1) * row, row});
  }
  whole_rows({first_whole, end_whole});
  if (end_whole * row < flat.end) part_of_row(end_whole, {0, flat.end - end_whole * row});
}

}  // namespace

std::vector<Box> boxes_of(const std::vector<std::int64_t>& shape, Range flat) {
  std::vector<Box> boxes;
  std::vector<std::int64_t> prefix;
  append_boxes(shape, prefix, flat, boxes);
  return boxes;
}

}  // namespace zero1::ckpt
