#include "master/core/node_table.h"

#include <algorithm>

#include "common/check.h"
#include "common/guard.h"

namespace moonpool::master {

uint64_t NodeRecord::held_bytes() const {
  uint64_t held = 0;
  for (const ByteUse use : {ByteUse::kLive, ByteUse::kGranted, ByteUse::kPartial}) {
    held += bytes[static_cast<size_t>(use)];
  }
  return held;
}

bool NodeRecord::is_empty() const {
  return inventory_complete && !was_lost_full && parts.empty() && held_bytes() == 0;
}

NodeAddress NodeRecord::address() const {
  return NodeAddress{.node = id,
                     .name = description.name,
                     .incarnation = description.incarnation,
                     .host_id = description.host_id,
                     .tcp_address = description.tcp_address,
                     .shm_path = description.shm_path};
}

uint64_t NodeRecord::free_bytes() const {
  uint64_t bytes_free = 0;
  for (const NodeSegment& segment : segments) bytes_free += segment.allocator.free_bytes();
  return bytes_free;
}

uint64_t NodeRecord::capacity_bytes() const {
  uint64_t capacity = 0;
  for (const NodeSegment& segment : segments) capacity += segment.allocator.capacity_bytes();
  return capacity;
}

uint64_t NodeRecord::largest_free_bytes() const {
  uint64_t largest = 0;
  if (!has_room_for_part()) return largest;
  for (const NodeSegment& segment : segments) {
    largest = std::max(largest, segment.allocator.largest_free_bytes());
  }
  return largest;
}

// A slot names a node in 16 bits; index 0 means none.
NodeTable::NodeTable(uint32_t max_nodes) : max_(std::min<uint32_t>(max_nodes, 0xfffe)) {
  records_.emplace_back();
  uses_.push_back(0);
}

NodeRecord* NodeTable::Add(const RegisterNodeCommand& description) {
  NodeIndex index = 0;
  if (!unused_.empty()) {
    index = unused_.back();
    unused_.pop_back();
  } else if (records_.size() <= max_) {
    index = static_cast<NodeIndex>(records_.size());
    records_.emplace_back();
    uses_.push_back(0);
  } else {
    return nullptr;
  }
  auto record = std::make_unique<NodeRecord>();
  record->index = index;
  record->id = NodeId{(uint32_t{uses_[index]} << 16) | index};
  record->description = description;
  record->host = Intern(description.host_id);
  record->rack = Intern(description.rack);
  std::vector<SegmentSpec> segments = description.segments;
  std::sort(segments.begin(), segments.end(),
            [](const SegmentSpec& a, const SegmentSpec& b) { return a.segment < b.segment; });
  for (SegmentSpec& spec : segments) {
    ExtentAllocator allocator(spec.capacity_bytes);
    record->segments.push_back(NodeSegment{std::move(spec), std::move(allocator)});
  }
  by_name_[description.name] = index;
  records_[index] = std::move(record);
  given_up_.erase(Life{description.name, description.incarnation});
  return records_[index].get();
}

void NodeTable::Retire(NodeIndex index) {
  NodeRecord& node = *records_[index];
  const auto named = by_name_.find(node.description.name);
  if (named != by_name_.end() && named->second == index) by_name_.erase(named);
  node.state = NodeState::kRetired;
}

void NodeTable::GiveUp(NodeIndex index, absl::Time readmit_at) {
  const RegisterNodeCommand& description = records_[index]->description;
  if (given_up_.size() >= max_) {
    given_up_.clear();
    is_given_up_forgotten_ = true;
  }
  given_up_[Life{description.name, description.incarnation}] = readmit_at;
  Retire(index);
}

std::optional<absl::Time> NodeTable::ReadmitAt(const RegisterNodeCommand& description) const {
  const auto life = given_up_.find(Life{description.name, description.incarnation});
  if (life != given_up_.end()) return life->second;
  if (is_given_up_forgotten_) return absl::InfinitePast();
  return std::nullopt;
}

void NodeTable::Release(NodeIndex index) {
  NodeRecord& node = *records_[index];
  MP_CHECK(!node.is_up() && node.parts.empty(), "node in use", index);
  Retire(index);
  records_[index].reset();
  ++uses_[index];
  unused_.push_back(index);
}

NodeRecord* NodeTable::Find(NodeId id) {
  return const_cast<NodeRecord*>(std::as_const(*this).Find(id));
}

const NodeRecord* NodeTable::Find(NodeId id) const {
  const size_t index = id.value & 0xffff;
  if (index >= records_.size() || records_[index] == nullptr) return nullptr;
  return records_[index]->id == id ? records_[index].get() : nullptr;
}

NodeRecord* NodeTable::FindByName(absl::string_view name) {
  const auto named = by_name_.find(name);
  return named == by_name_.end() ? nullptr : records_[named->second].get();
}

LabelId NodeTable::FindLabel(absl::string_view name) const {
  const auto known = labels_.find(name);
  return known == labels_.end() ? 0 : known->second;
}

LabelId NodeTable::Intern(absl::string_view name) {
  if (name.empty()) return 0;
  return labels_.try_emplace(std::string(name), static_cast<LabelId>(labels_.size() + 1))
      .first->second;
}

void NodeTable::Refresh() {
  usable_.clear();
  usable_by_host_.clear();
  capacity_bytes_ = 0;
  up_count_ = 0;
  incomplete_count_ = 0;
  for (const auto& record : records_) {
    if (record == nullptr) continue;
    if (record->state == NodeState::kRetired || record->state == NodeState::kLost) continue;
    capacity_bytes_ += record->capacity_bytes();
    if (record->is_up()) ++up_count_;
    if (record->is_up() && !record->inventory_complete) ++incomplete_count_;
    const bool is_early =
        !GuardIsOn(Guard::kInventoryFirst) && record->is_up() && !record->is_draining;
    if (!record->takes_grants() && !is_early) continue;
    usable_.push_back(record->index);
    if (record->host != 0) usable_by_host_[record->host].push_back(record->index);
  }
}

absl::Span<const NodeIndex> NodeTable::usable_on(LabelId host) const {
  const auto nodes = usable_by_host_.find(host);
  if (host == 0 || nodes == usable_by_host_.end()) return {};
  return nodes->second;
}

}  // namespace moonpool::master
