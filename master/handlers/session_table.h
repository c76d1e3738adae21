// The sessions that are open, and which of them speaks for which node.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/types.h"
#include "master/core/node_commands.h"
#include "master/handlers/counts.h"
#include "master/handlers/options.h"
#include "master/handlers/unsaved_changes.h"

namespace moonpool::master {

class NodeSession;

// Externally serialised, with its sessions.
class SessionTable {
 public:
  SessionTable(const HandlersOptions& options, HandlerCounts& counts, const UnsavedChanges& unsaved)
      : options_(options), counts_(counts), unsaved_(unsaved) {}

  void Add(NodeSession& session) { open_.push_back(&session); }
  void Remove(NodeSession& session);
  // From now on `session` gets the node's commands; the session before it is ended.
  void Bind(NodeId node, NodeSession& session, absl::Time now);
  // Nobody speaks for the node if `session` did.
  void Unbind(NodeId node, NodeSession& session);

  // To the session that it is for; dropped when there is none (the core repeats it).
  void Route(const FreeCommand& command);
  // The same; the core gives up what was dropped when its time is over.
  void Route(const CopyCommand& command);
  // Ends its session.
  void RegisterAnew(NodeId node, absl::Time now);
  void TellTerm();
  // While it is, nodes are told so and no more; what was kept back is sent afterwards.
  void SetSilent(bool is_silent);
  bool is_silent() const { return is_silent_; }
  // A write to the meta store has ended: some may be told that they are registered.
  void FinishRegistrations(absl::Time now);
  void Tick(absl::Time now);
  void EndAll(const absl::Status& status, absl::Time now);
  // The same, and each node is told `status` in Refused.
  void RefuseAll(const absl::Status& status, absl::Time now);

  size_t size() const { return open_.size(); }
  bool full() const { return open_.size() >= options_.max_sessions; }
  const HandlersOptions& options() const { return options_; }
  HandlerCounts& counts() { return counts_; }
  const UnsavedChanges& unsaved() const { return unsaved_; }

 private:
  const HandlersOptions& options_;
  HandlerCounts& counts_;
  const UnsavedChanges& unsaved_;
  bool is_silent_ = false;
  std::vector<NodeSession*> open_;  // in order of age, so that equal runs stay equal
  absl::flat_hash_map<NodeId, NodeSession*> by_node_;
};

}  // namespace moonpool::master
