#include "core/base/units.h"
namespace zero1 {
std::string format_bytes(std::int64_t b) { return std::to_string(b) + " B"; }
}
