// One stream of a storage node: Register, Inventory, then heartbeats, seal reports and the results
// of commands. Turns what the node says into core commands and holds what is to be sent to it.
//
//   auto session = handlers.OpenSession([&] { poke_writer(); }, now).value();
//   handlers.OnNodeMessage(*session, message, now);        // for every message that arrives
//   while (auto out = session->TakeMessage()) Send(*out);  // whenever poked
//   if (session->is_finished()) EndStream(session->end_status());
//   handlers.CloseSession(*session, now);                  // the stream is gone
//
// What a node says is not trusted: a message out of order is ignored and counted, too many of them
// end the session; a record that cannot be true (outside its segment, sizes that do not add up) is
// quarantined, and the rest of its message is used.
//
// Externally serialised with the Handlers that made it; see there for time.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/types.h"
#include "master/core/core.h"
#include "master/core/node_commands.h"
#include "master/handlers/counts.h"
#include "master/handlers/options.h"
#include "moonpool/v1/membership.pb.h"

namespace moonpool::master {

class SessionTable;

class NodeSession {
 public:
  // Called when TakeMessage, is_finished or is_cut_off may answer differently. It may call these
  // and nothing else.
  using OnReady = absl::AnyInvocable<void()>;

  // Made by Handlers::OpenSession. Everything is borrowed.
  NodeSession(Core& core, SessionTable& table, OnReady on_ready, absl::Time now);
  ~NodeSession();
  NodeSession(const NodeSession&) = delete;
  NodeSession& operator=(const NodeSession&) = delete;

  // The next message for the node, if there is one.
  std::optional<v1::MasterMessage> TakeMessage();
  // There is nothing more to send: end the stream with end_status().
  bool is_finished() const { return state_ == State::kEnded && queue_.empty(); }
  const absl::Status& end_status() const { return end_status_; }
  // Finished, and what was sent last need not arrive: cut the stream off if the node does not
  // take it.
  bool is_cut_off() const { return is_cut_off_; }

  // For logs; empty and 0 before Register.
  const std::string& name() const { return name_; }
  NodeId node() const { return node_; }
  uint64_t protocol_errors() const { return protocol_errors_; }
  uint64_t records_quarantined() const { return records_quarantined_; }

 private:
  friend class Handlers;      // OnMessage, Close
  friend class SessionTable;  // SendFree, SendCopy, FinishRegister, End, Tick, on_ready_

  // kRegistering: the core has taken it, and that is not durable yet. The node knows nothing of it.
  enum class State { kNew, kRegistering, kInventory, kServing, kEnded };
  struct Segment {
    SegmentId segment;
    uint64_t capacity_bytes;
  };

  void OnMessage(const v1::NodeMessage& message, absl::Time now);
  void OnRegister(const v1::Register& message, absl::Time now);
  void OnInventory(const v1::Inventory& message, absl::Time now);
  void OnSealReport(const v1::SealReport& message, absl::Time now);
  void OnPartsLost(const v1::PartsLost& message, absl::Time now);
  void OnHeartbeat(const v1::Heartbeat& message, absl::Time now);
  void OnCommandResult(const v1::CommandResult& message, absl::Time now);
  // Tells the node that it is registered, once that is durable, or that it cannot be made so.
  void FinishRegister(absl::Time now);
  void RefuseRegister(const absl::Status& status, absl::Time now);
  // The last thing that the node is told is `status`.
  void Refuse(const absl::Status& status, absl::Time now);
  void ProtocolError(const char* what, absl::Time now);
  // The records that can be true; borrowed from `parts`.
  std::vector<SealedPart> Screen(const google::protobuf::RepeatedPtrField<v1::SealedPart>& parts);
  bool IsPlausible(const v1::SealedPart& part) const;

  void SendFree(const FreeCommand& command);
  void SendCopy(const CopyCommand& command);
  // The core's term has risen: the node has to know before it can take newer grants.
  void TellTerm();
  // The table has fallen silent, or speaks again.
  void OnSilence(bool is_silent);
  // No more messages are taken in. What is queued may still be sent when `may_drain`.
  void End(absl::Status status, bool may_drain, absl::Time now);
  // Ends it when the node was silent for too long.
  void Tick(absl::Time now);
  void Close(absl::Time now);
  bool is_live() const { return state_ == State::kInventory || state_ == State::kServing; }
  void Queue(v1::MasterMessage message);

  Core& core_;
  SessionTable& table_;
  OnReady on_ready_;

  State state_ = State::kNew;
  absl::Status end_status_;
  absl::Time last_heard_;
  bool is_cut_off_ = false;
  absl::Time drain_until_;
  std::deque<v1::MasterMessage> queue_;
  size_t queued_generations_ = 0;  // of the commands in the queue, and one for each command
  std::optional<uint64_t> heartbeat_to_ack_;  // the newest only
  Term told_term_;
  bool has_silence_to_tell_ = false;

  std::string name_;
  NodeId node_;
  SessionId session_;
  ChangeNumber saved_by_ = 0;
  Generation newest_granted_;  // when it registered
  std::vector<Segment> segments_;
  uint64_t protocol_errors_ = 0;
  uint64_t records_quarantined_ = 0;
};

}  // namespace moonpool::master
