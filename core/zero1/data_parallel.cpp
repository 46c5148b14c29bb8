#include "core/zero1/data_parallel.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <limits>

#include "core/base/error.h"

namespace zero1 {

namespace {

std::optional<std::int64_t> bucket_size(const DataParallelConfig& config, const std::vector<ParamSpec>& specs,
                                        int dp_size) {
  if (config.bucket_size_elems) return config.bucket_size_elems;
  if (config.num_buckets) {
    std::int64_t total = 0;
    for (const ParamSpec& spec : specs) total += spec.numel();
    return std::max<std::int64_t>(1, total / *config.num_buckets);
  }
  return default_bucket_size(dp_size, config.overlap_grad_reduce);
}

int expert_dp_size(const RankContext& context) {
  const Communicator* experts = context.groups.expert_data_parallel;
  return experts != nullptr ? experts->size() : context.dp_size();
}

}  // namespace

LayoutOptions layout_options(const DataParallelConfig& config, const std::vector<ParamSpec>& specs,
                             int dp_size, int expert_dp_size) {
  LayoutOptions options;
  options.dp_size = dp_size;
  options.expert_dp_size = expert_dp_size;
  options.bucket_size_elems = bucket_size(config, specs, dp_size);
  options.pad_buckets_for_high_nccl_busbw = config.pad_buckets_for_high_nccl_busbw;
  options.grad_reduce_in_fp32 = config.grad_reduce_in_fp32;
  return options;
}

DataParallel::DataParallel(RankContext& context, Model& model, const DataParallelConfig& config)
    : context_(context),
      model_(model),
      config_(config),
      layout_(compute_layout(
          model.param_specs(),
          layout_options(config, model.param_specs(), context.dp_size(), expert_dp_size(context)))) {
  check_ranks_agree();
  check_layers_list_params();
  for (int b = 0; b < std::ssize(layout_.buffers); ++b) {
    buffers_.push_back(std::make_unique<ParamAndGradBuffer>(context_.device, context_.compute, layout_, b));
  }
  std::vector<ParamBinding> bindings;
  for (int p = 0; p < std::ssize(layout_.specs); ++p) bindings.push_back({param(p), main_grad(p)});
  model_.bind(context_.device, context_.compute, std::move(bindings));
  build_groups();
  find_grads_to_zero();
}

/// Ranks with other parameters, sizes or options would reduce each other's garbage: compare a digest of
/// the layout before anything else is sent.
void DataParallel::check_ranks_agree() {
  std::string text;
  for (const ParamSpec& spec : layout_.specs) {
    text += fmt::format("{} {} {} {} {};", spec.name, fmt::join(spec.shape, "x"), name(spec.dtype),
                        spec.shared_embedding, spec.expert_parallel);
  }
  text += fmt::format("{} {} {} {}", layout_.options.bucket_size_elems.value_or(-1),
                      layout_.options.pad_buckets_for_high_nccl_busbw, layout_.options.grad_reduce_in_fp32,
                      layout_.options.expert_dp_size);
  // 52 bits of the hash are exact in fp64, the communicator's type for scalars.
  const double mine = std::hash<std::string>{}(text) >> 12;
  const int ranks = context_.dp_size();
  DeviceMemory memory = context_.device.allocate(ranks * size_bytes(DType::fp64), MemoryKind::communication);
  const TensorView all = memory.view(DType::fp64);
  const TensorView own = all.slice({context_.rank(), context_.rank() + 1});
  std::vector<double> digests(ranks);
  Stream& stream = context_.communication;
  context_.device.copy_from_host(stream, own, &mine);
  context_.groups.data_parallel->all_gather(stream, all, own);
  context_.device.copy_to_host(stream, digests.data(), all);
  stream.synchronize();
  for (int r = 0; r < ranks; ++r) {
    if (at(digests, r) == digests[0]) continue;
    throw Error(fmt::format(
        "ranks 0 and {} disagree on the model's parameters or the buffer options: give every rank "
        "the same model and the same bucket size, padding and gradient dtype",
        r));
  }
}

/// Forward waits for the parameters of the layer that it comes to: nothing would wait for one that no layer
/// lists, and with overlap_param_gather it would be read while it is gathered.
void DataParallel::check_layers_list_params() const {
  std::vector<bool> listed(layout_.specs.size(), false);
  for (const Layer& layer : model_.layers()) {
    for (const int p : layer.params) {
      if (p < 0 || p >= static_cast<int>(listed.size())) {
        throw InputError(fmt::format("layer '{}' lists parameter number {}, but the model has {}", layer.name,
                                     p, listed.size()));
      }
      listed[static_cast<std::size_t>(p)] = true;
    }
  }
  std::vector<std::string_view> missing;
  for (std::size_t p = 0; p < listed.size(); ++p) {
    if (!listed[p]) missing.push_back(layout_.specs[p].name);
  }
  if (missing.empty()) return;
  throw InputError(
      fmt::format("no layer of the model lists '{}': forward would not wait until they are gathered. Name "
                  "every parameter in the Layer::params of each layer whose forward reads it",
                  fmt::join(missing, "', '")));
}

void DataParallel::build_groups() {
  std::vector<BucketRef> all;
  for (const auto& buffer : buffers_) {
    for (int k = 0; k < std::ssize(buffer->layout().buckets); ++k) {
      all.push_back({buffer.get(), k, layout_.global_bucket(buffer->index(), k)});
    }
  }
  // With overlap every bucket goes as soon as it is complete; without it there is nothing to wait for,
  // and all buckets of a communicator share one launch. Megatron: `partition_buckets`.
  const bool one_launch = !config_.overlap_grad_reduce && !config_.overlap_param_gather;
  group_of_bucket_.assign(all.size(), -1);
  const auto add_group = [&](std::vector<BucketRef> members) {
    if (members.empty()) return;
    for (const BucketRef& b : members) at(group_of_bucket_, b.global_bucket) = std::ssize(groups_);
    groups_.emplace_back(context_, layout_, std::move(members), config_);
  };
  if (one_launch) {
    std::vector<BucketRef> dense;
    std::vector<BucketRef> expert;
    for (const BucketRef& b : all) (b.buffer->layout().expert_parallel ? expert : dense).push_back(b);
    add_group(std::move(dense));
    add_group(std::move(expert));
  } else {
    for (const BucketRef& b : all) add_group({b});
  }

  // Forward needs the groups in the order of the first layer that reads one of their parameters.
  std::vector<int> first_layer(groups_.size(), std::numeric_limits<int>::max());
  for (int l = 0; l < std::ssize(model_.layers()); ++l) {
    for (const int p : at(model_.layers(), l).params) {
      int& first = at(first_layer, group_of(p));
      first = std::min(first, l);
    }
  }
  std::vector<std::size_t> order(groups_.size());
  for (std::size_t g = 0; g < order.size(); ++g)
    order[g] = order.size() - 1 - g;  // ties: last in backward first
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return first_layer[a] < first_layer[b]; });
  for (const std::size_t g : order) gather_order_.push_back({&groups_[g], first_layer[g]});
}

/// The buffers less the gradients that are filled, in as few pieces as can be.
void DataParallel::find_grads_to_zero() {
  awaits_first_grad_.assign(layout_.specs.size(), false);
  for (const auto& buffer : buffers_) {
    std::vector<Range> filled;
    for (const BucketLayout& bucket : buffer->layout().buckets) {
      for (const int p : bucket.params) {
        if (model_.fills_main_grad(p)) filled.push_back(at(layout_.locations, p).world);
      }
    }
    std::sort(filled.begin(), filled.end(), [](const Range& a, const Range& b) { return a.start < b.start; });
    const TensorView grads = buffer->grad_data();
    std::int64_t start = 0;
    for (const Range& range : filled) {
      if (start < range.start) grads_to_zero_.push_back(grads.slice({start, range.start}));
      start = range.end;
    }
    if (start < grads.numel) grads_to_zero_.push_back(grads.slice({start, grads.numel}));
  }
}

const ParamAndGradBuffer& DataParallel::buffer_of(int param) const {
  return *at(buffers_, at(layout_.locations, param).buffer);
}

int DataParallel::group_of(int param) const {
  const ParamLocation& location = at(layout_.locations, param);
  return at(group_of_bucket_, layout_.global_bucket(location.buffer, location.bucket));
}

Communicator& DataParallel::communicator(const ParamAndGradBuffer& buffer) const {
  return buffer.layout().expert_parallel ? *context_.groups.expert_data_parallel
                                         : *context_.groups.data_parallel;
}

// ---- gradients ------------------------------------------------------------------------------------

void DataParallel::zero_grad_buffer() {
  trace::Event event;
  event.kind = trace::Kind::zero_grads;
  event.stream = trace::StreamId::compute;
  const auto span = context_.tracer.span(context_.compute, event);
  Ops& ops = context_.device.ops();
  if (context_.tracer.watched()) {
    for (const auto& buffer : buffers_) ops.fill(context_.compute, buffer->grad_data(), 0);
  } else {
    for (const TensorView& grads : grads_to_zero_) ops.fill(context_.compute, grads, 0);
  }
  for (int p = 0; p < std::ssize(awaits_first_grad_); ++p)
    at(awaits_first_grad_, p) = model_.fills_main_grad(p);
  for (BucketGroup& group : groups_) group.reset();
}

float DataParallel::main_grad_beta(int param) {
  const bool first = at(awaits_first_grad_, param);
  at(awaits_first_grad_, param) = false;
  return first ? 0 : 1;
}

void DataParallel::grad_ready(int param) {
  if (at(awaits_first_grad_, param)) {
    throw std::logic_error(
        fmt::format("the model says that backward fills the gradient of '{}', but reports it without having "
                    "asked main_grad_beta",
                    at(layout_.specs, param).name));
  }
  if (!is_last_microbatch_) return;
  if (context_.tracer.enabled()) {
    const ParamLocation& location = at(layout_.locations, param);
    trace::Event event;
    event.kind = trace::Kind::grad_ready;
    event.flags = trace::Flags::last_microbatch;
    event.bucket = layout_.global_bucket(location.buffer, location.bucket);
    event.param = param;
    event.elem_start = location.world.start;
    event.elem_end = location.world.end;
    context_.tracer.instant(event);
  }
  at(groups_, group_of(param)).register_grad_ready(param);
}

void DataParallel::finish_grad_sync() {
  for (BucketGroup& group : groups_) group.finish_grad_sync();
}

// ---- parameters -----------------------------------------------------------------------------------

void DataParallel::mark_params_stale() {
  if (!config_.use_distributed_optimizer) return;  // every rank has stepped everything
  for (BucketGroup& group : groups_) group.mark_params_stale();
}

void DataParallel::start_param_sync() {
  next_gather_ = 0;
  if (config_.overlap_param_gather) return start_next_layers_gathers();
  for (const Gather& gather : gather_order_) gather.group->start_param_sync();
  drain_param_gathers();
}

void DataParallel::start_next_layers_gathers() {
  const std::size_t first = next_gather_;
  while (next_gather_ < gather_order_.size() &&
         gather_order_[next_gather_].first_layer == gather_order_[first].first_layer) {
    gather_order_[next_gather_++].group->start_param_sync();
  }
}

void DataParallel::drain_param_gathers() {
  for (const Gather& gather : gather_order_) gather.group->finish_param_sync();
}

// ---- hooks ----------------------------------------------------------------------------------------

void DataParallel::begin_layer(trace::Kind kind, int layer) {
  trace::Event event;
  event.kind = kind;
  event.stream = trace::StreamId::compute;
  event.layer = layer;
  layer_span_ = context_.tracer.span(context_.compute, event);
}

void DataParallel::begin_forward(int layer) {
  bool waited = false;
  for (const int p : at(model_.layers(), layer).params) {
    waited |= at(groups_, group_of(p)).finish_param_sync();
  }
  if (waited && config_.overlap_param_gather) start_next_layers_gathers();
  begin_layer(trace::Kind::forward, layer);
}

void DataParallel::end_forward(int) {
  layer_span_.end();
}

void DataParallel::begin_backward(int layer) {
  begin_layer(trace::Kind::backward, layer);
}

void DataParallel::end_backward(int) {
  layer_span_.end();
}

}  // namespace zero1
