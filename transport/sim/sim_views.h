// Views in the simulator: a client process that has the memory of a server mapped.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <utility>

#include "common/types.h"
#include "transport/channel.h"
#include "transport/sim/sim_transport.h"
#include "transport/target.h"

namespace moonpool::sim {

// The pins of one mapping of one server's memory. Attached to the target while both processes live.
class SimFabric::Viewer final : public transport::ViewPins {
 public:
  Viewer(std::string client_host, std::shared_ptr<Server> server)
      : client_host_(std::move(client_host)), server_(std::move(server)) {
    server_->target->AttachViewer(this);
  }
  ~Viewer() override { Close(); }

  bool Holds(Generation generation) const override { return pins_.contains(generation); }
  void Pin(Generation generation) { pins_.insert(generation); }
  void Unpin(Generation generation) { pins_.erase(pins_.find(generation)); }
  // True: the node gives what is pinned to nobody else.
  bool is_open() const { return !is_closed_; }
  void Close() {
    if (!std::exchange(is_closed_, true)) server_->target->DetachViewer(this);
  }
  const std::string& client_host() const { return client_host_; }

 private:
  const std::string client_host_;
  const std::shared_ptr<Server> server_;
  std::multiset<Generation> pins_;
  bool is_closed_ = false;
};

class SimPinnedPart final : public transport::PinnedPart {
 public:
  SimPinnedPart(std::shared_ptr<SimFabric::Viewer> viewer, const transport::PartHeader& header,
                transport::ConstBytes payload)
      : viewer_(std::move(viewer)), header_(header), payload_(payload) {}
  ~SimPinnedPart() override { viewer_->Unpin(header_.generation); }

  const transport::PartHeader& header() const override { return header_; }
  transport::ConstBytes payload() const override { return payload_; }
  bool still_pinned() const override { return viewer_->is_open(); }

 private:
  const std::shared_ptr<SimFabric::Viewer> viewer_;
  const transport::PartHeader header_;
  const transport::ConstBytes payload_;
};

}  // namespace moonpool::sim
