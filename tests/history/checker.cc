#include "tests/history/checker.h"

#include <algorithm>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "tests/history/values.h"

namespace moonpool::history {
namespace {

bool IsRead(const Record& record) {
  return (record.op == Op::kGet || record.op == Op::kView) && record.outcome == Outcome::kDone;
}

// Of what was seen before a call, so much is looked at. What excuses the step from the last one
// also excuses all longer ones, but for calls that overlap.
constexpr size_t kLookBack = 8;

// From one key's records, in the order in which they were begun, what they say about each other.
class KeyChecker {
 public:
  KeyChecker(std::string key, std::vector<const Record*> records, const Excuses& excuses,
             std::vector<Violation>& violations)
      : key_(std::move(key)),
        records_(std::move(records)),
        excuses_(excuses),
        violations_(violations) {
    for (const Record* record : records_) {
      if (record->op == Op::kRemove) removals_.push_back(record);
      if (record->op != Op::kPut) continue;
      puts_.emplace(record->value, record);
      replicas_ = std::min(replicas_, record->replicas);
      first_put_ = std::min(first_put_, record->invoked);
    }
  }

  void Check() {
    for (const Record* record : records_) {
      CheckAlone(*record);
      if (IsRead(*record)) CheckRead(*record);
      CheckReturned(*record);
    }
    CheckAbsences();
    CheckChanges();
  }

 private:
  void Report(const char* rule, absl::string_view sentence,
              const std::vector<const Record*>& about) {
    if (!reported_.insert(rule).second) return;
    std::string what(sentence);
    for (const Record* record : about) absl::StrAppend(&what, "\n    ", Describe(*record));
    violations_.push_back({.rule = rule, .key = key_, .what = std::move(what)});
  }

  bool IsDisturbed(absl::Time begin, absl::Time end) const {
    return std::any_of(excuses_.disturbed.begin(), excuses_.disturbed.end(),
                       [&](const Interval& interval) { return interval.meets(begin, end); });
  }

  // As many nodes lost replicas as there were, and the last one did not come back.
  bool MayBeLost(absl::Time begin, absl::Time end) const {
    std::set<uint32_t> nodes;
    bool is_for_good = false;
    for (const Loss& loss : excuses_.losses) {
      if (!loss.when.meets(begin, end)) continue;
      nodes.insert(loss.node);
      is_for_good = is_for_good || loss.is_for_good;
    }
    return is_for_good && nodes.size() >= replicas_;
  }

  // When a removal can no longer take effect.
  absl::Time EndOf(const Record& removal) const {
    const bool is_settled =
        removal.outcome == Outcome::kDone || removal.outcome == Outcome::kAbsent;
    return is_settled ? removal.returned : removal.invoked + excuses_.removal_late;
  }

  bool MayBeRemoved(absl::Time begin, absl::Time end) const {
    return std::any_of(removals_.begin(), removals_.end(), [&](const Record* removal) {
      return removal->invoked <= end && EndOf(*removal) >= begin;
    });
  }

  // When the bytes of a value may first have been there.
  absl::Time BornAt(const Record& seen) const {
    const auto put = puts_.find(seen.value);
    const bool names_its_value = seen.op != Op::kExists && seen.outcome == Outcome::kDone;
    return names_its_value && put != puts_.end() ? put->second->invoked : first_put_;
  }

  // Something was there when the call was answered.
  static bool IsEvidence(const Record& record) {
    if (record.op == Op::kRemove) return false;
    return record.outcome == Outcome::kDone || record.outcome == Outcome::kThere;
  }
  static bool NamesItsValue(const Record& record) {
    return IsRead(record) || (record.op == Op::kPut && record.outcome == Outcome::kDone);
  }

  void CheckAlone(const Record& record) {
    if (record.outcome == Outcome::kRefused) {
      Report("refused", "an error that no such call may have", {&record});
    }
    if (record.outcome == Outcome::kOpen) return;
    if (record.returned - record.invoked > excuses_.call_max) {
      Report("late", "a call took longer than its time", {&record});
    }
    if (record.outcome == Outcome::kUndecided && !IsDisturbed(record.invoked, record.returned)) {
      Report("failed", "a call failed while nothing was broken", {&record});
    }
  }

  void CheckRead(const Record& read) {
    const auto put = puts_.find(read.value);
    if (put == puts_.end()) {
      Report("foreign", "bytes were read that no put of this key wrote", {&read});
    } else if (put->second->invoked > read.returned) {
      Report("foreign", "bytes were read of a put that had not begun", {put->second, &read});
    }
  }

  // Of the removals that were confirmed before a call the one that was begun last takes the most:
  // all puts that had ended by then.
  const Record* LastRemovalBefore(const Record& record) const {
    for (auto removal = removals_.rbegin(); removal != removals_.rend(); ++removal) {
      if ((*removal)->outcome == Outcome::kDone && (*removal)->returned < record.invoked) {
        return *removal;
      }
    }
    return nullptr;
  }

  void CheckReturned(const Record& record) {
    const bool is_seen =
        IsRead(record) || (record.op == Op::kExists && record.outcome == Outcome::kDone);
    const Record* removal = is_seen ? LastRemovalBefore(record) : nullptr;
    if (removal == nullptr) return;
    const auto is_taken = [&](const Record& put) { return put.returned < removal->invoked; };
    if (!IsRead(record)) {
      const bool may_exist = std::any_of(puts_.begin(), puts_.end(), [&](const auto& entry) {
        return !is_taken(*entry.second) && entry.second->invoked <= record.returned;
      });
      if (may_exist) return;
      Report("returned", "a key is said to exist, and all that was put had been removed",
             {removal, &record});
      return;
    }
    const auto put = puts_.find(record.value);
    if (put == puts_.end() || !is_taken(*put->second)) return;
    Report("returned", "a value was read after it had been removed",
           {put->second, removal, &record});
  }

  // Calls `each` with what was seen before a call and does not overlap it, latest first.
  template <typename Each>
  static void LookBack(const std::vector<const Record*>& seen, const Record& record, Each each) {
    auto end = std::upper_bound(
        seen.begin(), seen.end(), record.invoked,
        [](absl::Time time, const Record* other) { return time < other->invoked; });
    for (size_t looked = 0; end != seen.begin() && looked < kLookBack;) {
      const Record& before = **--end;
      if (before.returned > record.invoked || &before == &record) continue;
      ++looked;
      each(before);
    }
  }

  void CheckAbsences() {
    if (excuses_.evicts) return;
    std::vector<const Record*> evidence;
    for (const Record* record : records_) {
      if (IsEvidence(*record)) evidence.push_back(record);
    }
    for (const Record* record : records_) {
      const Record& absent = *record;
      if (absent.outcome != Outcome::kAbsent || absent.op == Op::kRemove ||
          IsDisturbed(absent.invoked, absent.returned)) {
        continue;
      }
      LookBack(evidence, absent, [&](const Record& before) {
        const bool is_excused = MayBeRemoved(before.invoked, absent.returned) ||
                                MayBeLost(BornAt(before), absent.returned);
        if (!is_excused) {
          Report("missing", "what was there is absent, and nothing took it", {&before, &absent});
        }
      });
    }
  }

  // Values that were seen one after the other.
  void CheckChanges() {
    if (excuses_.evicts) return;
    std::vector<const Record*> seen;
    for (const Record* record : records_) {
      if (NamesItsValue(*record)) seen.push_back(record);
    }
    for (const Record* record : seen) {
      const Record& second = *record;
      LookBack(seen, second, [&](const Record& first) {
        const bool is_excused = first.value == second.value ||
                                IsDisturbed(first.invoked, second.returned) ||
                                MayBeRemoved(first.invoked, second.returned) ||
                                MayBeLost(BornAt(first), second.returned);
        if (!is_excused) {
          Report("changed", "one value followed another, and nothing took the first",
                 {&first, &second});
        }
      });
    }
  }

  const std::string key_;
  const std::vector<const Record*> records_;
  const Excuses& excuses_;
  std::vector<Violation>& violations_;
  std::map<uint64_t, const Record*> puts_;  // by value
  std::vector<const Record*> removals_;
  uint32_t replicas_ = UINT32_MAX;
  absl::Time first_put_ = absl::InfiniteFuture();
  std::set<std::string> reported_;
};

}  // namespace

std::vector<Violation> Check(absl::Span<const Record> records, const Excuses& excuses) {
  std::map<std::string, std::vector<const Record*>> keys;
  for (const Record& record : records) keys[record.key].push_back(&record);
  std::vector<Violation> violations;
  for (auto& [key, of_key] : keys) {
    std::stable_sort(of_key.begin(), of_key.end(), [](const Record* left, const Record* right) {
      return left->invoked < right->invoked;
    });
    KeyChecker(key, std::move(of_key), excuses, violations).Check();
  }
  return violations;
}

}  // namespace moonpool::history
