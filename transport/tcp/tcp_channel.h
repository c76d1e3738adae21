// A channel over several TCP streams to one peer. The thread that uses it drives them; of a large
// batch it drives one and lends the others (StreamDrivers) as far as there are threads for them.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "transport/channel.h"
#include "transport/stream/client_stream.h"
#include "transport/stream/socket.h"
#include "transport/stream/stream_drivers.h"
#include "transport/tcp/tcp_transport.h"

namespace moonpool::transport {

// Opens a stream to `address` and queues its HELLO. Nothing blocks.
absl::StatusOr<std::unique_ptr<ClientStream>> OpenTcpStream(const SocketAddress& address,
                                                            Incarnation incarnation,
                                                            const TcpClientOptions& options);

class TcpChannel final : public Channel {
 public:
  // `peer_name`: as errors of the handshake name the peer. Borrows the drivers.
  TcpChannel(std::string peer_name, const SocketAddress& address, Incarnation incarnation,
             const TcpClientOptions& options, StreamDrivers& drivers,
             std::unique_ptr<ClientStream> first);

  absl::string_view backend() const override { return "tcp"; }
  std::optional<absl::Status> connected() const override;
  absl::Status Submit(ReadOp* op) override { return SubmitOp(op); }
  absl::Status Submit(WriteOp* op) override { return SubmitOp(op); }
  void Doubt(Generation generation, const Extent& extent) override {
    lanes_.front().stream->Doubt(generation, extent);
  }
  bool Progress() override;
  size_t outstanding() const override;
  void AppendWaits(std::vector<pollfd>* waits) const override;
  void Abandon(const absl::Status& status) override;
  bool healthy() const override;
  ViewSource* views() override { return nullptr; }

 private:
  struct Lane {
    std::unique_ptr<ClientStream> stream;
    std::optional<StreamDrivers::Loan> loan = {};  // while it is out nobody looks at the stream
    size_t lent_ops = 0;                           // that were outstanding then
  };

  template <typename Op>
  absl::Status SubmitOp(Op* op);
  // The first failure of a stream; the channel is of no use after it.
  absl::Status failure() const;
  absl::StatusOr<ClientStream*> ChooseStream();
  void LendSome();

  const std::string peer_name_;
  const SocketAddress address_;
  const Incarnation incarnation_;
  const TcpClientOptions options_;
  StreamDrivers& drivers_;
  std::vector<Lane> lanes_;  // never empty, and the first is never lent
};

}  // namespace moonpool::transport
