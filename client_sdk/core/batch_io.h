// Moves the parts of one call: all nodes at once, on one channel each. Connections are made at
// once, too: nodes that do not answer cost the batch one connect timeout, whatever their number.
// Nodes on this host are the exception: shared memory connects one after the other, first of all,
// and each node that hangs there (one that is dead refuses at once) adds a timeout of its own.
//
//   BatchIo io(waiter, {});
//   io.Add(peer, &read_op, {.has_alternative = true});
//   RETURN_IF_ERROR(io.Run(context));    // the context's error; every op is done either way
//   read_op.status ...
#pragma once

#include <memory>
#include <optional>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client_sdk/core/peers.h"
#include "common/call_context.h"
#include "transport/ops.h"
#include "transport/waiter.h"

namespace moonpool::client {

struct BatchIoOptions {
  // A node that moves no byte for this long is given up, where somebody else could serve.
  absl::Duration stall = absl::Seconds(1);
};

// Used by one thread, for one Run. Borrows waiter and ops.
class BatchIo {
 public:
  using Op = std::variant<transport::ReadOp*, transport::WriteOp*>;

  BatchIo(transport::Waiter& waiter, const BatchIoOptions& options)
      : waiter_(waiter), options_(options) {}

  // `has_alternative`: the caller has another place to go to if this one does not answer.
  void Add(const std::shared_ptr<Peer>& peer, Op op, bool has_alternative);

  // Every op is done when it returns, with a status that names the node. A channel that breaks is
  // replaced once, and what it left undone is repeated (reads and writes are idempotent). A node
  // that stalls is given up: after `stall` when all its ops have an alternative, else at half of
  // the time that is left. OK, also when single ops failed; the context's error when that ended
  // first.
  absl::Status Run(const CallContext& context);

 private:
  // One node: its ops, and the channel they go through.
  struct Lane {
    std::shared_ptr<Peer> peer;
    std::vector<Op> ops = {};
    size_t submitted = 0;  // ops before this index are submitted, or done
    bool has_alternative = true;
    std::optional<ChannelLease> channel = {};
    bool is_replaced = false;  // its channel broke once already
    bool is_finished = false;
    absl::Time moved_at = {};  // when something last moved
    absl::Duration stall = {};
  };

  Lane& LaneOf(const std::shared_ptr<Peer>& peer);
  // `why`: what happened to the paths before `first_path`.
  void Connect(Lane& lane, const CallContext& context, size_t first_path, const absl::Status& why);
  bool ShakeHands(Lane& lane, const CallContext& context);
  // Submits what is taken and moves what can be moved; true if it did anything.
  bool Drive(Lane& lane, const CallContext& context);
  bool SubmitSome(Lane& lane);
  void Finish(Lane& lane, const CallContext& context);
  void FailUndone(Lane& lane, const absl::Status& status);
  void AbandonAll(const CallContext& context, const absl::Status& status);
  void Wait(const CallContext& context);

  transport::Waiter& waiter_;
  const BatchIoOptions options_;
  bool has_ended_ = false;  // the context ended during a connect
  std::vector<Lane> lanes_;
  absl::flat_hash_map<const Peer*, size_t> lane_of_;
};

}  // namespace moonpool::client
