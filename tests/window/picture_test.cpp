// zero1_viz without a display: pictures that show what they should, and clear words where there is none.
#include "viz/app/picture.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "core/base/error.h"
#include "tests/support/skip.h"
#include "tests/window/window_support.h"
#include "viz/app/fonts.h"
#include "viz/panels/theme.h"

using namespace zero1;
using namespace zero1::viz;
using zero1::test::Outcome;
using zero1::test::quoted;
using zero1::test::TemporaryFolder;
using zero1::viz::test::read_png;
using zero1::viz::test::run_viz;

namespace {

const std::string small_run =
    "run --dp 4 --train-iters 2 --num-layers 2 --hidden-size 32 --num-attention-heads 2 --seq-length 16 "
    "--ddp-num-buckets 3 --overlap-grad-reduce --overlap-param-gather --threads-per-rank 1 ";

/// Takes a picture and checks that it is one: not blank, the colours of the first so many ranks in it. Where
/// one rank is selected, others are paler.
Picture take(const TemporaryFolder& folder, const std::string& arguments, int ranks) {
  const std::string file = folder / "out.png";
  std::filesystem::remove(file);
  const Outcome outcome = run_viz(folder, arguments + " --screenshot " + quoted(file));
  INFO(outcome.output);
  REQUIRE(outcome.status == 0);
  Picture picture = read_png(file);
  CHECK(viz::test::colours_in(picture) > 30);
  const Theme theme;
  for (int rank = 0; rank < ranks; ++rank) {
    CAPTURE(rank);
    CHECK(viz::test::count_colour(picture, theme.rank(rank, ranks)) > 200);
  }
  return picture;
}

}  // namespace

TEST_CASE("exploring is drawn, in both themes and any size") {
  const TemporaryFolder folder;
  const Picture dark = take(folder, "explore --dp 4", 4);
  CHECK(dark.width == 1440);
  CHECK(dark.height == 900);
  const Picture light = take(folder, "explore --dp 4 --light", 4);
  CHECK(viz::test::different_pixels(dark, light) > 500'000);
  const Picture again = take(folder, "explore --dp 4 --dark", 4);
  CHECK(viz::test::different_pixels(dark, again) == 0);
  const Picture small = take(folder, "explore --dp 4 --size 700x420 --frames 2", 4);
  CHECK(small.width == 700);
  const Picture scaled = take(folder, "explore --dp 4 --scale 2 --size 2880x1800", 4);
  CHECK(viz::test::colours_in(scaled) > 30);
  const Picture more = take(folder, "explore --dp 8 --model 'GPT-2 small'", 8);
  CHECK(viz::test::different_pixels(dark, more) > 10'000);
}

TEST_CASE("a run is drawn at its end and where it stops") {
  const TemporaryFolder folder;
  const Picture end = take(folder, small_run, 4);
  const Picture stopped = take(folder, small_run + "--at 2:adamw --select rank=1", 0);
  CHECK(viz::test::different_pixels(end, stopped) > 3000);
}

TEST_CASE("a recording is drawn, whole and at an event") {
  const TemporaryFolder folder;
  const std::string trace = folder / "run.trace";
  const Outcome recorded = run_viz(
      folder, small_run + "--trace " + quoted(trace) + " --screenshot " + quoted(folder / "live.png"));
  INFO(recorded.output);
  REQUIRE(recorded.status == 0);
  const Picture whole = take(folder, "open " + quoted(trace), 4);
  const Picture at = take(folder, "open " + quoted(trace) + " --at 200", 0);
  CHECK(viz::test::different_pixels(whole, at) > 1000);
  const Picture at_kind = take(folder, "open " + quoted(trace) + " --at 2:adamw:1", 0);
  CHECK(viz::test::different_pixels(whole, at_kind) > 1000);
  for (const char* none : {"7:adamw", "2:adamw:99", "2:nonsense", "2:adamw:1:1", "2:", ":"}) {
    const Outcome outcome = run_viz(
        folder, "open " + quoted(trace) + " --at " + none + " --screenshot " + quoted(folder / "no.png"));
    INFO(outcome.output);
    CHECK(outcome.status == 2);
    CHECK(outcome.says(std::string("--at ") + none));
  }
  const Outcome beyond =
      run_viz(folder, "open " + quoted(trace) + " --at 99999999 --screenshot " + quoted(folder / "no.png"));
  CHECK(beyond.status == 2);
  CHECK(beyond.says("--at 99999999"));
  CHECK_FALSE(std::filesystem::exists(folder / "no.png"));

  // Damage of every kind is told, and leaves no picture.
  std::string bytes = folder.read("run.trace");
  const auto refused = [&](const std::string& contents, const std::string& word) {
    folder.write("bad.trace", contents);
    const Outcome outcome = run_viz(
        folder, "open " + quoted(folder / "bad.trace") + " --screenshot " + quoted(folder / "no.png"));
    INFO(outcome.output);
    CHECK(outcome.status == 2);
    CHECK(outcome.says("bad.trace"));
    CHECK(outcome.says(word));
    CHECK_FALSE(std::filesystem::exists(folder / "no.png"));
  };
  refused("", "");
  refused("this is a text and no recording, though it is longer than a header of one\n", "");
  std::string other_version = bytes;
  other_version[8] = static_cast<char>(99);
  refused(other_version, "version");
  std::string damaged = bytes;
  damaged[damaged.size() / 2] = static_cast<char>(damaged[damaged.size() / 2] ^ 0x5A);
  refused(damaged, "");

  // Cut short it is shown up to its last whole chunk.
  folder.write("run.trace", bytes.substr(0, bytes.size() - 30));
  const Outcome cut =
      run_viz(folder, "open " + quoted(trace) + " --screenshot " + quoted(folder / "cut.png"));
  INFO(cut.output);
  CHECK(cut.status == 0);
}

TEST_CASE("bad input is refused with status 2 and a word that helps") {
  const TemporaryFolder folder;
  const std::string out = " --screenshot " + quoted(folder / "no.png");
  const auto refused = [&](const std::string& arguments, const std::string& word) {
    const Outcome outcome = run_viz(folder, arguments);
    INFO(arguments);
    INFO(outcome.output);
    CHECK(outcome.status == 2);
    CHECK(outcome.says(word));
    CHECK_FALSE(std::filesystem::exists(folder / "no.png"));
  };
  refused("open /nonexistent/run.trace" + out, "/nonexistent/run.trace");
  refused("explore /nonexistent/spec.json" + out, "/nonexistent/spec.json");
  refused("explore --model 'no such'" + out, "GPT-2 small");
  refused("explore --size 3x" + out, "--size");
  refused("explore --size 100000x100" + out, "--size");
  refused("explore --select rank=77" + out, "rank=77");
  refused("explore --select param=none.such" + out, "none.such");
  refused("explore --tab Nonsense" + out, "Explore");
  refused("explore --at 5" + out, "--at");
  refused("run --dp 0" + out, "--dp");
  refused("run --dp 2 --train-iters 1 --at 9:adamw" + out, "--at");
  refused("run --dp 2 --at 1:nonsense" + out, "--at");
  for (const char* number : {"nan", "0", "-3", "1e99", "x", "''"}) {
    refused(std::string("explore --scale ") + number + out, "--scale");
    refused(std::string("run --slow-motion ") + number + out, "--slow-motion");
  }
  refused("explore --frames 0" + out, "--frames");
  refused("explore --frames 99999999999999999999" + out, "--frames");
  refused("open " + quoted(folder.path()) + out, folder.path());
  refused("open /dev/zero" + out, "/dev/zero");
  refused("open" + out, "FILE");
  refused("open a b" + out, "b");
  refused("explore", "--screenshot");  // no display here
  refused("explore --frames 1", "--screenshot");
  refused("nonsense", "");
  const Outcome unwritable = run_viz(folder, "explore --screenshot /nonexistent/out.png");
  CHECK(unwritable.status == 2);
  CHECK(unwritable.says("/nonexistent/out.png"));
}

TEST_CASE("help teaches, and names every command") {
  const TemporaryFolder folder;
  const Outcome help = run_viz(folder, "--help");
  CHECK(help.status == 0);
  for (const char* word : {"run", "open", "explore", "--screenshot", "F1"}) CHECK(help.says(word));
  // What a moment is, is told where there are any.
  CHECK(!run_viz(folder, "explore --help").says("--at"));
  CHECK(run_viz(folder, "open --help").says("--at EVENT"));
  const Outcome run_help = run_viz(folder, "run --help");
  CHECK(run_help.status == 0);
  CHECK(run_help.says("no-distributed-optimizer  Plain data parallelism"));
  for (const char* word : {"--overlap-grad-reduce", "--link-gbps", "--at", "--paused"})
    CHECK(run_help.says(word));
}

TEST_CASE("letters beyond Latin are drawn where a font has them") {
  const FontFiles fonts = find_fonts();
  const TemporaryFolder folder;
  const auto spec = [&](const std::string& name) {
    return folder.write("spec.json", R"({"params": [{"name": ")" + name +
                                         R"(", "shape": [1000], "dtype": "float32"}], "dp_size": 1,
      "expert_dp_size": 1, "bucket_size": null, "pad_buckets_for_high_nccl_busbw": false,
      "grad_reduce_in_fp32": true})");
  };
  const auto drawn = [&](const std::string& name) {
    return take(folder, "explore " + quoted(spec(name)), 1);
  };
  if (fonts.text.empty()) {
    zero1::test::skip("no font of the usual ones is installed");
    return;
  }
  CHECK(viz::test::different_pixels(drawn("\u0432\u0435\u0441"), drawn("\u043e\u0441\u044c")) > 5);
  if (fonts.others.empty()) {
    MESSAGE("no font with Chinese letters is installed: not tried");
    return;
  }
  CHECK(viz::test::different_pixels(drawn("\u6743\u91cd"), drawn("\u504f\u7f6e")) > 5);
}

TEST_CASE("a picture goes to a file and comes back the same") {
  const TemporaryFolder folder;
  Picture picture{7, 3, {}};
  for (int i = 0; i < 7 * 3; ++i) {
    picture.pixels.insert(picture.pixels.end(),
                          {static_cast<std::uint8_t>(i * 11), static_cast<std::uint8_t>(255 - i),
                           static_cast<std::uint8_t>(i), 255});
  }
  write_png(picture, folder / "a.png");
  CHECK(read_png(folder / "a.png").pixels == picture.pixels);
  folder.write("kept.png", "before");
  {
    const zero1::test::FileSizeLimit limit(16);
    CHECK_THROWS_AS(write_png(picture, folder / "kept.png"), Error);
  }
  CHECK(folder.read("kept.png") == "before");
}
