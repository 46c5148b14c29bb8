// What `zero1` says to words that it does not know and to files that are none.
#include <doctest/doctest.h>

#include <string>

#include "tests/support/command.h"
#include "tests/support/temporary_folder.h"

using namespace zero1::test;

TEST_CASE("an unknown command is named, with the one that was probably meant") {
  const struct {
    const char* arguments;
    const char* says;
  } cases[] = {
      {"trian", "'trian' is no command of `zero1`; did you mean 'train'?"},
      {"xyz", "'xyz' is no command of `zero1`; there are: train, generate, layout, trace, ckpt\n"},
      {"ckpt inspekt run", "'inspekt' is no command of `zero1 ckpt`; did you mean 'inspect'?"},
      {"ckpt exprot a b", "did you mean 'export'?"},
      {"ckpt xyz", "'xyz' is no command of `zero1 ckpt`; there are: inspect, verify"},
      {"trace sumary run.trace", "'sumary' is no command of `zero1 trace`; did you mean 'summary'?"},
      {"trace $'a\\x1b[31m'", "'a\\x1b[31m' is no command"},
      {"", "a command is missing; there are: train, generate, layout, trace, ckpt"},
      {"ckpt", "a command is missing; there are: inspect"},
      {"--vresion", "--vresion is no flag of `zero1`; did you mean '--version'?"},
      {"trace --json run.trace", "--json is no flag of `zero1 trace`"},
      {"train --dpp 3", "--dpp is no flag of `zero1 train`; did you mean '--dp'?"},
      {"train --train-iter=3", "--train-iter=3 is no flag of `zero1 train`; did you mean '--train-iters'?"},
      {"train --num_layers 3", "did you mean '--num-layers'?"},
      {"train --no-overlap-grad-reduces", "did you mean '--no-overlap-grad-reduce'?"},
      {"train --qqqqqqqq 3", "--qqqqqqqq is no flag of `zero1 train`\n"},
      {"train words", "`zero1 train` takes no further argument, found 'words'"},
      {"trace summary a b", "`zero1 trace summary` takes no further argument, found 'b'"},
  };
  for (const auto& c : cases) {
    const Outcome outcome =
        run_command("bash -c " + quoted(quoted(ZERO1_BIN_DIR "/zero1") + " " + c.arguments));
    CAPTURE(c.arguments);
    CAPTURE(outcome.output);
    CHECK(outcome.status == 2);
    CHECK(outcome.says(c.says));
    CHECK(outcome.says("--help` tells more"));
  }
}

TEST_CASE("a config file's faults are told with their line") {
  const TemporaryFolder folder;
  const struct {
    const char* text;
    const char* says;
  } cases[] = {
      {"[lr 0]\n", "line 1: '[lr 0]' begins a section"},
      {"dp = 2\n\n[model]\nnum-layers = 2\n", "line 3: '[model]' begins a section"},
      {"dp = 2\nnum_layers = 2\n",
       "line 2: 'num_layers' is no flag of `zero1 train`; did you mean 'num-layers'?"},
      {"--lr = 2\n", "line 1: '--lr' is no flag"},
      {"qqqqqqqqq = 2\n", "line 1: 'qqqqqqqqq' is no flag of `zero1 train`\n"},
      {"dp = two\n", "line 1: --dp: expected a whole number, found 'two'"},
      {"lr\n", "line 1: lr: expected one value, found 0"},
      {"bf16 = maybe\n", "line 1: "},
      {"bf16 = [true, false]\n", "line 1: bf16: expected true or false, found a list"},
      {"overlap-grad-reduce\nno-overlap-grad-reduce\n",
       "line 2: 'no-overlap-grad-reduce' appears twice, first in line 1"},
      {"config = 'other'\n", "line 1: 'config' is no flag"},
  };
  for (const auto& c : cases) {
    const std::string file = folder.write("run.toml", c.text);
    const Outcome outcome = run_zero1("train --train-iters 1 --config " + quoted(file));
    CAPTURE(c.text);
    CAPTURE(outcome.output);
    CHECK(outcome.status == 2);
    CHECK(outcome.says("--config " + file));
    CHECK(outcome.says(c.says));
  }
}

TEST_CASE("what is no file is refused at once; the shell's pipes are read") {
  const TemporaryFolder folder;
  const std::string pipe = folder.path("pipe");
  REQUIRE(run_command("mkfifo " + quoted(pipe)).status == 0);
  const std::string small = "train --num-layers 1 --hidden-size 16 --num-attention-heads 2 --train-iters 1 ";
  const std::string out = quoted(folder.path("out"));
  // Nobody ever writes into the pipe: who waits for it runs into the test's time limit.
  for (const std::string& path : {pipe, folder.path("")}) {
    const std::string file = quoted(path);
    for (const std::string& arguments :
         {"layout " + file, small + "--config " + file, small + "--data " + file, small + "--init " + file,
          small + "--load " + file, small + "--eval-interval 1 --valid-data " + file, "trace summary " + file,
          "trace export " + file + " " + out, "ckpt inspect " + file, "ckpt verify " + file,
          "ckpt diff " + file + " " + file, "ckpt export " + file + " " + quoted(folder.path("out.h5")),
          "ckpt reshard --dp 2 " + file + " " + out, "ckpt import --dp 2 " + file + " " + out}) {
      const Outcome outcome = run_zero1(arguments);
      CAPTURE(arguments);
      CAPTURE(outcome.output);
      CHECK(outcome.status == 2);
      CHECK(outcome.says(path));
    }
  }
  CHECK(run_zero1("layout " + quoted(pipe)).says("is a named pipe"));
  const std::string golden = quoted(ZERO1_GOLDEN_DIR "/layout_small.json");
  for (const char* spec : {"-", "/dev/stdin", "/dev/fd/0"}) {
    const Outcome outcome =
        run_command("cat " + golden + " | " + quoted(ZERO1_BIN_DIR "/zero1") + " layout --check " + spec);
    CAPTURE(outcome.output);
    CHECK(outcome.status == 0);
  }
  CHECK(run_zero1("layout - < /dev/null").says("standard input: not JSON"));
}

TEST_CASE("one of a thing is one thing") {
  const TemporaryFolder folder;
  const std::string trace = quoted(folder.path("run.trace"));
  const std::string saved = quoted(folder.path("ckpt"));
  const Outcome run = run_zero1(
      "train --model mlp --hidden-size 4 --seq-length 1 --train-iters 1 --threads-per-rank 1 --trace " +
      trace + " --save " + saved);
  CAPTURE(run.output);
  REQUIRE(run.status == 0);
  CHECK(run.says("= 1 microbatch x 1 x dp, 1 token per step"));
  CHECK(run.says("1 thread per rank"));
  CHECK(run.says("Trained 1 step on"));
  CHECK(run.says("Buckets (1 in 1 buffer)"));
  const Outcome summary = run_zero1("trace summary " + trace);
  CHECK_MESSAGE(summary.says("  1 rank, "), summary.output);
  CHECK_MESSAGE(summary.says(", 1 bucket, 1 step; recorded"), summary.output);
  const Outcome inspect = run_zero1("ckpt inspect " + saved);
  CHECK_MESSAGE(inspect.says("1 sequence consumed"), inspect.output);
  CHECK_MESSAGE(inspect.says("1 file, "), inspect.output);
  CHECK_MESSAGE(inspect.says("1 bucket in 1 buffer"), inspect.output);
  for (const Outcome* outcome : {&run, &summary, &inspect}) {
    for (const char* noun : {"ranks", "buckets", "steps", "iterations", "files", "sequences", "elements",
                             "parameters", "events", "layers", "tensors", "tokens"}) {
      const Outcome& said = *outcome;
      CAPTURE(noun);
      CAPTURE(said.output);
      CHECK_FALSE(said.says(" 1 " + std::string(noun) + " "));
      CHECK_FALSE(said.says(" 1 " + std::string(noun) + ","));
    }
  }
}
