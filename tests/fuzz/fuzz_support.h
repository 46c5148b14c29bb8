// What the fuzzers share: seeds that the program makes itself, files of their inputs, requirements.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/random.h"

/// libFuzzer's own mutation: changes up to `size` bytes, returns the new size, at most `max_size`.
extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);

namespace zero1::fuzz {

/// A folder of this process, on a memory file system where there is one; goes at exit.
class Scratch {
 public:
  Scratch() {
    const char* memory = "/dev/shm";
    const std::filesystem::path parent =
        ::access(memory, W_OK) == 0 ? memory : std::filesystem::temp_directory_path();
    folder_ = (parent / ("zero1-fuzz-" + std::to_string(::getpid()))).string();
    std::filesystem::create_directories(folder_);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  std::string path(const std::string& name) const { return folder_ + "/" + name; }

 private:
  std::string folder_;
};

inline void write_bytes(const std::string& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

inline std::string read_bytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Writes `seeds` into the corpus folder, the last of libFuzzer's arguments, unless it has some already.
inline void plant_seeds(int argc, char** argv, const std::vector<std::string>& seeds) {
  const std::string corpus = argc > 1 ? argv[argc - 1] : "";
  if (!std::filesystem::is_directory(corpus) || !std::filesystem::is_empty(corpus)) return;
  for (std::size_t i = 0; i < seeds.size(); ++i) write_bytes(corpus + "/seed_" + std::to_string(i), seeds[i]);
}

/// A fuzzer has found something when this does not hold.
inline void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "does not hold: %s\n", what);
  std::abort();
}

/// `text` as libFuzzer changes it, at most `max_bytes` long.
inline std::string mutated(std::string text, std::size_t max_bytes) {
  const std::size_t size = text.size();
  text.resize(std::max(size, max_bytes));
  text.resize(LLVMFuzzerMutate(reinterpret_cast<std::uint8_t*>(text.data()), size, max_bytes));
  return text;
}

/// Numbers that readers stumble over, and any others.
inline std::uint64_t odd_number(RandomStream& random, std::uint64_t near) {
  switch (random.below(8)) {
    case 0: return 0;
    case 1: return near + 1;
    case 2: return near - 1;
    case 3: return std::uint64_t{1} << random.below(64);
    case 4: return (std::uint64_t{1} << random.below(64)) - 1;
    case 5: return near ^ (std::uint64_t{1} << random.below(64));
    case 6: return static_cast<std::uint64_t>(random.below(4096));
    default: return random.next();
  }
}

}  // namespace zero1::fuzz
