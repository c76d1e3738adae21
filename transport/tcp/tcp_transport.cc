#include "transport/tcp/tcp_transport.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/error.h"
#include "common/status_macros.h"
#include "transport/stream/connect.h"
#include "transport/tcp/resolve.h"
#include "transport/tcp/tcp_channel.h"

namespace moonpool::transport {
namespace {

class TcpTransport final : public Transport {
 public:
  TcpTransport(TcpClientOptions options, const Clock& clock)
      : options_(std::move(options)), clock_(clock), drivers_(options_.driver_threads) {}

  absl::string_view name() const override { return "tcp"; }
  bool Reaches(const PeerAddress& peer) const override { return !peer.tcp_address.empty(); }

  absl::StatusOr<std::unique_ptr<Channel>> Connect(const PeerAddress& peer,
                                                   const CallContext& context) override {
    return Open(peer, context, /*awaits_handshake=*/true);
  }
  absl::StatusOr<std::unique_ptr<Channel>> StartConnect(const PeerAddress& peer,
                                                        const CallContext& context) override {
    return Open(peer, context, /*awaits_handshake=*/false);
  }

 private:
  absl::StatusOr<std::unique_ptr<Channel>> Open(const PeerAddress& peer, const CallContext& context,
                                                bool awaits_handshake) {
    absl::StatusOr<std::unique_ptr<Channel>> channel = TryOpen(peer, context, awaits_handshake);
    if (channel.ok()) return channel;
    return Annotate(channel.status(), absl::StrCat("connect to ", NameOf(peer)));
  }

  // The look-up of a name is waited for in any case.
  absl::StatusOr<std::unique_ptr<Channel>> TryOpen(const PeerAddress& peer,
                                                   const CallContext& context,
                                                   bool awaits_handshake) {
    const ConnectDeadline deadline(context, options_.connect_timeout, clock_);
    RETURN_IF_ERROR(deadline.Check());
    absl::StatusOr<SocketAddress> address = Resolve(peer.tcp_address, deadline.context(), clock_);
    if (!address.ok()) {
      RETURN_IF_ERROR(deadline.Check());  // says better why the look-up ended
      return address.status();
    }
    ASSIGN_OR_RETURN(auto stream, OpenTcpStream(*address, peer.incarnation, options_));
    if (awaits_handshake) RETURN_IF_ERROR(AwaitReady(*stream, deadline, clock_));
    return std::make_unique<TcpChannel>(NameOf(peer), *address, peer.incarnation, options_,
                                        drivers_, std::move(stream));
  }

  static std::string NameOf(const PeerAddress& peer) {
    return absl::StrCat(peer.name, " at ", peer.tcp_address);
  }

  const TcpClientOptions options_;
  const Clock& clock_;
  StreamDrivers drivers_;
};

}  // namespace

std::unique_ptr<Transport> NewTcpTransport(TcpClientOptions options, const Clock& clock) {
  options.streams = std::max<size_t>(options.streams, 1);
  options.outstanding_ops_max = std::max<size_t>(options.outstanding_ops_max, 1);
  return std::make_unique<TcpTransport>(std::move(options), clock);
}

}  // namespace moonpool::transport
