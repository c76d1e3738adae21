#include "common/rpc/leader_choice.h"

#include <algorithm>

#include "common/check.h"
#include "common/config/host_port.h"

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
  if (!IsAddress(address)) return nullptr;
  if (Master* const known = Find(address)) return known;
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
  Master* const leader = Find(asked_);
  if (leader == nullptr) return;
  leader->silences = 0;
  leader->silent_until = absl::InfinitePast();
  favourite_ = asked_;
  rounds_ = 0;
  for (Master& master : masters_) master.is_asked = false;
  std::erase_if(masters_, [this](const Master& master) {
    return master.is_learnt && master.silences > 0 && master.address != asked_;
  });
}

void LeaderChoice::OnNotLeader(absl::string_view leader, absl::Time now) {
  Master* const follower = Find(asked_);
  if (follower == nullptr) return;
  follower->silences = 0;
  follower->silent_until = absl::InfinitePast();
  follower->is_asked = true;
  has_answer_ = true;
  if (favourite_ == asked_) favourite_.clear();
  const Master* const named = leader == asked_ ? nullptr : FindOrLearn(leader);
  if (named != nullptr) favourite_ = named->address;
  EndStep(now);
}

void LeaderChoice::OnUnreachable(absl::Time now) {
  if (favourite_ == asked_) favourite_.clear();
  EndStep(now);
}

void LeaderChoice::OnSilent(absl::Time now) {
  Master* const master = Find(asked_);
  if (master != nullptr && now >= master->silent_until) {
    ++master->silences;
    master->silent_until = now + kSilentFor;
  }
  EndStep(now);
}

void LeaderChoice::EndStep(absl::Time now) {
  if (Master* const master = Find(asked_)) master->is_asked = true;
  asked_.clear();
  if (!std::all_of(masters_.begin(), masters_.end(),
                   [](const Master& master) { return master.is_asked; })) {
    return;
  }
  const absl::Duration max = has_answer_ ? options_.election_pause_max : options_.pause_max;
  pause_until_ = now + PauseOf(rounds_++, max);
  is_pausing_ = true;
}

absl::Duration LeaderChoice::PauseOf(int rounds, absl::Duration max) {
  return Doubled(options_.pause_min, rounds, max) * (0.5 + 0.5 * random_.Uniform());
}

}  // namespace moonpool
