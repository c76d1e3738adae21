// Who serves at which address, and what becomes of those who do.
#include <memory>
#include <string>
#include <utility>

#include "transport/sim/sim_transport.h"
#include "transport/sim/sim_views.h"

namespace moonpool::sim {
namespace {

// How long an end of a broken connection takes to see it.
constexpr absl::Duration kNoticeAfter = absl::Milliseconds(1);

}  // namespace

void SimFabric::CloseViewers(const std::string& client_host) {
  for (const auto& [address, server] : servers_) {
    for (const std::weak_ptr<Viewer>& weak : server->viewers) {
      const std::shared_ptr<Viewer> viewer = weak.lock();
      if (viewer != nullptr && viewer->client_host() == client_host) viewer->Close();
    }
  }
}

void SimFabric::MayFlip(absl::Span<std::byte> bytes) {
  if (!bytes.empty() && random_.Uniform() < faults_.bit_flip) {
    bytes[random_.Below(bytes.size())] ^= std::byte{0x10};
  }
}

void SimFabric::Serve(const std::string& address, const std::string& host,
                      transport::Target* target) {
  servers_[address] = std::make_shared<Server>(Server{.host = host, .target = target});
}

void SimFabric::Stop(const std::string& address) {
  const auto found = servers_.find(address);
  if (found == servers_.end()) return;
  const std::shared_ptr<Server> server = found->second;
  servers_.erase(found);
  server->alive = false;
  server->held.clear();
  for (const std::weak_ptr<Viewer>& weak : server->viewers) {
    if (const std::shared_ptr<Viewer> viewer = weak.lock()) viewer->Close();
  }
  scheduler_.After(kNoticeAfter, [this, server] {
    for (const std::weak_ptr<Link>& weak : server->links) {
      const std::shared_ptr<Link> link = weak.lock();
      if (link == nullptr) continue;
      link->broken = true;
      scheduler_.Wake(link->waiting);
    }
  });
}

void SimFabric::Pause(const std::string& address) {
  if (const std::shared_ptr<Server> server = Find(address)) server->paused = true;
}

void SimFabric::Continue(const std::string& address) {
  const std::shared_ptr<Server> server = Find(address);
  if (server == nullptr) return;
  server->paused = false;
  for (std::function<void()>& what : std::exchange(server->held, {})) {
    // It may be paused once more before its turn comes.
    scheduler_.After(absl::ZeroDuration(), [server, what = std::move(what)] { server->Do(what); });
  }
}

std::shared_ptr<SimFabric::Server> SimFabric::Find(const std::string& address) const {
  const auto found = servers_.find(address);
  return found == servers_.end() ? nullptr : found->second;
}

}  // namespace moonpool::sim
