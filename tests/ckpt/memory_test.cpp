// Resharding and gathering stream: their memory follows --mem-limit and not the checkpoint.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <vector>

#include "ckpt/verify.h"
#include "tests/ckpt/ckpt_support.h"
#include "tests/support/command.h"
#include "tests/support/sanitizers.h"
#include "tests/support/skip.h"
#include "tests/support/temporary_folder.h"

using namespace zero1;

namespace {

/// Every element is one number, which takes no time.
class Constant : public ckpt::ElementSource {
 public:
  void read(int, ckpt::State, Range range, float* out) const override {
    std::fill(out, out + range.size(), 0.5F);
  }
};

/// The largest resident set of `zero1 WORDS…`, which must succeed, in bytes.
std::int64_t peak_of(std::vector<std::string> words) {
  std::string program = ZERO1_BIN_DIR "/zero1";
  std::vector<char*> arguments{program.data()};
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    const int nowhere = ::open("/dev/null", O_WRONLY);
    ::dup2(nowhere, STDOUT_FILENO);
    ::execv(program.c_str(), arguments.data());
    ::_exit(127);
  }
  int status = 0;
  rusage usage{};
  REQUIRE(::wait4(child, &status, 0, &usage) == child);
  CHECK(status == 0);
  return std::int64_t{usage.ru_maxrss} << 10;
}

}  // namespace

TEST_CASE("a checkpoint of 384 MiB is resharded and gathered with little more than the limit") {
  if (test::sanitized) {
    test::skip("sanitizers take memory of their own");
    return;
  }
  const test::TemporaryFolder folder;
  LayoutCase layout_case;
  for (int i = 0; i < 4; ++i) {
    layout_case.params.push_back({"w" + std::to_string(i), {8192, 1024}, DType::bf16, false, false});
  }
  layout_case.options.dp_size = layout_case.options.expert_dp_size = 3;
  layout_case.options.bucket_size_elems = 10'000'000;
  const std::string source = folder.path("source");
  ckpt::RunState state;
  state.step = state.optimizer_steps = 1;  // moments without a step would be refused
  ckpt::write_checkpoint(source, state, layout_case, Constant());
  constexpr std::int64_t mib = 1 << 20;
  REQUIRE(ckpt::slice_bytes(ckpt::Checkpoint(source).layout()) >= 384 * mib);

  // What the program takes without doing anything: cuBLAS alone is 150 MiB where it is linked in.
  const std::int64_t idle = peak_of({"ckpt", "inspect", source});
  const std::int64_t limit = 8 * mib;
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"ckpt", "reshard", source, folder.path("target"), "--dp", "5", "--workers",
                                 "2"},
        {"ckpt", "gather", source, folder.path("all.h5")},
        {"ckpt", "gather", source, folder.path("all.safetensors")},
        {"ckpt", "verify", source}}) {
    std::vector<std::string> limited = words;
    if (words[1] != "verify") limited.insert(limited.end(), {"--mem-limit", "8MiB"});
    const std::int64_t peak = peak_of(limited);
    CAPTURE(words[1]);
    CAPTURE(peak / mib);
    CAPTURE(idle / mib);
    CHECK(peak <= idle + limit + 8 * mib);
    for (const char* written : {"target", "all.h5", "all.safetensors"}) {
      std::filesystem::remove_all(folder.path(written));
    }
  }
}
