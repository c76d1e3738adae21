#include "transport/tcp/tcp_server.h"

#include <netinet/in.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "transport/stream/stream_backend.h"
#include "transport/stream/stream_server.h"

namespace moonpool::transport {
namespace {

class TcpSession final : public PeerSession {
 public:
  bool is_mapped_writer() const override { return false; }
};

class TcpBackend final : public StreamBackend {
 public:
  explicit TcpBackend(const TcpServerOptions& options)
      : listen_address_(options.listen_address),
        tuning_{.congestion_control = options.congestion_control,
                .send_buffer_bytes = options.send_buffer_bytes,
                .receive_buffer_bytes = options.receive_buffer_bytes} {}

  absl::StatusOr<UniqueFd> Listen() override {
    RETURN_IF_ERROR(CheckTuning(tuning_));
    ASSIGN_OR_RETURN(const SocketAddress address, ParseNumericAddress(listen_address_));
    ASSIGN_OR_RETURN(UniqueFd fd, NewStreamSocket(address.family()));
    const int on = 1;
    setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    // Accepted sockets inherit the buffers, early enough for the window they announce.
    TuneTcp(fd.get(), tuning_, address.is_loopback());
    const auto* raw = reinterpret_cast<const sockaddr*>(&address.storage);
    if (bind(fd.get(), raw, address.length) != 0 || listen(fd.get(), SOMAXCONN) != 0) {
      return SocketError(absl::StrCat("listen on ", listen_address_), errno);
    }
    return fd;
  }
  void Retire() override {}
  void Prepare(int fd) override {
    const SocketAddress peer = RemoteAddress(fd);
    TuneTcp(fd, tuning_, peer.is_loopback());
  }
  absl::StatusOr<std::unique_ptr<PeerSession>> Admit(int, const HelloRequest&, HelloAnswer*,
                                                     std::vector<int>*) override {
    return std::make_unique<TcpSession>();
  }

 private:
  const std::string listen_address_;
  const TcpTuning tuning_;
};

}  // namespace

std::unique_ptr<Server> NewTcpServer(Target& target, TcpServerOptions options, const Clock& clock,
                                     Logger& logger) {
  auto backend = std::make_unique<TcpBackend>(options);
  return std::make_unique<StreamServer>("tcp", target, std::move(backend), options.limits, clock,
                                        logger);
}

}  // namespace moonpool::transport
