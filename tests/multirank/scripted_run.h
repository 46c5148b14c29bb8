// Runs a ScriptedModel through the pipeline on in-process ranks, and the same by hand in fp64.
#pragma once

#include <cmath>
#include <memory>
#include <mutex>
#include <vector>

#include "core/comm/local/local_world.h"
#include "core/device/cpu/cpu_device.h"
#include "core/trace/recorder.h"
#include "core/train/weights.h"
#include "core/zero1/distributed_optimizer.h"
#include "tests/multirank/scripted_model.h"

namespace zero1::test {

struct ScriptedRun {
  std::vector<ParamSpec> specs;
  int dp = 1;
  int expert_dp = 0;  ///< ranks that hold the same experts: r, r + dp / expert_dp, …; 0: no experts
  int steps = 3;
  int microbatches = 1;
  double lr = 0.01;
  DataParallelConfig data_parallel;
  OptimizerConfig optimizer;
  Script script;
  trace::Recorder* recorder = nullptr;
  trace::Gate* gate = nullptr;
};

struct ScriptedResult {
  std::vector<std::vector<float>> params;  ///< by parameter, as rank 0 sees them at the end
  std::vector<double> grad_norms;          ///< by step
  std::vector<bool> skipped;               ///< by step
  bool ranks_agree = true;                 ///< every rank ended with the same parameters
  bool steps_agree = true;               ///< every rank has seen the same norms, non-finite counts and skips
  std::vector<std::int64_t> non_finite;  ///< by step
  std::vector<std::vector<std::vector<float>>> params_of_rank;
};

inline ScriptedResult run_scripted(const ScriptedRun& run) {
  LocalWorld world(run.dp);
  std::vector<std::unique_ptr<Communicator>> communicators;
  for (int r = 0; r < run.dp; ++r) communicators.push_back(world.communicator(r));
  // As Megatron numbers ranks: neighbours hold different experts.
  const int expert_parallel = run.expert_dp > 0 ? run.dp / run.expert_dp : 0;
  std::vector<std::unique_ptr<LocalWorld>> expert_worlds;
  std::vector<std::unique_ptr<Communicator>> expert_communicators;
  for (int e = 0; e < expert_parallel; ++e)
    expert_worlds.push_back(std::make_unique<LocalWorld>(run.expert_dp));
  for (int r = 0; expert_parallel > 0 && r < run.dp; ++r) {
    LocalWorld& experts = *expert_worlds[static_cast<std::size_t>(r % expert_parallel)];
    expert_communicators.push_back(experts.communicator(r / expert_parallel));
  }
  ScriptedResult result;
  std::vector<std::vector<std::vector<float>>> params(static_cast<std::size_t>(run.dp));
  std::vector<std::vector<StepResult>> results(static_cast<std::size_t>(run.dp));
  const auto body = [&](int rank) {
    const auto device = make_cpu_device({1});
    const auto compute = device->create_stream(StreamKind::compute);
    const auto communication = device->create_stream(StreamKind::communication);
    trace::Tracer tracer(rank, run.recorder, run.gate);
    Communicator& communicator = *communicators[static_cast<std::size_t>(rank)];
    Communicator* const experts =
        expert_parallel > 0 ? expert_communicators[static_cast<std::size_t>(rank)].get() : nullptr;
    RankContext context{*device, *compute, *communication, {&communicator, experts}, tracer};
    ScriptedModel model(run.specs, rank, run.script);
    std::unique_ptr<DataParallel> ddp;
    std::unique_ptr<DistributedOptimizer> optimizer;
    try {
      ddp = std::make_unique<DataParallel>(context, model, run.data_parallel);
      for (int p = 0; p < static_cast<int>(run.specs.size()); ++p)
        set_param(*ddp, p, model.initial_values(p, 0));
      optimizer = std::make_unique<DistributedOptimizer>(*ddp, run.optimizer);
      for (int s = 1; s <= run.steps; ++s) {
        tracer.set_step(s);
        trace::Event step_event;
        step_event.kind = trace::Kind::step;
        step_event.stream = trace::StreamId::compute;
        const auto span = tracer.span(*compute, step_event);
        model.step = s;
        model.microbatch = 0;
        ddp->zero_grad_buffer();
        for (int m = 0; m < run.microbatches; ++m) {
          std::optional<DataParallel::NoSync> no_sync;
          if (m + 1 < run.microbatches) no_sync.emplace(*ddp);
          model.forward({}, {}, 1, *ddp);
          model.backward(*ddp);
        }
        ddp->finish_grad_sync();
        results[static_cast<std::size_t>(rank)].push_back(optimizer->step(run.lr));
        ddp->start_param_sync();
      }
      ddp->drain_param_gathers();
      communication->synchronize();
      auto& mine = params[static_cast<std::size_t>(rank)];
      for (int p = 0; p < static_cast<int>(run.specs.size()); ++p) mine.push_back(get_param(*ddp, p));
    } catch (const std::exception& error) {
      communicator.abort(error.what());
      if (experts != nullptr) experts->abort(error.what());
      for (Stream* stream : {communication.get(), compute.get()}) {
        try {
          stream->synchronize();
        } catch (const std::exception&) {
        }
      }
      throw;
    }
  };
  run_ranks(run.dp, body, [&](int rank, const std::string& what) {
    communicators[static_cast<std::size_t>(rank)]->abort(what);
    if (expert_parallel > 0) expert_communicators[static_cast<std::size_t>(rank)]->abort(what);
  });
  for (const StepResult& step : results[0]) {
    result.grad_norms.push_back(step.grad_norm);
    result.skipped.push_back(step.skipped);
    result.non_finite.push_back(step.non_finite);
  }
  for (const std::vector<StepResult>& other : results) {
    for (std::size_t s = 0; s < other.size(); ++s) {
      result.steps_agree = result.steps_agree && other[s].grad_norm == results[0][s].grad_norm &&
                           other[s].non_finite == results[0][s].non_finite &&
                           other[s].skipped == results[0][s].skipped;
    }
  }
  result.params = params[0];
  for (const auto& other : params) result.ranks_agree = result.ranks_agree && other == params[0];
  result.params_of_rank = std::move(params);
  return result;
}

/// The same run in fp64 with no buffers, buckets or ranks: gradients averaged over ranks, clipped by the
/// global norm, AdamW per element.
inline ScriptedResult reference_run(const ScriptedRun& run) {
  ScriptedResult result;
  const auto multipliers = resolve_param_groups(run.specs, run.optimizer.param_groups);
  const OptimizerConfig& o = run.optimizer;
  std::vector<std::vector<double>> value, grad, m, v;
  for (std::size_t p = 0; p < run.specs.size(); ++p) {
    const auto n = static_cast<std::size_t>(run.specs[p].numel());
    value.emplace_back(n);
    for (std::size_t i = 0; i < n; ++i) {
      value[p][i] = visit_dtype(run.specs[p].dtype, [&](auto zero) {
        using T = decltype(zero);
        return static_cast<double>(
            static_cast<float>(T(scripted_initial(static_cast<int>(p), static_cast<std::int64_t>(i)))));
      });
    }
    grad.emplace_back(n);
    m.emplace_back(n);
    v.emplace_back(n);
  }
  for (int s = 1; s <= run.steps; ++s) {
    double sum = 0;
    for (std::size_t p = 0; p < grad.size(); ++p) {
      for (std::size_t i = 0; i < grad[p].size(); ++i) {
        double g = 0;
        for (int r = 0; r < run.dp; ++r) {
          for (int b = 0; b < run.microbatches; ++b) {
            g += scripted_gradient(static_cast<int>(p), static_cast<std::int64_t>(i), s, r, b);
          }
        }
        grad[p][i] = g / run.dp;
        sum += grad[p][i] * grad[p][i];
      }
    }
    const double norm = std::sqrt(sum);
    result.grad_norms.push_back(norm);
    result.skipped.push_back(false);
    const double clip = o.clip_grad > 0 ? std::min(1.0, o.clip_grad / (norm + 1e-6)) : 1;
    for (std::size_t p = 0; p < grad.size(); ++p) {
      const double lr = run.lr * multipliers[p].lr_mult;
      const double decay = o.weight_decay * multipliers[p].weight_decay_mult;
      for (std::size_t i = 0; i < grad[p].size(); ++i) {
        const double g = grad[p][i] * clip;
        m[p][i] = o.adam_beta1 * m[p][i] + (1 - o.adam_beta1) * g;
        v[p][i] = o.adam_beta2 * v[p][i] + (1 - o.adam_beta2) * g * g;
        value[p][i] *= 1 - lr * decay;
        value[p][i] -= lr * (m[p][i] / (1 - std::pow(o.adam_beta1, s))) /
                       (std::sqrt(v[p][i] / (1 - std::pow(o.adam_beta2, s))) + o.adam_eps);
      }
    }
  }
  for (const auto& p : value) result.params.emplace_back(p.begin(), p.end());
  return result;
}

}  // namespace zero1::test
