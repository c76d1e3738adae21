#include "master/handlers/session_table.h"

#include <algorithm>

#include "common/error.h"
#include "master/handlers/node_session.h"

namespace moonpool::master {

void SessionTable::Remove(NodeSession& session) {
  open_.erase(std::remove(open_.begin(), open_.end(), &session), open_.end());
}

void SessionTable::Bind(NodeId node, NodeSession& session, absl::Time now) {
  NodeSession*& speaker = by_node_[node];
  NodeSession* before = speaker;
  speaker = &session;
  if (before == nullptr || before == &session) return;
  ++counts_.sessions_replaced;
  before->End(MakeError(absl::StatusCode::kAborted, ErrorReason::kUnspecified,
                        "a newer session of the same node has taken over"),
              /*may_drain=*/false, now);
}

void SessionTable::Unbind(NodeId node, NodeSession& session) {
  const auto it = by_node_.find(node);
  if (it != by_node_.end() && it->second == &session) by_node_.erase(it);
}

void SessionTable::Route(const FreeCommand& command) {
  const auto it = by_node_.find(command.node);
  if (it == by_node_.end()) {
    ++counts_.commands_dropped;
    return;
  }
  it->second->SendFree(command);
}

void SessionTable::Route(const CopyCommand& command) {
  const auto it = by_node_.find(command.node);
  if (it == by_node_.end()) {
    ++counts_.commands_dropped;
    return;
  }
  it->second->SendCopy(command);
}

void SessionTable::RegisterAnew(NodeId node, absl::Time now) {
  const auto it = by_node_.find(node);
  if (it == by_node_.end()) return;
  it->second->End(MakeError(absl::StatusCode::kAborted, ErrorReason::kLimitReached,
                            "the node has more to forget, or has lost more parts, than the master "
                            "lists of one node",
                            {.hint = "it registers again, so that its inventory tells what there "
                                     "is; where it has much to forget often, raise limit.debts"}),
                  /*may_drain=*/false, now);
}

void SessionTable::TellTerm() {
  for (NodeSession* session : open_) session->TellTerm();
}

void SessionTable::SetSilent(bool is_silent) {
  is_silent_ = is_silent;
  for (NodeSession* session : open_) session->OnSilence(is_silent);
}

void SessionTable::FinishRegistrations(absl::Time now) {
  for (NodeSession* session : open_) session->FinishRegister(now);
}

void SessionTable::Tick(absl::Time now) {
  for (NodeSession* session : open_) session->Tick(now);
}

void SessionTable::EndAll(const absl::Status& status, absl::Time now) {
  for (NodeSession* session : open_) session->End(status, /*may_drain=*/true, now);
}

void SessionTable::RefuseAll(const absl::Status& status, absl::Time now) {
  for (NodeSession* session : open_) session->Refuse(status, now);
}

}  // namespace moonpool::master
