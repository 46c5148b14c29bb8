// Training on files of token ids, with vocabularies larger than that of bytes, as people call it.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "core/base/random.h"
#include "core/data/safetensors.h"
#include "core/model/gpt.h"
#include "tests/support/command.h"
#include "tests/support/temporary_folder.h"

using namespace zero1;
using namespace zero1::test;
using nlohmann::json;

namespace {

constexpr std::int64_t gpt2_tokens = 50'257;

const std::string tiny =
    "train --num-layers 1 --hidden-size 8 --num-attention-heads 2 --seq-length 8 --micro-batch-size 2 --lr "
    "0.01 "
    "--threads-per-rank 1 --log-interval 0 ";

/// nanoGPT's train.bin.
std::string write_tokens(const TemporaryFolder& folder, const std::string& name, std::size_t count,
                         std::int64_t below) {
  RandomStream random(count);
  std::string bytes;
  for (std::size_t i = 0; i < count; ++i) {
    const auto token = static_cast<std::uint16_t>(random.below(below));
    bytes.append(reinterpret_cast<const char*>(&token), sizeof(token));
  }
  return quoted(folder.write(name, bytes));
}

/// Weights with GPT-2's names and rows, of a small width; the values of `vocab_size` rows.
void write_gpt2_weights(const std::string& path, std::int64_t vocab_size) {
  const auto model = make_gpt(
      {.vocab_size = vocab_size, .max_seq_len = 8, .num_layers = 1, .hidden_size = 8, .num_heads = 2});
  std::vector<SafetensorsEntry> entries;
  for (const ParamSpec& spec : model->param_specs())
    entries.push_back({.name = spec.name, .dtype = DType::fp32, .shape = spec.shape});
  SafetensorsWriter file(path, entries, {{"format", "pt"}});
  for (std::size_t p = 0; p < entries.size(); ++p) {
    const std::vector<float> values = model->initial_values(static_cast<int>(p), 5);
    file.write_fp32(p, 0, values.data(), static_cast<std::int64_t>(values.size()));
  }
  file.close();
}

std::vector<double> losses(const TemporaryFolder& folder, const std::string& name) {
  std::vector<double> values;
  std::istringstream lines(folder.read(name));
  for (std::string line; std::getline(lines, line);) values.push_back(json::parse(line).at("loss"));
  return values;
}

std::string hash_line(const Outcome& outcome) {
  CAPTURE(outcome.output);
  REQUIRE(outcome.status == 0);
  const std::size_t at = outcome.output.find("Final parameters ");
  REQUIRE(at != std::string::npos);
  return outcome.output.substr(at, 33);
}

}  // namespace

TEST_CASE("weights with GPT-2's vocabulary train on GPT-2's tokens, padded or not, and generate") {
  const TemporaryFolder folder;
  const std::string data =
      " --data " + write_tokens(folder, "train.bin", 400, gpt2_tokens) + " --vocab-size 50257 ";
  write_gpt2_weights(folder / "gpt2.safetensors", gpt2_tokens);
  const std::string init = "--init " + quoted(folder / "gpt2.safetensors");
  const Outcome plain =
      run_zero1(tiny + data + init + " --train-iters 3 --metrics " + quoted(folder / "plain.jsonl") +
                " --save-weights " + quoted(folder / "out.safetensors"));
  CAPTURE(plain.output);
  REQUIRE(plain.status == 0);
  CHECK(plain.says("vocabulary 50,257 tokens\n"));
  const std::vector<double> plain_losses = losses(folder, "plain.jsonl");
  CHECK(plain_losses.at(0) == doctest::Approx(std::log(gpt2_tokens)).epsilon(0.01));
  CHECK(SafetensorsReader(folder / "out.safetensors").find("wte.weight")->shape ==
        std::vector<std::int64_t>{gpt2_tokens, 8});

  const Outcome padded =
      run_zero1(tiny + data + init + " --train-iters 3 --make-vocab-size-divisible-by 128 --metrics " +
                quoted(folder / "padded.jsonl") + " --save " + quoted(folder / "ckpt"));
  CAPTURE(padded.output);
  REQUIRE(padded.status == 0);
  CHECK(padded.says("vocabulary 50,257 tokens, padded to 50,304\n"));
  // The padding takes part in the softmax: about log(50,304 / 50,257) more.
  const double more = losses(folder, "padded.jsonl").at(0) - plain_losses.at(0);
  CHECK(more == doctest::Approx(std::log(50'304.0 / gpt2_tokens)).epsilon(0.1));

  const Outcome made =
      run_zero1("generate " + quoted(folder / "ckpt") +
                " --prompt-tokens 50256,1 --temperature 1e9 --max-new-tokens 50 --threads 1");
  CAPTURE(made.output);
  CHECK(made.status == 0);
  CHECK(made.output.starts_with("50256,1,"));
  CHECK(run_zero1("generate " + quoted(folder / "ckpt") + " --prompt hello").says("--prompt-tokens"));
  CHECK(run_zero1("generate " + quoted(folder / "ckpt") + " --prompt-tokens 50257").says("0 to 50256"));
}

TEST_CASE("padding never wins, however likely it is") {
  const TemporaryFolder folder;
  const std::string data = " --data " + write_tokens(folder, "train.bin", 200, 5) + " --vocab-size 5 ";
  REQUIRE(run_zero1(tiny + data + "--make-vocab-size-divisible-by 64 --train-iters 1 --save " +
                    quoted(folder / "ckpt"))
              .status == 0);
  const Outcome made =
      run_zero1("generate " + quoted(folder / "ckpt") +
                " --json --prompt-tokens 1 --temperature 1e9 --max-new-tokens 200 --threads 1");
  CAPTURE(made.output);
  REQUIRE(made.status == 0);
  const auto tokens = json::parse(made.output).at("tokens").get<std::vector<int>>();
  CHECK(*std::max_element(tokens.begin(), tokens.end()) == 4);
  CHECK(*std::min_element(tokens.begin(), tokens.end()) == 0);
}

TEST_CASE("token files resume, shuffle and evaluate as bytes do") {
  const TemporaryFolder folder;
  const std::string run = tiny + "--vocab-size 300 --shuffle --data " +
                          write_tokens(folder, "t.bin", 300, 300) + " --valid-data " +
                          write_tokens(folder, "v.bin", 100, 300) +
                          " --eval-interval 2 --eval-iters 1 --train-iters 6 ";
  const std::string whole =
      hash_line(run_zero1(run + "--dp 2 --save " + quoted(folder / "a") + " --save-interval 3"));
  CHECK(hash_line(run_zero1(run + "--dp 2 --load " + quoted(folder / "a") + " --ckpt-step 3")) == whole);
  CHECK(hash_line(run_zero1(run + "--dp 2 --seed 9")) != whole);
  const Outcome other =
      run_zero1(run + "--vocab-size 301 --dp 2 --load " + quoted(folder / "a") + " --ckpt-step 3");
  CHECK(other.status == 2);
  CHECK(other.says("301"));
}

TEST_CASE("what a vocabulary lacks is said before training") {
  const TemporaryFolder folder;
  const std::string data = write_tokens(folder, "t.bin", 300, 300);
  const std::string text = quoted(folder.write("text", std::string(100, 'z')));
  const struct {
    std::string flags, says;
  } cases[] = {
      {"--data " + data, "--vocab-size"},
      {"--data " + data, "--token-dtype uint8"},
      {"--data " + text + " --valid-data " + data + " --eval-interval 1", "--valid-data"},
      {"--vocab-size 300 --data " + data + " --valid-data " + text + " --eval-interval 1",
       "one is read as bytes"},
      {"--data " + data + " --vocab-size 200", "not below the vocabulary's size, 200"},
      {"--data " + text + " --vocab-size 100", "byte 122 at position 0"},
      {"--vocab-size 100", "at least 128"},
      {"--vocab-size -1", "--vocab-size"},
      {"--vocab-size 16777217", "--vocab-size"},
      {"--make-vocab-size-divisible-by 0", "--make-vocab-size-divisible-by"},
      {"--make-vocab-size-divisible-by 16777216 --vocab-size 16777215 --hidden-size 1048576",
       "needs at least"},
      {"--token-dtype int16 --data " + data, "--token-dtype"},
      {"--token-dtype uint16", "--data"},
  };
  for (const auto& c : cases) {
    const Outcome outcome = run_zero1(tiny + c.flags);
    CAPTURE(c.flags);
    CAPTURE(outcome.output);
    CHECK(outcome.status == 2);
    CHECK(outcome.says(c.says));
  }
  CHECK(run_zero1(tiny + "--train-iters 1 --token-dtype uint8 --data " + data).status == 0);  // its bytes
}
