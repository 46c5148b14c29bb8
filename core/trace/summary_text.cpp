#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <iterator>

#include "core/base/text.h"
#include "core/base/units.h"
#include "core/trace/summary.h"

namespace zero1::trace {

namespace {

constexpr std::size_t shown_steps = 16;
constexpr int bar_width = 20;

std::string duration(double ns) {
  return format_duration_ns(std::llround(ns));
}

double ratio(std::int64_t part, std::int64_t whole) {
  return whole == 0 ? 0.0 : static_cast<double>(part) / static_cast<double>(whole);
}

class TextWriter {
 public:
  TextWriter(const Summary& summary, const TextOptions& options) : summary_(summary), options_(options) {}

  std::string write() {
    header();
    warnings();
    kinds();
    if (summary_.overlap.run.runs > 0) {
      by_rank();
      buckets();
    }
    steps();
    return fmt::to_string(out_);
  }

 private:
  template <class... Args>
  void line(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(out_), format, std::forward<Args>(args)...);
    out_.push_back('\n');
  }

  /// `share` of the width filled.
  std::string bar(double share) const {
    const int filled = std::clamp(static_cast<int>(std::lround(share * bar_width)), 0, bar_width);
    std::string text;
    for (int i = 0; i < bar_width; ++i) {
      if (options_.unicode)
        text += i < filled ? "█" : "░";
      else
        text += i < filled ? '#' : '.';
    }
    return text;
  }

  void header() {
    const RunInfo& info = summary_.info;
    const auto seconds = static_cast<std::time_t>(summary_.start_unix_ns / 1'000'000'000);
    std::tm utc{};
    gmtime_r(&seconds, &utc);
    char date[32] = "";
    std::strftime(date, sizeof date, "%Y-%m-%d %H:%M:%S UTC", &utc);
    line("{}", printable(summary_.path));
    line("  {}, {}, {}, {}, {}; recorded {}", counted(info.ranks, "rank"),
         counted(info.params.size(), "parameter"), counted(info.layers.size(), "layer"),
         counted(info.buckets.size(), "bucket"), counted(summary_.overlap.steps.size(), "step"), date);
    line("  {} over {}, {} dropped", counted(summary_.events, "event"),
         duration(static_cast<double>(summary_.end_ns - summary_.begin_ns)), format_count(summary_.dropped));
    if (info.config_json != "{}" && info.config_json != "null") line("  configuration {}", info.config_json);
    if (info.clock_uncertainty_ns > 0) {
      line("  times of different ranks compare to within {}",
           duration(static_cast<double>(info.clock_uncertainty_ns)));
    }
  }

  void warnings() {
    if (summary_.truncated)
      line(
          "  note: the file was not closed (the run was killed, or still runs); it is read up to its last "
          "flush");
    if (summary_.dropped > 0)
      line("  note: figures miss what was dropped; a larger ring or a shorter flush interval keeps more");
    if (summary_.modelled_link) line("  note: communication times include a modelled link");
    if (summary_.predicted) line("  note: events were predicted, not measured");
  }

  void kinds() {
    std::int64_t most = 1;
    for (const KindTotals& totals : summary_.kinds) most = std::max(most, totals.total_ns);
    line("");
    line("Events                      count   total time   (sum over ranks)");
    for (std::size_t i = 0; i < summary_.kinds.size(); ++i) {
      const KindTotals& totals = summary_.kinds[i];
      if (totals.count == 0) continue;
      const auto kind = static_cast<Kind>(i);
      if (totals.total_ns == 0)
        line("  {:<20} {:>10}", name(kind), format_count(totals.count));
      else
        line("  {:<20} {:>10} {:>12}   {}", name(kind), format_count(totals.count),
             duration(static_cast<double>(totals.total_ns)), bar(ratio(totals.total_ns, most)));
    }
  }

  void by_rank() {
    line("");
    line("Communication        total      exposed   overlap                        contributed");
    for (std::size_t rank = 0; rank < summary_.overlap.ranks.size(); ++rank) {
      comm_line(fmt::format("rank {}", rank), summary_.overlap.ranks[rank]);
    }
    if (summary_.overlap.ranks.size() > 1) comm_line("all", summary_.overlap.run);
    line("  overlap: of the time in which collectives run, the share in which the same rank computes;");
    line("  exposed: computing waits for them, for what prepares them, for slower ranks");
  }

  void comm_line(const std::string& who, const CommFigures& figures) {
    line("  {:<11} {:>12} {:>12}   {:>6.1f}% {} {:>14}", who, duration(static_cast<double>(figures.comm_ns)),
         duration(static_cast<double>(figures.exposed_ns)), figures.overlap() * 100, bar(figures.overlap()),
         format_bytes(figures.total_bytes()));
  }

  void buckets() {
    std::int64_t rank_steps = 0;
    for (const StepReport& step : summary_.overlap.steps) {
      rank_steps += static_cast<std::int64_t>(step.ranks.size());
    }
    line("");
    const auto head = [&](auto... columns) {
      line("{:<7} {:>11} {:>12} {:>12} {:>12}   {:<28} {}", columns...);
    };
    head("Buckets", "size", "reduction", "all-gather", "exposed", "overlap", "reduction begins");
    head("", "", "(per call)", "(per call)", "(per step)", "", "before backward ends");
    for (const auto& [bucket, figures] : summary_.overlap.buckets) bucket_line(bucket, figures, rank_steps);
    const bool any_late = std::any_of(
        summary_.overlap.buckets.begin(), summary_.overlap.buckets.end(),
        [](const auto& entry) { return entry.second.lead_count > 0 && entry.second.lead_ns_sum < 0; });
    if (any_late) {
      line("  With --overlap-grad-reduce a reduction is issued before backward ends. It begins later");
      line("  where it queues behind others on a slow link, or where its gradients were the last.");
    }
  }

  void bucket_line(int bucket, const BucketFigures& figures, std::int64_t rank_steps) {
    const auto mean = [](std::int64_t sum, std::int64_t count) {
      return count == 0 ? std::string("-") : duration(static_cast<double>(sum) / static_cast<double>(count));
    };
    const auto index = static_cast<std::size_t>(bucket);
    const bool known = bucket >= 0 && index < summary_.info.buckets.size();
    const std::string lead = figures.lead_count == 0 ? ""
                             : figures.lead_ns_sum < 0
                                 ? mean(-figures.lead_ns_sum, figures.lead_count) + " after its end"
                                 : mean(figures.lead_ns_sum, figures.lead_count);
    line("  {:<5} {:>11} {:>12} {:>12} {:>12}   {:>6.1f}% {} {}",
         bucket < 0 ? "none" : std::to_string(bucket),
         known ? format_bytes(summary_.info.buckets[index].bytes) : "-",
         mean(figures.reduce.comm_ns, figures.reduce.runs), mean(figures.gather.comm_ns, figures.gather.runs),
         mean(figures.all.exposed_ns, rank_steps), figures.all.overlap() * 100, bar(figures.all.overlap()),
         lead);
  }

  void steps() {
    const auto& steps = summary_.overlap.steps;
    if (steps.empty()) return;
    const std::size_t shown = options_.all_steps ? steps.size() : std::min(steps.size(), shown_steps);
    double longest = 0;
    for (const StepReport& step : steps) longest = std::max(longest, step.figures.mean.ms);
    line("");
    line("Steps           time         comm      exposed   overlap   time (mean over ranks)");
    for (std::size_t i = 0; i < shown; ++i) {
      // The first and the last are always among those shown.
      const std::size_t index = shown == 1 ? 0 : i * (steps.size() - 1) / (shown - 1);
      const StepFigures& figures = steps[index].figures;
      line("  {:>5} {:>12} {:>12} {:>12}   {:>6.1f}%   {}", figures.step, duration(figures.mean.ms * 1e6),
           duration(figures.mean.comm_ms * 1e6), duration(figures.mean.exposed_comm_ms * 1e6),
           figures.mean.overlap * 100, bar(longest > 0 ? figures.mean.ms / longest : 0));
    }
    if (shown < steps.size())
      line("  {} of {}; --all-steps shows each", shown, counted(steps.size(), "step"));
  }

  const Summary& summary_;
  const TextOptions& options_;
  fmt::memory_buffer out_;
};

}  // namespace

std::string summary_text(const Summary& summary, const TextOptions& options) {
  return TextWriter(summary, options).write();
}

}  // namespace zero1::trace
