// GetStatus, ListNodes, Why, ForgetNode, DrainNode.
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/error.h"
#include "common/rpc/merge_message.h"
#include "common/status_macros.h"
#include "common/version.h"
#include "master/handlers/handlers.h"
#include "master/handlers/wire.h"

namespace moonpool::master {
namespace {

void WriteTotals(const Totals& totals, v1::Totals* out) {
  out->set_puts_started(totals.puts_started);
  out->set_puts_committed(totals.puts_committed);
  out->set_puts_refused(totals.puts_refused);
  out->set_puts_aborted(totals.puts_aborted);
  out->set_keys_located(totals.keys_located);
  out->set_keys_missed(totals.keys_missed);
  out->set_evicted(totals.evicted);
  out->set_evicted_bytes(totals.evicted_bytes);
  out->set_removed(totals.removed);
  out->set_lost(totals.lost);
  out->set_copies_started(totals.copies_started);
  out->set_copied_bytes(totals.copied_bytes);
  uint64_t ended = 0;
  for (const uint64_t count : totals.copies_ended) ended += count;
  const uint64_t done = totals.copies_ended[static_cast<size_t>(CopyEnd::kDone)];
  out->set_copies_done(done);
  out->set_copies_failed(ended - done);
  out->set_replicas_trimmed(totals.replicas_trimmed);
  out->set_parts_damaged(totals.parts_damaged);
  out->set_spares_given(totals.spares_given);
  out->set_spares_used(totals.spares_used);
  out->set_spares_refused(totals.spares_refused);
}

void WriteStatus(const StatusResult& status, v1::GetStatusResponse& out) {
  out.set_term(status.term.value);
  out.set_nodes_up(status.nodes_up);
  out.set_nodes_known(status.nodes_known);
  out.set_objects(status.objects);
  out.set_used_bytes(status.used_bytes);
  out.set_capacity_bytes(status.capacity_bytes);
  out.set_open_grants(status.open_grants);
  out.set_spare_grants(status.spare_grants);
  out.set_live_leases(status.live_leases);
  out.set_leased_bytes(status.leased_bytes);
  out.set_eviction_policy(status.eviction_policy);
  out.set_adopted_objects(status.adopted_objects);
  out.set_takeover_ms(ToWireMs(status.takeover));
  out.set_short_objects(status.short_objects);
  out.set_copies_in_flight(status.copies_in_flight);
  out.set_copies_waiting(status.copies_waiting);
  for (const NamespaceStatus& name_space : status.namespaces) {
    v1::NamespaceStatus* to = out.add_namespaces();
    to->set_name(name_space.name);
    to->set_fingerprint(name_space.fingerprint);
    to->set_objects(name_space.objects);
    to->set_bytes(name_space.bytes);
  }
  WriteTotals(status.totals, out.mutable_totals());
}

void WriteDrain(const DrainStatus& drain, v1::DrainStatus* out) {
  out->set_done(drain.is_done);
  out->set_parts_left(drain.parts_left);
  out->set_bytes_left(drain.bytes_left);
  out->set_moved_objects(drain.moved_objects);
  out->set_moved_bytes(drain.moved_bytes);
  out->set_without_node(drain.without_node);
  out->set_without_room(drain.without_room);
  out->set_unreadable(drain.unreadable);
  out->set_leased(drain.leased);
}

void WriteNode(const NodeStatus& node, v1::NodeStatus* out) {
  AddressToProto(node.address, out->mutable_address());
  out->set_rack(node.rack);
  out->set_up(node.is_up);
  out->set_inventory_complete(node.inventory_complete);
  out->set_parts(node.parts);
  out->set_used_bytes(node.used_bytes);
  out->set_capacity_bytes(node.capacity_bytes);
  out->set_last_heard_ms(ToWireMs(node.last_heard));
  out->set_copies(node.copies);
  if (node.parts_max.has_value()) out->set_parts_max(*node.parts_max);
  if (node.drain.has_value()) WriteDrain(*node.drain, out->mutable_drain());
  for (const SegmentStatus& segment : node.segments) {
    v1::SegmentStatus* to = out->add_segments();
    to->set_segment(segment.segment.value);
    to->set_medium(segment.medium);
    to->set_used_bytes(segment.used_bytes);
    to->set_capacity_bytes(segment.capacity_bytes);
    to->set_largest_free_bytes(segment.largest_free_bytes);
  }
}

absl::Status CheckWhy(const v1::WhyRequest& request) {
  RETURN_IF_ERROR(CheckLength("namespace", request.namespace_(), kMaxNamespaceBytes));
  if (request.key().empty()) {
    return MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kKeyEmpty, "the key is empty",
                     {.hint = "name an object: 1 to 1024 bytes"});
  }
  if (request.key().size() <= kMaxKeyBytes) return absl::OkStatus();
  return MakeError(
      absl::StatusCode::kInvalidArgument, ErrorReason::kKeyTooLong,
      absl::StrCat("the key has ", request.key().size(), " bytes; at most ", kMaxKeyBytes));
}

}  // namespace

void Handlers::GetStatus(const v1::GetStatusRequest& request, absl::Time now,
                         Done<v1::GetStatusResponse> done) {
  absl::Status status = AdmitVersion(request.version());
  if (!status.ok()) return std::move(done)(std::move(status));
  v1::GetStatusResponse& response = done.response();
  SetVersion(response.mutable_version());
  response.set_release(kReleaseVersion);
  response.set_uptime_ms(ToWireMs(now - started_at_));
  WriteStatus(core_.GetStatus(now), response);
  std::move(done)(absl::OkStatus());
}

void Handlers::ListNodes(const v1::ListNodesRequest& request, absl::Time now,
                         Done<v1::ListNodesResponse> done) {
  absl::Status status = AdmitVersion(request.version());
  if (!status.ok()) return std::move(done)(std::move(status));
  v1::ListNodesResponse& response = done.response();
  SetVersion(response.mutable_version());
  for (const NodeStatus& node : core_.ListNodes(now)) WriteNode(node, response.add_nodes());
  std::move(done)(absl::OkStatus());
}

void Handlers::Why(const v1::WhyRequest& request, absl::Time now, Done<v1::WhyResponse> done) {
  absl::Status status = AdmitVersion(request.version());
  if (status.ok()) status = CheckWhy(request);
  if (!status.ok()) return std::move(done)(std::move(status));
  const absl::StatusOr<WhyResult> why = core_.Why(request.namespace_(), request.key(), now);
  if (!why.ok()) return std::move(done)(why.status());

  v1::WhyResponse& response = done.response();
  SetVersion(response.mutable_version());
  response.set_state(why->state);
  response.set_explanation(why->explanation);
  response.set_size_bytes(why->size_bytes);
  response.set_generation(why->generation.value);
  std::string bytes;
  {
    WireWriter out(bytes);
    PlaceWriter places(core_, out);
    places.Write(v1::WhyResponse::kReplicasFieldNumber, why->replicas);
    places.WriteNodes(v1::WhyResponse::kNodesFieldNumber);
  }
  MP_CHECK(MergeMessage(bytes, response), "places that nobody can read");
  response.set_parent(why->parent);
  response.set_children(why->children);
  response.set_lease_ms(ToWireMs(why->lease));
  response.set_ago_ms(ToWireMs(why->ago));
  response.set_policy(why->policy);
  response.set_adopted(why->is_adopted);
  response.set_wished_replicas(why->wished_replicas);
  std::move(done)(absl::OkStatus());
}

template <typename Response>
CallId Handlers::AnswerChange(const absl::StatusOr<ChangeNumber>& saved_by, absl::Time now,
                              Done<Response> done) {
  CallId call;
  if (!saved_by.ok()) {
    std::move(done)(saved_by.status());
  } else {
    SetVersion(done.response().mutable_version());
    call = AnswerWhenSaved(*saved_by, now + options_.max_wait, now, std::move(done));
  }
  Settle(now);
  return call;
}

CallId Handlers::ForgetNode(const v1::ForgetNodeRequest& request, absl::Time now,
                            Done<v1::ForgetNodeResponse> done) {
  absl::Status admitted = AdmitVersion(request.version());
  if (!admitted.ok()) {
    std::move(done)(std::move(admitted));
    return {};
  }
  return AnswerChange(core_.ForgetNode(request.name(), now), now, std::move(done));
}

CallId Handlers::DrainNode(const v1::DrainNodeRequest& request, absl::Time now,
                           Done<v1::DrainNodeResponse> done) {
  absl::Status admitted = AdmitVersion(request.version());
  if (!admitted.ok()) {
    std::move(done)(std::move(admitted));
    return {};
  }
  return AnswerChange(core_.DrainNode(request.name(), request.cancel(), now), now, std::move(done));
}

}  // namespace moonpool::master
