#include "master/meta/begin_term.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "common/error.h"
#include "common/status_macros.h"
#include "common/steady_cond_var.h"

namespace moonpool::master {
namespace {

constexpr size_t kQuarantinedToLog = 10;

}  // namespace

absl::StatusOr<Term> TermAfter(const DurableState& left, Term at_least) {
  if (left.term.value == std::numeric_limits<uint32_t>::max()) {
    return MakeError(absl::StatusCode::kDataLoss, ErrorReason::kNotSaved,
                     absl::StrCat("no term comes after the stored one, ", left.term.value),
                     {.hint = "the meta store is broken: restore it from a backup"});
  }
  return Term{std::max(left.term.value + 1, at_least.value)};
}

void LogLeft(const DecodedState& left, const Logger& logger) {
  logger.Info("durable state loaded", {{"last_term", left.state.term.value},
                                       {"namespaces", left.state.namespaces.size()},
                                       {"nodes", left.state.nodes.size()},
                                       {"removals", left.state.removals.size()},
                                       {"drains", left.state.drains.size()},
                                       {"unknown_records", left.unknown},
                                       {"broken_records", left.quarantined.size()}});
  for (size_t i = 0; i < std::min(left.quarantined.size(), kQuarantinedToLog); ++i) {
    logger.Error("a record of the durable state is broken and left out",
                 {{"key", absl::CHexEscape(left.quarantined[i])}});
  }
}

absl::StatusOr<BegunTerm> BeginTerm(MetaStore& store, Term at_least, const Clock& clock,
                                    absl::Time deadline) {
  ASSIGN_OR_RETURN(const std::vector<MetaRecord> records, store.Load(deadline));
  BegunTerm begun{.term = {}, .left = DecodeRecords(records)};
  ASSIGN_OR_RETURN(begun.term, TermAfter(begun.left.state, at_least));
  struct Outcome {
    absl::Mutex mutex;
    SteadyCondVar comes;
    std::optional<absl::Status> status ABSL_GUARDED_BY(mutex);
  };
  // Shared: the store may still say it after the deadline.
  const auto outcome = std::make_shared<Outcome>();
  store.Write({EncodeChange(begun.term)}, [outcome](absl::Status status) {
    absl::MutexLock lock(&outcome->mutex);
    outcome->status = std::move(status);
    outcome->comes.Signal();
  });
  absl::MutexLock lock(&outcome->mutex);
  const auto is_known = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(outcome->mutex) {
    return outcome->status.has_value();
  };
  if (!outcome->comes.Await(&outcome->mutex, deadline - clock.Now(), is_known)) {
    return MakeError(absl::StatusCode::kDeadlineExceeded, ErrorReason::kDeadline,
                     "the meta store did not say in time that the new term is durable",
                     {.hint = "look at the disk of --meta-dir, or at etcd"});
  }
  RETURN_IF_ERROR(*outcome->status);
  return begun;
}

}  // namespace moonpool::master
