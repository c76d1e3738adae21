// How a master with durable state begins: with what was left, and in a term of its own.
#pragma once

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/types.h"
#include "master/meta/meta_store.h"
#include "master/meta/records.h"

namespace moonpool::master {

// Later than all before. DATA_LOSS: there is none.
absl::StatusOr<Term> TermAfter(const DurableState& left, Term at_least);

// Says what was found.
void LogLeft(const DecodedState& left, const Logger& logger);

struct BegunTerm {
  Term term;  // is durable
  DecodedState left;
};
// Blocks. What the store says, DEADLINE_EXCEEDED when it says nothing in time.
absl::StatusOr<BegunTerm> BeginTerm(MetaStore& store, Term at_least, const Clock& clock,
                                    absl::Time deadline);

}  // namespace moonpool::master
