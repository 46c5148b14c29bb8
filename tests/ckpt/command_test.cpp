// zero1 train --save/--load and zero1 ckpt, as people call them.
#include <doctest/doctest.h>

#include <filesystem>

#include "tests/support/command.h"
#include "tests/support/temporary_folder.h"

using namespace zero1;

namespace {

const std::string tiny =
    "train --num-layers 1 --hidden-size 12 --num-attention-heads 3 --seq-length 8 --threads-per-rank 1 "
    "--global-batch-size 12 --log-interval 0 ";

std::string final_params(const test::Outcome& outcome) {
  const std::size_t at = outcome.output.find("Final parameters ");
  REQUIRE_MESSAGE(at != std::string::npos, outcome.output);
  return outcome.output.substr(at, 34);
}

}  // namespace

TEST_CASE("train, stop, reshard there and back, go on: the same parameters") {
  const test::TemporaryFolder folder;
  const std::string root = folder.path("run");
  const std::string expected = final_params(test::run_zero1(tiny + "--dp 2 --train-iters 6"));
  const test::Outcome saved = test::run_zero1(tiny + "--dp 2 --train-iters 4 --save " + root +
                                              " --save-interval 1 --keep-last 2 --async-save");
  CHECK_MESSAGE(saved.says("4 saved, the last is " + root + "/step_00000004"), saved.output);
  CHECK(!std::filesystem::exists(root + "/step_00000002"));

  const test::Outcome inspected = test::run_zero1("ckpt inspect " + root);
  CHECK(inspected.status == 0);
  CHECK(inspected.says("h.0.attn.c_attn.weight"));
  CHECK(test::run_zero1("ckpt inspect --json " + root).says("\"dp_size\": 2"));
  CHECK(test::run_zero1("ckpt inspect " + root + " --param wte.weight").says("rank_00001.h5"));
  CHECK(test::run_zero1("ckpt inspect " + root + " --param nothing").status == 2);

  CHECK(test::run_zero1("ckpt reshard --dry-run " + root + " " + folder.path("x") + " --dp 5")
            .says("rank_00004.h5 <-"));
  CHECK(!std::filesystem::exists(folder.path("x")));
  CHECK(test::run_zero1("ckpt reshard " + root + " " + folder.path("five") + " --dp 5 --workers 3").status ==
        0);
  CHECK(test::run_zero1("ckpt verify " + folder.path("five")).status == 0);
  CHECK(test::run_zero1("ckpt diff --bitwise " + root + " " + folder.path("five")).output.empty());
  CHECK(test::run_zero1("ckpt reshard " + folder.path("five") + " " + folder.path("two") +
                        " --dp 2 --bucket-size 1000")
            .status == 0);
  CHECK(final_params(test::run_zero1(tiny + "--dp 2 --train-iters 6 --load " + folder.path("two"))) ==
        expected);
}

TEST_CASE("differences are listed, faults are named") {
  const test::TemporaryFolder folder;
  const std::string root = folder.path("run");
  REQUIRE(test::run_zero1(tiny + "--dp 3 --train-iters 2 --save-interval 1 --save " + root).status == 0);
  const std::string one = root + "/step_00000001";
  const std::string two = root + "/step_00000002";
  const test::Outcome different = test::run_zero1("ckpt diff " + one + " " + two);
  CHECK(different.status == 1);
  CHECK(different.says("max abs"));
  CHECK(different.says("wte.weight"));
  CHECK(test::run_zero1("ckpt diff -d 1e9 " + one + " " + two).status == 0);
  CHECK(test::run_zero1("ckpt diff " + one + " " + folder.path("none")).status == 2);

  CHECK(test::run_zero1("ckpt gather " + two + " " + folder.path("all.h5")).status == 0);
  CHECK(test::run_zero1("ckpt export " + two + " " + folder.path("all.safetensors")).status == 0);
  CHECK(test::run_zero1("ckpt import " + folder.path("all.safetensors") + " " + folder.path("in") + " --dp 2")
            .status == 0);
  CHECK(test::run_zero1("ckpt diff " + two + " " + folder.path("in")).output.empty());

  std::filesystem::resize_file(two + "/rank_00001.h5", 1000);
  const test::Outcome verified = test::run_zero1("ckpt verify " + root);
  CHECK(verified.status == 1);
  CHECK(verified.says("rank_00001.h5: 1000 bytes"));
  const test::Outcome loaded = test::run_zero1(tiny + "--dp 3 --train-iters 5 --load " + root);
  CHECK(loaded.status == 2);
  CHECK(loaded.says("rank_00001.h5: 1000 bytes, but checkpoint.h5 recorded"));

  std::filesystem::create_directory(root + "/.tmp-step_00000003.1.0");
  CHECK(test::run_zero1("ckpt inspect " + root).says("left behind by a run that was killed"));
  CHECK(test::run_zero1("ckpt clean " + root).says("removed"));
  CHECK(!std::filesystem::exists(root + "/.tmp-step_00000003.1.0"));
  CHECK(test::run_zero1("train --train-iters 1 --save-interval 3").status == 2);
}
