#include "master/election/testing/election_world.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"

namespace moonpool::master {
namespace {

constexpr absl::Duration kLeaseSweep = absl::Milliseconds(500);
constexpr absl::Duration kStragglerMax = absl::Seconds(6);
constexpr absl::Duration kDelayMax = absl::Milliseconds(15);

}  // namespace

ElectionWorld::ElectionWorld(uint64_t seed, size_t machines) : random_(seed) {
  for (size_t i = 0; i < machines; ++i) {
    machines_.push_back(std::make_unique<Machine>());
    machines_[i]->offset = absl::Milliseconds(static_cast<int64_t>(random_.Below(100'000'000)));
    Boot(i);
  }
  At(now_ + kLeaseSweep * random_.Uniform(), [this] { SweepLeases(); });
}

std::string ElectionWorld::Address(size_t machine) const {
  return absl::StrCat("m", machine, ":1");
}

void ElectionWorld::At(absl::Time time, std::function<void()> what) {
  agenda_.emplace(std::make_pair(std::max(time, now_), ++steps_), std::move(what));
}

bool ElectionWorld::Run(absl::Duration duration) {
  const absl::Time end = now_ + duration;
  while (failure_.empty() && !agenda_.empty() && agenda_.begin()->first.first <= end) {
    now_ = agenda_.begin()->first.first;
    const std::function<void()> what = std::move(agenda_.begin()->second);
    agenda_.erase(agenda_.begin());
    what();
    CheckOneLeader();
  }
  now_ = end;
  return failure_.empty();
}

// --- Machines.

void ElectionWorld::Boot(size_t machine) {
  Machine& m = *machines_[machine];
  ++m.life;
  m.election.reset();
  m.leadership = std::make_unique<Leadership>();
  m.election =
      std::make_unique<Election>(ElectionOptions{.prefix = "/t", .address = Address(machine)},
                                 Random(random_.Next()), *m.leadership, metrics_, log_.logger());
  At(now_, [this, machine, life = m.life] {
    On(machine, life,
       [this, machine] { Drive(machine, machines_[machine]->election->Tick(LocalNow(machine))); });
  });
}

void ElectionWorld::On(size_t machine, uint64_t life, std::function<void()> what) {
  Machine& m = *machines_[machine];
  if (m.life != life) return;
  if (m.is_paused) {
    m.held.push_back(std::move(what));
  } else {
    what();
  }
}

void ElectionWorld::Continue(size_t machine) {
  Machine& m = *machines_[machine];
  m.is_paused = false;
  // In any order: threads that were stopped together go on as they like.
  std::vector<std::function<void()>> held = std::exchange(m.held, {});
  while (!held.empty()) {
    const size_t pick = random_.Below(held.size());
    At(now_,
       [this, machine, life = m.life, what = std::move(held[pick])] { On(machine, life, what); });
    held.erase(held.begin() + static_cast<std::ptrdiff_t>(pick));
  }
}

void ElectionWorld::SetCut(size_t machine, bool outgoing, bool incoming) {
  machines_[machine]->is_cut_outgoing = outgoing;
  machines_[machine]->is_cut_incoming = incoming;
}

void ElectionWorld::Restart(size_t machine) {
  Machine& m = *machines_[machine];
  ghosts_.push_back(m.election->leadership().deadline() - m.offset);
  m.is_paused = false;
  m.held.clear();
  Boot(machine);
}

void ElectionWorld::Resign(size_t machine) {
  On(machine, machines_[machine]->life,
     [this, machine] { Drive(machine, machines_[machine]->election->Resign(LocalNow(machine))); });
}

void ElectionWorld::RaiseTerm(size_t machine, Term at_least) {
  On(machine, machines_[machine]->life, [this, machine, at_least] {
    Drive(machine, machines_[machine]->election->RaiseTerm(at_least, LocalNow(machine)));
  });
}

void ElectionWorld::Drive(size_t machine, ElectionOutput out) {
  Machine& m = *machines_[machine];
  for (ElectionEvent& event : out.events) {
    NoteEvent(event);
    m.events.push_back(std::move(event));
  }
  for (ElectionCall& call : out.calls) Send(machine, std::move(call));
  if (out.wake_at == absl::InfiniteFuture()) return;
  At(out.wake_at - m.offset, [this, machine, life = m.life] {
    On(machine, life,
       [this, machine] { Drive(machine, machines_[machine]->election->Tick(LocalNow(machine))); });
  });
}

// --- The network.

absl::Duration ElectionWorld::Delay() {
  return (Chance(faults.straggler) ? kStragglerMax : kDelayMax) * random_.Uniform();
}

void ElectionWorld::Send(size_t machine, ElectionCall call) {
  const uint64_t life = machines_[machine]->life;
  // The caller gives up by itself, whatever becomes of the request.
  At(now_ + call.timeout, [this, machine, life, id = call.id] {
    On(machine, life, [this, machine, id] {
      Drive(machine, machines_[machine]->election->OnAnswer(
                         id, absl::DeadlineExceededError("no answer"), LocalNow(machine)));
    });
  });
  const int copies = Chance(faults.duplicate) ? 2 : 1;
  for (int copy = 0; copy < copies; ++copy) {
    if (machines_[machine]->is_cut_outgoing || Chance(faults.loss)) continue;
    At(now_ + Delay(), [this, machine, life, call] { Arrive(machine, life, call); });
  }
}

void ElectionWorld::Arrive(size_t machine, uint64_t life, const ElectionCall& call) {
  if (!is_etcd_up_) {
    return Answer(machine, life, call.id, absl::UnavailableError("connection refused"));
  }
  const auto* await = std::get_if<EtcdAwaitChange>(&call.request);
  if (await != nullptr && !etcd_.HasChanged(*await)) {
    waits_.push_back({.machine = machine, .life = life, .call = call.id, .await = *await});
    return;
  }
  Answer(machine, life, call.id, etcd_.Apply(call.request, now_));
  WakeWaits();
}

void ElectionWorld::Answer(size_t machine, uint64_t life, uint64_t call,
                           absl::StatusOr<EtcdAnswer> answer) {
  const int copies = Chance(faults.duplicate) ? 2 : 1;
  for (int copy = 0; copy < copies; ++copy) {
    if (machines_[machine]->is_cut_incoming || Chance(faults.loss)) continue;
    At(now_ + Delay(), [this, machine, life, call, answer] {
      On(machine, life, [this, machine, call, answer] {
        Election& election = *machines_[machine]->election;
        Drive(machine, election.OnAnswer(call, answer, LocalNow(machine)));
      });
    });
  }
}

void ElectionWorld::WakeWaits() {
  const auto woken = std::stable_partition(waits_.begin(), waits_.end(), [this](const Wait& wait) {
    return !etcd_.HasChanged(wait.await);
  });
  const std::vector<Wait> due(woken, waits_.end());
  waits_.erase(woken, waits_.end());
  for (const Wait& wait : due) Answer(wait.machine, wait.life, wait.call, EtcdDone{});
}

// --- etcd.

absl::StatusOr<EtcdAnswer> ElectionWorld::Ask(const EtcdRequest& request) {
  auto answer = etcd_.Apply(request, now_);
  WakeWaits();
  return answer;
}

void ElectionWorld::SweepLeases() {
  if (is_etcd_up_) etcd_.ExpireLeases(now_);
  WakeWaits();
  At(now_ + kLeaseSweep, [this] { SweepLeases(); });
}

void ElectionWorld::StopEtcd() {
  is_etcd_up_ = false;
  for (const Wait& wait : std::exchange(waits_, {})) {
    Answer(wait.machine, wait.life, wait.call, absl::UnavailableError("connection lost"));
  }
}

void ElectionWorld::StartEtcd() {
  if (is_etcd_up_) return;
  is_etcd_up_ = true;
  etcd_.RenewLeases(now_);
}

void ElectionWorld::Heal() {
  faults = {};
  StartEtcd();
  for (size_t i = 0; i < machines_.size(); ++i) {
    SetCut(i, false, false);
    if (machines_[i]->is_paused) Continue(i);
  }
  // Not before those that were paused have done what they had begun.
  At(now_, [this] {
    for (size_t i = 0; i < machines_.size(); ++i) {
      if (machines_[i]->election->state() == ElectionState::kResigned) Restart(i);
    }
  });
}

// --- What must hold.

int ElectionWorld::Leader() const {
  for (size_t i = 0; i < machines_.size(); ++i) {
    if (machines_[i]->election->leadership().IsLeaderAt(LocalNow(i))) return static_cast<int>(i);
  }
  return -1;
}

// A paused machine counts: it may go on at any moment, and believes its clock.
void ElectionWorld::CheckOneLeader() {
  std::vector<std::string> leaders;
  for (size_t i = 0; i < machines_.size(); ++i) {
    if (machines_[i]->election->leadership().IsLeaderAt(LocalNow(i))) {
      leaders.push_back(Address(i));
    }
  }
  std::erase_if(ghosts_, [this](absl::Time end) { return end <= now_; });
  for (size_t ghost = 0; ghost < ghosts_.size(); ++ghost) leaders.push_back("a dead process");
  if (leaders.size() > 1) Fail(absl::StrCat("two leaders: ", leaders[0], " and ", leaders[1]));
}

void ElectionWorld::NoteEvent(const ElectionEvent& event) {
  if (event.kind != ElectionEvent::Kind::kLeader) return;
  const auto it =
      terms_by_reign_.try_emplace(event.reign.value, std::make_pair(event.term, event.term)).first;
  auto& [lowest, highest] = it->second;
  lowest = std::min(lowest, event.term);
  highest = std::max(highest, event.term);
  const bool follows = it == terms_by_reign_.begin() || std::prev(it)->second.second < lowest;
  const bool precedes =
      std::next(it) == terms_by_reign_.end() || highest < std::next(it)->second.first;
  if (!follows || !precedes) {
    Fail(absl::StrCat("term ", event.term.value, " of reign ", event.reign.value,
                      " does not lie between those of its neighbours"));
  }
}

void ElectionWorld::Fail(const std::string& what) {
  if (failure_.empty()) {
    failure_ = absl::StrCat(absl::FormatTime(now_, absl::UTCTimeZone()), ": ", what);
  }
}

}  // namespace moonpool::master
