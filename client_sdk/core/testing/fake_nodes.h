// Nodes in memory, and a transport to them, with faults on demand.
//
//   FakeNodes nodes;
//   FakeNode& n1 = nodes.Add("n1", "host-a");
//   FakeTransport tcp(nodes, "tcp");
//   n1.faults.is_dead = true;           // from now on
//   n1.Corrupt(generation);
//
// Thread-safe but for the fields of `faults` and `on_connect`: set them while no call runs.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "transport/channel.h"

namespace moonpool::client {

struct FakeFaults {
  bool is_dead = false;    // connects are refused, and channels break
  bool is_silent = false;  // connects over tcp are not answered
  bool is_frozen = false;  // takes ops and does nothing
  // Counted down by the ops that they hit.
  std::atomic<int> pinned_writes{0};  // refused with BYTES_PINNED
  std::atomic<int> stale_term_writes{0};
  std::atomic<int> stale_generation_writes{0};
  std::atomic<int> broken_ops{0};    // break their channel, not applied
  std::atomic<int> lost_answers{0};  // break their channel, applied
  size_t outstanding_max = 1024;     // Submit refuses more
  int idle_turns = 0;                // Progress() calls without effect before each op
};

// Thread-safe.
class FakeNode {
 public:
  FakeNode(std::string name, std::string host_id, Incarnation incarnation);

  transport::PeerAddress address() const;
  // The same pool behind another port (kill -9 and start again): open channels break.
  void Restart();
  // The bytes are gone.
  void Wipe();

  absl::Status Write(const transport::WriteOp& op);
  absl::Status Read(transport::ReadOp* op) const;
  // A copy of the payload, as a view's memory.
  absl::Status CopyPart(Generation generation, const Extent& extent, transport::PartHeader* header,
                        std::vector<std::byte>* payload) const;

  void Free(Generation generation);      // its parts are gone
  void Corrupt(Generation generation);   // flips a bit of each of its parts
  void Disguise(Generation generation);  // its headers say they are another key's
  bool Holds(Generation generation) const;
  uint64_t Allocate(uint64_t bytes);  // never given twice

  uint64_t life() const { return life_; }
  mutable std::atomic<int> reads{0};
  std::atomic<int> writes{0}, connects{0}, views{0}, doubts{0};
  FakeFaults faults;

 private:
  struct Stored {
    transport::PartHeader header;
    Extent extent;
    std::vector<std::byte> payload = {};
  };

  const std::string name_;
  const std::string host_id_;
  Incarnation incarnation_;
  std::atomic<uint64_t> life_{1};
  mutable absl::Mutex mutex_;
  std::map<uint64_t, Stored> parts_ ABSL_GUARDED_BY(mutex_);  // by offset
  uint64_t allocated_ ABSL_GUARDED_BY(mutex_) = 0;
};

class FakeNodes {
 public:
  FakeNode& Add(const std::string& name, const std::string& host_id);
  FakeNode* Find(const std::string& name) const;
  const std::vector<std::unique_ptr<FakeNode>>& all() const { return nodes_; }

 private:
  std::vector<std::unique_ptr<FakeNode>> nodes_;
};

class FakeTransport final : public transport::Transport {
 public:
  FakeTransport(FakeNodes& nodes, std::string name, bool has_views)
      : nodes_(nodes), name_(std::move(name)), has_views_(has_views) {}

  absl::string_view name() const override { return name_; }
  bool Reaches(const transport::PeerAddress& peer) const override;
  absl::StatusOr<std::unique_ptr<transport::Channel>> Connect(const transport::PeerAddress& peer,
                                                              const CallContext& context) override;
  absl::StatusOr<std::unique_ptr<transport::Channel>> StartConnect(
      const transport::PeerAddress& peer, const CallContext& context) override;

  std::atomic<bool> is_broken{false};  // refuses every connect
  std::function<void()> on_connect;    // runs first: a connect takes as long as that

 private:
  FakeNodes& nodes_;
  const std::string name_;
  const bool has_views_;
};

}  // namespace moonpool::client
