#include "common/rpc/leader_choice.h"

#include <algorithm>

#include "common/check.h"
#include "common/config/host_port.h"
#include "common/error.h"

namespace moonpool {
namespace {

// A name of 253 characters, its brackets and a port.
constexpr size_t kAddressBytesMax = 261;
constexpr int kDoublingsMax = 20;

// What a master says of another is taken from the wire.
bool IsAddress(absl::string_view text) {
  if (text.size() > kAddressBytesMax) return false;
  const auto address = ParseHostPort(text);
  return address.ok() && address->port != 0;
}

absl::Duration Doubled(absl::Duration from, int times, absl::Duration max) {
  return std::min(max, from * (int64_t{1} << std::min(times, kDoublingsMax)));
}

}  // namespace

LeaderChoice::LeaderChoice(const std::vector<std::string>& addresses,
                           const LeaderChoiceOptions& options, Random random)
    : options_(options), random_(random) {
  MP_CHECK(!addresses.empty(), "a list without a master");
  for (const std::string& address : addresses) {
    if (Find(address) == nullptr) masters_.push_back({.address = address});
  }
}

LeaderChoice::Master* LeaderChoice::Find(absl::string_view address) {
  const auto it = std::find_if(masters_.begin(), masters_.end(), [address](const Master& master) {
    return master.address == address;
  });
  return it == masters_.end() ? nullptr : &*it;
}

bool LeaderChoice::Knows(absl::string_view address) const {
  return std::any_of(masters_.begin(), masters_.end(),
                     [address](const Master& master) { return master.address == address; });
}

LeaderChoice::Master* LeaderChoice::FindOrLearn(absl::string_view address) {
  if (Master* const known = Find(address)) return known;
  if (!IsAddress(address)) return nullptr;
  const auto learnt = std::count_if(masters_.begin(), masters_.end(),
                                    [](const Master& master) { return master.is_learnt; });
  if (static_cast<size_t>(learnt) >= kLearntMax) {
    // Those of this round stay: whoever names a new one each time is followed a few times only.
    const auto oldest = std::find_if(masters_.begin(), masters_.end(), [](const Master& master) {
      return master.is_learnt && !master.is_asked;
    });
    if (oldest == masters_.end()) return nullptr;
    masters_.erase(oldest);
  }
  masters_.push_back({.address = std::string(address), .is_learnt = true});
  return &masters_.back();
}

LeaderChoice::Master* LeaderChoice::Pick(absl::Time now) {
  Master* last = nullptr;
  Master* picked = nullptr;
  for (Master& master : masters_) {
    if (master.is_asked) continue;
    if (now < master.silent_until) {
      if (last == nullptr || master.address == favourite_) last = &master;
    } else if (picked == nullptr || master.address == favourite_) {
      picked = &master;
    }
  }
  return picked != nullptr ? picked : last;
}

LeaderChoice::Step LeaderChoice::Next(absl::Time now) {
  if (asked_.empty() && is_pausing_) {
    if (now < pause_until_) return {.address = {}, .at = pause_until_, .patience = {}};
    StartRound();
  }
  Master* const master = asked_.empty() ? Pick(now) : Find(asked_);
  asked_ = master->address;
  return {.address = asked_, .at = now, .patience = PatienceWith(*master, now)};
}

absl::Duration LeaderChoice::PatienceWith(const Master& master, absl::Time now) const {
  if (masters_.size() == 1) return options_.patience_max;  // nobody else could lead
  if (now < master.silent_until) return options_.patience_when_silent;
  return Doubled(options_.patience, master.silences, options_.patience_max);
}

void LeaderChoice::StartRound() {
  for (Master& master : masters_) master.is_asked = false;
  asked_.clear();
  has_answer_ = false;
  is_pausing_ = false;
}

void LeaderChoice::OnLeader() {
  if (Find(asked_) == nullptr) return;
  NoteLeader(asked_);
  for (Master& master : masters_) master.is_asked = false;
}

void LeaderChoice::NoteLeader(absl::string_view address) {
  Master* const leader = FindOrLearn(address);
  if (leader == nullptr) return;
  leader->Heard();
  favourite_ = leader->address;
  rounds_ = 0;
  std::erase_if(masters_, [this](const Master& master) {
    return master.is_learnt && master.silences > 0 && master.address != favourite_;
  });
}

void LeaderChoice::OnNotLeader(absl::string_view leader, absl::Time now) {
  Master* const follower = Find(asked_);
  if (follower == nullptr) return;
  NoteFollower(asked_);
  follower->is_asked = true;
  has_answer_ = true;
  const Master* const named = leader == asked_ ? nullptr : FindOrLearn(leader);
  if (named != nullptr) favourite_ = named->address;
  EndStep(now);
}

void LeaderChoice::NoteFollower(absl::string_view address) {
  if (Master* const follower = Find(address)) follower->Heard();
  if (favourite_ == address) favourite_.clear();
}

void LeaderChoice::OnUnreachable(absl::Time now) {
  NoteUnreachable(asked_);
  EndStep(now);
}

void LeaderChoice::NoteUnreachable(absl::string_view address) {
  if (favourite_ == address) favourite_.clear();
}

void LeaderChoice::OnSilent(absl::Time now) {
  NoteSilent(asked_, now);
  EndStep(now);
}

void LeaderChoice::NoteSilent(absl::string_view address, absl::Time now) {
  Master* const master = FindOrLearn(address);
  if (master == nullptr || now < master->silent_until) return;
  ++master->silences;
  master->silent_until = now + kSilentFor;
}

void LeaderChoice::EndStep(absl::Time now) {
  if (Master* const master = Find(asked_)) master->is_asked = true;
  asked_.clear();
  if (!std::all_of(masters_.begin(), masters_.end(),
                   [](const Master& master) { return master.is_asked; })) {
    return;
  }
  pause_until_ = now + PauseAfter(rounds_++);
  is_pausing_ = true;
}

absl::Duration LeaderChoice::PauseAfter(int rounds) {
  absl::Duration pause;
  if (!has_answer_) {
    pause = Doubled(options_.pause_min, rounds, options_.pause_max);
  } else if (rounds < kQuickRounds) {
    pause = Doubled(options_.pause_min, rounds, options_.election_pause_max);
  } else {
    pause = Doubled(options_.election_pause_max, rounds - kQuickRounds,
                    options_.long_election_pause_max);
  }
  return pause * (0.5 + 0.5 * random_.Uniform());
}

bool IsAnswerOfLeader(const absl::Status& status) {
  if (status.ok()) return true;
  // What has no detail was never said by a master.
  const std::optional<ErrorDetail> detail = DetailOf(status);
  return detail.has_value() && detail->reason != ErrorReason::kNotLeader &&
         detail->reason != ErrorReason::kShuttingDown;
}

}  // namespace moonpool
