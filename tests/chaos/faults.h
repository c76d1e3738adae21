// What goes wrong, from a seed. Pure.
#pragma once

#include <cstddef>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/random.h"

namespace moonpool::chaos {

enum class FaultKind {
  kKillNode,  // SIGKILL, later a new process with its pool
  kWipeNode,  // the same without its pool: a reboot
  kKillMaster,
  kKillClient,
  kKillEtcd,
  kPauseNode,  // SIGSTOP, later SIGCONT
  kPauseMaster,
  kPauseClient,
  kPauseEtcd,
  kCutOneWay,  // one host no longer hears another
  kCutBothWays,
  kIsolate,  // a host from all others
};
inline constexpr size_t kFaultKinds = 12;
absl::string_view FaultName(FaultKind kind);

// What there is to break.
struct Shape {
  size_t masters = 1;
  size_t nodes = 3;
  size_t clients = 3;
  size_t hosts = 0;
  bool has_etcd() const { return masters > 1; }
};

struct Fault {
  FaultKind kind = FaultKind::kKillNode;
  size_t target = 0;          // of its kind; for cuts a host, counted from 0
  size_t other = 0;           // of cuts: the host that does not hear `target`
  absl::Duration after = {};  // from the beginning of the round
  absl::Duration lasts = {};
};

// Some faults that begin close to each other, or overlap. After them all is healed.
std::vector<Fault> MakeRound(const Shape& shape, Random& random);

}  // namespace moonpool::chaos
