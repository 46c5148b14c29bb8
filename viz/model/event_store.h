// All events in memory, whole, in about a third of their 64 bytes.
//
// A block holds 1024 events, column by column. A column keeps its least value and, for each event, the
// difference to it in as many bits as the largest difference needs: a column whose events agree takes no
// space, and any value is still one load away.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "core/trace/event.h"
#include "viz/model/selection.h"

namespace zero1::viz {

struct EventFilter;

/// The fields of an event as columns. Ends are kept as durations and element ranges as lengths.
enum class Column : std::uint8_t {
  begin,
  duration,
  elem_start,
  elem_count,
  bytes,
  step,
  bucket,
  param,
  rank,
  microbatch,
  layer,
  flags,
  kind,
  stream,
  detail,
  count
};

/// Up to 1024 events that do not change any more. Made on any thread.
class EventBlock {
 public:
  static constexpr int log2_capacity = 10;
  static constexpr std::int64_t capacity = 1 << log2_capacity;

  explicit EventBlock(std::span<const trace::Event> events);

  std::int64_t size() const { return size_; }

  /// Wraps around where a hostile range or time did.
  std::int64_t value(Column column, std::int64_t index) const {
    const Place& place = places_[static_cast<std::size_t>(column)];
    if (place.bits == 0) return static_cast<std::int64_t>(place.least);
    const std::uint64_t bit = static_cast<std::uint64_t>(index) * place.bits;
    std::uint64_t word;
    std::memcpy(&word, data_.get() + place.offset + (bit >> 3), sizeof word);
    return static_cast<std::int64_t>(place.least +
                                     ((word >> (bit & 7)) & (~std::uint64_t{0} >> (64 - place.bits))));
  }
  trace::Event event(std::int64_t index) const;

  /// False: no event of this block matches.
  bool may_match(const EventFilter& filter) const;

 private:
  struct Place {
    std::uint64_t least = 0;
    std::uint32_t offset = 0;  ///< bytes
    std::uint32_t bits = 0;    ///< 0 … 56, or 64
  };

  std::array<Place, static_cast<std::size_t>(Column::count)> places_;
  std::unique_ptr<unsigned char[]> data_;
  std::int64_t size_ = 0;
  // Bit v % 64 is set where an event has value v.
  std::uint64_t kinds_ = 0, ranks_ = 0, buckets_ = 0, params_ = 0;
};

/// Events by number. Belongs to one thread.
class EventStore {
 public:
  std::int64_t size() const {
    return static_cast<std::int64_t>(blocks_.size()) * EventBlock::capacity +
           static_cast<std::int64_t>(tail_.size());
  }
  void append(const trace::Event& event);
  /// A full block, taken as it is where the events so far fill theirs.
  void append(std::unique_ptr<EventBlock> block);

  trace::Event event(EventId id) const;
  std::int64_t begin_ns(EventId id) const { return value(Column::begin, id); }
  std::int64_t duration_ns(EventId id) const { return value(Column::duration, id); }
  std::int64_t end_ns(EventId id) const {
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(begin_ns(id)) +
                                     static_cast<std::uint64_t>(duration_ns(id)));
  }
  trace::Kind kind(EventId id) const { return static_cast<trace::Kind>(value(Column::kind, id)); }
  std::int64_t value(Column column, EventId id) const {
    const auto block = static_cast<std::size_t>(id >> EventBlock::log2_capacity);
    const std::int64_t index = id & (EventBlock::capacity - 1);
    return block < blocks_.size() ? blocks_[block]->value(column, index)
                                  : field(tail_[static_cast<std::size_t>(index)], column);
  }

  /// False: no event of the block that `id` lies in matches.
  bool block_may_match(EventId id, const EventFilter& filter) const {
    const auto block = static_cast<std::size_t>(id >> EventBlock::log2_capacity);
    return block >= blocks_.size() || blocks_[block]->may_match(filter);
  }

  static std::int64_t field(const trace::Event& event, Column column);

 private:
  std::vector<std::unique_ptr<EventBlock>> blocks_;
  std::vector<trace::Event> tail_;
};

}  // namespace zero1::viz
