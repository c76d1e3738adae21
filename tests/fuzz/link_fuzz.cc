// What a master tells a node, between honest writers and viewers. It may make the node drop parts
// by naming them, and that is all: what it has not named stays, what is pinned keeps its bytes, the
// node's answers are within bounds, and the next master finds a node that works.
#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/config/host_port.h"
#include "common/error.h"
#include "common/log.h"
#include "common/rpc/status_proto.h"
#include "common/version.h"
#include "google/protobuf/stubs/logging.h"
#include "storage_node/link/master_link.h"
#include "storage_node/link/sealed_part.h"
#include "storage_node/pool/testing/test_pool.h"
#include "storage_node/serve/node_target.h"
#include "tests/fuzz/byte_feed.h"

namespace moonpool::storage_node {
namespace {

constexpr size_t kPartsPerMessage = 3;
constexpr size_t kSegments = 2;
constexpr size_t kCopiesMax = 3;
constexpr uint64_t kLengths[] = {kPartHeaderBytes, 192, 1000, TestPool::kSegmentBytes / 2};

class Scene {
 public:
  explicit Scene(ByteFeed& feed) : feed_(feed) {
    google::protobuf::SetLogHandler(nullptr);  // what does not parse is no news here
    pool_.index().AttachViewer(&viewer_);
  }
  ~Scene() { pool_.index().DetachViewer(&viewer_); }

  void Step() {
    switch (feed_.Below(19)) {
      case 0: return Connected();
      case 1: return CarryOut(link_.OnDisconnected(Failure(), now_));
      case 2: return Tell(Registered());
      case 3: return Tell(Refused());
      case 4:
      case 5: return Tell(Free());
      case 6: return Tell(HeartbeatAck());
      case 7: return TellBytes();
      case 8: return FreeMany();
      case 9: return Pin();
      case 10: now_ += absl::Milliseconds(feed_.Number() & 0xffff); return;
      case 11: return Tick();
      case 12: return TellAsked();
      case 13: return CarryOut(link_.OnAskEnded(now_));
      case 14: return Tell(Copy());
      case 15: return CarryOutACopy();
      default: return Put();
    }
  }

  // However it was treated: an honest master takes over.
  void End() {
    viewer_.Release();
    pinned_extent_ = {};
    CarryOut(link_.OnDisconnected(absl::UnavailableError("the master has gone"), now_));
    MP_CHECK(!is_asking_, "the question outlives the session");
    while (link_.state() != LinkState::kConnecting) {
      now_ = std::max(now_, link_.Tick(now_, /*has_room=*/true).wake_at);
    }
    Connected();
    const Term term{std::min(pool_.index().newest_term().value + 1, kTermMax.value)};
    v1::MasterMessage registered;
    registered.mutable_registered()->mutable_version()->set_major(kWireMajor);
    registered.mutable_registered()->set_term(term.value);
    Tell(registered);
    MP_CHECK(link_.state() == LinkState::kUploading, "an honest master is not taken");
    reported_.clear();
    while (link_.state() == LinkState::kUploading) Tick();
    MP_CHECK(reported_.size() == parts_.size(), "the inventory is not what is there");
    MP_CHECK(!copies_.has_waiting() && !copies_.has_results(), "copies outlive their session");
    if (term == kTermMax) return;  // there is no later one to grant anything in
    const absl::Status status = Write(Generation::Of(term, 1), At(0, 192));
    MP_CHECK(status.ok(), "an honest writer is refused", status.ToString());
  }

 private:
  struct Part {
    Generation generation;
    Generation claim;  // newer, of a copy
  };

  void CarryOut(const LinkOutput& out) {
    MP_CHECK(out.send.size() <= 2 + kCopiesMax, "more is sent than was asked for", out.send.size());
    for (const v1::NodeMessage& message : out.send) {
      Take(message.inventory().parts());
      Take(message.seal_report().parts());
    }
    if (out.disconnect) MP_CHECK(link_.state() == LinkState::kWaiting, "still in a session");
    if (out.adopt || out.end_ask) MP_CHECK(std::exchange(is_asking_, false), "nobody was asked");
    if (out.adopt) MP_CHECK(link_.state() == LinkState::kUploading, "moved to no session");
    for (const std::string& address :
         {out.connect.value_or("a:1"), out.ask.has_value() ? out.ask->address : "a:1"}) {
      MP_CHECK(ParseHostPort(address).ok(), "a master at no address", address);
    }
    if (out.ask.has_value()) {
      MP_CHECK(!std::exchange(is_asking_, true), "a second one is asked");
      MP_CHECK(out.ask->registration.has_register_(), "asked without a word");
    }
    const Term newest = pool_.index().newest_term();
    MP_CHECK(newest >= newest_seen_ && newest <= kTermMax, "an impossible term");
    MP_CHECK(link_.term() <= newest, "the session is ahead of the pool");
    newest_seen_ = newest;
  }

  template <typename Parts>
  void Take(const Parts& parts) {
    MP_CHECK(static_cast<size_t>(parts.size()) <= kPartsPerMessage, "a long message", parts.size());
    for (const v1::SealedPart& part : parts) {
      const Generation generation{part.generation()};
      const Extent extent =
          At(part.extent().offset(), part.extent().length(), part.extent().segment());
      MP_CHECK(parts_.contains(extent) && parts_.at(extent).generation == generation,
               "a part is told that is not there", ToString(generation));
      reported_.insert(extent);
    }
  }

  void Tick() { CarryOut(link_.Tick(now_, /*has_room=*/!feed_.OneIn(4))); }
  void Connected() {
    for (int i = 0; i < 2 && link_.state() == LinkState::kWaiting; ++i) {
      const LinkOutput out = link_.Tick(now_, /*has_room=*/true);
      CarryOut(out);
      if (!out.connect.has_value()) now_ = std::max(now_, out.wake_at);
    }
    CarryOut(link_.OnConnected(now_));
  }

  void Tell(const v1::MasterMessage& message) {
    v1::MasterMessage told;
    if (!told.ParseFromString(message.SerializeAsString())) return;
    const bool is_obeyed = link_.state() >= LinkState::kUploading && told.command().has_free() &&
                           told.command().term() >= pool_.index().newest_term().value &&
                           Term{told.command().term()} <= kTermMax;
    if (is_obeyed) {
      std::set<uint64_t> freed(told.command().free().generations().begin(),
                               told.command().free().generations().end());
      std::erase_if(parts_, [&](const auto& part) {
        return freed.contains(part.second.generation.value) ||
               freed.contains(part.second.claim.value);
      });
    }
    const LinkOutput out = link_.OnMessage(told, now_);
    if (is_obeyed) {
      MP_CHECK(out.send.size() == 1 && out.send[0].command_result().status().code() == 0,
               "a command that is not obeyed");
    }
    CarryOut(out);
    CheckPool();
  }
  // The master that is asked beside the session, if any.
  void TellAsked() {
    const LinkOutput out = link_.OnAskMessage(feed_.OneIn(2)   ? Registered()
                                              : feed_.OneIn(8) ? Free()
                                                               : Refused(),
                                              now_);
    if (out.adopt) MP_CHECK(is_asking_, "moved to a master that was not asked");
    CarryOut(out);
    CheckPool();
  }
  void TellBytes() {
    const absl::string_view bytes = feed_.Bytes();
    v1::MasterMessage message;
    if (message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) Tell(message);
  }

  uint32_t AnyTerm() {
    return feed_.OneIn(8)
               ? feed_.Number32()
               : pool_.index().newest_term().value + static_cast<uint32_t>(feed_.Below(2));
  }
  Generation AnyGeneration() {
    if (feed_.OneIn(8)) return Generation{feed_.Number()};
    if (parts_.empty()) return Generation{};
    return std::next(parts_.begin(), static_cast<std::ptrdiff_t>(feed_.Byte() % parts_.size()))
        ->second.generation;
  }
  absl::Status Failure() {
    const auto code = static_cast<absl::StatusCode>(feed_.Below(17));
    return absl::Status(code, feed_.Bytes());
  }

  v1::MasterMessage Registered() {
    v1::MasterMessage message;
    v1::Registered& out = *message.mutable_registered();
    out.mutable_version()->set_major(feed_.OneIn(8) ? feed_.Number32() : kWireMajor);
    out.set_term(std::max(AnyTerm(), uint32_t{1}));
    out.set_heartbeat_interval_ms(feed_.Number());
    out.set_session_timeout_ms(feed_.Number());
    return message;
  }
  v1::MasterMessage Refused() {
    v1::MasterMessage message;
    const std::string leader = feed_.OneIn(2)   ? std::string(feed_.Bytes())
                               : feed_.OneIn(2) ? "b:2"
                                                : absl::StrCat("m", feed_.Below(9), ":1");
    StatusToProto(feed_.OneIn(2) ? Failure()
                                 : MakeError(absl::StatusCode::kFailedPrecondition,
                                             ErrorReason::kNotLeader, "no", {.leader = leader}),
                  message.mutable_refused()->mutable_status());
    return message;
  }
  v1::MasterMessage HeartbeatAck() {
    v1::MasterMessage message;
    message.mutable_heartbeat_ack()->set_sequence(feed_.Number());
    message.mutable_heartbeat_ack()->set_term(AnyTerm());
    return message;
  }
  v1::MasterMessage Free() {
    v1::MasterMessage message;
    v1::Command& command = *message.mutable_command();
    command.set_command_id(feed_.Number());
    command.set_term(AnyTerm());
    if (feed_.OneIn(8)) return message;  // of a kind that is not known here
    command.mutable_free();
    for (size_t i = feed_.Below(4); i > 0; --i) {
      command.mutable_free()->add_generations(AnyGeneration().value);
    }
    return message;
  }
  // More than are remembered.
  void FreeMany() {
    if (!feed_.OneIn(16)) return;
    v1::MasterMessage message = Free();
    const uint64_t first = feed_.Number();
    for (uint64_t i = 0; i < 70'000; ++i) {
      message.mutable_command()->mutable_free()->add_generations(first + i);
    }
    Tell(message);
  }

  v1::MasterMessage Copy() {
    v1::MasterMessage message;
    v1::Command& command = *message.mutable_command();
    command.set_command_id(feed_.Number());
    command.set_term(AnyTerm());
    v1::Copy& copy = *command.mutable_copy();
    SealedPartToProto(RecordFor(AnyGeneration(), AnyExtent(), "k"), copy.mutable_part());
    if (feed_.OneIn(8)) copy.mutable_part()->set_part_count(feed_.Number32());
    if (feed_.OneIn(8)) copy.mutable_part()->mutable_extent()->set_length(feed_.Number());
    copy.set_claim(feed_.OneIn(8) ? feed_.Number() : NextGrant().value);
    copy.mutable_source_extent()->set_length(copy.part().extent().length());
    if (feed_.OneIn(8)) copy.mutable_source_extent()->set_length(feed_.Number());
    copy.set_timeout_ms(feed_.Number());
    return message;
  }
  // As a copier whose source has the part; or it has not.
  void CarryOutACopy() {
    const std::optional<CopyJob> job = copies_.Take();
    if (!job.has_value()) return;
    const CopyOrder& order = job->order;
    copies_.Finish(job->id, feed_.OneIn(3) ? absl::NotFoundError("no such part")
                                           : Write(pool_.index(), order.record, order.claim));
    CheckPool();
  }

  Generation NextGrant() {
    return Generation::Of(std::max(pool_.index().newest_term(), Term{1}), ++puts_);
  }
  Extent AnyExtent() {
    return {SegmentId{static_cast<uint32_t>(feed_.Below(kSegments))},
            64 * uint64_t{feed_.Byte()} % TestPool::kSegmentBytes, feed_.OneOf(kLengths)};
  }
  // An honest writer with a grant of the present term.
  void Put() {
    const Generation generation = NextGrant();
    Write(generation, AnyExtent()).IgnoreError();  // hostile grants may be newer
    CheckPool();
  }
  static bool Overlap(const Extent& a, const Extent& b) {
    return a.segment == b.segment && a.offset < b.end() && b.offset < a.end();
  }

  absl::Status Write(Generation generation, const Extent& extent) {
    return Write(target_, RecordFor(generation, extent, "k"), generation);
  }
  // Through the target, or as a copier does it.
  template <typename Pool>
  absl::Status Write(Pool& pool, transport::SealRecord record, Generation under) {
    const Extent extent = record.extent;
    ASSIGN_OR_RETURN(const auto claim, pool.Claim(under, extent, transport::WriterKind::kStepwise));
    MP_CHECK(pinned_extent_.length == 0 || !Overlap(extent, pinned_extent_),
             "pinned bytes got another owner");
    std::erase_if(parts_, [&](const auto& part) { return Overlap(part.first, extent); });
    MP_CHECK(claim->BeginStep(), "nobody else writes");
    std::fill(claim->payload().begin(), claim->payload().end(), FillOf(under));
    record.payload_checksum = Checksum(claim->payload());
    claim->EndStep();
    claim->SetWritten();
    if (under == record.generation) {
      RETURN_IF_ERROR(target_.Seal(record));
    } else {
      RETURN_IF_ERROR(pool_.index().SealCopy(record, under));
    }
    parts_[extent] = {.generation = record.generation, .claim = under};
    return absl::OkStatus();
  }
  static std::byte FillOf(Generation generation) {
    return std::byte{static_cast<uint8_t>(generation.counter())};
  }

  void Pin() {
    viewer_.Release();
    pinned_extent_ = {};
    if (parts_.empty()) return;
    const auto part =
        std::next(parts_.begin(), static_cast<std::ptrdiff_t>(feed_.Byte() % parts_.size()));
    viewer_.Hold(part->second.generation);
    pinned_extent_ = part->first;
    pinned_fill_ = FillOf(part->second.claim);
  }

  void CheckPool() {
    for (const auto& [extent, part] : parts_) {
      MP_CHECK(pool_.IsReadable(part.generation, extent), "lost", ToString(part.generation));
    }
    if (pinned_extent_.length == 0) return;
    const std::byte* bytes = pool_.base(pinned_extent_.segment.value) + pinned_extent_.offset;
    MP_CHECK(std::all_of(bytes + kPartHeaderBytes, bytes + pinned_extent_.length,
                         [&](std::byte byte) { return byte == pinned_fill_; }),
             "the bytes of a view have changed");
  }

  ByteFeed& feed_;
  absl::Time now_ = absl::UnixEpoch() + absl::Seconds(100);
  metrics::Registry registry_;
  LinkMetrics link_metrics_{registry_};
  ServeMetrics serve_metrics_{registry_};
  TestPool pool_{kSegments, {.seal_reports_max = 8}};
  NodeTarget target_{Incarnation{1}, pool_.index(), serve_metrics_};
  FakeViewer viewer_;
  CopyQueue copies_{kCopiesMax};
  MasterLink link_{{.name = "n1",
                    .incarnation = Incarnation{1},
                    .host_id = "host",
                    .rack = {},
                    .tcp_address = "10.0.0.1:7",
                    .shm_path = {}},
                   {.masters = {"a:1", "b:2"}, .parts_per_message = kPartsPerMessage},
                   {pool_.index(), copies_, link_metrics_, Logger::Null()},
                   Random(1)};
  bool is_asking_ = false;
  Term newest_seen_;
  uint32_t puts_ = 0;
  std::map<Extent, Part> parts_;  // sealed, and neither freed nor overwritten
  std::set<Extent> reported_;     // what the master was told of
  Extent pinned_extent_;
  std::byte pinned_fill_{};
};

}  // namespace
}  // namespace moonpool::storage_node

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  moonpool::ByteFeed feed(data, size);
  moonpool::storage_node::Scene scene(feed);
  while (!feed.empty()) scene.Step();
  scene.End();
  return 0;
}
