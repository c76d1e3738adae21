// Random clients, nodes and operators against the core, from one seed. After every step something
// is known that must hold: what is located is sealed at its node with exactly that generation,
// leases keep locations as they are, what was removed stays away, what was committed goes only for
// a reason, a restarted master knows what its predecessor knew. Now and then everything is counted
// again, and now and then nothing happens for so long that everything must have come to rest.
//
//   Model model({.seed = 42, .has_damage = true});
//   for (int step = 0; step < 4000 && !testing::Test::HasFatalFailure(); ++step) model.Step();
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "common/random.h"
#include "master/core/core.h"
#include "master/core/testing/event_follower.h"
#include "master/core/testing/fake_node.h"

namespace moonpool::master {

struct ModelOptions {
  uint64_t seed = 1;
  bool has_damage = false;  // nodes find parts damaged and forget them
  std::string eviction_policy = "cohort";
};

class Model {
 public:
  explicit Model(const ModelOptions& options);

  void Step();
  // Counts everything again.
  void Check();
  // Nothing but what is under way goes on until it has ended. Then everything is where it shall be.
  void Rest();
  // Under all masters.
  bool has_granted() const { return newest_ > Generation{}; }

 private:
  struct OpenPut {
    std::string key;
    std::string parent;
    uint64_t size = 0;
    Grant grant;
    uint32_t replicas = 0;  // that its writer says it is to have; some say nothing
  };
  struct SealedPut {
    Generation generation;
    Handle handle = kNoHandle;
    absl::InlinedVector<uint32_t, 1> failed;
    std::string key = {};  // of a spare grant
    std::string parent = {};
  };
  struct SpareHeld {
    Grant grant;
    uint64_t size = 0;
  };
  struct HeldLocation {
    Location location;
    absl::Time until;
  };
  struct Named {
    Generation generation;
    Replicas replicas;  // also those on nodes that are away
  };
  using NamedObjects = std::map<std::string, Named>;

  // --- model.cc: clients, and time.
  void NewCore();
  std::string PickKey();
  FakeNode& PickNode() { return *nodes_[random_.Below(nodes_.size())]; }
  FakeNode* NodeOf(NodeId id);
  Caller Me();
  void StartPut();
  OpenPut TakePut();
  void FinishPut();
  void CommitPut();
  bool SealReplica(const OpenPut& put, uint32_t replica);
  void AbortPut();
  void TakeSpares();
  void UseSpare();
  void CommitSpare(const SealedPut& put);
  void Get();
  void ExpectRightParts(const std::string& key, const Location& location);
  void Remove();
  void PassTime(absl::Duration time);

  // --- model_nodes.cc: nodes, operators, and masters to come.
  void Connect(FakeNode& node, bool completes);
  void Complete(FakeNode& node);
  void SendReports(FakeNode& node);
  void SendLost(FakeNode& node);
  void SendAnswers(FakeNode& node);
  void CarryOutFrees(FakeNode& node);
  void WorkOnCopies(FakeNode& node);
  void WorkOnNode(FakeNode& node);
  void Disturb(FakeNode& node);
  void Damage(FakeNode& node);
  void Drain(const FakeNode& node);
  void Forget(FakeNode& node);
  void Deliver();
  void Save(const DurableChange& change);
  // All that is under way is carried out, at this moment.
  void Settle();
  bool AreAllHere() const;
  void Restart();

  // --- model_checks.cc: what must hold.
  NamedObjects NamedNow();
  // All its parts are at their nodes (and those in session).
  bool IsWhole(Generation generation, const Replica& replica, bool in_session);
  // The parts that are left make up a replica, whichever they belonged to. Those in session count.
  bool HasWholeCut(const Named& named);
  // What was named before and is no more had a reason to go.
  void ExpectExcused(const NamedObjects& before);
  void ExpectReplicasWhole(const NamedObjects& named);
  void ExpectWishesMet();
  void ExpectDrained();
  void ExpectNothingHidden(const NamedObjects& named);
  // Who has followed the events knows what is stored.
  void ExpectFollowed();
  bool HasRoomElsewhere(const ObjectEntry& entry);

  Random random_;
  CoreOptions options_;
  bool has_damage_;
  bool keeps_state_;
  DurableState disk_;       // if so
  ChangeNumber saved_ = 0;  // of this master
  uint32_t term_ = 0;
  std::unique_ptr<Core> core_;
  std::unique_ptr<EventFollower> follower_;  // of all masters, one after the other
  std::vector<std::unique_ptr<FakeNode>> nodes_;
  absl::Time now_ = absl::UnixEpoch();
  uint64_t requests_ = 0;
  std::vector<OpenPut> puts_;
  std::vector<SealedPut> sealed_;  // and not committed
  std::vector<SpareHeld> spares_;
  // Sealed under a spare, and the writer has not been told what came of it: by this master or one
  // before. What it wrote may be there when the next master begins, whatever happened to the key
  // meanwhile; under the master that gave the spare it may not.
  std::set<Generation> in_flight_;
  std::set<Generation> left_in_flight_;
  Generation newest_;                     // that was granted
  std::map<Generation, uint64_t> sizes_;  // of all that may have been sealed
  std::map<std::string, HeldLocation> held_;
  std::map<RemoveTicket, std::pair<std::string, Generation>> removals_;
  std::map<std::string, Generation> removed_;           // as this master says
  std::map<std::string, Generation> removed_for_good_;  // as all masters to come will say
  std::set<std::string> draining_;
  std::set<std::string> forgotten_;  // and not back
};

}  // namespace moonpool::master
