#include "ckpt/save_decisions.h"

#include <cmath>

namespace zero1::ckpt {

SaveDecisions::SaveDecisions(const SaveOptions& options) : options_(options) {
  decision_.step = options.base.step;
  decision_.best = options.base.best;
}

SaveDecision SaveDecisions::after(std::int64_t step, std::optional<double> valid_loss) {
  const std::lock_guard lock(mutex_);
  if (step > decision_.step) decide(step, valid_loss);
  return decision_;
}

SaveDecision SaveDecisions::after_last(std::int64_t step, std::optional<double> valid_loss) {
  SaveDecision last = after(step, valid_loss);
  last.save = !last.save;
  return last;
}

void SaveDecisions::decide(std::int64_t step, std::optional<double> valid_loss) {
  decision_.step = step;
  if (valid_loss && !std::isfinite(*valid_loss)) valid_loss.reset();
  decision_.valid_loss = valid_loss;
  const bool is_best =
      options_.best && valid_loss && (!decision_.best || *valid_loss < decision_.best->valid_loss);
  if (is_best) decision_.best = {step, *valid_loss};
  decision_.requested = options_.requested && options_.requested();
  const bool due = options_.interval > 0 && step % options_.interval == 0;
  decision_.save = due || is_best || decision_.requested;
}

}  // namespace zero1::ckpt
