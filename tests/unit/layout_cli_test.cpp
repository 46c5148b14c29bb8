// `zero1 layout` as people and scripts call it: output, files, exit status.
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "core/base/file.h"

using nlohmann::json;
namespace fs = std::filesystem;

namespace {

const std::string small_cases = ZERO1_GOLDEN_DIR "/layout_small.json";
const std::string large_cases = ZERO1_GOLDEN_DIR "/layout_large.json";

struct Outcome {
  int status = -1;
  std::string output;  ///< standard output and standard error
};

Outcome run(const std::string& arguments) {
  // Standard error is caught also where `arguments` send the standard output elsewhere.
  const std::string command = "'" ZERO1_BIN_DIR "/zero1' layout 2>&1 " + arguments;
  FILE* pipe = ::popen(command.c_str(), "r");
  REQUIRE(pipe != nullptr);
  Outcome outcome;
  std::array<char, 4096> chunk{};
  while (const std::size_t count = std::fread(chunk.data(), 1, chunk.size(), pipe)) {
    outcome.output.append(chunk.data(), count);
  }
  const int status = ::pclose(pipe);
  outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return outcome;
}

json golden(const std::string& file) {
  return json::parse(zero1::read_file(file));
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// A path that no other test uses, removed at the end.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& name)
      : path_((fs::temp_directory_path() / ("zero1_layout_cli_" + std::to_string(::getpid()) + name))
                  .string()) {}
  ~TemporaryFile() {
    std::error_code ignored;
    fs::remove(path_, ignored);
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace

TEST_CASE("a list prints a list in the form of the golden files") {
  const Outcome outcome = run(small_cases + " --json");
  REQUIRE(outcome.status == 0);
  CHECK(json::parse(outcome.output) == golden(small_cases));
}

TEST_CASE("one case prints its bare expect; a bare case and {case, expect} read alike") {
  const json entry = golden(small_cases)[3];
  const TemporaryFile bare("_bare.json");
  const TemporaryFile wrapped("_wrapped.json");
  zero1::write_file(bare.path(), entry["case"].dump());
  zero1::write_file(wrapped.path(), entry.dump());
  for (const std::string& arguments :
       {bare.path(), wrapped.path(), small_cases + " --case a-random-03", "- <" + bare.path()}) {
    CAPTURE(arguments);
    const Outcome outcome = run("--json " + arguments);
    REQUIRE(outcome.status == 0);
    CHECK(json::parse(outcome.output) == entry["expect"]);
  }
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
  const TemporaryFile bare("_no_expect.json");
  zero1::write_file(bare.path(), golden(small_cases)[0]["case"].dump());
  CHECK(run(bare.path() + " --check").status == 2);
}

TEST_CASE("tables and their restrictions") {
  const std::string one = small_cases + " --case gpt-tiny-dp4";
  CHECK(contains(run(one).output, "52 parameters, 220,544 elements in 1 buffer, 8 buckets"));
  CHECK(contains(run(one).output, "--all"));
  CHECK_FALSE(contains(run(one + " --all").output, "--all"));
  CHECK(contains(run(one + " --rank 3").output, "rank 3 owns 55,232 elements"));
  CHECK(contains(run(one + " --param embedding.word_embeddings.weight").output, "held by "));
  CHECK(run(one + " --rank 4").status == 2);
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
  const TemporaryFile picture("_map.svg");
  const std::string one = small_cases + " --case gpt-tiny-dp4";
  CHECK(run(one + " --svg " + picture.path()).status == 0);
  const std::string svg = zero1::read_file(picture.path());
  CHECK(contains(svg, "Who owns what: gpt-tiny-dp4"));
  CHECK(contains(svg, "</svg>"));
  CHECK(run(small_cases + " --svg " + picture.path()).status == 2);
  CHECK(run(one + " --dp 0 --svg " + picture.path()).status == 2);
  CHECK(zero1::read_file(picture.path()) == svg);
  CHECK(run(one + " --svg /nonexistent/map.svg").status == 1);
}

TEST_CASE("bad input ends with status 2 and names the file and the field") {
  json bad = golden(small_cases)[3]["case"];
  bad["params"][1]["shape"] = {5, -3};
  const TemporaryFile spec("_bad.json");
  zero1::write_file(spec.path(), bad.dump());
  const Outcome outcome = run(spec.path());
  CHECK(outcome.status == 2);
  CHECK(contains(outcome.output, spec.path() + ": params[1].shape[1]: "));
  zero1::write_file(spec.path(), "{");
  CHECK(run(spec.path()).status == 2);
  CHECK(run("/nonexistent.json").status == 2);
  CHECK(
      contains(run("/nonexistent.json").output, "/nonexistent.json: cannot read: No such file or directory"));
  CHECK(run("").status == 2);
}

TEST_CASE("a full disk is not success") {
  CHECK(run(small_cases + " >/dev/full").status == 1);
}
