// zero1 generate: lets a trained model continue a text, or a sequence of tokens.
#include <fmt/format.h>
#include <unistd.h>

#include <charconv>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "apps/zero1/commands.h"
#include "apps/zero1/model_source.h"
#include "apps/zero1/token_output.h"
#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/terminal.h"
#include "core/base/units.h"
#include "core/train/generator.h"
#include "core/train/sampler.h"

namespace zero1::app {

namespace {

struct GenerateFlags {
  std::string source;
  ModelFlags model;
  std::optional<std::string> prompt;
  std::string prompt_file;
  std::string prompt_tokens;
  std::int64_t max_new_tokens = 100;
  SamplingConfig sampling;
  bool greedy = false;
  bool json = false;
  int threads = 0;
};

/// A prompt, and whether what follows is shown as text: a vocabulary of up to 256 tokens is one of bytes.
struct Prompt {
  std::vector<std::int32_t> tokens;
  bool text = true;
};

void check_flags(const GenerateFlags& flags) {
  if (!(flags.sampling.temperature >= 0))
    throw InputError(fmt::format("--temperature must be 0 or more, got {}", flags.sampling.temperature));
  if (flags.sampling.top_k < 0)
    throw InputError(fmt::format("--top-k must be 0 (all tokens) or more, got {}", flags.sampling.top_k));
  if (flags.max_new_tokens < 1)
    throw InputError(fmt::format("--max-new-tokens must be at least 1, got {}", flags.max_new_tokens));
}

std::vector<std::int32_t> parse_tokens(const std::string& text, std::int64_t vocab_size) {
  std::vector<std::int32_t> tokens;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    const std::string_view item = std::string_view(text).substr(at, end - at);
    std::int32_t token = -1;
    const auto [stop, error] = std::from_chars(item.data(), item.data() + item.size(), token);
    if (error != std::errc() || stop != item.data() + item.size() || token < 0 || token >= vocab_size) {
      throw InputError(
          fmt::format("--prompt-tokens: expected numbers from 0 to {} with commas between them, found '{}'",
                      vocab_size - 1, item));
    }
    tokens.push_back(token);
    at = end + 1;
  }
  return tokens;
}

std::vector<std::int32_t> bytes_as_tokens(const char* flag, const std::string& text,
                                          std::int64_t vocab_size) {
  std::vector<std::int32_t> tokens;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= vocab_size) {
      throw InputError(fmt::format("{}: byte {} at position {} is not in the model's vocabulary of {} tokens",
                                   flag, byte, tokens.size(), vocab_size));
    }
    tokens.push_back(byte);
  }
  return tokens;
}

Prompt read_prompt(const GenerateFlags& flags, std::int64_t vocab_size) {
  if (!flags.prompt_tokens.empty()) return {parse_tokens(flags.prompt_tokens, vocab_size), false};
  if (vocab_size > 256) {
    throw InputError(
        fmt::format("{}: the model's vocabulary has {}, which are no bytes, and the checkpoint holds no "
                    "tokenizer: give token ids with --prompt-tokens 1,2,3",
                    flags.source, counted(vocab_size, "token")));
  }
  const bool from_file = !flags.prompt_file.empty();
  const char* const flag = from_file ? "--prompt-file" : "--prompt";
  const std::string text = from_file ? read_file(flags.prompt_file) : flags.prompt.value_or("\n");
  if (text.empty()) throw InputError(fmt::format("{}: is empty; a model continues at least one byte", flag));
  return {bytes_as_tokens(flag, text, vocab_size), true};
}

std::string bytes_of(std::span<const std::int32_t> tokens) {
  std::string bytes;
  for (const std::int32_t token : tokens) bytes += static_cast<char>(token);
  return bytes;
}

void print_json(const GenerateFlags& flags, const Prompt& prompt, std::span<const std::int32_t> tokens) {
  nlohmann::ordered_json json;
  if (prompt.text) {
    json["prompt"] = bytes_of(prompt.tokens);
    json["text"] = bytes_of(tokens);
  }
  json["prompt_tokens"] = prompt.tokens;
  json["tokens"] = std::vector<std::int32_t>(tokens.begin(), tokens.end());
  json["temperature"] = flags.sampling.temperature;
  json["top_k"] = flags.sampling.top_k;
  json["seed"] = flags.sampling.seed;
  // Bytes that are not UTF-8 become U+FFFD in the texts; the tokens are exact.
  print_json_text(json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
}

void run_generate(GenerateFlags flags) {
  if (flags.greedy) flags.sampling.temperature = 0;
  check_flags(flags);
  ModelSource source = open_model(flags.source, flags.model);
  const Prompt prompt = read_prompt(flags, source.vocab_size);
  std::vector<std::int32_t> tokens = prompt.tokens;
  if (static_cast<std::int64_t>(tokens.size()) > source.context_tokens && source.config.model == "gpt") {
    say(stderr, "zero1: note: the prompt has {}; the model sees the last {}\n",
        counted(tokens.size(), "token"), format_count(source.context_tokens));
  }
  Generator generator(make_model(source.config), source.context_tokens, source.config.vocab_size,
                      flags.threads, source.read);
  Sampler sampler(flags.sampling);
  TokenOutput output(prompt.text, isatty(STDOUT_FILENO) != 0);
  const auto show = [&](std::span<const std::int32_t> part) {
    if (!flags.json) output.write(part);
  };
  show(tokens);
  for (std::int64_t i = 0; i < flags.max_new_tokens; ++i) {
    const std::vector<float> logits = generator.next_token_logits(tokens);
    tokens.push_back(sampler.next(std::span(logits).first(static_cast<std::size_t>(source.vocab_size))));
    show(std::span(tokens).last(1));
  }
  if (flags.json)
    print_json(flags, prompt, std::span(tokens).subspan(prompt.tokens.size()));
  else
    output.finish();
}

}  // namespace

void add_generate_command(CLI::App& app, int& status) {
  (void)status;  // it succeeds or throws
  auto flags = std::make_shared<GenerateFlags>();
  CLI::App* cmd = app.add_subcommand("generate", "Let a trained model continue a text");
  cmd->footer(
      "Examples:\n"
      "  zero1 generate out/ckpt --prompt '12 + 7 = ' --max-new-tokens 8 --greedy\n"
      "  zero1 generate model.safetensors --num-attention-heads 12 --prompt-tokens 464,3290 --top-k 40\n"
      "The prompt and what follows are printed as they are made. The model sees the last --seq-length "
      "tokens:\n"
      "the window slides. A vocabulary of up to 256 tokens is one of bytes; of a larger one, token ids are\n"
      "printed. The model runs in fp32 on the CPU. The same seed gives the same text.");
  cmd->option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  cmd->add_option("SRC", flags->source, "A checkpoint, a folder of them (the latest), or a .safetensors file")
      ->required();
  auto* prompt = cmd->add_option("--prompt", flags->prompt, "Text to continue (default: a line feed)");
  auto* prompt_file =
      cmd->add_option("--prompt-file", flags->prompt_file, "The same from a file; - is standard input")
          ->type_name("FILE");
  auto* prompt_tokens = cmd->add_option("--prompt-tokens", flags->prompt_tokens,
                                        "Token ids to continue, as 464,3290; prints ids")
                            ->type_name("IDS");
  prompt->excludes(prompt_file);
  prompt->excludes(prompt_tokens);
  prompt_file->excludes(prompt_tokens);
  cmd->add_option("--max-new-tokens", flags->max_new_tokens, "Tokens to make")->capture_default_str();
  auto* greedy = cmd->add_flag("--greedy", flags->greedy, "The likeliest token, always; as --temperature 0");
  cmd->add_option("--temperature", flags->sampling.temperature,
                  "Divisor of the logits: below 1 bolder in what is likely, above 1 more varied")
      ->capture_default_str()
      ->excludes(greedy);
  cmd->add_option("--top-k", flags->sampling.top_k, "Draw among the K likeliest tokens (0: all)")
      ->capture_default_str()
      ->excludes(greedy);
  cmd->add_option("--seed", flags->sampling.seed, "For drawing tokens")->capture_default_str();
  cmd->add_flag("--json", flags->json, "One object at the end: text, token ids, settings");
  cmd->add_option("--ckpt-step", flags->model.step,
                  "Which step of a folder of checkpoints (default: the latest)");
  cmd->add_option("--num-attention-heads", flags->model.num_attention_heads,
                  "Heads of the model, where SRC does not say it");
  cmd->add_option("--vocab-size", flags->model.vocab_size,
                  "Tokens of the vocabulary without padding, where SRC does not say it (default: all rows)");
  cmd->add_option("--seq-length", flags->model.seq_length,
                  "Tokens that the model sees (default: as in training, else all its positions)");
  cmd->add_option("--threads", flags->threads, "CPU threads (0: all cores)")
      ->check(CLI::Range(0, 16384))
      ->capture_default_str();
  cmd->callback([flags] { run_generate(*flags); });
}

}  // namespace zero1::app
