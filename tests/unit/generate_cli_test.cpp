// `zero1 generate`: what it continues a prompt with, from checkpoints and from files of weights.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "apps/zero1/token_output.h"
#include "tests/support/command.h"
#include "tests/support/temporary_folder.h"

using nlohmann::json;
using namespace zero1::test;

namespace {

// What follows an 'a' depends on what came before it, and every phase of the period of 12 meets every
// position of a sequence of 17.
const std::string period = "abacadaeaf. ";

std::string repeated(std::size_t length, std::size_t from = 0) {
  std::string text;
  for (std::size_t i = 0; i < length; ++i) text += period[(from + i) % period.size()];
  return text;
}

/// A model that knows the text by heart, trained once for all cases: a checkpoint and its weights.
struct Memorised {
  TemporaryFolder folder;
  const std::string checkpoint = folder / "ckpt";
  const std::string weights = folder / "weights.safetensors";

  Memorised() {
    const Outcome trained = run_zero1(
        "train --num-layers 1 --hidden-size 32 --num-attention-heads 2 --seq-length 17 --micro-batch-size 4 "
        "--train-iters 150 --lr 0.01 --log-interval 0 --threads-per-rank 1 --data " +
        quoted(folder.write("text", repeated(600))) + " --save " + quoted(checkpoint) + " --save-weights " +
        quoted(weights));
    CAPTURE(trained.output);
    REQUIRE(trained.status == 0);
  }
};

const Memorised& memorised() {
  static const Memorised trained;
  return trained;
}

/// Standard output; the command must succeed.
std::string generate(const std::string& source, const std::string& flags) {
  const Outcome outcome = run_zero1("generate " + quoted(source) + " --threads 1 " + flags + " 2>/dev/null");
  CAPTURE(flags);
  CAPTURE(outcome.output);
  REQUIRE(outcome.status == 0);
  return outcome.output;
}

}  // namespace

TEST_CASE("a model that has learnt a text by heart continues it, also beyond its window") {
  const auto& [folder, checkpoint, weights] = memorised();
  const std::string expected = repeated(64) + "\n";
  for (const std::string& source : {checkpoint, checkpoint + "/step_00000150", weights}) {
    CAPTURE(source);
    CHECK(generate(source, "--prompt abac --greedy --max-new-tokens 60") == expected);
  }
  CHECK(generate(checkpoint, "--prompt abac --temperature 0 --seed 5 --max-new-tokens 60") == expected);
  CHECK(generate(checkpoint, "--prompt abac --top-k 1 --seed 5 --max-new-tokens 60") == expected);
  const std::string exported = folder / "exported.safetensors";
  REQUIRE(run_zero1("ckpt export " + quoted(checkpoint) + " " + quoted(exported)).status == 0);
  CHECK(generate(exported, "--prompt abac --greedy --max-new-tokens 60") == expected);
}

TEST_CASE("the same seed draws the same text, another seed another one") {
  const std::string& source = memorised().checkpoint;
  const std::string flags = "--prompt abac --temperature 3 --max-new-tokens 40 --seed ";
  const std::string text = generate(source, flags + "1");
  CHECK(generate(source, flags + "1") == text);
  CHECK(generate(memorised().weights, flags + "1") == text);
  CHECK(generate(source, flags + "2") != text);
  CHECK(text.starts_with("abac"));
  CHECK(text != repeated(44) + "\n");  // so hot, it strays
}

TEST_CASE("prompts: a file, a long one, token ids, none") {
  const auto& [folder, checkpoint, weights] = memorised();
  const std::string file = folder.write("prompt", repeated(100));
  CHECK(generate(checkpoint, "--greedy --max-new-tokens 20 --prompt-file " + quoted(file)) ==
        repeated(120) + "\n");
  CHECK(generate(checkpoint, "--greedy --max-new-tokens 20 --prompt-file - <" + quoted(file)) ==
        repeated(120) + "\n");
  CHECK(run_zero1("generate " + quoted(checkpoint) + " --greedy --prompt-file " + quoted(file))
            .says("the prompt has 100 tokens; the model sees the last 17"));
  CHECK(generate(checkpoint, "--greedy --prompt-tokens 97,98,97,99 --max-new-tokens 3") ==
        "97,98,97,99,97,100,97\n");
  CHECK(generate(checkpoint, "--greedy --max-new-tokens 3").size() == 1 + 3 + 1);  // after a line feed
  // A shorter window than that of training is not enough to tell the phases apart.
  CHECK(generate(checkpoint, "--greedy --prompt abac --seq-length 1 --max-new-tokens 60") !=
        repeated(64) + "\n");
}

TEST_CASE("--json: one object with texts, ids and settings") {
  const json object = json::parse(
      generate(memorised().checkpoint, "--json --prompt aba --greedy --max-new-tokens 2 --seed 9"));
  CHECK(object.at("prompt") == "aba");
  CHECK(object.at("text") == "ca");
  CHECK(object.at("prompt_tokens") == json{97, 98, 97});
  CHECK(object.at("tokens") == json{99, 97});
  CHECK(object.at("temperature") == 0);
  CHECK(object.at("seed") == 9);
  // Bytes that are not UTF-8 must not break the JSON.
  const std::string hot =
      generate(memorised().checkpoint, "--json --prompt a --temperature 50 --max-new-tokens 200");
  CHECK(json::parse(hot).at("tokens").size() == 200);
}

TEST_CASE("--top-k keeps to the likeliest tokens") {
  const auto tokens_of = [](int top_k) {
    const json object = json::parse(
        generate(memorised().checkpoint,
                 "--json --prompt a --temperature 50 --max-new-tokens 300 --top-k " + std::to_string(top_k)));
    const auto tokens = object.at("tokens").get<std::vector<int>>();
    return std::set<int>(tokens.begin(), tokens.end()).size();
  };
  CHECK(tokens_of(0) > 100);
  CHECK(tokens_of(1000) > 100);  // there are 256
  CHECK(tokens_of(2) < 100);
}

TEST_CASE("an MLP generates, too") {
  const TemporaryFolder folder;
  REQUIRE(run_zero1(
              "train --model mlp --num-layers 1 --hidden-size 16 --seq-length 16 --train-iters 80 --lr 0.05 "
              "--log-interval 0 --threads-per-rank 1 --data " +
              quoted(folder.write("text", std::string(40, 'x') + "yz")) + " --save " +
              quoted(folder / "ckpt"))
              .status == 0);
  CHECK(generate(folder / "ckpt", "--prompt qqx --greedy --max-new-tokens 5") == "qqxxxxxx\n");
}

TEST_CASE("what cannot be generated is refused with its reason") {
  const auto& [folder, checkpoint, weights] = memorised();
  const std::string ckpt = quoted(checkpoint);
  const std::string golden = quoted(ZERO1_GOLDEN_DIR "/gpt-a.init.safetensors");
  const std::string empty = quoted(folder.write("empty", ""));
  const struct {
    std::string arguments, says;
  } cases[] = {
      {quoted(folder / "none"), "none"},
      {quoted(folder / "none.safetensors"), "No such file"},
      {empty, "empty"},
      {"model.h5", "zero1 ckpt import"},
      {ckpt + " --ckpt-step 7", "150"},
      {quoted(weights) + " --ckpt-step 7", "--ckpt-step"},
      {golden, "--num-attention-heads N"},
      {golden + " --num-attention-heads 5", "must divide"},
      {ckpt + " --num-attention-heads 1", "was trained with --num-attention-heads 2, got 1"},
      {ckpt + " --vocab-size 200", "was trained with --vocab-size 256"},
      {golden + " --num-attention-heads 4 --vocab-size 300", "256 rows"},
      {golden + " --num-attention-heads 4 --vocab-size 100 --prompt z", "byte 122 at position 0"},
      {ckpt + " --seq-length 18", "17 positions"},
      {ckpt + " --seq-length 0", "--seq-length"},
      {ckpt + " --prompt ''", "--prompt: the value is empty"},
      {ckpt + " --prompt-file " + empty, "--prompt-file: is empty"},
      {ckpt + " --prompt a --prompt-tokens 1", "excludes"},
      {ckpt + " --prompt-tokens 1,,2", "--prompt-tokens"},
      {ckpt + " --prompt-tokens 1,256", "found '256'"},
      {ckpt + " --prompt-tokens -1", "found '-1'"},
      {ckpt + " --max-new-tokens 0", "--max-new-tokens"},
      {ckpt + " --temperature -1", "--temperature"},
      {ckpt + " --temperature nan", "finite"},
      {ckpt + " --top-k -1", "--top-k"},
      {ckpt + " --greedy --temperature 1", "--greedy"},
      {"", "SRC"},
  };
  for (const auto& c : cases) {
    const Outcome outcome = run_zero1("generate " + c.arguments);
    CAPTURE(c.arguments);
    CAPTURE(outcome.output);
    CHECK(outcome.status == 2);
    CHECK(outcome.says(c.says));
  }
  CHECK(run_zero1("generate " + ckpt + " >/dev/full").status == 1);
}

TEST_CASE("a terminal gets no control characters, and characters only when they are complete") {
  std::string bytes = "a\x1b[2J\tb\n\xc3";
  CHECK(zero1::app::TokenOutput::take_shown(bytes) == "a\uFFFD[2J\tb\n");
  CHECK(bytes == "\xc3");
  bytes += "\xa4\xe2\x82";
  CHECK(zero1::app::TokenOutput::take_shown(bytes) == "ä");
  bytes += "\xacz\xff\x80\xe2z";
  CHECK(zero1::app::TokenOutput::take_shown(bytes) == "€z\uFFFD\uFFFD\uFFFDz");
  bytes = "\xc2\x9b";  // CSI
  CHECK(zero1::app::TokenOutput::take_shown(bytes) == "\uFFFD");
  CHECK(bytes.empty());
}
