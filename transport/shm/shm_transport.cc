#include "transport/shm/shm_transport.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "common/error.h"
#include "common/status_macros.h"
#include "transport/shm/shm_channel.h"
#include "transport/shm/shm_peer.h"
#include "transport/stream/connect.h"

namespace moonpool::transport {
namespace {

class ShmTransport final : public Transport {
 public:
  ShmTransport(ShmClientOptions options, const Clock& clock)
      : options_(std::move(options)), clock_(clock) {}

  absl::string_view name() const override { return "shm"; }
  bool Reaches(const PeerAddress& peer) const override {
    return !peer.shm_path.empty() && peer.host_id == options_.host_id;
  }

  absl::StatusOr<std::unique_ptr<Channel>> Connect(const PeerAddress& peer,
                                                   const CallContext& context) override {
    absl::StatusOr<std::unique_ptr<Channel>> channel = TryConnect(peer, context);
    if (channel.ok()) return channel;
    return Annotate(channel.status(),
                    absl::StrCat("connect to ", peer.name, " at ", peer.shm_path));
  }

 private:
  struct KnownPeer {
    std::string path;
    Incarnation incarnation;
    std::shared_ptr<ShmPeer> peer;
  };

  absl::StatusOr<std::unique_ptr<Channel>> TryConnect(const PeerAddress& peer,
                                                      const CallContext& context);
  absl::StatusOr<std::shared_ptr<ShmPeer>> PeerFor(const PeerAddress& peer,
                                                   const SocketAddress& address,
                                                   const ConnectDeadline& deadline);
  std::shared_ptr<ShmPeer> FindLocked(const PeerAddress& peer)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  uint32_t writer_wish() const { return options_.mapped_writes ? kHelloMappedWriter : 0; }

  const ShmClientOptions options_;
  const Clock& clock_;
  absl::Mutex mutex_;
  std::vector<KnownPeer> peers_ ABSL_GUARDED_BY(mutex_);
};

absl::StatusOr<std::unique_ptr<Channel>> ShmTransport::TryConnect(const PeerAddress& peer,
                                                                  const CallContext& context) {
  const ConnectDeadline deadline(context, options_.connect_timeout, clock_);
  RETURN_IF_ERROR(deadline.Check());
  ASSIGN_OR_RETURN(const SocketAddress address, UnixAddress(peer.shm_path));
  ASSIGN_OR_RETURN(auto shared, PeerFor(peer, address, deadline));
  ASSIGN_OR_RETURN(UniqueFd fd, NewStreamSocket(AF_UNIX));
  RETURN_IF_ERROR(ConnectUnix(fd.get(), address, deadline));
  auto stream = std::make_unique<ClientStream>(
      std::move(fd), HelloFor(peer.incarnation, options_.client_id, writer_wish()),
      ClientStream::Limits{.ops_max = options_.outstanding_ops_max,
                           .bytes_max = options_.outstanding_bytes_max,
                           .progress_bytes = options_.progress_bytes},
      shared.get());
  RETURN_IF_ERROR(AwaitReady(*stream, deadline, clock_));
  return std::make_unique<ShmChannel>(std::move(shared), std::move(stream), options_);
}

// Peers whose node has gone are forgotten here; their views keep them until they are released.
std::shared_ptr<ShmPeer> ShmTransport::FindLocked(const PeerAddress& peer) {
  std::erase_if(peers_, [](const KnownPeer& known) { return !known.peer->IsAlive(); });
  const auto found = std::find_if(peers_.begin(), peers_.end(), [&](const KnownPeer& known) {
    return known.path == peer.shm_path && known.incarnation == peer.incarnation;
  });
  return found == peers_.end() ? nullptr : found->peer;
}

absl::StatusOr<std::shared_ptr<ShmPeer>> ShmTransport::PeerFor(const PeerAddress& peer,
                                                               const SocketAddress& address,
                                                               const ConnectDeadline& deadline) {
  {
    absl::MutexLock lock(&mutex_);
    if (auto known = FindLocked(peer); known != nullptr) return known;
  }
  // Without the lock: a node that hangs holds up nobody else. Two threads may both get here; the
  // first to come back wins.
  ASSIGN_OR_RETURN(auto connected, ShmPeer::Connect(address,
                                                    HelloFor(peer.incarnation, options_.client_id,
                                                             kHelloMapping | writer_wish()),
                                                    deadline, clock_, options_.trusted_uids));
  absl::MutexLock lock(&mutex_);
  if (auto known = FindLocked(peer); known != nullptr) return known;
  peers_.push_back({peer.shm_path, peer.incarnation, connected});
  return connected;
}

}  // namespace

std::unique_ptr<Transport> NewShmTransport(ShmClientOptions options, const Clock& clock) {
  options.outstanding_ops_max = std::max<size_t>(options.outstanding_ops_max, 1);
  options.progress_bytes = std::max<size_t>(options.progress_bytes, 1);
  return std::make_unique<ShmTransport>(std::move(options), clock);
}

}  // namespace moonpool::transport
