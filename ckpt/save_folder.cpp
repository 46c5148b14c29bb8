#include "ckpt/save_folder.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "ckpt/checkpoint.h"
#include "ckpt/save_checks.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "core/base/units.h"

namespace zero1::ckpt {
namespace {

namespace fs = std::filesystem;

/// "20, 30 and 4 more".
std::string listed(const std::vector<std::int64_t>& steps) {
  constexpr std::size_t longest = 6;
  const std::size_t shown = std::min(steps.size(), longest);
  const std::string first =
      fmt::format("{}", fmt::join(steps.begin(), steps.begin() + static_cast<std::ptrdiff_t>(shown), ", "));
  return shown == steps.size() ? first : fmt::format("{} and {} more", first, steps.size() - shown);
}

/// A link such as `best` names something else later.
SaveOptions with_fixed_base(SaveOptions options) {
  std::error_code ignored;
  std::string& base = options.base.folder;
  if (!base.empty()) base = fs::weakly_canonical(base, ignored).string();
  return options;
}

}  // namespace

std::string leftover_note(const std::string& root) {
  std::int64_t count = 0, bytes = 0;
  bool unknown = false;
  for (const Leftover& each : find_leftovers(root)) {
    if (each.use == FolderUse::writing) continue;
    ++count;
    bytes += each.bytes;
    unknown = unknown || each.use == FolderUse::unknown;
  }
  if (count == 0) return "";
  return fmt::format(
      "{} has {} (.tmp-…, {}) that a killed run has left behind{}; remove: zero1 ckpt clean {}{}", root,
      counted(count, "hidden folder"), format_bytes(bytes),
      unknown ? ", or that one is writing: this file system has no locks" : "", unknown ? "--force " : "",
      shell_word(root));
}

SaveFolder::SaveFolder(const SaveOptions& options, const TrainConfig& config)
    : options_(with_fixed_base(options)), made_("--save", options.folder), lock_("--save", options.folder) {
  note_what_is_there();
  check_can_save(options_, config);
}

void SaveFolder::note_what_is_there() {
  if (!lock_.taken_over().empty()) {
    notes_.push_back(fmt::format("--save {}: the last run there was killed ({})", root_, lock_.taken_over()));
  }
  if (std::string note = leftover_note(root_); !note.empty()) notes_.push_back("--save " + note);

  const std::int64_t begin = options_.base.step;
  std::error_code none;
  const bool goes_on_here = !options_.base.folder.empty() && begin > 0 &&
                            fs::equivalent(options_.base.folder, root_ + "/" + step_folder_name(begin), none);
  std::vector<std::int64_t> later;
  for (const std::int64_t step : published_steps(root_)) {
    if (step > begin)
      later.push_back(step);
    else if (goes_on_here)
      order_.push_back(step);
  }
  if (later.empty()) return;
  const std::optional<std::int64_t> latest = linked_step(root_, latest_name);
  notes_.push_back(fmt::format(
      "--save {} has checkpoints up to step {} already, and this run begins after step {}. Those beyond ({}) "
      "stay{} "
      "until this run saves the same step, which replaces them; `latest` {} what this run has saved last. To "
      "keep "
      "runs apart, save into another folder",
      root_, later.back(), begin, listed(later), options_.keep_last > 0 ? ", also with --keep-last," : "",
      latest ? fmt::format("names step {} until this run's first save, then", *latest)
             : std::string("will name")));
}

/// Whether the folder has the checkpoint that a run's state calls its best: another run's may lie there.
bool SaveFolder::holds(const std::optional<BestCheckpoint>& best) const {
  if (!best) return false;
  const std::string folder = root_ + "/" + step_folder_name(best->step);
  if (!is_checkpoint(folder)) return false;
  try {
    return Checkpoint(folder).state().valid_loss == best->valid_loss;
  } catch (const InputError&) {
    return false;  // damaged
  }
}

void SaveFolder::publish(PendingFolder& pending, const RunState& state) {
  const std::optional<BestCheckpoint>& best = state.best;
  const auto set_best = [&] {
    if (linked_step(root_, best_name) != best->step) set_link(root_, best_name, best->step);
  };
  const bool is_best = best && best->step == state.step;
  // What `best` names is replaced by something else.
  if (!is_best && linked_step(root_, best_name) == state.step) {
    std::error_code ignored;
    if (holds(best))
      set_best();
    else
      fs::remove(fmt::format("{}/{}", root_, best_name), ignored);
  }
  pending.publish();
  set_link(root_, latest_name, state.step);
  if (options_.best && best && linked_step(root_, best_name) != best->step && (is_best || holds(best)))
    set_best();
  std::erase(order_, state.step);
  order_.push_back(state.step);
  if (options_.keep_last > 0) prune();
}

void SaveFolder::prune() {
  std::erase_if(order_,
                [&](std::int64_t step) { return !is_checkpoint(root_ + "/" + step_folder_name(step)); });
  const auto keep = static_cast<std::size_t>(options_.keep_last);
  const std::optional<std::int64_t> latest = linked_step(root_, latest_name);
  const std::optional<std::int64_t> best = linked_step(root_, best_name);
  const std::size_t candidates = order_.size() > keep ? order_.size() - keep : 0;
  for (std::size_t i = 0; i < candidates; ++i) {
    const std::int64_t step = order_[i];
    std::error_code none;
    const bool is_base = !options_.base.folder.empty() &&
                         fs::equivalent(options_.base.folder, root_ + "/" + step_folder_name(step), none);
    // What somebody reads stays for the next time.
    if (step != latest && step != best && !is_base) remove_published(root_, step);
  }
}

}  // namespace zero1::ckpt
