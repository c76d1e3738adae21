// Whom of several masters to ask: the one rule by which clients, nodes and the command line find
// the leader, and follow it when it changes. No clock, thread or randomness of its own.
//
//   LeaderChoice choice({"a:7400", "b:7400"}, {}, Random(seed));
//   const LeaderChoice::Step step = choice.Next(now);
//   if (step.at > now) ...                      // nobody before then: all were asked
//   ask step.address; when it has said nothing for step.patience it is silent
//   choice.OnLeader();                          // it does what it is asked, or
//   choice.OnNotLeader(detail.leader, now);     // NOT_LEADER; it may name another, or
//   choice.OnUnreachable(); choice.OnSilent(now);
//
// Masters are asked in rounds, each once in a round, so that two which name each other are asked
// once, and then there is a pause. Who is named as the leader is next, also when it is on no list;
// such addresses are learnt, a few of them, and forgotten when they are of no use. Who was silent
// is asked last for a while and waited for only briefly, named or not: the others name a leader
// that has died until its lease is over, and one of them follows it.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/random.h"

namespace moonpool {

struct LeaderChoiceOptions {
  // Between two rounds: doubled each time, and then up to half of it taken off. Who is told that
  // the masters are there and none leads comes back soon; after kQuickRounds the election is not
  // one of the usual ones, and pauses grow on to the long ones.
  absl::Duration pause_min = absl::Milliseconds(20);
  absl::Duration pause_max = absl::Milliseconds(200);
  absl::Duration election_pause_max = absl::Milliseconds(200);
  absl::Duration long_election_pause_max = absl::Milliseconds(200);
  // For one that is not known to be silent, doubled with each of its silences up to the largest;
  // and for one that was silent a short while ago.
  absl::Duration patience = absl::Seconds(1);
  absl::Duration patience_max = absl::Seconds(5);
  absl::Duration patience_when_silent = absl::Milliseconds(200);
};

// Used by one thread at a time; copied at will.
class LeaderChoice {
 public:
  // Another leader has come before, where leases are of 2 s.
  static constexpr absl::Duration kSilentFor = absl::Seconds(4);
  static constexpr size_t kLearntMax = 4;
  // With pauses of 200 ms at most, some 3 s: longer than another leader takes to come as a rule.
  static constexpr int kQuickRounds = 20;

  struct Step {
    std::string address;  // empty: nobody before `at`
    absl::Time at;
    absl::Duration patience;
  };

  // At least one address; one that stands there twice is asked once.
  LeaderChoice(const std::vector<std::string>& addresses, const LeaderChoiceOptions& options,
               Random random);

  // The same until what came of it is told.
  Step Next(absl::Time now);

  // Of the one that was asked, or that has led since: it leads.
  void OnLeader();
  // It says that it does not. What is no address of a master counts as none.
  void OnNotLeader(absl::string_view leader, absl::Time now);
  // It is of no use, and said so soon: refused connections and the like.
  void OnUnreachable(absl::Time now);
  // It may be stopped, or cut off.
  void OnSilent(absl::Time now);

  // What somebody else has found out of any master, who makes a round of its own: of nobody asked
  // here. In the order in which it was found out. Not whom a follower has named, which may be an
  // older story than what is known here.
  void NoteLeader(absl::string_view address);
  void NoteFollower(absl::string_view address);
  void NoteUnreachable(absl::string_view address);
  void NoteSilent(absl::string_view address, absl::Time now);

  // Everybody was asked, and Next names none before the pause is over.
  bool is_round_over() const { return is_pausing_; }
  // For callers who make their pauses themselves: everybody may be asked again, now.
  void StartRound();

  bool Knows(absl::string_view address) const;
  size_t size() const { return masters_.size(); }

 private:
  struct Master {
    std::string address;
    bool is_learnt = false;
    bool is_asked = false;  // in this round
    int silences = 0;       // since it was last heard
    absl::Time silent_until = absl::InfinitePast();

    void Heard() {
      silences = 0;
      silent_until = absl::InfinitePast();
    }
  };

  Master* Find(absl::string_view address);
  // nullptr: that is no address, or there is no room for it now.
  Master* FindOrLearn(absl::string_view address);
  Master* Pick(absl::Time now);
  absl::Duration PatienceWith(const Master& master, absl::Time now) const;
  // The one that was asked has been dealt with.
  void EndStep(absl::Time now);
  // After so many rounds without a leader before this one.
  absl::Duration PauseAfter(int rounds);

  LeaderChoiceOptions options_;
  Random random_;
  std::vector<Master> masters_;  // as they were given, then the learnt ones, oldest first
  std::string asked_;            // whom Next named
  std::string favourite_;        // who led or was named last; may be forgotten since
  int rounds_ = 0;               // without a leader
  bool has_answer_ = false;      // somebody has said NOT_LEADER in this round
  bool is_pausing_ = false;
  absl::Time pause_until_ = absl::InfinitePast();
};

// Only who leads says that, so that no other master need be asked: what it was asked to do is done,
// or has failed for a reason of its own.
bool IsAnswerOfLeader(const absl::Status& status);

}  // namespace moonpool
