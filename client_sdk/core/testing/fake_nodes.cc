#include "client_sdk/core/testing/fake_nodes.h"

#include <deque>
#include <optional>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/checksum.h"
#include "common/error.h"
#include "common/status_macros.h"

namespace moonpool::client {
namespace {

using transport::Channel;
using transport::ConstBytes;
using transport::PartHeader;
using transport::PeerAddress;
using transport::PinnedPart;
using transport::ReadOp;
using transport::WriteOp;

absl::Status Gone(absl::string_view why) {
  return MakeError(absl::StatusCode::kUnavailable, ErrorReason::kPeerUnreachable, why);
}
absl::Status Stale() {
  return MakeError(absl::StatusCode::kNotFound, ErrorReason::kStaleGeneration,
                   "the generation does not own the extent");
}
absl::Status AnotherIncarnation() {
  return MakeError(absl::StatusCode::kFailedPrecondition, ErrorReason::kStaleGeneration,
                   "the node is another incarnation");
}
// True once for each time the fault was ordered.
bool Takes(std::atomic<int>& count) {
  int left = count.load();
  while (left > 0) {
    if (count.compare_exchange_weak(left, left - 1)) return true;
  }
  return false;
}

class FakePinnedPart final : public PinnedPart {
 public:
  FakePinnedPart(const FakeNode& node, PartHeader header, std::vector<std::byte> payload)
      : node_(node), life_(node.life()), header_(header), payload_(std::move(payload)) {}
  const PartHeader& header() const override { return header_; }
  ConstBytes payload() const override { return payload_; }
  bool still_pinned() const override { return node_.life() == life_ && !node_.faults.is_dead; }

 private:
  const FakeNode& node_;
  const uint64_t life_;
  const PartHeader header_;
  const std::vector<std::byte> payload_;
};

class FakeChannel final : public Channel, public transport::ViewSource {
 public:
  FakeChannel(FakeNode& node, std::string backend, bool has_views)
      : node_(node), backend_(std::move(backend)), has_views_(has_views), life_(node.life()) {}

  absl::string_view backend() const override { return backend_; }
  std::optional<absl::Status> connected() const override {
    if (!healthy()) return Gone("connection reset");
    if (!is_connected_ && node_.faults.is_silent) return std::nullopt;
    is_connected_ = true;
    return absl::OkStatus();
  }
  absl::Status Submit(ReadOp* op) override { return Take({op, nullptr}); }
  absl::Status Submit(WriteOp* op) override { return Take({nullptr, op}); }
  void Doubt(Generation, const Extent&) override { ++node_.doubts; }

  bool Progress() override {
    if (queue_.empty()) return false;
    if (!healthy()) {
      BreakAll(Gone("connection reset"));
      return true;
    }
    if (node_.faults.is_frozen || idle_turns_++ < node_.faults.idle_turns) return false;
    idle_turns_ = 0;
    const Pending op = queue_.front();
    if (Takes(node_.faults.broken_ops)) {
      BreakAll(Gone("connection reset"));
      return true;
    }
    const bool is_answer_lost = Takes(node_.faults.lost_answers);
    const absl::Status status = op.read != nullptr ? node_.Read(op.read) : node_.Write(*op.write);
    if (is_answer_lost) {
      BreakAll(Gone("connection reset"));
      return true;
    }
    queue_.pop_front();
    op.Finish(status);
    return true;
  }

  size_t outstanding() const override { return queue_.size(); }
  void AppendWaits(std::vector<pollfd>*) const override {}
  void Abandon(const absl::Status& status) override { BreakAll(status); }
  bool healthy() const override {
    return !is_broken_ && node_.life() == life_ && !node_.faults.is_dead;
  }
  transport::ViewSource* views() override { return has_views_ ? this : nullptr; }

  absl::StatusOr<std::unique_ptr<PinnedPart>> OpenView(Generation generation,
                                                       const Extent& extent) override {
    if (!healthy()) return Gone("connection reset");
    ++node_.views;
    PartHeader header;
    std::vector<std::byte> payload;
    RETURN_IF_ERROR(node_.CopyPart(generation, extent, &header, &payload));
    return std::make_unique<FakePinnedPart>(node_, header, std::move(payload));
  }

 private:
  struct Pending {
    ReadOp* read;
    WriteOp* write;
    void Finish(const absl::Status& status) const {
      (read != nullptr ? read->status : write->status) = status;
      (read != nullptr ? read->done : write->done) = true;
    }
  };

  absl::Status Take(Pending op) {
    if (!healthy()) return Gone("the channel is broken");
    MP_CHECK(is_connected_, "an op before the handshake", node_.address().name);
    if (queue_.size() >= node_.faults.outstanding_max) {
      return MakeError(absl::StatusCode::kResourceExhausted, ErrorReason::kLimitReached,
                       "too much outstanding");
    }
    queue_.push_back(op);
    return absl::OkStatus();
  }

  void BreakAll(const absl::Status& status) {
    is_broken_ = true;
    for (const Pending& op : queue_) op.Finish(status);
    queue_.clear();
  }

  FakeNode& node_;
  const std::string backend_;
  const bool has_views_;
  const uint64_t life_;
  std::atomic<bool> is_broken_{false};
  mutable std::atomic<bool> is_connected_{false};
  int idle_turns_ = 0;
  std::deque<Pending> queue_;
};

}  // namespace

FakeNode::FakeNode(std::string name, std::string host_id, Incarnation incarnation)
    : name_(std::move(name)), host_id_(std::move(host_id)), incarnation_(incarnation) {}

PeerAddress FakeNode::address() const {
  return {.name = name_,
          .incarnation = incarnation_,
          .host_id = host_id_,
          .tcp_address = absl::StrCat(name_, ":", life_.load()),
          .shm_path = absl::StrCat("/run/", name_)};
}

void FakeNode::Restart() { ++life_; }

void FakeNode::Wipe() {
  absl::MutexLock lock(&mutex_);
  parts_.clear();
  ++incarnation_.value;
  ++life_;
}

absl::Status FakeNode::Write(const WriteOp& op) {
  ++writes;
  if (Takes(faults.pinned_writes)) {
    return MakeError(absl::StatusCode::kUnavailable, ErrorReason::kBytesPinned, "a view holds it");
  }
  if (Takes(faults.stale_term_writes)) {
    return MakeError(absl::StatusCode::kFailedPrecondition, ErrorReason::kStaleTerm, "older term");
  }
  if (Takes(faults.stale_generation_writes)) {
    return MakeError(absl::StatusCode::kFailedPrecondition, ErrorReason::kStaleGeneration,
                     "granted before the node restarted");
  }
  Stored stored = {.header = transport::HeaderOf(op.record), .extent = op.record.extent};
  for (const ConstBytes piece : op.from) {
    stored.payload.insert(stored.payload.end(), piece.begin(), piece.end());
  }
  if (stored.payload.size() != op.record.extent.payload_bytes()) {
    return absl::InvalidArgumentError("the payload has another size than the extent");
  }
  stored.header.payload_checksum = Checksum(stored.payload);
  absl::MutexLock lock(&mutex_);
  parts_[op.record.extent.offset] = std::move(stored);
  return absl::OkStatus();
}

absl::Status FakeNode::CopyPart(Generation generation, const Extent& extent, PartHeader* header,
                                std::vector<std::byte>* payload) const {
  absl::MutexLock lock(&mutex_);
  const auto found = parts_.find(extent.offset);
  if (found == parts_.end() || found->second.header.generation != generation ||
      found->second.extent != extent) {
    return Stale();
  }
  *header = found->second.header;
  *payload = found->second.payload;
  return absl::OkStatus();
}

absl::Status FakeNode::Read(ReadOp* op) const {
  ++reads;
  std::vector<std::byte> payload;
  RETURN_IF_ERROR(CopyPart(op->generation, op->extent, &op->header, &payload));
  ConstBytes rest = payload;
  for (const transport::MutableBytes into : op->into) {
    std::copy_n(rest.begin(), into.size(), into.begin());
    rest.remove_prefix(into.size());
  }
  if (op->verify && Checksum(payload) != op->header.payload_checksum) {
    return MakeError(absl::StatusCode::kDataLoss, ErrorReason::kChecksumMismatch, "wrong bytes");
  }
  return absl::OkStatus();
}

void FakeNode::Free(Generation generation) {
  absl::MutexLock lock(&mutex_);
  std::erase_if(parts_,
                [&](const auto& part) { return part.second.header.generation == generation; });
}

void FakeNode::Corrupt(Generation generation) {
  absl::MutexLock lock(&mutex_);
  for (auto& [offset, part] : parts_) {
    if (part.header.generation == generation && !part.payload.empty()) {
      part.payload.back() ^= std::byte{1};
    }
  }
}

void FakeNode::Disguise(Generation generation) {
  absl::MutexLock lock(&mutex_);
  for (auto& [offset, part] : parts_) {
    if (part.header.generation == generation) ++part.header.key_fingerprint;
  }
}

bool FakeNode::Holds(Generation generation) const {
  absl::MutexLock lock(&mutex_);
  for (const auto& [offset, part] : parts_) {
    if (part.header.generation == generation) return true;
  }
  return false;
}

uint64_t FakeNode::Allocate(uint64_t bytes) {
  absl::MutexLock lock(&mutex_);
  const uint64_t offset = allocated_;
  allocated_ += (bytes + 63) / 64 * 64;
  return offset;
}

FakeNode& FakeNodes::Add(const std::string& name, const std::string& host_id) {
  nodes_.push_back(
      std::make_unique<FakeNode>(name, host_id, Incarnation{1000 * (nodes_.size() + 1)}));
  return *nodes_.back();
}

FakeNode* FakeNodes::Find(const std::string& name) const {
  for (const auto& node : nodes_) {
    if (node->address().name == name) return node.get();
  }
  return nullptr;
}

bool FakeTransport::Reaches(const PeerAddress& peer) const {
  return has_views_ ? !peer.shm_path.empty() : !peer.tcp_address.empty();
}

absl::StatusOr<std::unique_ptr<Channel>> FakeTransport::Connect(const PeerAddress& peer,
                                                                const CallContext& context) {
  ASSIGN_OR_RETURN(std::unique_ptr<Channel> channel, StartConnect(peer, context));
  RETURN_IF_ERROR(channel->connected().value_or(Gone("no answer")));
  return channel;
}

absl::StatusOr<std::unique_ptr<Channel>> FakeTransport::StartConnect(const PeerAddress& peer,
                                                                     const CallContext&) {
  if (on_connect) on_connect();
  FakeNode* node = nodes_.Find(peer.name);
  if (node == nullptr || node->faults.is_dead || is_broken) return Gone("connection refused");
  ++node->connects;
  const PeerAddress now = node->address();
  if (now.incarnation != peer.incarnation) return AnotherIncarnation();
  if (!has_views_ && now.tcp_address != peer.tcp_address) return Gone("nobody listens there");
  return std::make_unique<FakeChannel>(*node, name_, has_views_);
}

}  // namespace moonpool::client
