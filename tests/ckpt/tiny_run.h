// The program, training something tiny.
#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

#include "ckpt/folder.h"
#include "tests/support/command.h"
#include "tests/support/temporary_folder.h"

namespace zero1::test {

inline const std::string tiny =
    "train --num-layers 1 --hidden-size 12 --num-attention-heads 3 --seq-length 8 --threads-per-rank 1 "
    "--global-batch-size 12 --dp 2 --log-interval 0 ";

inline Outcome train_tiny(const std::string& flags) {
  return run_zero1(tiny + flags);
}

/// Every name in a folder, sorted, in one line.
inline std::string names_in(const std::string& folder) {
  return run_command("ls -A " + quoted(folder) + " | tr '\n' ' '").output;
}

using Steps = std::vector<std::int64_t>;

/// A shell script in which $ZERO1 is the program's tiny training and $SAVE a folder below `folder`; `begin`
/// starts it behind the script as $!, and returns when it has saved or taken the folder's lock.
inline Outcome run_script(const TemporaryFolder& folder, const std::string& script) {
  const std::string prelude = fmt::format(
      "SAVE={}; ZERO1={}; TRAIN=\"$ZERO1 {}\"\n"
      "begin() {{ $TRAIN \"$@\" --save $SAVE --train-iters 100000000 > {} 2>&1 & "
      "until grep -q ticks $SAVE/run.lock 2> /dev/null; do sleep 0.01; done; }}\n",
      quoted(folder.path("run")), quoted(ZERO1_BIN_DIR "/zero1"), tiny, quoted(folder.path("log")));
  return run_command(prelude + script);
}

}  // namespace zero1::test
