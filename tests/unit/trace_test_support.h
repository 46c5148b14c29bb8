// What the trace's tests share: streams without a device, events at given times, temporary files.
#pragma once

#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include "core/base/clock.h"
#include "core/device/stream.h"
#include "core/trace/event.h"

namespace zero1::trace::test {

/// Calls stamps at once (like the CPU's compute stream), or keeps them until `run` (like a queue).
class FakeStream : public Stream {
 public:
  explicit FakeStream(StreamKind kind, bool inlined = true) : kind_(kind), inlined_(inlined) {}
  StreamKind kind() const override { return kind_; }
  void record(zero1::Event&) override {}
  void wait(zero1::Event&) override {}
  void synchronize() override { run(); }
  void stamp(std::function<void(std::int64_t)> reached) override {
    if (inlined_)
      reached(now_ns());
    else
      queue_.push_back(std::move(reached));
  }
  void run() {
    for (auto& reached : queue_) reached(now_ns());
    queue_.clear();
  }
  std::size_t queued() const { return queue_.size(); }

 private:
  StreamKind kind_;
  bool inlined_;
  std::vector<std::function<void(std::int64_t)>> queue_;
};

/// A directory that goes with the test.
class TempDir {
 public:
  TempDir() {
    std::string pattern = (std::filesystem::temp_directory_path() / "zero1-trace-XXXXXX").string();
    path_ = mkdtemp(pattern.data());
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  ~TempDir() { std::filesystem::remove_all(path_); }
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

inline std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

inline void write_file(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

inline Event make_event(Kind kind, std::int64_t begin_ns, std::int64_t end_ns, int rank = 0,
                        StreamId stream = StreamId::compute) {
  Event event;
  event.kind = kind;
  event.begin_ns = begin_ns;
  event.end_ns = end_ns;
  event.rank = static_cast<std::int16_t>(rank);
  event.stream = stream;
  return event;
}

}  // namespace zero1::trace::test
