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
      if (record->outcome == Outcome::kAbsent && record->op != Op::kRemove) CheckAbsent(*record);
    }
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

  // As many nodes lost their bytes as there were replicas.
  bool MayBeLost(absl::Time begin, absl::Time end) const {
    std::set<uint32_t> nodes;
    for (const Loss& loss : excuses_.losses) {
      if (loss.when.meets(begin, end)) nodes.insert(loss.node);
    }
    return nodes.size() >= replicas_;
  }

  // When a removal can no longer take effect.
  absl::Time EndOf(const Record& removal) const {
    const bool is_settled =
        removal.outcome == Outcome::kDone || removal.outcome == Outcome::kAbsent;
    return is_settled ? removal.returned : removal.invoked + excuses_.removal_late;
  }

  bool MayBeRemoved(absl::Time begin, absl::Time end) const {
    return std::any_of(records_.begin(), records_.end(), [&](const Record* record) {
      return record->op == Op::kRemove && record->invoked <= end && EndOf(*record) >= begin;
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

  // The latest confirmed removal before `record` covers every put that had ended when it began.
  void CheckReturned(const Record& record) {
    const bool is_seen =
        IsRead(record) || (record.op == Op::kExists && record.outcome == Outcome::kDone);
    if (!is_seen) return;
    for (const Record* removal : records_) {
      if (removal->op != Op::kRemove || removal->outcome != Outcome::kDone ||
          removal->returned >= record.invoked) {
        continue;
      }
      const auto is_covered = [&](const Record& put) { return put.returned < removal->invoked; };
      if (IsRead(record)) {
        const auto put = puts_.find(record.value);
        if (put == puts_.end() || !is_covered(*put->second)) continue;
        Report("returned", "a value was read after it had been removed",
               {put->second, removal, &record});
      } else if (std::all_of(puts_.begin(), puts_.end(), [&](const auto& entry) {
                   return is_covered(*entry.second) || entry.second->invoked > record.returned;
                 })) {
        Report("returned", "a key is said to exist, and all that was put had been removed",
               {removal, &record});
      }
    }
  }

  void CheckAbsent(const Record& absent) {
    if (excuses_.evicts || IsDisturbed(absent.invoked, absent.returned)) return;
    for (const Record* before : records_) {
      if (!IsEvidence(*before) || before->returned > absent.invoked) continue;
      const bool is_excused = MayBeRemoved(before->invoked, absent.returned) ||
                              MayBeLost(BornAt(*before), absent.returned);
      if (!is_excused) {
        Report("missing", "what was there is absent, and nothing took it", {before, &absent});
      }
    }
  }

  // Values that were seen one after the other, neither call overlapping the other.
  void CheckChanges() {
    if (excuses_.evicts) return;
    std::vector<const Record*> seen;
    for (const Record* record : records_) {
      if (NamesItsValue(*record)) seen.push_back(record);
    }
    for (size_t i = 0; i < seen.size(); ++i) {
      for (size_t j = i + 1; j < seen.size(); ++j) {
        const Record& first = *seen[i];
        const Record& second = *seen[j];
        if (first.value == second.value || first.returned > second.invoked) continue;
        const bool is_excused = IsDisturbed(first.invoked, second.returned) ||
                                MayBeRemoved(first.invoked, second.returned) ||
                                MayBeLost(BornAt(first), second.returned);
        if (!is_excused) {
          Report("changed", "one value followed another, and nothing took the first",
                 {&first, &second});
        }
      }
    }
  }

  const std::string key_;
  const std::vector<const Record*> records_;
  const Excuses& excuses_;
  std::vector<Violation>& violations_;
  std::map<uint64_t, const Record*> puts_;  // by value
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
