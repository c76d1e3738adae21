#include "client_sdk/core/spare_path.h"

#include <algorithm>
#include <utility>

#include "client_sdk/core/pieces.h"

namespace moonpool::client {
namespace {

constexpr absl::Duration kGiveBackTimeout = absl::Milliseconds(50);

void NameAll(absl::Span<const SpareGrant> spares, v1::AbortPutsRequest& request) {
  for (const SpareGrant& spare : spares) {
    v1::AbortPut* put = request.add_puts();
    put->set_generation(spare.grant.generation.value);
    put->set_handle(spare.grant.handle);
  }
}

}  // namespace

std::optional<SpareGrant> SparePath::Take(absl::Span<const PutItem> items) {
  const uint32_t replicas = std::max(options_.replicas, 1u);
  const bool needs_all = options_.min_replicas == 0 || options_.min_replicas >= replicas;
  if (items.size() != 1 || options_.wait_for_writer || !needs_all) return std::nullopt;
  if (replicas > kMaxReplicas) return std::nullopt;
  kind_ = SpareKind{.size_bytes = TotalBytes(items[0].value), .replicas = replicas};
  session_.spares().TookPut(*kind_);
  if (context_.Remaining(session_.clock()) < kSpareTimeMin) return std::nullopt;
  if (session_.locations().Find(items[0].key) != nullptr) return std::nullopt;
  return session_.spares().Take(*kind_, session_.clock().Now());
}

CallContext SparePath::WritingContext() const {
  const absl::Duration kept = std::min(context_.Remaining(session_.clock()) / 2, kSpareAbortTime);
  return {.deadline = context_.deadline - kept, .cancel = context_.cancel};
}

void SparePath::Wish(v1::CommitPutsRequest& request) {
  if (!kind_.has_value()) return;
  const uint32_t wanted = session_.spares().Wanted(*kind_, session_.clock().Now());
  if (wanted == 0) return;
  v1::SpareWish* wish = request.mutable_spare();
  wish->set_size_bytes(kind_->size_bytes);
  wish->set_replicas(kind_->replicas);
  wish->set_count(wanted);
}

void SparePath::Add(CommitPutsAnswer& answer, absl::Time sent_at) {
  if (!kind_.has_value() || answer.spares.empty()) return;
  const ResponseNodes nodes(answer.nodes, session_.peers());
  for (ToldGrant& grant : answer.spares) {
    SpareGrant spare{.grant = std::move(grant)};
    // A confused master's are left to it.
    if (spare.grant.replicas.size() != kind_->replicas) continue;
    for (const ToldReplica& replica : spare.grant.replicas) {
      absl::StatusOr<ReplicaPlaces> places = nodes.Resolve(replica, kind_->size_bytes);
      if (places.ok()) spare.replicas.push_back(*std::move(places));
    }
    if (spare.replicas.size() != kind_->replicas) continue;
    // The other half of its time is for the put that begins with it.
    spare.use_until = sent_at + DurationFromMs(spare.grant.deadline_ms) / 2;
    session_.spares().Add(*kind_, std::move(spare));
  }
}

void SparePath::Failed() {
  if (!kind_.has_value()) return;
  for (SpareGrant& spare : session_.spares().Failed(*kind_)) useless_.push_back(std::move(spare));
}

void SparePath::GiveBack(v1::AbortPutsRequest& request) {
  NameAll(std::exchange(useless_, {}), request);
}

void GiveBackSpares(Session& session) {
  v1::AbortPutsRequest request;
  NameAll(session.spares().TakeAll(), request);
  if (request.puts().empty()) return;
  const CallContext context{.deadline = session.clock().Now() + kGiveBackTimeout, .cancel = {}};
  session.Call(&MasterStub::AbortPuts, request, context, kBriefPolicy).IgnoreError();
}

}  // namespace moonpool::client
