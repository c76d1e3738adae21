// A channel over several TCP streams to one peer.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "transport/channel.h"
#include "transport/stream/client_stream.h"
#include "transport/stream/socket.h"
#include "transport/tcp/tcp_transport.h"

namespace moonpool::transport {

// Opens a stream to `address` and queues its HELLO. Nothing blocks.
absl::StatusOr<std::unique_ptr<ClientStream>> OpenTcpStream(const SocketAddress& address,
                                                            Incarnation incarnation,
                                                            const TcpClientOptions& options);

class TcpChannel final : public Channel {
 public:
  // `peer_name`: as errors of the handshake name the peer.
  TcpChannel(std::string peer_name, const SocketAddress& address, Incarnation incarnation,
             const TcpClientOptions& options, std::unique_ptr<ClientStream> first);

  absl::string_view backend() const override { return "tcp"; }
  std::optional<absl::Status> connected() const override;
  absl::Status Submit(ReadOp* op) override { return SubmitOp(op); }
  absl::Status Submit(WriteOp* op) override { return SubmitOp(op); }
  void Doubt(Generation generation, const Extent& extent) override {
    streams_.front()->Doubt(generation, extent);
  }
  bool Progress() override;
  size_t outstanding() const override;
  void AppendWaits(std::vector<pollfd>* waits) const override;
  void Abandon(const absl::Status& status) override;
  bool healthy() const override;
  ViewSource* views() override { return nullptr; }

 private:
  template <typename Op>
  absl::Status SubmitOp(Op* op);
  // The first failure of a stream; the channel is of no use after it.
  absl::Status failure() const;
  absl::StatusOr<ClientStream*> ChooseStream();

  const std::string peer_name_;
  const SocketAddress address_;
  const Incarnation incarnation_;
  const TcpClientOptions options_;
  std::vector<std::unique_ptr<ClientStream>> streams_;
};

}  // namespace moonpool::transport
