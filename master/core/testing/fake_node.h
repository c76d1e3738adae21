// A storage node as the core sees it: what is sealed where, by the rules of the data path (the
// newest generation owns its bytes; a freed generation stays freed).
#pragma once

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/types.h"
#include "master/core/node_commands.h"

namespace moonpool::master {

struct SealedRecord {
  // Newer writers own the bytes: of a copy its claim, else the generation.
  Generation OwnedBy() const { return claim == Generation{} ? generation : claim; }

  Generation generation;
  std::string key;
  std::string parent;
  Extent extent;
  uint64_t object_bytes = 0;
  uint32_t part_index = 0;
  uint32_t part_count = 1;
  uint32_t replica_index = 0;
  uint32_t replicas = 0;
  Generation claim = {};

  SealedPart View() const {
    return SealedPart{.generation = generation,
                      .name_space = "default",
                      .key = key,
                      .parent = parent,
                      .extent = extent,
                      .object_bytes = object_bytes,
                      .part_index = part_index,
                      .part_count = part_count,
                      .replica_index = replica_index,
                      .replicas = replicas};
  }
};

class FakeNode {
 public:
  explicit FakeNode(RegisterNodeCommand node_description)
      : description(std::move(node_description)) {}

  // False when a newer generation owns bytes of it, it was freed, or its grant is over.
  bool Seal(const SealedRecord& record) {
    if (record.generation < open_from_ && !Holds(record.generation, record.extent)) return false;
    if (freed_.contains(record.generation) ||
        record.generation.term() < description.highest_term_seen) {
      return false;
    }
    for (const auto& [place, other] : records_) {
      if (Overlaps(record, other) && other.OwnedBy() > record.OwnedBy()) return false;
    }
    std::erase_if(records_, [&](const auto& entry) { return Overlaps(record, entry.second); });
    records_[{record.extent.segment, record.extent.offset}] = record;
    return true;
  }
  // What is copied is written under the claim, and is then the part of its generation. That this
  // was forgotten here once says nothing about the copy.
  static SealedRecord RecordOf(const CopyCommand& copy) {
    return SealedRecord{.generation = copy.generation,
                        .key = copy.key,
                        .parent = copy.parent,
                        .extent = copy.extent,
                        .object_bytes = copy.object_bytes,
                        .part_index = copy.part_index,
                        .part_count = copy.part_count,
                        .replica_index = copy.replica_index,
                        .replicas = copy.replicas,
                        .claim = copy.claim};
  }
  bool SealCopy(const CopyCommand& copy) {
    if (copy.claim < open_from_ || freed_.contains(copy.claim) ||
        copy.claim.term() < description.highest_term_seen) {
      return false;
    }
    const SealedRecord record = RecordOf(copy);
    for (const auto& [place, other] : records_) {
      if (Overlaps(record, other) && other.OwnedBy() > copy.claim) return false;
    }
    std::erase_if(records_, [&](const auto& entry) { return Overlaps(record, entry.second); });
    records_[{record.extent.segment, record.extent.offset}] = record;
    return true;
  }
  // Its bytes are damaged: it knows nothing of it any more.
  void Forget(const Extent& extent) { records_.erase({extent.segment, extent.offset}); }
  void Free(const FreeCommand& command) {
    open_from_ = std::max(open_from_, command.oldest_open);
    for (const Generation generation : command.generations) {
      freed_.insert(generation);
      std::erase_if(records_, [&](const auto& entry) {
        return entry.second.generation == generation || entry.second.claim == generation;
      });
    }
  }
  bool Holds(Generation generation, const Extent& extent) const {
    const auto record = records_.find({extent.segment, extent.offset});
    return record != records_.end() && record->second.generation == generation &&
           record->second.extent == extent;
  }
  std::vector<SealedPart> Inventory() const {
    std::vector<SealedPart> parts;
    for (const auto& [place, record] : records_) parts.push_back(record.View());
    return parts;
  }
  // A new life: the bytes are gone.
  void LoseAll() {
    records_.clear();
    freed_.clear();
    open_from_ = Generation{};
    ++description.incarnation.value;
    id = NodeId{};
  }

  RegisterNodeCommand description;
  NodeId id;
  SessionId session;
  bool is_connected = false;
  std::vector<CopyCommand> copies;   // received and not carried out
  std::vector<FreeCommand> inbox;    // received and not carried out
  std::vector<SealedRecord> outbox;  // sealed and not reported

 private:
  static bool Overlaps(const SealedRecord& a, const SealedRecord& b) {
    return a.extent.segment == b.extent.segment && a.extent.offset < b.extent.end() &&
           b.extent.offset < a.extent.end();
  }

  std::map<std::pair<SegmentId, uint64_t>, SealedRecord> records_;
  std::set<Generation> freed_;
  Generation open_from_;
};

}  // namespace moonpool::master
