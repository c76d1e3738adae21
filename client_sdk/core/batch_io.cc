#include "client_sdk/core/batch_io.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/error.h"

namespace moonpool::client {
namespace {

using transport::Channel;

bool IsDone(const BatchIo::Op& op) {
  return std::visit([](const auto* each) { return each->done; }, op);
}
const absl::Status& StatusOf(const BatchIo::Op& op) {
  return std::visit([](const auto* each) -> const absl::Status& { return each->status; }, op);
}
void SetDone(const BatchIo::Op& op, const absl::Status& status) {
  std::visit(
      [&](auto* each) {
        each->status = status;
        each->done = true;
      },
      op);
}
void Reset(const BatchIo::Op& op) {
  std::visit(
      [](auto* each) {
        each->status = absl::OkStatus();
        each->done = false;
      },
      op);
}

// The connection failed under the op, as opposed to the node refusing it.
bool IsLost(const absl::Status& status) {
  return status.code() == absl::StatusCode::kUnavailable &&
         ReasonOf(status) != ErrorReason::kBytesPinned;
}

}  // namespace

void BatchIo::Add(const std::shared_ptr<Peer>& peer, Op op, bool has_alternative) {
  Lane& lane = LaneOf(peer);
  Reset(op);
  lane.ops.push_back(op);
  lane.has_alternative = lane.has_alternative && has_alternative;
}

BatchIo::Lane& BatchIo::LaneOf(const std::shared_ptr<Peer>& peer) {
  if (!lanes_.empty() && lanes_.back().peer == peer) return lanes_.back();
  const auto [found, is_new] = lane_of_.try_emplace(peer.get(), lanes_.size());
  if (is_new) lanes_.push_back(Lane{.peer = peer});
  return lanes_[found->second];
}

absl::Status BatchIo::Run(const CallContext& context) {
  const Clock& clock = waiter_.clock();
  const absl::Time begun = clock.Now();
  for (Lane& lane : lanes_) {
    lane.moved_at = begun;
    lane.stall = lane.has_alternative ? options_.stall
                                      : std::max(options_.stall, (context.deadline - begun) / 2);
    if (std::optional<ChannelLease> idle = lane.peer->AcquireIdle()) {
      lane.channel.emplace(*std::move(idle));
      Drive(lane, context);
    }
  }
  // Shared memory waits for its connects; what goes over channels that were open is on its way
  // meanwhile. Nodes elsewhere come after that, so that none of it counts against their handshakes.
  for (const bool is_same_host : {true, false}) {
    for (Lane& lane : lanes_) {
      if (lane.peer->is_same_host() != is_same_host) continue;
      if (lane.channel.has_value() || lane.is_finished) continue;
      Connect(lane, context, /*first_path=*/0, absl::OkStatus());
    }
  }
  while (true) {
    bool has_moved = false;
    bool is_active = false;
    for (Lane& lane : lanes_) {
      if (lane.is_finished) continue;
      has_moved = Drive(lane, context) || has_moved;
      is_active = is_active || !lane.is_finished;
    }
    if (!is_active) return has_ended_ ? context.Check(clock) : absl::OkStatus();
    if (absl::Status ended = context.Check(clock); !ended.ok()) {
      AbandonAll(context, ended);
      return ended;
    }
    if (!has_moved) Wait(context);
  }
}

void BatchIo::Connect(Lane& lane, const CallContext& context, size_t first_path,
                      const absl::Status& why) {
  absl::StatusOr<ChannelLease> channel = lane.peer->Acquire(context, first_path);
  if (channel.ok()) {
    lane.channel.emplace(*std::move(channel));
    lane.moved_at = waiter_.clock().Now();
  } else {
    FailUndone(lane, why.ok() ? channel.status() : why);
    lane.is_finished = true;
    has_ended_ = has_ended_ || !context.Check(waiter_.clock()).ok();
  }
}

bool BatchIo::ShakeHands(Lane& lane, const CallContext& context) {
  const bool has_moved = (*lane.channel)->Progress();
  const std::optional<absl::Status> connected = lane.channel->Connected(context);
  if (!connected.has_value()) return has_moved;
  if (connected->ok()) {
    lane.moved_at = waiter_.clock().Now();
    return true;
  }
  const size_t next_path = lane.channel->path() + 1;
  lane.channel.reset();
  Connect(lane, context, next_path, *connected);
  return true;
}

bool BatchIo::SubmitSome(Lane& lane) {
  bool has_moved = false;
  while (lane.submitted < lane.ops.size()) {
    const Op& op = lane.ops[lane.submitted];
    if (!IsDone(op)) {
      const absl::Status status =
          std::visit([&](auto* each) { return (*lane.channel)->Submit(each); }, op);
      // Too much outstanding: progress makes room.
      if (status.code() == absl::StatusCode::kResourceExhausted) break;
      if (!status.ok()) SetDone(op, status);
    }
    ++lane.submitted;
    has_moved = true;
  }
  return has_moved;
}

bool BatchIo::Drive(Lane& lane, const CallContext& context) {
  if (lane.channel->handshake().has_value()) return ShakeHands(lane, context);
  bool has_moved = SubmitSome(lane);
  has_moved = (*lane.channel)->Progress() || has_moved;
  const absl::Time now = waiter_.clock().Now();
  if (lane.submitted == lane.ops.size() && (*lane.channel)->outstanding() == 0) {
    Finish(lane, context);
    return true;
  }
  if (has_moved) {
    lane.moved_at = now;
  } else if (now - lane.moved_at >= lane.stall) {
    const absl::Status stalled =
        MakeError(absl::StatusCode::kUnavailable, ErrorReason::kPeerUnreachable,
                  absl::StrCat("no byte moved for ", absl::FormatDuration(now - lane.moved_at)));
    (*lane.channel)->Abandon(stalled);
    FailUndone(lane, stalled);
    lane.channel->MarkStalled(stalled);
    lane.channel.reset();
    lane.is_finished = true;
    return true;
  }
  return has_moved;
}

// All ops are done. Those that were lost with their channel get one more.
void BatchIo::Finish(Lane& lane, const CallContext& context) {
  const Op* lost = nullptr;
  for (const Op& op : lane.ops) {
    if (IsLost(StatusOf(op))) lost = &op;
  }
  if (lost != nullptr && !(*lane.channel)->healthy()) {
    lane.channel->MarkBroken(StatusOf(*lost));
    lane.channel.reset();
    if (!lane.is_replaced && context.Check(waiter_.clock()).ok()) {
      lane.is_replaced = true;
      lane.submitted = 0;
      for (const Op& op : lane.ops) {
        if (IsLost(StatusOf(op))) Reset(op);
      }
      Connect(lane, context, /*first_path=*/0, absl::OkStatus());
      return;
    }
  }
  lane.is_finished = true;
  lane.channel.reset();
  for (const Op& op : lane.ops) {
    if (!StatusOf(op).ok()) SetDone(op, AnnotateNode(StatusOf(op), *lane.peer));
  }
}

void BatchIo::FailUndone(Lane& lane, const absl::Status& status) {
  for (const Op& op : lane.ops) {
    if (!IsDone(op)) SetDone(op, AnnotateNode(status, *lane.peer));
  }
  lane.submitted = lane.ops.size();
}

void BatchIo::AbandonAll(const CallContext& context, const absl::Status& status) {
  for (Lane& lane : lanes_) {
    if (lane.is_finished) continue;
    if (lane.channel->handshake().has_value()) {
      lane.channel->Connected(context);  // says whether the peer had its chance
    } else {
      (*lane.channel)->Abandon(status);
    }
    FailUndone(lane, status);
    lane.channel.reset();
    lane.is_finished = true;
  }
}

void BatchIo::Wait(const CallContext& context) {
  std::vector<Channel*> channels;
  absl::Time until = context.deadline;
  for (const Lane& lane : lanes_) {
    if (lane.is_finished) continue;
    channels.push_back(lane.channel->get());
    const auto& handshake = lane.channel->handshake();
    until = std::min(until, handshake.has_value() ? handshake->until : lane.moved_at + lane.stall);
  }
  waiter_.Wait(channels, {.deadline = until, .cancel = context.cancel});
}

}  // namespace moonpool::client
