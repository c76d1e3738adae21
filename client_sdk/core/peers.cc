#include "client_sdk/core/peers.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/error.h"
#include "common/status_macros.h"

namespace moonpool::client {
namespace {

using transport::Channel;
using transport::PeerAddress;

// A connect that got less time than this says nothing about the peer.
constexpr absl::Duration kFairConnect = absl::Milliseconds(50);

absl::Status Unreachable(absl::string_view message, absl::string_view node) {
  return MakeError(absl::StatusCode::kUnavailable, ErrorReason::kPeerUnreachable, message,
                   {.hint = "is its moonpool-node running and its port open from here?",
                    .node = std::string(node)});
}

}  // namespace

absl::Status AnnotateNode(const absl::Status& status, const Peer& peer) {
  if (status.ok()) return status;
  ErrorDetail detail = DetailOf(status).value_or(ErrorDetail{});
  if (!detail.node.empty()) return status;
  detail.node = peer.name();
  return WithDetail(Annotate(status, absl::StrCat("node ", peer.name())), detail);
}

// --- ChannelLease --------------------------------------------------------------------------------

ChannelLease::ChannelLease(std::shared_ptr<Peer> peer, size_t path,
                           std::unique_ptr<Channel> channel, std::optional<Handshake> handshake)
    : peer_(std::move(peer)),
      path_(path),
      channel_(std::move(channel)),
      handshake_(handshake),
      is_reused_(!handshake.has_value()) {}

ChannelLease::~ChannelLease() {
  if (channel_ == nullptr) return;
  if (handshake_.has_value()) {
    peer_->EndProbe(path_);
  } else if (channel_->outstanding() == 0) {
    peer_->Give(path_, std::move(channel_));
  }
}

std::optional<absl::Status> ChannelLease::Connected(const CallContext& context) {
  if (!handshake_.has_value()) return absl::OkStatus();
  std::optional<absl::Status> outcome = channel_->connected();
  if (!outcome.has_value()) {
    const Clock& clock = peer_->shared_.clock;
    if (absl::Status ended = context.Check(clock); !ended.ok()) {
      outcome = ended;
    } else if (clock.Now() >= handshake_->until) {
      outcome = absl::DeadlineExceededError("");
    } else {
      return std::nullopt;
    }
  }
  const Handshake handshake = *std::exchange(handshake_, std::nullopt);
  if (outcome->ok()) {
    peer_->PathWorks(path_);
    return outcome;
  }
  channel_.reset();
  return peer_->ConnectFailed(path_, context, handshake, *std::move(outcome));
}

void ChannelLease::MarkBroken(const absl::Status& why) {
  channel_.reset();
  if (!is_reused_ && peer_->HasOtherPath(path_)) {
    peer_->PathFailed(path_, why, peer_->shared_.options.avoid_initial);
  } else {
    peer_->CloseIdle();
  }
}

void ChannelLease::MarkStalled(const absl::Status& why) {
  channel_.reset();
  peer_->PathFailed(path_, why, peer_->shared_.options.avoid_stalled);
}

// --- Peer ----------------------------------------------------------------------------------------

Peer::Peer(const PeerAddress& address, PeersShared& shared)
    : name_(address.name),
      incarnation_(address.incarnation),
      is_same_host_(!address.host_id.empty() && address.host_id == shared.options.host_id),
      shared_(shared),
      address_(address),
      paths_(shared.options.paths.size()) {}

bool Peer::PathReaches(size_t path) const {
  const PathOption& option = shared_.options.paths[path];
  return (!option.same_host_only || is_same_host_) && option.transport->Reaches(address_);
}

bool Peer::IsAvoided(size_t path, absl::Time now) const {
  const PathState& state = paths_[path];
  return state.failures > 0 && (now < state.avoided_until || state.is_probing);
}

size_t Peer::NextUsable(size_t path) const {
  const absl::Time now = shared_.clock.Now();
  absl::MutexLock lock(&mutex_);
  while (path < paths_.size() && (!PathReaches(path) || IsAvoided(path, now))) ++path;
  return path;
}

bool Peer::is_avoided() const { return NextUsable(0) == shared_.options.paths.size(); }

bool Peer::HasOtherPath(size_t path) const {
  const size_t first = NextUsable(0);
  return (first == path ? NextUsable(path + 1) : first) < shared_.options.paths.size();
}

std::unique_ptr<Channel> Peer::TakeIdle(size_t path) {
  while (true) {
    std::unique_ptr<Channel> channel;
    {
      absl::MutexLock lock(&mutex_);
      std::vector<std::unique_ptr<Channel>>& idle = paths_[path].idle;
      if (idle.empty()) return nullptr;
      channel = std::move(idle.back());
      idle.pop_back();
    }
    // Bounded by the number of idle channels: those the peer has closed meanwhile end here.
    if (channel->healthy()) return channel;
  }
}

std::optional<ChannelLease> Peer::AcquireIdle() {
  const size_t path = NextUsable(0);
  if (path == shared_.options.paths.size()) return std::nullopt;
  std::unique_ptr<Channel> channel = TakeIdle(path);
  if (channel == nullptr) return std::nullopt;
  return ChannelLease(shared_from_this(), path, std::move(channel), std::nullopt);
}

absl::StatusOr<ChannelLease> Peer::Acquire(const CallContext& context, size_t first_path) {
  const size_t paths = shared_.options.paths.size();
  absl::Status failure;
  for (size_t path = NextUsable(first_path); path < paths; path = NextUsable(path + 1)) {
    if (std::unique_ptr<Channel> idle = TakeIdle(path)) {
      return ChannelLease(shared_from_this(), path, std::move(idle), std::nullopt);
    }
    absl::StatusOr<ChannelLease> started = StartConnect(path, context);
    if (started.ok()) return started;
    failure = std::move(started).status();
    if (absl::Status ended = context.Check(shared_.clock); !ended.ok()) return ended;
  }
  if (!failure.ok()) return AnnotateNode(failure, *this);
  absl::MutexLock lock(&mutex_);
  return UnreachableLocked();
}

absl::Status Peer::UnreachableLocked() const {
  const absl::Time now = shared_.clock.Now();
  for (size_t path = 0; path < paths_.size(); ++path) {
    if (!PathReaches(path) || !IsAvoided(path, now)) continue;
    return Unreachable(absl::StrCat("node ", name_, " is left alone for ",
                                    absl::FormatDuration(std::max(
                                        absl::ZeroDuration(), paths_[path].avoided_until - now)),
                                    " after: ", paths_[path].last_error.message()),
                       name_);
  }
  return Unreachable(absl::StrCat("no path leads to node ", name_), name_);
}

absl::StatusOr<PeerAddress> Peer::BeginConnect(size_t path) {
  const absl::Time now = shared_.clock.Now();
  absl::MutexLock lock(&mutex_);
  if (IsAvoided(path, now)) return UnreachableLocked();
  paths_[path].is_probing = true;
  return address_;
}

void Peer::EndProbe(size_t path) {
  absl::MutexLock lock(&mutex_);
  paths_[path].is_probing = false;
}

ChannelLease::Handshake Peer::HandshakeWithin(const CallContext& context) const {
  const absl::Time now = shared_.clock.Now();
  return {.begun = now, .until = std::min(context.deadline, now + shared_.options.connect_timeout)};
}

absl::StatusOr<std::unique_ptr<Channel>> Peer::Connect(size_t path, const CallContext& context) {
  ASSIGN_OR_RETURN(const PeerAddress address, BeginConnect(path));
  const ChannelLease::Handshake handshake = HandshakeWithin(context);
  absl::StatusOr<std::unique_ptr<Channel>> channel = shared_.options.paths[path].transport->Connect(
      address, {.deadline = handshake.until, .cancel = context.cancel});
  if (!channel.ok()) return ConnectFailed(path, context, handshake, std::move(channel).status());
  PathWorks(path);
  return channel;
}

absl::StatusOr<ChannelLease> Peer::StartConnect(size_t path, const CallContext& context) {
  ASSIGN_OR_RETURN(const PeerAddress address, BeginConnect(path));
  const ChannelLease::Handshake handshake = HandshakeWithin(context);
  absl::StatusOr<std::unique_ptr<Channel>> channel =
      shared_.options.paths[path].transport->StartConnect(
          address, {.deadline = handshake.until, .cancel = context.cancel});
  if (!channel.ok()) return ConnectFailed(path, context, handshake, std::move(channel).status());
  ChannelLease lease(shared_from_this(), path, *std::move(channel), handshake);
  // Where the transport has waited, or the peer is as fast as that.
  RETURN_IF_ERROR(lease.Connected(context).value_or(absl::OkStatus()));
  return lease;
}

absl::Status Peer::ConnectFailed(size_t path, const CallContext& context,
                                 const ChannelLease::Handshake& handshake, absl::Status failure) {
  if (failure.code() == absl::StatusCode::kDeadlineExceeded) {
    failure = Unreachable(
        absl::StrCat("no answer within ", absl::FormatDuration(handshake.until - handshake.begun)),
        name_);
  }
  const bool is_fair =
      !context.cancel.cancelled() &&
      (context.deadline - handshake.begun >= kFairConnect || context.Check(shared_.clock).ok());
  if (is_fair) {
    PathFailed(path, failure, shared_.options.avoid_initial);
  } else {
    EndProbe(path);
  }
  return failure;
}

void Peer::Give(size_t path, std::unique_ptr<Channel> channel) {
  // What does not fit is destroyed when this returns: not under the lock.
  absl::MutexLock lock(&mutex_);
  std::vector<std::unique_ptr<Channel>>& idle = paths_[path].idle;
  if (idle.size() < shared_.options.idle_channels_max) idle.push_back(std::move(channel));
}

void Peer::PathWorks(size_t path) {
  bool is_back = false;
  {
    absl::MutexLock lock(&mutex_);
    PathState& state = paths_[path];
    is_back = state.failures > 0;
    state.failures = 0;
    state.is_probing = false;
    state.last_error = absl::OkStatus();
  }
  if (is_back) {
    shared_.logger.Info("path to node works again",
                        {{"node", name_}, {"path", shared_.options.paths[path].transport->name()}});
  }
}

void Peer::PathFailed(size_t path, const absl::Status& why, absl::Duration avoid_min) {
  const absl::Time now = shared_.clock.Now();
  absl::Duration avoided = avoid_min;
  bool is_first = false;
  std::vector<std::unique_ptr<Channel>> closed;
  {
    absl::MutexLock lock(&mutex_);
    PathState& state = paths_[path];
    is_first = state.failures == 0;
    for (int i = 0; i < state.failures && avoided < shared_.options.avoid_max; ++i) avoided *= 2;
    ++state.failures;
    state.avoided_until = now + shared_.random.Jitter(std::min(avoided, shared_.options.avoid_max));
    state.is_probing = false;
    state.last_error = why;
    closed.swap(state.idle);
  }
  const size_t next = NextUsable(path + 1);
  const bool has_next = next < shared_.options.paths.size();
  if (has_next) shared_.counters.failovers.Add();
  if (!is_first) return;
  if (const auto held_back = shared_.log_limiter.Admit()) {
    shared_.logger.Warn(
        "path to node failed",
        {{"node", name_},
         {"path", shared_.options.paths[path].transport->name()},
         {"next", has_next ? shared_.options.paths[next].transport->name() : "none"},
         {"error", why.message()},
         {"held_back", *held_back}});
  }
}

absl::StatusOr<std::shared_ptr<Channel>> Peer::AcquireViews(const CallContext& context) {
  {
    absl::MutexLock lock(&mutex_);
    if (views_ != nullptr) return views_;
  }
  if (!is_same_host_) {
    return MakeError(absl::StatusCode::kFailedPrecondition, ErrorReason::kPeerUnreachable,
                     absl::StrCat("node ", name_, " is on another host"),
                     {.hint = "use Get", .node = name_});
  }
  absl::Status failure = MakeError(
      absl::StatusCode::kFailedPrecondition, ErrorReason::kPeerUnreachable,
      absl::StrCat("node ", name_, " offers no shared memory"), {.hint = "use Get", .node = name_});
  for (size_t path = 0; path < shared_.options.paths.size(); ++path) {
    {
      absl::MutexLock lock(&mutex_);
      if (!shared_.options.paths[path].same_host_only || !PathReaches(path)) continue;
    }
    absl::StatusOr<std::unique_ptr<Channel>> channel = Connect(path, context);
    if (!channel.ok()) {
      failure = AnnotateNode(channel.status(), *this);
    } else if ((*channel)->views() != nullptr) {
      absl::MutexLock lock(&mutex_);
      if (views_ == nullptr) views_ = *std::move(channel);
      return views_;
    }
  }
  RETURN_IF_ERROR(context.Check(shared_.clock));
  return failure;
}

void Peer::DropViews(const Channel* channel) {
  std::shared_ptr<Channel> dropped;
  absl::MutexLock lock(&mutex_);
  if (views_.get() == channel) dropped.swap(views_);
}

void Peer::UpdateAddress(const PeerAddress& address) {
  std::vector<std::unique_ptr<Channel>> closed;
  absl::MutexLock lock(&mutex_);
  if (address_.tcp_address == address.tcp_address && address_.shm_path == address.shm_path) return;
  address_ = address;
  for (PathState& path : paths_) {
    path.failures = 0;
    for (std::unique_ptr<Channel>& channel : path.idle) closed.push_back(std::move(channel));
    path.idle.clear();
  }
}

void Peer::CloseIdle() {
  std::vector<std::unique_ptr<Channel>> closed;
  std::shared_ptr<Channel> views;
  absl::MutexLock lock(&mutex_);
  for (PathState& path : paths_) {
    for (std::unique_ptr<Channel>& channel : path.idle) closed.push_back(std::move(channel));
    path.idle.clear();
  }
  views.swap(views_);
}

// --- Peers ---------------------------------------------------------------------------------------

std::shared_ptr<Peer> Peers::Intern(const PeerAddress& address) {
  std::shared_ptr<Peer> peer;
  std::shared_ptr<Peer> replaced;
  {
    absl::MutexLock lock(&mutex_);
    std::shared_ptr<Peer>& known = by_name_[address.name];
    if (known != nullptr && known->incarnation() == address.incarnation) {
      peer = known;
    } else {
      replaced = std::exchange(known, std::make_shared<Peer>(address, shared_));
      peer = known;
      if (by_name_.size() > shared_.options.peers_max) ForgetUnused();
    }
  }
  if (replaced != nullptr) {
    replaced->CloseIdle();
  } else {
    peer->UpdateAddress(address);
  }
  return peer;
}

void Peers::ForgetUnused() {
  absl::erase_if(by_name_, [](const auto& entry) { return entry.second.use_count() == 1; });
}

size_t Peers::size() const {
  absl::MutexLock lock(&mutex_);
  return by_name_.size();
}

}  // namespace moonpool::client
