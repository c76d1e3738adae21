#include "tests/fuzz/node_steps.h"

#include <utility>

#include "common/names.h"
#include "common/version.h"

namespace moonpool::master {
namespace {

constexpr size_t kPartsMax = 5;  // of one message; some messages have more

void FillVersion(v1::Version* version) {
  version->set_major(kWireMajor);
  version->set_minor(kWireMinor);
}

}  // namespace

void NodeSteps::End() {
  for (Stream& stream : streams_) Close(stream);
}

NodeSteps::Stream& NodeSteps::Pick() { return streams_[feed_.Below(streams_.size())]; }

void NodeSteps::Open(Stream& stream) {
  Close(stream);
  auto session = scene_.handlers().OpenSession([] {}, scene_.now());
  MP_CHECK(session.ok(), "fewer are open than may be", session.status().ToString());
  stream.session = *std::move(session);
}

void NodeSteps::Close(Stream& stream) {
  if (stream.session == nullptr) return;
  scene_.handlers().CloseSession(*stream.session, scene_.now());
  stream = {};
}

void NodeSteps::Send(Stream& stream, const v1::NodeMessage& message) {
  if (stream.session == nullptr) Open(stream);
  v1::NodeMessage sent;
  if (!sent.ParseFromString(message.SerializeAsString())) return;
  scene_.handlers().OnNodeMessage(*stream.session, sent, scene_.now());
  for (Stream& each : streams_) Drain(each);
}

void NodeSteps::Drain(Stream& stream) {
  if (stream.session == nullptr) return;
  while (const std::optional<v1::MasterMessage> message = stream.session->TakeMessage()) {
    CheckReadable(*message);
    if (message->has_refused()) {
      MP_CHECK(message->refused().status().code() != 0, "refused without a cause");
    }
    if (!message->has_command()) continue;
    MP_CHECK(message->command().has_copy() || !message->command().free().generations().empty(),
             "a command to do nothing");
    stream.commands.push_back(message->command());
  }
  if (stream.session->is_finished() || stream.session->is_cut_off()) Close(stream);
}

void NodeSteps::Step() {
  Stream& stream = Pick();
  v1::NodeMessage message;
  switch (feed_.Below(10)) {
    case 0: message = Register(); break;
    case 1: message = Inventory(); break;
    case 2: message = SealReport(); break;
    case 3: message = CommandResult(stream); break;
    case 4: message.mutable_heartbeat()->set_sequence(feed_.Number()); break;
    case 5: return Close(stream);
    case 6: return Open(stream);
    case 7: return ObeyAll();
    case 9: message = PartsLost(); break;
    default: {
      const absl::string_view bytes = feed_.Bytes();
      if (!message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return;
    }
  }
  Send(stream, message);
}

void NodeSteps::AddHonest() {
  Stream& stream = Pick();
  Open(stream);
  v1::NodeMessage message;
  v1::Register* out = message.mutable_register_();
  FillVersion(out->mutable_version());
  out->set_name(scene_.NodeName());
  out->set_incarnation(1 + feed_.Below(2));
  out->set_host_id(out->name());
  v1::Segment* segment = out->add_segments();
  segment->set_medium("dram");
  segment->set_capacity_bytes(uint64_t{32} << 10);
  Send(stream, message);
  if (stream.session == nullptr) return;  // refused
  message.mutable_inventory()->set_complete(true);
  Send(stream, message);
}

void NodeSteps::ObeyAll() {
  for (Stream& stream : streams_) {
    for (const v1::Command& command : std::exchange(stream.commands, {})) {
      if (stream.session == nullptr) break;
      v1::NodeMessage message;
      if (command.has_copy()) {
        *message.mutable_seal_report()->add_parts() = command.copy().part();
        Send(stream, message);
        if (stream.session == nullptr) break;
      }
      message.mutable_command_result()->set_command_id(command.command_id());
      Send(stream, message);
    }
  }
}

v1::NodeMessage NodeSteps::Register() {
  v1::NodeMessage message;
  v1::Register* out = message.mutable_register_();
  FillVersion(out->mutable_version());
  if (feed_.OneIn(16)) out->mutable_version()->set_major(feed_.Number32());
  out->set_name(scene_.NodeName());
  out->set_incarnation(1 + feed_.Below(2));
  if (feed_.OneIn(16)) out->set_incarnation(feed_.Number());
  out->set_host_id(scene_.NodeName());
  if (feed_.OneIn(4)) out->set_rack(scene_.NodeName());
  if (feed_.OneIn(4)) out->set_highest_term_seen(feed_.Number32());
  const size_t segments = 1 + feed_.Below(3);
  for (uint32_t i = 0; i < segments; ++i) {
    constexpr uint64_t kCapacities[] = {32 << 10, 8 << 10, 64, 100, 0};
    v1::Segment* segment = out->add_segments();
    segment->set_segment(feed_.OneIn(8) ? feed_.Number32() : i);
    segment->set_medium("dram");
    segment->set_capacity_bytes(feed_.OneIn(8) ? feed_.Number() : feed_.OneOf(kCapacities));
  }
  return message;
}

v1::NodeMessage NodeSteps::Inventory() {
  v1::NodeMessage message;
  v1::Inventory* out = message.mutable_inventory();
  const size_t parts = feed_.Below(kPartsMax);
  for (size_t i = 0; i < parts; ++i) *out->add_parts() = Sealed();
  out->set_complete(!feed_.OneIn(3));
  return message;
}

v1::NodeMessage NodeSteps::SealReport() {
  v1::NodeMessage message;
  v1::SealReport* out = message.mutable_seal_report();
  const size_t parts = feed_.OneIn(16) ? feed_.Byte() : 1 + feed_.Below(kPartsMax);
  for (size_t i = 0; i < parts; ++i) *out->add_parts() = Sealed();
  return message;
}

v1::NodeMessage NodeSteps::CommandResult(Stream& stream) {
  v1::NodeMessage message;
  v1::CommandResult* out = message.mutable_command_result();
  out->set_command_id(stream.commands.empty() || feed_.OneIn(4)
                          ? feed_.Number()
                          : stream.commands[feed_.Below(stream.commands.size())].command_id());
  if (feed_.OneIn(4)) out->mutable_status()->set_code(static_cast<int32_t>(feed_.Number32()));
  return message;
}

v1::NodeMessage NodeSteps::PartsLost() {
  v1::NodeMessage message;
  const size_t parts = 1 + feed_.Below(kPartsMax);
  for (size_t i = 0; i < parts; ++i) {
    const v1::SealedPart part = Sealed();
    v1::LostPart* out = message.mutable_parts_lost()->add_parts();
    out->set_generation(part.generation());
    *out->mutable_extent() = part.extent();
  }
  return message;
}

v1::SealedPart NodeSteps::Sealed() {
  v1::SealedPart part = feed_.OneIn(3) ? SealedAnyhow() : SealedAsGranted();
  if (feed_.OneIn(3)) Distort(part);
  // Of one layout or another, or of none. No choice of its own: that would change what the corpus
  // means.
  constexpr absl::string_view kFingerprints[] = {"", "n1", "", "n2"};
  const absl::string_view fingerprint = kFingerprints[part.extent().offset() / 512 % 4];
  part.set_namespace_(JoinPartNamespace({part.namespace_(), fingerprint}));
  return part;
}

// What an honest node would say of a part that a writer has sealed.
v1::SealedPart NodeSteps::SealedAsGranted() {
  const SeenGrant seen = scene_.Grant();
  v1::SealedPart part;
  if (seen.grant.replicas().empty()) return SealedAnyhow();
  const auto replica =
      static_cast<int>(feed_.Below(static_cast<size_t>(seen.grant.replicas_size())));
  const v1::Replica& granted = seen.grant.replicas(replica);
  const auto index = static_cast<int>(feed_.Below(static_cast<size_t>(granted.parts_size())));
  part.set_generation(seen.grant.generation());
  part.set_namespace_(seen.name_space);
  part.set_key(seen.put.key());
  part.set_parent(seen.put.parent());
  *part.mutable_extent() = granted.parts(index).extent();
  part.set_object_bytes(seen.put.size_bytes());
  part.set_part_index(static_cast<uint32_t>(index));
  part.set_part_count(static_cast<uint32_t>(granted.parts_size()));
  part.set_replica_index(static_cast<uint32_t>(replica));
  return part;
}

// A part that some master before this one could have granted.
v1::SealedPart NodeSteps::SealedAnyhow() {
  v1::SealedPart part;
  const Term term{static_cast<uint32_t>(6 + feed_.Below(3))};
  part.set_generation(Generation::Of(term, static_cast<uint32_t>(1 + feed_.Below(8))).value);
  part.set_namespace_(scene_.NameSpace());
  part.set_key(scene_.Key());
  part.set_parent(scene_.Key());
  part.set_part_count(static_cast<uint32_t>(1 + feed_.Below(3)));
  part.set_part_index(static_cast<uint32_t>(feed_.Below(3)));
  part.set_replica_index(static_cast<uint32_t>(feed_.Below(3)));
  const uint64_t payload = feed_.Below(4) * 1000;
  v1::Extent* extent = part.mutable_extent();
  extent->set_segment(static_cast<uint32_t>(feed_.Below(2)));
  extent->set_offset(feed_.Below(64) * 512);
  extent->set_length(kPartHeaderBytes + payload);
  part.set_object_bytes(payload * part.part_count());
  return part;
}

void NodeSteps::Distort(v1::SealedPart& part) {
  switch (feed_.Below(10)) {
    case 0: part.set_generation(feed_.Number()); break;
    case 1: part.set_namespace_(scene_.NameSpace()); break;
    case 2: part.set_key(scene_.Key()); break;
    case 3: part.set_parent(scene_.Key()); break;
    case 4: part.mutable_extent()->set_segment(feed_.Number32()); break;
    case 5: part.mutable_extent()->set_offset(feed_.Number()); break;
    case 6: part.mutable_extent()->set_length(feed_.Number()); break;
    case 7: part.set_object_bytes(feed_.Number()); break;
    case 8: part.set_part_index(feed_.Number32()); break;
    default: part.set_replica_index(feed_.Number32());
  }
}

}  // namespace moonpool::master
