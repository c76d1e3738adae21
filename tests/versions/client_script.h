// What the clients of a recorded cluster do, when it is recorded and whenever it is played back.
#pragma once

#include <string>
#include <type_traits>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client_sdk/core/core_client.h"
#include "common/rpc/place_answers.h"
#include "transport/channel.h"

namespace moonpool::versions {

inline constexpr uint32_t kTerm = 7;
inline constexpr uint64_t kIncarnation = 0x7001;
inline constexpr char kNodeAddress[] = "192.0.2.1:7";  // nobody's

// The node is behind another address than the one it has told.
class RedirectedTransport final : public transport::Transport {
 public:
  // Borrows `to`.
  RedirectedTransport(transport::Transport& to, std::string address)
      : to_(to), address_(std::move(address)) {}
  absl::string_view name() const override { return to_.name(); }
  bool Reaches(const transport::PeerAddress&) const override { return true; }
  absl::StatusOr<std::unique_ptr<transport::Channel>> Connect(const transport::PeerAddress& peer,
                                                              const CallContext& context) override {
    return to_.Connect(Redirected(peer), context);
  }
  absl::StatusOr<std::unique_ptr<transport::Channel>> StartConnect(
      const transport::PeerAddress& peer, const CallContext& context) override {
    return to_.StartConnect(Redirected(peer), context);
  }

 private:
  transport::PeerAddress Redirected(transport::PeerAddress peer) const {
    peer.tcp_address = address_;
    return peer;
  }
  transport::Transport& to_;
  const std::string address_;
};

client::SessionOptions OptionsOf(uint64_t client, transport::Transport& transport);

// The first opens the namespace and stores a chain of two blocks; the second, which knows no
// locations, reads them, looks for what is there, misses one, and removes one. The first thing that
// is not as it should be.
absl::Status Write(client::CoreClient& first);
absl::Status ReadAndRemove(client::CoreClient& second);

// What a call of the client returns where that was answered.
template <typename Answer, typename Message>
absl::StatusOr<Answer> As(absl::StatusOr<Message> message) {
  if constexpr (std::is_same_v<Answer, Message>) {
    return message;
  } else {
    return AnswerOf<Answer>(message);
  }
}

}  // namespace moonpool::versions
