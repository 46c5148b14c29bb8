#include "core/comm/communicator.h"

namespace zero1 {

std::string_view name(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum: return "sum";
    case ReduceOp::average: return "average";
    case ReduceOp::max: return "max";
  }
  return "unknown";
}

}  // namespace zero1
