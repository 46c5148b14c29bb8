// What a run that goes on may change: every field of the configuration, one by one.
#include <doctest/doctest.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "apps/zero1/train_flags.h"
#include "ckpt/config_rules.h"
#include "ckpt/hyperparameters.h"
#include "core/base/error.h"
#include "tests/support/message.h"

using namespace zero1;
using ckpt::Change;
using ckpt::Hyperparameters;

namespace {

TrainConfig base() {
  TrainConfig c;
  c.hidden_size = 24;
  c.num_attention_heads = 2;
  c.dp = 2;
  c.global_batch_size = 8;
  c.threads_per_rank = 1;
  c.rampup_batch_size = {2, 2, 300};
  c.valid_data = "valid.txt";
  c.eval_interval = 5;
  return resolve(c);
}

ckpt::RunState state_of(const TrainConfig& config) {
  ckpt::RunState s;
  s.step = 30;
  s.consumed_sequences = 100;
  s.seed = config.seed;
  s.shuffle = config.shuffle;
  s.clip_grad = config.optimizer.clip_grad;
  s.loss_scale = 65536;
  s.config_json = to_json(config);
  return s;
}

/// Another value for each field of the configuration, by its name in JSON.
const std::map<std::string, std::function<void(TrainConfig&)>>& changes() {
  static const std::map<std::string, std::function<void(TrainConfig&)>> all{
      {"model", [](TrainConfig& c) { c.model = "mlp"; }},
      {"num_layers", [](TrainConfig& c) { c.num_layers = 7; }},
      {"hidden_size", [](TrainConfig& c) { c.hidden_size = 36; }},
      {"num_attention_heads", [](TrainConfig& c) { c.num_attention_heads = 4; }},
      {"max_position_embeddings", [](TrainConfig& c) { c.max_position_embeddings = 999; }},
      {"params_dtype", [](TrainConfig& c) { c.param_dtype = DType::bf16; }},
      {"seq_length", [](TrainConfig& c) { c.seq_length = 16; }},
      {"data", [](TrainConfig& c) { c.data = "other.txt"; }},
      {"shuffle", [](TrainConfig& c) { c.shuffle = true; }},
      {"seed", [](TrainConfig& c) { c.seed = 99; }},
      {"global_batch_size", [](TrainConfig& c) { c.global_batch_size = 16; }},
      {"rampup_batch_size", [](TrainConfig& c) { c.rampup_batch_size->sequences = 200; }},
      {"lr", [](TrainConfig& c) { c.lr.lr = 0.5; }},
      {"min_lr", [](TrainConfig& c) { c.lr.min_lr = 1e-6; }},
      {"lr_warmup_iters", [](TrainConfig& c) { c.lr.warmup_iters = 3; }},
      {"lr_decay_iters", [](TrainConfig& c) { c.lr.decay_iters = 1000; }},
      {"lr_decay_style", [](TrainConfig& c) { c.lr.style = LrDecayStyle::cosine; }},
      {"lr_wsd_decay_style", [](TrainConfig& c) { c.lr.wsd_style = WsdDecayStyle::cosine; }},
      {"lr_wsd_decay_iters", [](TrainConfig& c) { c.lr.wsd_decay_iters = 9; }},
      {"weight_decay", [](TrainConfig& c) { c.optimizer.weight_decay = 0.5; }},
      {"adam_beta1", [](TrainConfig& c) { c.optimizer.adam_beta1 = 0.5; }},
      {"adam_beta2", [](TrainConfig& c) { c.optimizer.adam_beta2 = 0.5; }},
      {"adam_eps", [](TrainConfig& c) { c.optimizer.adam_eps = 0.5; }},
      {"param_group",
       [](TrainConfig& c) {
         c.optimizer.param_groups = {{"wpe.*", 2, 0}};
       }},
      {"clip_grad", [](TrainConfig& c) { c.optimizer.clip_grad = 0.5; }},
      {"micro_batch_size", [](TrainConfig& c) { c.micro_batch_size = 4; }},
      {"grad_reduce_in_fp32", [](TrainConfig& c) { c.data_parallel.grad_reduce_in_fp32 = false; }},
      {"average_in_collective", [](TrainConfig& c) { c.data_parallel.average_in_collective = true; }},
      {"check_for_nan_in_loss", [](TrainConfig& c) { c.check_for_nan_in_loss = false; }},
      {"check_for_nan_in_grad", [](TrainConfig& c) { c.data_parallel.check_for_nan_in_grad ^= true; }},
      {"check_for_large_grads", [](TrainConfig& c) { c.data_parallel.check_for_large_grads = 7; }},
      {"loss_scale", [](TrainConfig& c) { c.loss_scale.constant = 7; }},
      {"min_loss_scale", [](TrainConfig& c) { c.loss_scale.min_scale = 7; }},
      {"loss_scale_window", [](TrainConfig& c) { c.loss_scale.growth_interval = 7; }},
      {"hysteresis", [](TrainConfig& c) { c.loss_scale.hysteresis = 7; }},
      {"initial_loss_scale", [](TrainConfig& c) { c.loss_scale.initial_scale = 7; }},
      {"valid_data", [](TrainConfig& c) { c.valid_data = "others.txt"; }},
      {"eval_iters", [](TrainConfig& c) { c.eval_iters = 7; }},
      {"eval_interval", [](TrainConfig& c) { c.eval_interval = 7; }},
      {"device", [](TrainConfig& c) { c.device = "cuda"; }},
      {"tf32", [](TrainConfig& c) { c.tf32 = true; }},
      {"dp", [](TrainConfig& c) { c.dp = 1; }},
      {"train_iters", [](TrainConfig& c) { c.train_iters = 777; }},
      {"use_distributed_optimizer",
       [](TrainConfig& c) { c.data_parallel.use_distributed_optimizer = false; }},
      {"overlap_grad_reduce", [](TrainConfig& c) { c.data_parallel.overlap_grad_reduce = true; }},
      {"overlap_param_gather", [](TrainConfig& c) { c.data_parallel.overlap_param_gather = true; }},
      {"ddp_bucket_size", [](TrainConfig& c) { c.data_parallel.bucket_size_elems = 700; }},
      {"ddp_num_buckets", [](TrainConfig& c) { c.data_parallel.num_buckets = 7; }},
      {"ddp_pad_buckets_for_high_nccl_busbw",
       [](TrainConfig& c) { c.data_parallel.pad_buckets_for_high_nccl_busbw = true; }},
      {"force_all_reduce", [](TrainConfig& c) { c.data_parallel.force_all_reduce = true; }},
      {"eval", [](TrainConfig& c) { c.eval = true; }},
      {"vocab_size", [](TrainConfig& c) { c.vocab_size = 77; }},
      {"make_vocab_size_divisible_by", [](TrainConfig& c) { c.make_vocab_size_divisible_by = 7; }},
      {"token_dtype", [](TrainConfig& c) { c.token_dtype = TokenDType::uint32; }},
      {"comm", [](TrainConfig& c) { c.comm = "nccl"; }},
      {"threads_per_rank", [](TrainConfig& c) { c.threads_per_rank = 7; }},
      {"link_gbps", [](TrainConfig& c) { c.link.gbit_per_s = 7; }},
      {"link_latency_us", [](TrainConfig& c) { c.link.latency_us = 7; }},
  };
  return all;
}

std::set<std::string> fields_of(const TrainConfig& config) {
  std::set<std::string> fields;
  const auto json = nlohmann::json::parse(to_json(config));
  for (const auto& [key, value] : json.items()) fields.insert(key);
  return fields;
}

}  // namespace

TEST_CASE("every field of the configuration has one rule, and a rule its field") {
  std::multiset<std::string> ruled;
  for (const ckpt::ConfigRule& rule : ckpt::config_rules()) ruled.insert(std::string(rule.field));
  const std::set<std::string> fields = fields_of(base());
  for (const std::string& field : fields) {
    CHECK_MESSAGE(ruled.count(field) == 1, "say in ckpt/config_rules.cpp what a resumed run may change of ",
                  field);
    CHECK_MESSAGE(changes().count(field) == 1, "no test changes ", field);
  }
  for (const std::string& field : ruled) CHECK_MESSAGE(fields.count(field) == 1, "no such field: ", field);
}

TEST_CASE("every flag sets a field that has a rule, or nothing that a later run could go by") {
  // Outputs, files of one start, and what steers saving and loading themselves.
  const std::set<std::string> of_one_run{"--help",
                                         "--config",
                                         "--metrics",
                                         "--trace",
                                         "--svg",
                                         "--tensorboard-dir",
                                         "--log-interval",
                                         "--save-weights",
                                         "--init",
                                         "--save",
                                         "--save-interval",
                                         "--keep-last",
                                         "--async-save",
                                         "--save-best",
                                         "--exit-duration-in-mins",
                                         "--load",
                                         "--strict",
                                         "--no-strict",
                                         "--load-weights-only",
                                         "--rename",
                                         "--exclude",
                                         "--transpose",
                                         "--no-transpose",
                                         "--allow-change",
                                         "--use-checkpoint-opt_param-scheduler",
                                         "--override-opt_param-scheduler",
                                         "--ckpt-step"};
  std::string ruled = " ";
  for (const ckpt::ConfigRule& rule : ckpt::config_rules()) ruled += std::string(rule.flag) + " ";
  std::replace(ruled.begin(), ruled.end(), '/', ' ');
  CLI::App app;
  app::TrainOptions options;
  app::add_train_flags(app, options);
  for (const CLI::Option* option : app.get_options()) {
    const std::string flag = "--" + option->get_lnames().front();
    const bool known = of_one_run.count(flag) == 1 || ruled.find(" " + flag + " ") != std::string::npos;
    CHECK_MESSAGE(known, flag, ": a rule in ckpt/config_rules.cpp, or a place in this test's list");
  }
}

TEST_CASE("a change of each field is refused, told or free, as its rule says") {
  for (const ckpt::ConfigRule& rule : ckpt::config_rules()) {
    const std::string field(rule.field);
    CAPTURE(field);
    TrainConfig before = base();
    if (rule.flag.find("scale") != rule.flag.npos || field == "hysteresis") before.param_dtype = DType::fp16;
    TrainConfig now = before;
    changes().at(field)(now);
    const ckpt::ConfigChanges changed = ckpt::compare_configs(now, state_of(before), {}, false);
    CHECK(changed.refused.size() == (rule.refuses() ? 1 : 0));
    CHECK(changed.notes.size() == (rule.change == Change::told ? 1 : 0));
    CHECK(ckpt::compare_configs(before, state_of(before), {}, false).notes.empty());
    const ckpt::ConfigChanges weights = ckpt::compare_configs(now, state_of(before), {}, true);
    CHECK(weights.refused.size() == (rule.change == Change::function && field != "params_dtype" ? 1 : 0));
    if (!rule.refuses()) continue;
    const std::string name = ckpt::change_name(rule);
    CHECK_NOTHROW(ckpt::check_change_names({name}));
    CHECK(test::contains(changed.refused[0], std::string(rule.flag) + ": "));
    CHECK(changed.refused_names == std::vector<std::string>{name});
    const ckpt::ConfigChanges meant = ckpt::compare_configs(now, state_of(before), {"x", name}, false);
    CHECK(meant.refused.empty());
    REQUIRE(meant.notes.size() == 1);
    CHECK(test::contains(meant.notes[0], std::string(rule.flag) + ": "));
  }
}

TEST_CASE("what has no effect in either run is no difference") {
  const auto differences = [](TrainConfig before, TrainConfig now, std::int64_t consumed = 100) {
    ckpt::RunState state = state_of(before);
    state.consumed_sequences = consumed;
    const ckpt::ConfigChanges changed = ckpt::compare_configs(now, state, {}, false);
    return changed.refused.size() + changed.notes.size();
  };
  TrainConfig before = base();
  before.data = "text.txt";
  TrainConfig now = before;
  now.seed = 99;  // neither generates nor shuffles
  CHECK(differences(before, now) == 0);
  before.shuffle = now.shuffle = true;
  CHECK(differences(before, now) == 1);
  now = before;
  now.rampup_batch_size.reset();
  CHECK(differences(before, now, 300) == 1);
  CHECK(differences(before, now, 301) == 0);  // behind the ramp
  before.model = now.model = "mlp";
  now.rampup_batch_size = before.rampup_batch_size;
  now.num_attention_heads = 4;
  CHECK(differences(before, now) == 0);
}

TEST_CASE("what an older checkpoint does not tell, or tells in another way, harms nobody") {
  const TrainConfig config = base();
  ckpt::RunState state = state_of(config);
  for (const char* told : {"{}", "[]", "null", "3", R"({"model": "gpt"})"}) {
    state.config_json = told;
    const ckpt::ConfigChanges changed = ckpt::compare_configs(config, state, {}, false);
    CHECK(changed.refused.empty());
  }
  state.config_json = R"({"num_attention_heads": "\u001b[2J", "seq_length": [1], "rampup_batch_size": 3})";
  const ckpt::ConfigChanges changed = ckpt::compare_configs(config, state, {}, false);
  CHECK(changed.refused.size() == 3);
  for (const std::string& line : changed.refused) CHECK(line.find('\x1b') == std::string::npos);
}

TEST_CASE("all that is refused is told at once, with the flag that says it is meant") {
  const TrainConfig before = base();
  TrainConfig now = before;
  now.lr.lr = 0.25;
  now.num_attention_heads = 4;
  now.seq_length = 16;
  ckpt::RunState state = state_of(before);
  state.lr = before.lr.lr;
  const std::string message =
      test::message_of<InputError>([&] { ckpt::agree(now, state, {}, {}, Hyperparameters::must_agree); });
  for (const char* part :
       {"--lr: 0.25 here", "--override-opt_param-scheduler",
        "--num-attention-heads: 4 here, 2 in the checkpoint: another function of the same parameters",
        "--seq-length: 16 here, 128 in the checkpoint: the data would be read from another position",
        "--allow-change num-attention-heads,seq-length"})
    CHECK_MESSAGE(test::contains(message, part), message);
  const std::string unknown = test::message_of<InputError>([] { ckpt::check_change_names({"seq-lenght"}); });
  CHECK(test::contains(unknown, "--allow-change 'seq-lenght': expected one of model, "));
  CHECK(test::contains(unknown, "did you mean 'seq-length'?"));
  CHECK_THROWS_AS(ckpt::check_change_names({"clip-grad"}), InputError);  // never refused
}
