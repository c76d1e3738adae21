// The node's side of the session with its master, as a state machine: no thread, clock or socket.
//
//   waiting -> connecting -> registering -> uploading (the inventory) -> live
//      ^           |              |                |                     |
//      +-----------+--------------+----------------+---------------------+   back-off
//
// Which of the masters it talks to is LeaderChoice's rule: who does not lead refuses the node, and
// names the leader. A master that falls silent in a session may be stopped or cut off while another
// one leads: the node asks the others beside the session, by registering there, and moves to the
// one that takes it. The session goes on when nobody does, and the master is heard again.
//
// Whoever drives it owns the connections: it passes in what happened, and carries out what is
// returned.
//
//   MasterLink link(identity, options, {index, copies, metrics, logger}, Random(seed));
//   LinkOutput out = link.Tick(clock.Now(), /*has_room=*/true);
//   if (out.connect) connection = Open(*out.connect);       // then OnConnected or OnDisconnected
//   for (auto& message : out.send) connection.Write(message);
//   ... until out.wake_at, a message, the end of the connection, or index.seal_reports() or the
//   copies pend.
//
// Heartbeats start with the registration, so that a long upload is no silence. Seals are reported
// soon after they happened, in batches; while the inventory is on its way the reports wait behind
// it. Commands are done again when they come again: a generation is never reused, so to free it
// twice is to free it once. Copies are answered when somebody has carried them out; with the
// session end those that are under way, since nobody waits for them any more.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/log.h"
#include "common/random.h"
#include "common/rpc/leader_choice.h"
#include "common/types.h"
#include "moonpool/v1/membership.pb.h"
#include "storage_node/copy/copy_queue.h"
#include "storage_node/link/link_metrics.h"
#include "storage_node/pool/extent_index.h"

namespace moonpool::storage_node {

// What Register says of this node, the segments aside.
struct NodeIdentity {
  std::string name;
  Incarnation incarnation;
  std::string host_id;
  std::string rack;
  std::string tcp_address;
  std::string shm_path;
};

struct MasterLinkOptions {
  std::vector<std::string> masters;  // at least one
  // At most; where there are several masters, as long as LeaderChoice has patience.
  absl::Duration connect_timeout = absl::Seconds(5);
  absl::Duration register_timeout = absl::Seconds(5);
  // Between rounds in which all masters were tried: doubled each time, and then a random half of it
  // taken off or not. While there are masters that do not lead, less: another leads soon. Where
  // that takes long all nodes of the pool ask, each time by a new connection: then a little less
  // often.
  absl::Duration backoff_min = absl::Milliseconds(100);
  absl::Duration backoff_max = absl::Seconds(5);
  absl::Duration election_backoff_max = absl::Milliseconds(200);
  absl::Duration long_election_backoff_max = absl::Seconds(1);
  // How long a seal may wait for others to be reported with it.
  absl::Duration seal_report_delay = absl::Milliseconds(5);
  // Of an Inventory or SealReport message; with the longest keys still below gRPC's 4 MiB.
  size_t parts_per_message = 1024;
};

enum class LinkState { kWaiting, kConnecting, kRegistering, kUploading, kLive };
absl::string_view LinkStateName(LinkState state);  // "waiting", ...

// A second connection, beside the session's. What comes of it is told by OnAskMessage, OnAskEnded.
struct LinkAsk {
  std::string address;
  v1::NodeMessage registration;  // to be sent at once
};

// To be carried out in this order: adopt, disconnect, end_ask, connect, ask, send.
struct LinkOutput {
  bool adopt = false;  // what was asked is the connection now, and the one before it is dropped
  bool disconnect = false;             // drop the connection; nothing that still comes of it counts
  bool end_ask = false;                // drop what was asked, likewise
  std::optional<std::string> connect;  // HOST:PORT
  std::optional<LinkAsk> ask;          // there is none under way
  std::vector<v1::NodeMessage> send;
  // Tick no later than this (and after every input, when there is room again, and when seals pend).
  absl::Time wake_at = absl::InfiniteFuture();
};

// Used by one thread at a time. `now` never goes back.
class MasterLink {
 public:
  struct Dependencies {  // borrowed
    ExtentIndex& index;
    CopyQueue& copies;
    LinkMetrics& metrics;
    Logger& logger;
  };
  MasterLink(NodeIdentity identity, MasterLinkOptions options, Dependencies dependencies,
             Random random);

  // Does what is due. Without room (what was sent before is still being written) it sends nothing
  // that can wait: no inventory and no reports, at most one heartbeat.
  LinkOutput Tick(absl::Time now, bool has_room);
  LinkOutput OnConnected(absl::Time now);
  LinkOutput OnMessage(const v1::MasterMessage& message, absl::Time now);
  // Also for an attempt to connect that failed.
  LinkOutput OnDisconnected(const absl::Status& why, absl::Time now);
  // From the master that was asked, and when that connection failed or ended.
  LinkOutput OnAskMessage(const v1::MasterMessage& message, absl::Time now);
  LinkOutput OnAskEnded(absl::Time now);

  LinkState state() const { return state_; }
  // Of the present session; 0 before there is one.
  Term term() const { return term_; }
  // Why the last connection failed or ended; OK before that, and again once it is live.
  const absl::Status& last_failure() const { return last_failure_; }

 private:
  bool has_session() const { return state_ >= LinkState::kUploading; }
  void EnterState(LinkState state);
  void Connect(absl::Time now, LinkOutput& out);
  v1::NodeMessage Registration() const;

  // Whether it can be a session's beginning; why not.
  absl::Status Check(const v1::Registered& registered) const;
  void OnRegistered(const v1::Registered& registered, absl::Time now, LinkOutput& out);
  void OnCommand(const v1::Command& command, absl::Time now, LinkOutput& out);
  // nullopt: answered later.
  std::optional<absl::Status> Execute(const v1::Command& command, absl::Time now);
  absl::Status ExecuteFree(const v1::Free& free, Term term);
  absl::Status StartCopy(const v1::Command& command, absl::Time now);
  void RaiseTerm(Term term);
  void OnHeartbeatAck(const v1::HeartbeatAck& ack, absl::Time now, LinkOutput& out);

  void TickSession(absl::Time now, bool has_room, LinkOutput& out);
  void SendHeartbeat(absl::Time now, LinkOutput& out);
  void SendInventorySlice(LinkOutput& out);
  void SendDueReports(absl::Time now, LinkOutput& out);
  void SendLostParts(LinkOutput& out);
  void SendCopyResults(LinkOutput& out);
  // Something can only be told by an inventory. Why; OK: nothing.
  absl::Status WhyListAnew() const;
  void StartInventory();

  // leader_search.cc: the masters beside the session's.
  absl::Time SearchAt() const;
  void TickSearch(absl::Time now, LinkOutput& out);
  void AskNext(absl::Time now, LinkOutput& out);
  void MoveTo(const v1::Registered& registered, absl::Time now, LinkOutput& out);
  void EndSearch(LinkOutput& out);

  // Ends the connection from this side, or takes note of its end; the next attempt is scheduled.
  void Drop(const absl::Status& why, absl::Time now, LinkOutput& out);
  void ScheduleRetry(const absl::Status& why, absl::Time now);
  void LogFailure(const absl::Status& why);
  absl::Time WakeAt(absl::Time now, bool has_room) const;

  const NodeIdentity identity_;
  const MasterLinkOptions options_;
  ExtentIndex& index_;
  CopyQueue& copies_;
  LinkMetrics& metrics_;
  Logger& logger_;

  LinkState state_ = LinkState::kWaiting;
  absl::Time deadline_ = absl::InfinitePast();  // of waiting, connecting and registering
  LeaderChoice choice_;
  std::string master_;       // the one we talk to, or try to
  absl::Duration patience_;  // with it, until it has registered us
  absl::Status last_failure_;
  std::vector<std::string> logged_;  // causes, since a session was last seen to work

  // The session.
  Term term_;
  bool takes_lost_parts_ = false;  // the master knows the message
  absl::Duration heartbeat_interval_;
  absl::Duration session_timeout_;
  uint64_t heartbeats_sent_ = 0;
  uint64_t heartbeats_acked_ = 0;
  uint64_t heartbeats_before_live_ = 0;
  absl::Time next_heartbeat_;
  absl::Time warn_of_journal_ = absl::InfinitePast();  // while it is full: again then
  absl::Time last_heard_;
  InventoryCursor cursor_;
  absl::Time reports_due_ = absl::InfiniteFuture();

  // While the session's master is silent, or has said that it is.
  bool has_been_told_ = false;
  std::optional<LeaderChoice> search_;
  std::string asked_;     // empty: nobody
  absl::Time search_at_;  // the next is asked; or the one that is asked is given up
};

}  // namespace moonpool::storage_node
