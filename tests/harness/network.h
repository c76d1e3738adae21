// Hosts for real processes: network namespaces on one bridge, with cuts between them.
//
//   ASSIGN_OR_RETURN(auto network, Network::Create(folder));     // in main, before any thread
//   ASSIGN_OR_RETURN(const HostId host, network->AddHost());
//   network->On(host, [&] { return StartSomething(); });         // its children are on that host
//   network->Cut(a, b);                                          // b hears nothing from a any more
//   network->Heal();
//
// Nothing of it has a name outside this process, so nothing is left behind however it ends: the
// bridge lies in a namespace into which the process itself moves, and the kernel takes back
// namespaces that nobody uses.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/unique_fd.h"

namespace moonpool::harness {

using HostId = size_t;

// Used by one thread.
class Network {
 public:
  // Empty when there can be one here, else why not, and what to do.
  static std::string WhyNot();
  // The calling thread, and all that it starts from now on, moves into a network of its own, in
  // which this process is a host itself: kSelf. `folder` takes what the tools print.
  static absl::StatusOr<std::unique_ptr<Network>> Create(std::string folder);
  static constexpr HostId kSelf = 0;

  absl::StatusOr<HostId> AddHost();
  size_t host_count() const { return hosts_.size(); }
  std::string AddressOf(HostId host) const;

  absl::Status On(HostId host, const std::function<absl::Status()>& start) const;

  // Packets from `from` no longer arrive at `to`. Connections stay, and wait.
  absl::Status Cut(HostId from, HostId to);
  absl::Status Mend(HostId from, HostId to);
  // Both ways, from all other hosts; from this process only where it is said.
  enum class Scope { kOthers, kOthersAndSelf };
  absl::Status Isolate(HostId host, Scope scope = Scope::kOthers);
  absl::Status Rejoin(HostId host);
  absl::Status Heal();

 private:
  explicit Network(std::string folder) : folder_(std::move(folder)) {}
  // A tool in the namespace of a host.
  absl::Status RunOn(HostId host, const std::string& tool, std::vector<std::string> args) const;
  absl::Status AddFilter(HostId host) const;
  absl::Status Filter(HostId host) const;

  const std::string folder_;
  std::vector<UniqueFd> hosts_;               // their namespaces; [kSelf] is our own
  std::set<std::pair<HostId, HostId>> cuts_;  // (from, to)
};

}  // namespace moonpool::harness
