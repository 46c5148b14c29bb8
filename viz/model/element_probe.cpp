#include "viz/model/element_probe.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace zero1::viz {

namespace {

using trace::BucketState;
using trace::Collective;
using trace::Kind;
using At = trace::Probe::At;

}  // namespace

double element_value(ConstTensorView view, std::int64_t index) {
  return visit_dtype(view.dtype, [&](auto type) {
    using T = decltype(type);
    const T stored = view.as<T>()[index];
    if constexpr (std::is_same_v<T, double>) {
      return stored;
    } else {
      return static_cast<double>(static_cast<float>(stored));
    }
  });
}

/// One rank's side. What `mutex` does not guard belongs to the rank's own thread.
struct ElementProbe::Rank {
  std::mutex mutex;
  std::optional<ElementPlace> place;
  std::vector<ElementSample> fresh;
  std::int32_t updated_step = -1;  ///< of the last AdamW of the followed bucket

  std::vector<char> reducing;  ///< by global bucket: its gradients belong to the communication stream
  int layer = -1;              ///< whose backward is under way
  bool reported = false;       ///< the parameter has reported in it
};

namespace {

/// Takes the samples of one passing event, under the rank's lock.
class Sampler {
 public:
  Sampler(RankTrainer& trainer, const ElementPlace& place, const trace::Event& event, At at,
          std::vector<ElementSample>& into)
      : trainer_(trainer), place_(place), event_(event), into_(into) {
    at_ns_ = at == At::end ? event.end_ns : event.begin_ns;
  }

  double gradient() const { return element_value(buffer().grad_data(), place_.in_world); }
  double parameter() const { return element_value(buffer().param_data(), place_.in_world); }

  /// This rank's shard of the bucket if it holds the element, else null.
  const BucketShard* shard() const {
    const BucketShard& mine = trainer_.optimizer().shards()[static_cast<std::size_t>(place_.global_bucket)];
    return mine.in_bucket.contains(place_.in_bucket) ? &mine : nullptr;
  }
  double of_shard(ConstTensorView view) const {
    return element_value(view, place_.in_bucket - shard()->in_bucket.start);
  }
  double grad_scale() const { return element_value(trainer_.optimizer().grad_scale(), 0); }

  ElementSample& add(Stage stage, double value) {
    ElementSample sample;
    sample.at_ns = at_ns_;
    sample.value = value;
    sample.step = event_.step;
    sample.rank = event_.rank;
    sample.stage = stage;
    into_.push_back(sample);
    return into_.back();
  }

 private:
  const ParamAndGradBuffer& buffer() const {
    return *trainer_.data_parallel().buffers()[static_cast<std::size_t>(place_.buffer)];
  }

  RankTrainer& trainer_;
  const ElementPlace& place_;
  const trace::Event& event_;
  std::vector<ElementSample>& into_;
  std::int64_t at_ns_ = 0;
};

bool holds_param(RankTrainer& trainer, int layer, int param) {
  const std::vector<Layer>& layers = trainer.data_parallel().model().layers();
  if (layer < 0 || static_cast<std::size_t>(layer) >= layers.size()) return false;
  const std::vector<int>& params = layers[static_cast<std::size_t>(layer)].params;
  return std::find(params.begin(), params.end(), param) != params.end();
}

bool is_reduction(const trace::Event& event) {
  const auto what = static_cast<Collective>(event.detail);
  return what == Collective::reduce_scatter || what == Collective::all_reduce;
}

}  // namespace

std::string_view name(Stage stage) {
  switch (stage) {
    case Stage::zeroed: return "gradient zeroed";
    case Stage::accumulated: return "local gradient, accumulated";
    case Stage::complete: return "local gradient, complete";
    case Stage::scaled: return "scaled";
    case Stage::reduced: return "reduced";
    case Stage::main_grad: return "main gradient";
    case Stage::clipped: return "clipped";
    case Stage::exp_avg_before: return "exp_avg before";
    case Stage::exp_avg_sq_before: return "exp_avg_sq before";
    case Stage::main_param_before: return "main parameter before";
    case Stage::exp_avg: return "exp_avg";
    case Stage::exp_avg_sq: return "exp_avg_sq";
    case Stage::main_param: return "main parameter";
    case Stage::model_param: return "model parameter, rounded";
    case Stage::before_gather: return "parameter before the gather";
    case Stage::gathered: return "parameter, gathered";
  }
  return "unknown";
}

ElementProbe::ElementProbe(std::shared_ptr<const Layout> layout, int ranks) : layout_(std::move(layout)) {
  for (int r = 0; r < ranks; ++r) {
    ranks_.push_back(std::make_unique<Rank>());
    ranks_.back()->reducing.resize(static_cast<std::size_t>(layout_->bucket_count()));
  }
}

ElementProbe::~ElementProbe() = default;

void ElementProbe::follow(std::optional<ElementRef> element) {
  place_.reset();
  if (element) place_ = place_of(*layout_, *element);
  for (const auto& rank : ranks_) {
    const std::lock_guard lock(rank->mutex);
    rank->place = place_;
    rank->fresh.clear();
    rank->updated_step = -1;
  }
  samples_.clear();
  newest_step_ = -1;
  following_.store(place_.has_value(), std::memory_order_release);
}

void ElementProbe::update() {
  const std::int32_t newest_before = newest_step_;
  for (const auto& rank : ranks_) {
    const std::lock_guard lock(rank->mutex);
    samples_.insert(samples_.end(), rank->fresh.begin(), rank->fresh.end());
    for (const ElementSample& sample : rank->fresh) newest_step_ = std::max(newest_step_, sample.step);
    rank->fresh.clear();
  }
  if (newest_step_ == newest_before) return;
  std::erase_if(samples_,
                [this](const ElementSample& sample) { return sample.step <= newest_step_ - kept_steps; });
}

namespace {

/// The gradients of the bucket lie still on the rank's own thread: it reads them at these events.
void sample_local_gradient(Sampler& sampler, const trace::Event& event, At at, const ElementPlace& place,
                           int layer, bool& reported, bool contributes) {
  const auto contribution = [&](int from_layer) {
    ElementSample& sample = sampler.add(Stage::accumulated, sampler.gradient());
    sample.microbatch = event.microbatch;
    sample.layer = static_cast<std::int16_t>(from_layer);
  };
  if (event.kind == Kind::bucket_state && event.bucket == place.global_bucket) {
    const auto state = static_cast<BucketState>(event.detail);
    if (state == BucketState::accumulating) sampler.add(Stage::zeroed, sampler.gradient());
    if (state == BucketState::ready) sampler.add(Stage::complete, sampler.gradient());
  } else if (event.kind == Kind::grad_ready && event.param == place.element.param) {
    contribution(layer);
    reported = true;
  } else if (event.kind == Kind::backward && at == At::end && contributes && !reported) {
    contribution(event.layer);
  }
}

void sample_optimizer(Sampler& sampler, const trace::Event& event, At at, const ElementPlace& place) {
  const BucketShard* shard = sampler.shard();
  if (shard == nullptr) return;
  if (event.kind == Kind::grad_norm && at == At::begin) {
    sampler.add(Stage::main_grad, sampler.of_shard(shard->main_grad));
  } else if (event.kind == Kind::clip && at == At::end) {
    const double clipped = static_cast<double>(static_cast<float>(sampler.of_shard(shard->main_grad)) *
                                               static_cast<float>(sampler.grad_scale()));
    sampler.add(Stage::clipped, clipped);
  } else if (event.kind == Kind::adamw && event.bucket == place.global_bucket) {
    const bool before = at == At::begin;
    sampler.add(before ? Stage::exp_avg_before : Stage::exp_avg, sampler.of_shard(shard->exp_avg));
    sampler.add(before ? Stage::exp_avg_sq_before : Stage::exp_avg_sq, sampler.of_shard(shard->exp_avg_sq));
    sampler.add(before ? Stage::main_param_before : Stage::main_param, sampler.of_shard(shard->main_param));
    if (!before) sampler.add(Stage::model_param, sampler.of_shard(shard->model_param));
  }
}

/// On the communication stream, to which the bucket's memory belongs meanwhile.
void sample_communication(Sampler& sampler, const trace::Event& event, At at, const ElementPlace& place,
                          std::int32_t updated_step) {
  if (event.bucket != place.global_bucket) return;
  if (event.kind == Kind::scale_gradients && at == At::end) {
    sampler.add(Stage::scaled, sampler.gradient());
  } else if (event.kind == Kind::collective_run && is_reduction(event) && at == At::end) {
    const bool whole = static_cast<Collective>(event.detail) == Collective::all_reduce;
    sampler.add(Stage::reduced, sampler.gradient()).stale = !whole && sampler.shard() == nullptr;
  } else if (event.kind == Kind::collective_run &&
             static_cast<Collective>(event.detail) == Collective::all_gather) {
    ElementSample& sample =
        sampler.add(at == At::begin ? Stage::before_gather : Stage::gathered, sampler.parameter());
    sample.stale = at == At::begin && sampler.shard() == nullptr;
    if (updated_step >= 0) sample.step = updated_step;
  }
}

}  // namespace

void ElementProbe::passed(RankTrainer& trainer, const trace::Event& event, At at) {
  Rank& rank = *ranks_[static_cast<std::size_t>(event.rank)];
  const bool communication = event.stream == trace::StreamId::communication;
  if (!communication) {
    if (event.kind == Kind::bucket_state) {
      const auto state = static_cast<BucketState>(event.detail);
      char& reducing = rank.reducing[static_cast<std::size_t>(event.bucket)];
      if (state == BucketState::reduced) reducing = 0;
      if (state == BucketState::reducing) reducing = 1;
    } else if (event.kind == Kind::backward && at == At::begin) {
      rank.layer = event.layer;
      rank.reported = false;
    }
  }
  if (!following_.load(std::memory_order_acquire)) return;
  const std::lock_guard lock(rank.mutex);
  if (!rank.place) return;
  const ElementPlace& place = *rank.place;
  Sampler sampler(trainer, place, event, at, rank.fresh);
  if (communication) {
    sample_communication(sampler, event, at, place, rank.updated_step);
    return;
  }
  const bool gradient_is_still = rank.reducing[static_cast<std::size_t>(place.global_bucket)] == 0;
  if (gradient_is_still) {
    const bool contributes =
        event.kind == Kind::backward && holds_param(trainer, event.layer, place.element.param);
    sample_local_gradient(sampler, event, at, place, rank.layer, rank.reported, contributes);
  }
  sample_optimizer(sampler, event, at, place);
  if (event.kind == Kind::adamw && event.bucket == place.global_bucket) rank.updated_step = event.step;
}

ElementTable element_table(std::span<const ElementSample> samples, int ranks, std::int64_t until_ns,
                           int step) {
  ElementTable table;
  table.step = step;
  if (step < 0) {
    for (const ElementSample& sample : samples) {
      if (sample.at_ns <= until_ns) table.step = std::max(table.step, sample.step);
    }
  }
  const auto key = [](const auto& s) { return std::tuple(s.stage, s.microbatch); };
  std::vector<const ElementSample*> chosen;
  std::vector<std::int64_t> newest(static_cast<std::size_t>(ranks), INT64_MIN);
  for (const ElementSample& sample : samples) {
    if (sample.step != table.step || sample.at_ns > until_ns || sample.rank >= ranks) continue;
    chosen.push_back(&sample);
    std::int64_t& last = newest[static_cast<std::size_t>(sample.rank)];
    last = std::max(last, sample.at_ns);
  }
  std::stable_sort(chosen.begin(), chosen.end(),
                   [&](const auto* a, const auto* b) { return key(*a) < key(*b); });
  // A parameter that contributes twice in one microbatch has two rows: the n-th of each rank together.
  std::vector<std::size_t> taken(static_cast<std::size_t>(ranks));
  std::size_t first_row = 0;
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    const ElementSample& sample = *chosen[i];
    if (i == 0 || key(sample) != key(*chosen[i - 1])) {
      first_row = table.rows.size();
      std::fill(taken.begin(), taken.end(), std::size_t{0});
    }
    const auto rank = static_cast<std::size_t>(sample.rank);
    const std::size_t row = first_row + taken[rank]++;
    if (row == table.rows.size()) {
      table.rows.push_back({sample.stage, sample.microbatch, sample.layer, {}});
      table.rows.back().cells.resize(static_cast<std::size_t>(ranks));
    }
    table.rows[row].cells[rank] = {sample.value, sample.stale, sample.at_ns == newest[rank]};
  }
  return table;
}

}  // namespace zero1::viz
