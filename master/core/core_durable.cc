// What outlives the core: what it was given of the masters before, and the changes that are to be
// kept for those to come.
#include <utility>

#include "master/core/core.h"
#include "master/core/core_state.h"

namespace moonpool::master {

Core::Core(CoreOptions options, Term term, Random random, const DurableState& left)
    : Core(std::move(options), term, random) {
  state_->Restore(left);
}

ChangeNumber Core::term_saved_by() const { return state_->term_saved_by; }

void CoreState::Restore(const DurableState& left) {
  keeps_state = true;
  for (const DurableNamespace& known : left.namespaces) namespaces.Restore(known);
}

ChangeNumber CoreState::Save(DurableChange change) {
  if (!keeps_state) return 0;
  unsaved.push_back(std::move(change));
  return ++saved_changes;
}

}  // namespace moonpool::master
