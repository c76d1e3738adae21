// The nodes a client talks to, and the channels to them.
//
//   std::shared_ptr<Peer> peer = peers.Intern(address);        // from a response of the master
//   ASSIGN_OR_RETURN(ChannelLease channel, peer->Acquire(context));
//   ... channel.Connected(context) ...                         // unless it was used before
//   channel->Submit(...);                                      // back to the pool when it goes
//
// A peer may have several paths, best first (shared memory, TCP). A path that fails is said so
// once in the log, left alone for a growing while, and the next one serves; so a node that does not
// answer costs one connect timeout now and then. Over TCP no other node waits for it meanwhile; a
// connect over shared memory holds its thread up.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "client_sdk/core/backoff.h"
#include "client_sdk/core/counters.h"
#include "common/call_context.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/log_limiter.h"
#include "transport/channel.h"

namespace moonpool::client {

// One way to reach peers. Borrows the transport.
struct PathOption {
  transport::Transport* transport = nullptr;
  bool same_host_only = false;
};

struct PeersOptions {
  std::vector<PathOption> paths;  // best first
  std::string host_id;            // of this process; equal to a peer's: the same host
  absl::Duration connect_timeout = absl::Milliseconds(500);
  // How long a path that failed is left alone: doubled with each failure in a row.
  absl::Duration avoid_initial = absl::Milliseconds(100);
  absl::Duration avoid_max = absl::Seconds(2);
  absl::Duration avoid_stalled = absl::Seconds(2);  // at least, after a stall
  size_t idle_channels_max = 8;  // per peer and path; more are closed when they come back
  size_t peers_max = 4096;       // beyond, peers that nobody refers to are forgotten
};

// What all peers share. Lives longer than they do.
struct PeersShared {
  PeersShared(const PeersOptions& peers_options, const Clock& peers_clock,
              SharedRandom& peers_random, Counters& peers_counters, const Logger& peers_logger)
      : options(peers_options),
        clock(peers_clock),
        random(peers_random),
        counters(peers_counters),
        logger(peers_logger),
        log_limiter(peers_clock, absl::Seconds(1), 10) {}

  const PeersOptions options;
  const Clock& clock;
  SharedRandom& random;
  Counters& counters;
  const Logger& logger;
  LogLimiter log_limiter;
};

class Peer;

// The right to use a channel, alone. Move-only; gives the channel back, or closes it when it is
// broken or has something outstanding.
class ChannelLease {
 public:
  // A channel that still shakes hands.
  struct Handshake {
    absl::Time begun;
    absl::Time until;
  };

  ChannelLease(std::shared_ptr<Peer> peer, size_t path, std::unique_ptr<transport::Channel> channel,
               std::optional<Handshake> handshake);
  ChannelLease(ChannelLease&&) noexcept = default;
  ChannelLease& operator=(ChannelLease&&) = delete;
  ~ChannelLease();

  transport::Channel* get() const { return channel_.get(); }
  transport::Channel* operator->() const { return channel_.get(); }
  size_t path() const { return path_; }

  // The channel may still shake hands: its Progress() does that, nothing is submitted meanwhile,
  // and Connected is asked now and then, at handshake().until at the latest, and once when the
  // context has ended.
  const std::optional<Handshake>& handshake() const { return handshake_; }
  // nullopt: it goes on. OK: the channel may be used. Else why not (as Peer::Acquire); the path is
  // left alone from now on, and the lease is of no more use.
  std::optional<absl::Status> Connected(const CallContext& context);

  // The channel failed while it was used: it is closed, and so are the idle ones (what broke it has
  // broken them, too). A new channel that breaks at once counts as a failed connect where another
  // path can take over.
  void MarkBroken(const absl::Status& why);
  // Nothing moved for so long that it was given up: closed, and its path is left alone.
  void MarkStalled(const absl::Status& why);

 private:
  std::shared_ptr<Peer> peer_;
  size_t path_;
  std::unique_ptr<transport::Channel> channel_;
  std::optional<Handshake> handshake_;
  bool is_reused_;
};

// One incarnation of one node. Thread-safe. Shared by every location that names it.
class Peer : public std::enable_shared_from_this<Peer> {
 public:
  Peer(const transport::PeerAddress& address, PeersShared& shared);

  const std::string& name() const { return name_; }
  Incarnation incarnation() const { return incarnation_; }
  bool is_same_host() const { return is_same_host_; }

  // A channel that was used before, without any waiting; nullopt when there is none. Takes only
  // the best path that is not left alone at the moment.
  std::optional<ChannelLease> AcquireIdle();
  // An idle channel, or a new one, which may have its handshake before it (ChannelLease::Connected)
  // where the transport does not wait for that. When the handshake fails, the paths behind that
  // one may serve: `first_path`. UNAVAILABLE/PEER_UNREACHABLE: no path, or all are left alone for
  // the moment (the message says why). FAILED_PRECONDITION/STALE_GENERATION: another incarnation
  // answers. Or the context's error.
  absl::StatusOr<ChannelLease> Acquire(const CallContext& context, size_t first_path = 0);

  // A channel with views, shared by all threads and used for nothing else.
  // FAILED_PRECONDITION/PEER_UNREACHABLE when no path has views; else as Acquire.
  absl::StatusOr<std::shared_ptr<transport::Channel>> AcquireViews(const CallContext& context);
  // Forgets the channel if it is still the one that AcquireViews gives.
  void DropViews(const transport::Channel* channel);

  // Every path is left alone at the moment.
  bool is_avoided() const;

  // The same incarnation answers at another address now (it was restarted).
  void UpdateAddress(const transport::PeerAddress& address);
  void CloseIdle();

 private:
  friend class ChannelLease;

  struct PathState {
    int failures = 0;  // in a row
    absl::Time avoided_until = absl::InfinitePast();
    bool is_probing = false;  // one connect at a time to a path that has failed
    absl::Status last_error;
    std::vector<std::unique_ptr<transport::Channel>> idle;
  };

  bool IsAvoided(size_t path, absl::Time now) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The first path, from `path` on, that reaches the peer and is not left alone; paths_.size() when
  // there is none.
  size_t NextUsable(size_t path) const;
  bool HasOtherPath(size_t path) const;
  std::unique_ptr<transport::Channel> TakeIdle(size_t path);
  // OK, and the right to connect, which ends with PathWorks, ConnectFailed or EndProbe.
  absl::StatusOr<transport::PeerAddress> BeginConnect(size_t path);
  void EndProbe(size_t path);
  ChannelLease::Handshake HandshakeWithin(const CallContext& context) const;
  absl::StatusOr<std::unique_ptr<transport::Channel>> Connect(size_t path,
                                                              const CallContext& context);
  absl::StatusOr<ChannelLease> StartConnect(size_t path, const CallContext& context);
  // Leaves the path alone if the attempt says something about the peer. Returns the error to tell.
  absl::Status ConnectFailed(size_t path, const CallContext& context,
                             const ChannelLease::Handshake& handshake, absl::Status failure);
  void Give(size_t path, std::unique_ptr<transport::Channel> channel);
  void PathFailed(size_t path, const absl::Status& why, absl::Duration avoid_min);
  void PathWorks(size_t path);
  bool PathReaches(size_t path) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status UnreachableLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string name_;
  const Incarnation incarnation_;
  const bool is_same_host_;
  PeersShared& shared_;

  mutable absl::Mutex mutex_;
  transport::PeerAddress address_ ABSL_GUARDED_BY(mutex_);
  absl::InlinedVector<PathState, 2> paths_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<transport::Channel> views_ ABSL_GUARDED_BY(mutex_);
};

// Thread-safe. Outlives every Peer it gave out.
class Peers {
 public:
  Peers(const PeersOptions& options, const Clock& clock, SharedRandom& random, Counters& counters,
        const Logger& logger)
      : shared_(options, clock, random, counters, logger) {}

  // The one Peer of this name and incarnation. A new incarnation replaces the older one, whose idle
  // channels are closed.
  std::shared_ptr<Peer> Intern(const transport::PeerAddress& address);

  size_t size() const;

 private:
  void ForgetUnused() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  PeersShared shared_;
  mutable absl::Mutex mutex_;
  absl::flat_hash_map<std::string, std::shared_ptr<Peer>> by_name_ ABSL_GUARDED_BY(mutex_);
};

// The error with the node's name in message and detail.
absl::Status AnnotateNode(const absl::Status& status, const Peer& peer);

}  // namespace moonpool::client
