// `zero1 layout` as people and scripts call it: output, files, exit status.
#include <doctest/doctest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "core/base/file.h"
#include "tests/support/command.h"
#include "tests/support/message.h"
#include "tests/support/temporary_folder.h"

using nlohmann::json;
using zero1::test::contains;
using zero1::test::Outcome;

namespace {

const std::string small_cases = ZERO1_GOLDEN_DIR "/layout_small.json";
const std::string large_cases = ZERO1_GOLDEN_DIR "/layout_large.json";

Outcome run(const std::string& arguments) {
  return zero1::test::run_zero1("layout " + arguments);
}

json golden(const std::string& file) {
  return json::parse(zero1::read_file(file));
}

}  // namespace

TEST_CASE("a list prints a list in the form of the golden files") {
  const Outcome outcome = run(small_cases + " --json");
  REQUIRE(outcome.status == 0);
  CHECK(json::parse(outcome.output) == golden(small_cases));
}

TEST_CASE("one case prints its bare expect; a bare case and {case, expect} read alike") {
  const json entry = golden(small_cases)[3];
  const zero1::test::TemporaryFolder folder;
  const std::string bare = folder / "bare.json";
  const std::string wrapped = folder / "wrapped.json";
  zero1::write_file(bare, entry["case"].dump());
  zero1::write_file(wrapped, entry.dump());
  for (const std::string& arguments : {bare, wrapped, small_cases + " --case a-random-03", "- <" + bare}) {
    CAPTURE(arguments);
    const Outcome outcome = run("--json " + arguments);
    REQUIRE(outcome.status == 0);
    CHECK(json::parse(outcome.output) == entry["expect"]);
  }
}

TEST_CASE("a recording's layout reads like a spec") {
  const zero1::test::TemporaryFolder folder;
  const std::string trace = folder / "run.trace";
  const Outcome train = zero1::test::run_zero1(
      "train --num-layers 1 --hidden-size 16 --num-attention-heads 2 --seq-length 8 --train-iters 1 --dp 3 "
      "--global-batch-size 3 --threads-per-rank 1 --ddp-bucket-size 3000 --trace " +
      trace);
  REQUIRE(train.status == 0);
  const Outcome outcome = run("--json " + trace);
  REQUIRE(outcome.status == 0);
  const json expect = json::parse(outcome.output);
  CHECK(expect[0]["dp_size"] == 3);
  CHECK(expect[0]["buckets"].size() > 1);
  CHECK(expect[0]["param_index"].contains("h.0.ln_1.weight"));
  const Outcome other = run("--json --dp 2 --bucket-size none " + trace);
  REQUIRE(other.status == 0);
  CHECK(json::parse(other.output)[0]["dp_size"] == 2);
  CHECK(json::parse(other.output)[0]["buckets"].size() == 1);
}

TEST_CASE("the spec that the help shows can be used") {
  const std::string help = run("--help").output;
  const auto begin = help.find("{\"params\"");
  const auto end = help.find("true}\n\n", begin);
  REQUIRE(end != std::string::npos);
  const zero1::test::TemporaryFolder folder;
  const std::string spec = folder / "spec.json";
  zero1::write_file(spec, help.substr(begin, end + 5 - begin));
  const Outcome outcome = run(spec + " --param fc");
  CHECK_MESSAGE(outcome.status == 0, outcome.output);
}

TEST_CASE("digests, in JSON and for people") {
  const Outcome outcome = run(large_cases + " --json --digest");
  REQUIRE(outcome.status == 0);
  CHECK(json::parse(outcome.output) == golden(large_cases));
  const Outcome plain = run(large_cases + " --digest --case llama-7b-dp64");
  CHECK(plain.status == 0);
  CHECK(contains(plain.output, golden(large_cases)[2]["expect"][0]["rank_ranges_sha256"].get<std::string>()));
  CHECK(contains(plain.output, "llama-7b-dp64"));
}

TEST_CASE("--check compares with the recorded expectation") {
  CHECK(run(small_cases + " --check").status == 0);
  CHECK(contains(run(small_cases + " --check").output, "64 of 64 layouts are as recorded"));
  CHECK(run(large_cases + " --check").status == 0);
  const Outcome changed = run(small_cases + " --check --dp 3");
  CHECK(changed.status == 1);
  CHECK(contains(changed.output, "differs"));
  const zero1::test::TemporaryFolder folder;
  const std::string bare = folder / "no_expect.json";
  zero1::write_file(bare, golden(small_cases)[0]["case"].dump());
  CHECK(run(bare + " --check").status == 2);
}

TEST_CASE("tables and their restrictions") {
  const std::string one = small_cases + " --case gpt-tiny-dp4";
  CHECK(contains(run(one).output, "52 parameters, 220,544 elements in 1 buffer, 8 buckets"));
  CHECK(contains(run(one).output, "--all"));
  CHECK_FALSE(contains(run(one + " --all").output, "--all"));
  CHECK(contains(run(one + " --rank 3").output, "rank 3 owns 55,232 elements"));
  CHECK(contains(run(one + " --param embedding.word_embeddings.weight").output, "held by "));
  CHECK(run(one + " --rank 4").status == 2);
  CHECK(run(one + " --rank ''").status == 2);
  const Outcome unknown = run(one + " --param word_embeddings");
  CHECK(unknown.status == 2);
  CHECK(contains(unknown.output, "similar: embedding.word_embeddings.weight"));
  CHECK(run(small_cases + " --rank 0").status == 2);
  CHECK(contains(run(small_cases + " --case nobody").output, "no case is named 'nobody'"));
}

TEST_CASE("options can be overridden") {
  const std::string one = small_cases + " --case gpt-tiny-dp4";
  CHECK(contains(run(one + " --dp 3 --bucket-size none").output, "1 buffer, 1 bucket\n"));
  CHECK(contains(run(one + " --bucket-size 100k --dp 7").output, "7 ranks"));
  CHECK(contains(run(one + " --no-grad-reduce-in-fp32").output, "bfloat16 gradients"));
  CHECK(contains(run(one + " --pad-buckets-for-high-nccl-busbw").output, "[0, 65,536)"));
  for (const char* bad : {" --dp 0", " --dp x", " --bucket-size 0", " --bucket-size -4", " --bucket-size 4Q",
                          " --expert-dp 0", " --json --rank 1", " --bogus"}) {
    CAPTURE(bad);
    CHECK(run(one + bad).status == 2);
  }
}

TEST_CASE("the picture is written whole or not at all") {
  const zero1::test::TemporaryFolder folder;
  const std::string picture = folder / "map.svg";
  const std::string one = small_cases + " --case gpt-tiny-dp4";
  CHECK(run(one + " --svg " + picture).status == 0);
  const std::string svg = zero1::read_file(picture);
  CHECK(contains(svg, "Who owns what: gpt-tiny-dp4"));
  CHECK(contains(svg, "</svg>"));
  CHECK(run(small_cases + " --svg " + picture).status == 2);
  CHECK(run(one + " --dp 0 --svg " + picture).status == 2);
  CHECK(zero1::read_file(picture) == svg);
  CHECK(run(one + " --svg /nonexistent/map.svg").status == 2);
  CHECK(run(one + " --svg /").status == 2);
  CHECK(contains(run(one + " --svg map.png").output, "what is written is SVG; end the name with .svg"));
  CHECK(!std::filesystem::exists("map.png"));
  const std::string spec = folder / "spec.json";
  const std::string text = golden(small_cases)[3].dump();
  zero1::write_file(spec, text);
  const Outcome over_itself = run(spec + " --svg " + spec);
  CHECK(over_itself.status == 2);
  CHECK(contains(over_itself.output, "SPEC"));
  CHECK(zero1::read_file(spec) == text);
}

TEST_CASE("bad input ends with status 2 and names the file and the field") {
  json bad = golden(small_cases)[3]["case"];
  bad["params"][1]["shape"] = {5, -3};
  const zero1::test::TemporaryFolder folder;
  const std::string spec = folder / "bad.json";
  zero1::write_file(spec, bad.dump());
  const Outcome outcome = run(spec);
  CHECK(outcome.status == 2);
  CHECK(contains(outcome.output, spec + ": params[1].shape[1]: "));
  zero1::write_file(spec, "{");
  CHECK(run(spec).status == 2);
  CHECK(run("/nonexistent.json").status == 2);
  CHECK(
      contains(run("/nonexistent.json").output, "/nonexistent.json: cannot read: No such file or directory"));
  CHECK(run("").status == 2);
}

TEST_CASE("messages name the flag, and stay short whatever the file holds") {
  const zero1::test::TemporaryFolder folder;
  const std::string one = small_cases + " --case gpt-tiny-dp4";
  CHECK(contains(run(one + " --bucket-size -4").output, "--bucket-size: '-4' is not a count"));
  CHECK(contains(run(one + " --rank 1.5").output, "--rank: expected a whole number, found '1.5'"));
  CHECK(contains(run(one + " --dp 010").output, "--dp: expected a whole number"));
  const std::string spec = folder / "long.json";
  zero1::write_file(spec, std::string(100000, '9'));
  const Outcome outcome = run(spec);
  CHECK(outcome.status == 2);
  CHECK(outcome.output.size() < 400 + spec.size());
}

TEST_CASE("names with control characters do not act on the terminal") {
  json spec = golden(small_cases)[3]["case"];
  spec["name"] = "case\r";
  spec["params"][0]["name"] = "red\x1b[31m\nnext";
  const zero1::test::TemporaryFolder folder;
  const std::string file = folder / "control.json";
  zero1::write_file(file, spec.dump());
  const std::string name = "'red\x1b[31m\nnext'";
  for (const std::string& arguments : {file, file + " --rank 0", file + " --param " + name}) {
    const Outcome outcome = run(arguments);
    CHECK(outcome.status == 0);
    CHECK(contains(outcome.output, "red\\x1b[31m\\nnext"));
    CHECK_FALSE(contains(outcome.output, "\x1b"));
    CHECK_FALSE(contains(outcome.output, "\r"));
  }
}

TEST_CASE("a full disk is not success") {
  CHECK(run(small_cases + " >/dev/full").status == 1);
}
