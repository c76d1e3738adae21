#include "storage_node/copy/source_channels.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/error.h"

namespace moonpool::storage_node {
namespace {

absl::Status Unreachable(const transport::PeerAddress& peer) {
  return MakeError(absl::StatusCode::kUnavailable, ErrorReason::kPeerUnreachable,
                   absl::StrCat("no way to node ", peer.name, " at '", peer.tcp_address, "'"),
                   {.hint = "look at the node's --data-advertise"});
}

// The bytes that were there have gone with their node's last life.
absl::Status OtherLife(const absl::Status& status) {
  if (ReasonOf(status) != ErrorReason::kStaleGeneration) return status;
  return MakeError(absl::StatusCode::kNotFound, ErrorReason::kStaleGeneration, status.message(),
                   {.hint = "copy from another replica"});
}

}  // namespace

absl::StatusOr<SourceChannels::Opened> SourceChannels::Open(const transport::PeerAddress& peer,
                                                            const CallContext& context) {
  const auto found =
      std::find_if(kept_.begin(), kept_.end(), [&](const Kept& kept) { return kept.peer == peer; });
  if (found != kept_.end()) {
    if (found->channel->healthy()) {
      kept_.splice(kept_.begin(), kept_, found);
      return Opened{.channel = kept_.front().channel.get()};
    }
    kept_.erase(found);
  }
  absl::Status failure = Unreachable(peer);
  for (transport::Transport* const transport : transports_) {
    if (!transport->Reaches(peer)) continue;
    absl::StatusOr<std::unique_ptr<transport::Channel>> channel = transport->Connect(peer, context);
    if (!channel.ok()) {
      failure = OtherLife(channel.status());
      continue;
    }
    while (kept_.size() >= kept_max_) kept_.pop_back();
    kept_.push_front({peer, *std::move(channel)});
    return Opened{.channel = kept_.front().channel.get(), .is_new = true};
  }
  return failure;
}

void SourceChannels::Close(const transport::PeerAddress& peer) {
  kept_.remove_if([&](const Kept& kept) { return kept.peer == peer; });
}

}  // namespace moonpool::storage_node
