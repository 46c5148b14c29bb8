#include "viz/model/event_store.h"

#include <algorithm>
#include <bit>

#include "viz/model/event_index.h"

namespace zero1::viz {

namespace {

using trace::Event;

constexpr auto column_count = static_cast<std::size_t>(Column::count);

/// Differences of times and ranges without overflow: they wrap, and wrap back.
std::int64_t difference(std::int64_t end, std::int64_t start) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(end) - static_cast<std::uint64_t>(start));
}

std::int64_t sum(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
}

template <Column column>
std::int64_t get(const Event& event) {
  if constexpr (column == Column::begin) return event.begin_ns;
  if constexpr (column == Column::duration) return difference(event.end_ns, event.begin_ns);
  if constexpr (column == Column::elem_start) return event.elem_start;
  if constexpr (column == Column::elem_count) return difference(event.elem_end, event.elem_start);
  if constexpr (column == Column::bytes) return event.bytes;
  if constexpr (column == Column::step) return event.step;
  if constexpr (column == Column::bucket) return event.bucket;
  if constexpr (column == Column::param) return event.param;
  if constexpr (column == Column::rank) return event.rank;
  if constexpr (column == Column::microbatch) return event.microbatch;
  if constexpr (column == Column::layer) return event.layer;
  if constexpr (column == Column::flags) return event.flags;
  if constexpr (column == Column::kind) return static_cast<std::int64_t>(event.kind);
  if constexpr (column == Column::stream) return static_cast<std::int64_t>(event.stream);
  if constexpr (column == Column::detail) return event.detail;
}

/// Calls `visit.template operator()<column>()` for every column.
template <class Visit>
void for_each_column(Visit visit) {
  [&]<std::size_t... i>(std::index_sequence<i...>) {
    (visit.template operator()<static_cast<Column>(i)>(), ...);
  }
  (std::make_index_sequence<column_count>());
}

/// Appends values of `bits` bits each to a buffer of zeros.
class BitWriter {
 public:
  BitWriter(unsigned char* at, std::uint32_t bits) : at_(at), bits_(bits) {}
  ~BitWriter() { std::memcpy(at_, &word_, (filled_ + 7) / 8); }
  BitWriter(const BitWriter&) = delete;
  BitWriter& operator=(const BitWriter&) = delete;

  void put(std::uint64_t value) {
    word_ |= value << filled_;
    filled_ += bits_;
    if (filled_ < 64) return;
    std::memcpy(at_, &word_, sizeof word_);
    at_ += sizeof word_;
    filled_ -= 64;
    word_ = filled_ == 0 ? 0 : value >> (bits_ - filled_);
  }

 private:
  unsigned char* at_;
  std::uint32_t bits_;
  std::uint32_t filled_ = 0;
  std::uint64_t word_ = 0;
};

std::uint64_t mark(std::int64_t value) {
  return std::uint64_t{1} << (static_cast<std::uint64_t>(value) & 63);
}

}  // namespace

EventBlock::EventBlock(std::span<const Event> events) : size_(static_cast<std::int64_t>(events.size())) {
  std::uint32_t offset = 0;
  for_each_column([&]<Column column>() {
    std::int64_t least = INT64_MAX, most = INT64_MIN;
    for (const Event& event : events) {
      least = std::min(least, get<column>(event));
      most = std::max(most, get<column>(event));
    }
    Place& place = places_[static_cast<std::size_t>(column)];
    place.least = static_cast<std::uint64_t>(least);
    place.offset = offset;
    place.bits = static_cast<std::uint32_t>(
        std::bit_width(static_cast<std::uint64_t>(most) - static_cast<std::uint64_t>(least)));
    // A value is read as one word from the byte that it begins in: at most 7 bits lie before it.
    if (place.bits > 56) place.bits = 64;
    offset += static_cast<std::uint32_t>((events.size() * place.bits + 7) / 8);
  });
  data_ = std::make_unique_for_overwrite<unsigned char[]>(offset + sizeof(std::uint64_t));
  std::memset(data_.get() + offset, 0, sizeof(std::uint64_t));
  for_each_column([&]<Column column>() {
    const Place& place = places_[static_cast<std::size_t>(column)];
    if (place.bits == 0) return;
    BitWriter writer(data_.get() + place.offset, place.bits);
    for (const Event& event : events)
      writer.put(static_cast<std::uint64_t>(get<column>(event)) - place.least);
  });
  for (const Event& event : events) {
    kinds_ |= mark(static_cast<std::int64_t>(event.kind));
    ranks_ |= mark(event.rank);
    buckets_ |= mark(event.bucket);
    params_ |= mark(event.param);
  }
}

bool EventBlock::may_match(const EventFilter& filter) const {
  const auto has = [](std::uint64_t marks, std::int64_t value) { return (marks & mark(value)) != 0; };
  return (!filter.kind || has(kinds_, static_cast<std::int64_t>(*filter.kind))) &&
         (!filter.rank || has(ranks_, *filter.rank)) && (!filter.bucket || has(buckets_, *filter.bucket)) &&
         (!filter.param || has(params_, *filter.param));
}

Event EventBlock::event(std::int64_t index) const {
  const auto of = [&](Column column) { return value(column, index); };
  Event event;
  event.begin_ns = of(Column::begin);
  event.end_ns = sum(event.begin_ns, of(Column::duration));
  event.elem_start = of(Column::elem_start);
  event.elem_end = sum(event.elem_start, of(Column::elem_count));
  event.bytes = of(Column::bytes);
  event.step = static_cast<std::int32_t>(of(Column::step));
  event.bucket = static_cast<std::int32_t>(of(Column::bucket));
  event.param = static_cast<std::int32_t>(of(Column::param));
  event.rank = static_cast<std::int16_t>(of(Column::rank));
  event.microbatch = static_cast<std::int16_t>(of(Column::microbatch));
  event.layer = static_cast<std::int16_t>(of(Column::layer));
  event.flags = static_cast<std::uint16_t>(of(Column::flags));
  event.kind = static_cast<trace::Kind>(of(Column::kind));
  event.stream = static_cast<trace::StreamId>(of(Column::stream));
  event.detail = static_cast<std::uint8_t>(of(Column::detail));
  return event;
}

std::int64_t EventStore::field(const Event& event, Column column) {
  std::int64_t result = 0;
  for_each_column([&]<Column candidate>() {
    if (candidate == column) result = get<candidate>(event);
  });
  return result;
}

void EventStore::append(const Event& event) {
  tail_.push_back(event);
  if (tail_.size() < static_cast<std::size_t>(EventBlock::capacity)) return;
  blocks_.push_back(std::make_unique<EventBlock>(tail_));
  tail_.clear();
}

void EventStore::append(std::unique_ptr<EventBlock> block) {
  if (tail_.empty() && block->size() == EventBlock::capacity) {
    blocks_.push_back(std::move(block));
    return;
  }
  for (std::int64_t i = 0; i < block->size(); ++i) append(block->event(i));
}

Event EventStore::event(EventId id) const {
  const auto block = static_cast<std::size_t>(id >> EventBlock::log2_capacity);
  const std::int64_t index = id & (EventBlock::capacity - 1);
  return block < blocks_.size() ? blocks_[block]->event(index) : tail_[static_cast<std::size_t>(index)];
}

}  // namespace zero1::viz
