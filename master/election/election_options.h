// What the operator sets of an election.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace moonpool::master {

struct ElectionOptions {
  // Where in etcd the masters of this cluster meet: "/moonpool/CLUSTER". Everything below it is
  // theirs.
  std::string prefix = "/moonpool/default";
  // HOST:PORT at which clients, nodes and other masters reach this one.
  std::string address;
  // How long a leader that is not heard of still leads; whole seconds. When one dies, another leads
  // after at most this time and the half second in which etcd looks for ended leases. etcd raises
  // it to 1.5 times its own election timeout: with its defaults there is none below 2 s. Longer
  // ones ride out longer absences of etcd.
  absl::Duration lease = absl::Seconds(2);

  std::string leader_key() const { return prefix + "/leader"; }
  std::string term_key() const { return prefix + "/term"; }
};

inline constexpr absl::Duration kElectionLeaseMin = absl::Seconds(1);
inline constexpr absl::Duration kElectionLeaseMax = absl::Seconds(60);

// What the ranges of single settings do not say.
absl::Status Validate(const ElectionOptions& options);

}  // namespace moonpool::master
