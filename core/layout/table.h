// Layouts as tables for people. Machines read JSON.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "core/layout/buffer_layout.h"

namespace zero1 {

/// A list longer than this many rows is cut, and says so. SIZE_MAX shows everything.
inline constexpr std::size_t default_table_rows = 24;

/// Buffers with their buckets and parameters, and which ranks own each parameter.
std::string layout_table(const Layout& layout, std::string_view title,
                         std::size_t max_rows = default_table_rows);

/// What one rank owns: its rows with all four ranges, buffer by buffer. A buffer that fewer ranks share
/// says so. Throws InputError if no buffer has such a rank.
std::string rank_table(const Layout& layout, int rank, std::size_t max_rows = default_table_rows);

/// Where one parameter lies and which rank holds which part of it.
std::string param_table(const Layout& layout, int param, std::size_t max_rows = default_table_rows);

}  // namespace zero1
