#include "apps/zero1/metrics_file.h"

#include <fmt/core.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "core/base/error.h"

namespace zero1::app {

MetricsFile::MetricsFile(std::string path) : path_(std::move(path)), csv_(path_.ends_with(".csv")) {
  if (!path_.empty()) open(std::ios::app);
}

void MetricsFile::open(std::ios::openmode mode) {
  out_.open(path_, mode);
  if (!out_)
    throw InputError(fmt::format("--metrics {}: cannot be written: {}", path_, std::strerror(errno)));
}

void MetricsFile::write(const StepMetrics& step) {
  if (path_.empty()) return;
  if (!begun_) {
    out_.close();
    open(std::ios::trunc);
    begun_ = true;
    if (csv_) out_ << csv_header() << '\n';
  }
  out_ << (csv_ ? to_csv(step) : to_json(step)) << '\n' << std::flush;
}

void MetricsFile::finish() {
  if (!path_.empty() && !out_.flush()) throw Error(fmt::format("--metrics {}: writing failed", path_));
}

}  // namespace zero1::app
