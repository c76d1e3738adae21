// What clients did and saw, and whether that is allowed: invariants 1, 2, 4 and 7 of
// ARCHITECTURE.md, checked from the outside as a user would.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "tests/history/values.h"

namespace moonpool::sim {

using history::AttemptOf;
using history::kEmptyValue;
using history::ValueOf;

// What the run may excuse: faults that were injected, and bounds that were set.
struct Excuses {
  bool nodes_lost = false;      // a node was crashed or cut off
  bool nodes_killed = false;    // a node was away for a while, and lost nothing
  bool network_faults = false;  // losses, cuts, stragglers, flips
  bool evicts = false;          // the pool is smaller than the data
  bool master_crashes = false;  // between a crash and the last inventory little is known
  bool slow_callers = false;    // calls are repeated, or go on, long after they began
  bool meta_failures = false;   // writes to the meta store fail, or take long
  // Masters do not remember for long why a key is gone; nor then, of what nodes bring along, that
  // it was not removed.
  bool forgetful = false;
  // What a master has removed, or has not found to remove, is not there for the masters to come,
  // whether this one knew every node or not.
  bool keeps_state = false;

  bool faulty() const { return nodes_lost || network_faults; }
  bool refuses_old() const { return forgetful && master_crashes; }
};

// Every report returns "" or a sentence that says what is wrong.
class Model {
 public:
  explicit Model(Excuses excuses) : excuses_(excuses) {}

  // A put attempt of a client, begun now. Its id goes into the value.
  uint64_t PutStarted(const std::string& key, size_t size, absl::Time now);
  // A put of the key asks for so many replicas.
  void Wished(const std::string& key, uint32_t replicas);
  // The fewest that any has asked for; 0 when there was none.
  uint32_t WishedByAll(const std::string& key) const;
  // `starts`: how often its start was sent, under one request id or several.
  std::string PutEnded(uint64_t attempt, const absl::Status& status, int starts, absl::Time now);

  // `begun`: when the get was called. Status as the client returned it.
  std::string Got(const std::string& key, const absl::Status& status,
                  absl::Span<const std::byte> bytes, absl::Time begun, absl::Time now);

  void RemoveStarted(const std::string& key, absl::Time now);
  // `timed_out`: the caller's time was over, which says nothing. `binds_successors`: the master
  // that confirmed it knew every node there is, so that no later master may bring the key back
  // either.
  struct RemoveEnd {
    absl::Time begun;
    bool timed_out = false;
    bool binds_successors = true;
    // How often it was sent: one of them may be carried out long after another was answered.
    int sent = 1;
  };
  std::string RemoveEnded(const std::string& key, const absl::Status& status, const RemoveEnd& end,
                          absl::Time now);

  // A client holds what it found until `until`, by the master's word. `begun`: when it asked.
  void Held(const std::string& key, uint64_t client, absl::Time begun, absl::Time until);
  std::string GotWhileHeld(const std::string& key, uint64_t client, const absl::Status& status,
                           absl::Time begun, absl::Time now);

  // The master says that there is an object. Of what it has removed itself it must not.
  std::string SaidToExist(const std::string& key, absl::Time begun, absl::Time now);

  // A view was opened. Failures of views need no excuse: the node may be another one.
  std::string Viewed(const std::string& key, absl::Span<const std::byte> bytes, absl::Time begun,
                     absl::Time now);

  // A node is away, and comes back with what it had.
  void NodeKilled(absl::Time now);
  // All nodes are there, and the master has their inventories.
  void NodesAreBack(absl::Time now);
  void MasterCrashed(absl::Time now);
  // The new master has the whole inventory of every node.
  void MasterRecovered(absl::Time now);

  // The last things that happened to a key, one line each, for the message of a violation.
  std::string StoryOf(const std::string& key) const;

  static std::string Timed(const char* call, absl::Time deadline, absl::Time now);

  // For the summary.
  struct Counts {
    uint64_t puts = 0, acknowledged = 0, gets = 0, hits = 0, removes = 0, held = 0, views = 0;
    std::map<std::string, uint64_t> misses;  // by reason
    std::map<std::string, uint64_t> refusals;
  };
  const Counts& counts() const { return counts_; }

 private:
  struct Attempt {
    std::string key;
    size_t size = 0;
    absl::Time started;
    absl::Time ended = absl::InfiniteFuture();
    bool acknowledged = false;
    bool refused = false;  // for certain: no byte of it may ever be seen
    // A grant of it may be open after its end: for want of a word, or since a start that was
    // repeated may arrive late.
    bool may_leave_grant = true;
  };
  // Latest start of a removal that was confirmed, and when the word came.
  struct Removal {
    absl::Time from = absl::InfinitePast();
    absl::Time at = absl::InfinitePast();
    bool covers(const Attempt& attempt, absl::Time begun) const {
      return attempt.ended < from && begun > at;
    }
  };
  struct Key {
    std::vector<uint64_t> attempts;
    absl::Time last_remove_started = absl::InfinitePast();
    absl::Time last_remove_ended = absl::InfinitePast();
    // Starts of removals whose outcome nobody knows: each may take effect a while later.
    std::vector<absl::Time> unsettled_removes;
    std::deque<std::string> story;
    uint32_t wished = 0;
    Removal removal;                            // that every master has to keep to
    Removal absence;                            // that every master has to keep to; hints need not
    Removal short_removal;                      // that the master which confirmed it has to keep to
    uint64_t short_life = 0;                    // and which master that is
    std::map<uint64_t, absl::Time> held_until;  // by client
  };

  void Tell(const std::string& key, absl::Time now, absl::string_view what);
  // The master did not know everything yet when a call that began then was answered.
  bool MayHaveForgotten(absl::Time begun) const {
    return excuses_.master_crashes && begun <= recovered_at_;
  }
  // A node was away when a call that began then was answered, or clients still kept clear of it.
  bool MayMissANode(absl::Time begun) const {
    return excuses_.nodes_killed && begun <= nodes_back_at_ + kKeptClear;
  }
  absl::Duration LatestRequest() const;
  // A removal that nobody has heard the end of may have taken this attempt.
  bool MayBeRemoved(const Key& key, const Attempt& attempt, absl::Time begun) const;
  // A grant that may have been open after `acknowledged` was stored, other than its own, explains
  // why the master speaks of a put that came to nothing to who began to read at `begun`.
  bool HasOpenGrant(const Key& key, uint64_t acknowledged, absl::Time begun) const;
  std::string CheckContent(const std::string& key, absl::Span<const std::byte> bytes,
                           absl::Time begun, absl::Time now) const;
  std::string CheckMiss(const std::string& key, const absl::Status& status, absl::Time begun) const;

  static constexpr absl::Duration kKeptClear = absl::Seconds(1);
  static constexpr absl::Duration kGivenUpAfter = absl::Seconds(4);  // a little less than it is

  const Excuses excuses_;
  uint64_t master_lives_ = 1;
  absl::Time recovered_at_ = absl::InfinitePast();   // infinite while it is not
  absl::Time nodes_back_at_ = absl::InfinitePast();  // infinite while they are not
  absl::Time killed_at_;                             // the first of those that are not back
  // The master has given a killed node up meanwhile. An object of which other nodes had parts is
  // gone then: those parts were freed.
  bool was_given_up_ = false;
  std::vector<Attempt> attempts_;  // id - 1
  std::map<std::string, Key> keys_;
  Counts counts_;
};

}  // namespace moonpool::sim
