// Every wait between streams is needed: a run without one of them is wrong, and it shows.
//
// The lines of the pipeline that wait, and where each is left out:
//
//   communication waits for a bucket's gradients        10 of "a run"
//   compute waits for the bucket's reduction            9 of "the pipeline alone"
//   communication waits for the norm's parts            6 and 14 of "a run", 10 of "the pipeline alone"
//   compute waits for the norm                          7 and 15 of "a run", 11 of "the pipeline alone"
//   communication waits for the stepped parameters      16 of "a run"
//   compute waits for the gathered parameters           17 of "a run"
//   compute waits for the loss's reduction              19 of "a run that evaluates"
//   communication waits for the loss: not to be seen. In a training step its gradients, which are waited for,
//     come after the loss, and before an evaluation's reduction the host has synchronised the compute stream
//     to use its batches again. The wait stays: a reduction that is right only because of what its callers
//     did before would break with the next caller.
//
// The communicators' own waits are in communicator_waits_test.cpp. To TSan what is left out here is a data
// race and ends the program: wait_races_test.cpp.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <bit>
#include <limits>

#include "core/base/error.h"
#include "core/comm/local/local_world.h"
#include "core/train/machine_cuda.h"
#include "core/train/rank_trainer.h"
#include "core/train/trainer.h"
#include "core/train/weights.h"
#include "cuda_emulation/control.h"
#include "tests/cuda_emulation/gpu_runs/overlapped_gpt.h"
#include "tests/support/sanitizers.h"

using namespace zero1;
using cuda_emulation::Lagging;

namespace {

constexpr int steps = 3;
constexpr std::int64_t waits_in_step = test::one_bucket_gpt_waits;
constexpr std::int64_t waits_in_first_step = test::one_bucket_gpt_first_waits;

/// What `run` gives, or its error, when every rank lacks a wait: as if the line were missing. (If one rank
/// had it, that rank's wait would hurry the other's streams.)
template <class Run>
std::string outcome_without(std::int64_t wait, Lagging lagging, const Run& run) {
  cuda_emulation::set_lag(lagging, std::chrono::seconds(2));
  for (const int gpu : {0, 1}) cuda_emulation::skip_stream_wait(gpu, wait);
  std::string outcome;
  try {
    outcome = run();
  } catch (const Error& error) {
    outcome = error.what();
  }
  cuda_emulation::set_lag(Lagging::none);
  return outcome;
}

/// Does the lack of a wait show, when either kind of stream is late? A late stream is as late as the threads
/// of a busy machine let it be: somebody may wait for its work before the streams that should overtake it
/// have run. So a lack that has not shown gets further chances.
template <class Run>
bool noticed_without(std::int64_t wait, const std::string& expected, const Run& run) {
  for (int chance = 0; chance < 10; ++chance) {
    for (const Lagging lagging : {Lagging::compute, Lagging::communication}) {
      if (outcome_without(wait, lagging, run) != expected) return true;
    }
  }
  return false;
}

template <class Number>
std::string bits(Number value) {
  return fmt::format("{:x} ", std::bit_cast<std::uint64_t>(static_cast<double>(value)));
}

/// Everything that a run computes.
std::string train_outcome(const TrainConfig& config) {
  std::string outcome;
  TrainObserver observer;
  observer.record = false;
  observer.on_step = [&](const StepMetrics& m) {
    outcome += bits(m.loss) + bits(m.grad_norm) + bits(m.valid_loss.value_or(0));
  };
  return outcome + fmt::format("{:x}", train(config, observer, make_cuda_machine).param_hash);
}

/// The pipeline without a model. Gradients differ by rank and step; in the second step rank 0 has an infinite
/// one in the shard of rank 1, which alone sees, after the reduction, that the step must be skipped.
class BareRank {
 public:
  BareRank(Machine& machine, const TrainConfig& config, int rank)
      : rank_(rank),
        device_(*machine.devices[static_cast<std::size_t>(rank)]),
        streams_(device_),
        tracer_(rank, nullptr, nullptr),
        context_{device_,
                 *streams_.compute,
                 *streams_.communication,
                 {machine.communicators[static_cast<std::size_t>(rank)].get(), nullptr},
                 tracer_},
        model_(make_model(config)),
        data_parallel_(context_, *model_, config.data_parallel),
        optimizer_(data_parallel_, config.optimizer) {
    init_weights(data_parallel_, config.seed);
    streams_.compute->synchronize();
  }

  std::string run() {
    std::string outcome;
    for (int step = 1; step <= steps; ++step) {
      data_parallel_.zero_grad_buffer();
      const ParamAndGradBuffer& buffer = *data_parallel_.buffers()[0];
      const TensorView grads = buffer.grad_data();
      device_.ops().fill(*streams_.compute, grads, 0.01F * static_cast<float>(2 * step + rank_));
      if (step == 2 && rank_ == 0) {
        const TensorView shard = buffer.shard_grads(0, 1);
        device_.ops().fill(*streams_.compute, shard.slice({0, 1}), std::numeric_limits<float>::infinity());
      }
      for (int p = 0; p < static_cast<int>(model_->param_specs().size()); ++p) {
        data_parallel_.main_grad_beta(p);  // 0 or 1: all has been filled
        data_parallel_.grad_ready(p);
      }
      data_parallel_.finish_grad_sync();
      const StepResult result = optimizer_.step(0.01);
      data_parallel_.start_param_sync();
      outcome += bits(result.grad_norm) + bits(result.skipped ? 1 : 0);
    }
    outcome += fmt::format("{:x} ", hash_params(data_parallel_));
    streams_.communication->synchronize();
    return outcome;
  }

  RankStreams& streams() { return streams_; }

 private:
  int rank_;
  Device& device_;
  RankStreams streams_;
  trace::Tracer tracer_;
  RankContext context_;
  std::unique_ptr<Model> model_;
  DataParallel data_parallel_;
  DistributedOptimizer optimizer_;
};

std::string bare_outcome(std::int64_t skipped_wait) {
  TrainConfig config = test::one_bucket_gpt(steps);
  config.data_parallel.overlap_grad_reduce = false;
  config.data_parallel.overlap_param_gather = false;
  Machine machine = make_cuda_machine(config, {});
  std::string outcomes[2];
  run_ranks(
      2,
      [&](int rank) {
        BareRank own(machine, config, rank);
        // The count begins when the other GPU's streams are quiet, too.
        machine.communicators[static_cast<std::size_t>(rank)]->barrier(*own.streams().communication).wait();
        cuda_emulation::skip_stream_wait(rank, skipped_wait);
        outcomes[rank] = own.run();
      },
      [&](int rank, const std::string& what) {
        machine.communicators[static_cast<std::size_t>(rank)]->abort(what);
      });
  return outcomes[0] + outcomes[1];
}

}  // namespace

TEST_CASE("a run that lacks one of its waits between streams comes out wrong" *
          doctest::skip(test::under_tsan)) {
  const TrainConfig config = test::one_bucket_gpt(steps);
  const auto run = [&] { return train_outcome(config); };
  const std::string expected = outcome_without(-1, Lagging::none, run);
  REQUIRE(cuda_emulation::stream_waits(0) == waits_in_first_step + waits_in_step * (steps - 1));
  // The second of the first step's norm, then the second step's. 1 to 3 of a step, and 4 and 5 of the first:
  // see above; here they are implied by later ones, or their values have no say in the result.
  for (const std::int64_t position : {6, 7, 10, 14, 15, 16, 17}) {
    CAPTURE(position);
    CHECK(noticed_without(position, expected, run));
  }
}

TEST_CASE("the pipeline alone, without a loss to reduce, lacks one of its waits" *
          doctest::skip(test::under_tsan)) {
  const auto run = [](std::int64_t skipped) { return [skipped] { return bare_outcome(skipped); }; };
  const std::string expected = outcome_without(-1, Lagging::none, run(-1));
  // Steps 1 and 3 have eight waits, since the gradients of step 3 are far from those of step 1; step 2 ends
  // after four.
  REQUIRE(cuda_emulation::stream_waits(0) == 8 + 4 + 8);
  // In steps 1 and 3 the norm's waits hide those before it, but for the power of two below the largest
  // gradient, and nobody reads the parameters before the last step's are gathered.
  for (const std::int64_t position : {0, 4, 5, 9, 10, 11, 19}) {
    CAPTURE(position);
    CHECK(noticed_without(position, expected, run(position)));
  }
}

TEST_CASE("a run that evaluates reads the loss before it is reduced, if nothing waits" *
          doctest::skip(test::under_tsan)) {
  TrainConfig config = test::one_bucket_gpt(steps);
  config.valid_data = ZERO1_GOLDEN_DIR "/corpus.txt";
  config.train_iters = 2;
  config.eval_interval = 2;
  config.eval_iters = 1;
  const auto run = [&] { return train_outcome(resolve(config)); };
  const std::string expected = outcome_without(-1, Lagging::none, run);
  REQUIRE(cuda_emulation::stream_waits(0) == waits_in_first_step + waits_in_step + 2);
  CHECK(noticed_without(waits_in_first_step + waits_in_step + 1, expected, run));
}
