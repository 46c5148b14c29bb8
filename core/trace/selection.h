// A part of a trace: some ranks, some steps.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/trace/event.h"
#include "core/trace/reader.h"

namespace zero1::trace {

/// Events of these ranks in steps [first_step, end_step). An event that belongs to no step is in no range.
struct Selection {
  std::optional<std::int64_t> first_step;
  std::optional<std::int64_t> end_step;
  std::vector<int> ranks;  ///< ascending; empty: all

  bool all_steps() const { return !first_step && !end_step; }
  bool has_rank(int rank) const;
  bool has_step(std::int64_t step) const;
};

/// "3:5" is steps 3 and 4, "3" that one, "3:" and ":5" are open at one end. Throws InputError that repeats
/// the text.
void parse_steps(const std::string& text, Selection& selection);
/// "0,2-3" is ranks 0, 2 and 3. Throws InputError that repeats the text.
void parse_ranks(const std::string& text, Selection& selection);

/// "ranks 0, 2 and 3, steps [3, 5)"; empty for the whole trace.
std::string describe(const Selection& selection);

/// The selected events, in the order of the file. Throws InputError that says what there is where the trace
/// lacks a rank, or has no event that is selected.
std::vector<Event> read_selected(const Reader& reader, const Selection& selection);

}  // namespace zero1::trace
