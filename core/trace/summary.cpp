#include "core/trace/summary.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/base/units.h"

namespace zero1::trace {

namespace {

using Json = nlohmann::ordered_json;

Json bytes_json(const std::array<std::int64_t, collective_count>& bytes) {
  Json json = Json::object();
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (bytes[i] != 0) json[std::string(name(static_cast<Collective>(i)))] = bytes[i];
  }
  return json;
}

Json comm_json(const CommFigures& figures) {
  return {{"comm_ns", figures.comm_ns},
          {"exposed_ns", figures.exposed_ns},
          {"overlapped_ns", figures.overlapped_ns},
          {"overlap", figures.overlap()},
          {"collectives", figures.runs},
          {"bytes", bytes_json(figures.bytes)}};
}

Json values_json(const StepFigures::Values& values) {
  return {{"ms", values.ms},
          {"comm_ms", values.comm_ms},
          {"exposed_comm_ms", values.exposed_comm_ms},
          {"overlap", values.overlap}};
}

Json kinds_json(const Summary& summary) {
  Json kinds = Json::object();
  for (std::size_t i = 0; i < summary.kinds.size(); ++i) {
    const KindTotals& totals = summary.kinds[i];
    if (totals.count == 0) continue;
    std::string key(name(static_cast<Kind>(i)));
    if (key == "unknown") key += " " + std::to_string(i);
    kinds[key] = {{"count", totals.count}, {"total_ns", totals.total_ns}};
  }
  return kinds;
}

Json steps_json(const OverlapReport& report) {
  Json steps = Json::array();
  for (const StepReport& step : report.steps) {
    Json ranks = Json::array();
    for (const RankStep& rank : step.ranks) {
      Json json = comm_json(rank.comm);
      json["rank"] = rank.rank;
      json["step_ns"] = rank.step_ns;
      ranks.push_back(std::move(json));
    }
    Json buckets = Json::array();
    for (const auto& [bucket, figures] : step.buckets) {
      Json json = comm_json(figures);
      json["bucket"] = bucket;
      buckets.push_back(std::move(json));
    }
    steps.push_back({{"step", step.figures.step},
                     {"mean", values_json(step.figures.mean)},
                     {"max", values_json(step.figures.max)},
                     {"bytes", bytes_json(step.figures.bytes)},
                     {"ranks", std::move(ranks)},
                     {"buckets", std::move(buckets)}});
  }
  return steps;
}

Json buckets_json(const Summary& summary) {
  Json buckets = Json::array();
  for (const auto& [bucket, figures] : summary.overlap.buckets) {
    Json json{{"bucket", bucket},
              {"all", comm_json(figures.all)},
              {"reduce", comm_json(figures.reduce)},
              {"gather", comm_json(figures.gather)}};
    if (figures.lead_count > 0) {
      json["reduce_starts_before_backward_end_ns"] = {
          {"mean", static_cast<double>(figures.lead_ns_sum) / static_cast<double>(figures.lead_count)},
          {"min", figures.lead_ns_min}};
    }
    buckets.push_back(std::move(json));
  }
  return buckets;
}

}  // namespace

Summary summarize(const Reader& reader, const std::function<void(double)>& progress) {
  Summary summary;
  summary.path = reader.path();
  summary.info = reader.info();
  summary.start_unix_ns = reader.start_unix_ns();
  summary.events = reader.count();
  summary.dropped = reader.dropped();
  summary.truncated = reader.truncated();
  const auto chunks = reader.chunks();
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    summary.begin_ns = i == 0 ? chunks[i].begin_ns : std::min(summary.begin_ns, chunks[i].begin_ns);
    summary.end_ns = i == 0 ? chunks[i].end_ns : std::max(summary.end_ns, chunks[i].end_ns);
  }
  OverlapAnalysis analysis(summary.info.ranks);
  std::int64_t read = 0;
  reader.for_each_chunk([&](std::span<const Event> events) {
    analysis.add(events);
    for (const Event& event : events) {
      KindTotals& totals = summary.kinds[static_cast<std::size_t>(event.kind)];
      ++totals.count;
      add_saturated(totals.total_ns, event.end_ns - event.begin_ns);
      summary.modelled_link = summary.modelled_link || (event.flags & modelled_link) != 0;
      summary.predicted = summary.predicted || (event.flags & predicted) != 0;
    }
    read += static_cast<std::int64_t>(events.size());
    if (progress) progress(static_cast<double>(read) / static_cast<double>(summary.events));
  });
  summary.overlap = analysis.report();
  return summary;
}

std::string summary_json(const Summary& summary) {
  const RunInfo& info = summary.info;
  Json ranks = Json::array();
  for (std::size_t rank = 0; rank < summary.overlap.ranks.size(); ++rank) {
    Json json = comm_json(summary.overlap.ranks[rank]);
    json["rank"] = rank;
    ranks.push_back(std::move(json));
  }
  const Json json{{"file", summary.path},
                  {"format_version", format_version},
                  {"ranks", info.ranks},
                  {"params", info.params.size()},
                  {"layers", info.layers.size()},
                  {"buckets", info.buckets.size()},
                  {"start_unix_ns", summary.start_unix_ns},
                  {"clock_uncertainty_ns", info.clock_uncertainty_ns},
                  {"config", Json::parse(info.config_json, nullptr, false)},
                  {"events", summary.events},
                  {"dropped", summary.dropped},
                  {"truncated", summary.truncated},
                  {"duration_ns", summary.end_ns - summary.begin_ns},
                  {"modelled_link", summary.modelled_link},
                  {"predicted", summary.predicted},
                  {"kinds", kinds_json(summary)},
                  {"run", comm_json(summary.overlap.run)},
                  {"by_rank", std::move(ranks)},
                  {"by_bucket", buckets_json(summary)},
                  {"steps", steps_json(summary.overlap)}};
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace zero1::trace
