#include "tests/fuzz/master_scene.h"

#include <algorithm>
#include <map>
#include <utility>

#include "common/random.h"
#include "google/protobuf/stubs/logging.h"

namespace moonpool::master {
namespace {

constexpr size_t kGrantsKept = 16;
// Every reason to have more to do at once comes to an end; far more than any needs.
constexpr int kTicksMax = 10'000;

// Bounds that a short input reaches.
CoreOptions TightCore(ByteFeed& feed) {
  constexpr absl::string_view kPolicies[] = {"cohort", "lru", "s3fifo"};
  CoreOptions options;
  options.eviction_policy = std::string(feed.OneOf(kPolicies));
  options.stripe_bytes = 4096;
  options.min_part_bytes = 1024;
  options.easy_parts = 2;
  options.max_objects = 24;
  options.max_open_grants = 12;
  options.max_leases = 4;
  options.max_tombstones = 4;
  options.max_debts = 6;
  options.max_nodes = 3;
  options.max_segments_per_node = 2;
  options.max_namespaces = 4;
  options.max_partial_objects = 3;
  options.obituaries = 8;
  options.evictions_per_put = 8;
  options.work_per_tick = 4;
  options.copy_work_per_tick = 4;
  options.list_slots_per_call = 4;
  return options;
}

HandlersOptions TightHandlers() {
  HandlersOptions options;
  options.max_waiters = 4;
  options.retried_keys_per_call = 4;
  options.retried_keys_per_tick = 8;
  options.max_sessions = 5;
  options.max_queued_generations = 8;
  options.max_protocol_errors = 4;
  options.max_records_per_message = 8;
  return options;
}

// Extents lie within what their node has registered, and its address stands beside them.
void CheckPlaces(const Core& core, absl::Time now,
                 const google::protobuf::RepeatedPtrField<v1::Replica>& replicas,
                 const google::protobuf::RepeatedPtrField<v1::NodeAddress>& nodes) {
  std::map<uint32_t, NodeStatus> registered;
  for (NodeStatus& node : core.ListNodes(now)) {
    const uint32_t id = node.address.node.value;
    registered.emplace(id, std::move(node));
  }
  for (const v1::Replica& replica : replicas) {
    MP_CHECK(!replica.parts().empty(), "a replica without parts");
    for (const v1::Part& part : replica.parts()) {
      const auto named = std::find_if(nodes.begin(), nodes.end(), [&](const v1::NodeAddress& node) {
        return node.node_id() == part.node_id();
      });
      MP_CHECK(named != nodes.end(), "no address of the node", part.node_id());
      const auto node = registered.find(part.node_id());
      // An open grant may stand on an incarnation that is gone, and be told again.
      if (node == registered.end()) continue;
      const v1::Extent& extent = part.extent();
      MP_CHECK(extent.segment() < node->second.segments.size(), "segment", extent.segment());
      const uint64_t capacity = node->second.segments[extent.segment()].capacity_bytes;
      MP_CHECK(extent.length() >= kPartHeaderBytes && extent.length() <= capacity &&
                   extent.offset() <= capacity - extent.length(),
               "extent outside its segment", extent.offset(), extent.length(), capacity);
    }
  }
}

uint64_t PayloadBytes(const v1::Replica& replica) {
  uint64_t bytes = 0;
  for (const v1::Part& part : replica.parts()) bytes += part.extent().length() - kPartHeaderBytes;
  return bytes;
}

}  // namespace

MasterScene::MasterScene(ByteFeed& feed)
    : feed_(feed),
      core_(TightCore(feed), Term{7}, Random(1)),
      handlers_(core_, TightHandlers(), now_) {
  google::protobuf::SetLogHandler(nullptr);  // what does not parse is no news here
}

void MasterScene::End() {
  handlers_.Shutdown(now_);
  Check();
  for (const int answers : answers_) MP_CHECK(answers == 1, "answers of one call", answers);
}

void MasterScene::TimeStep() {
  constexpr int kSteps[] = {1, 20, 1000, 3000, 6000, 61'000, 0};  // milliseconds
  now_ += absl::Milliseconds(feed_.OneOf(kSteps));
  int ticks = 0;
  do {
    handlers_.Tick(now_);
    MP_CHECK(++ticks < kTicksMax, "the master is never done");
  } while (handlers_.NextWakeup() <= now_);
}

void MasterScene::Check() const {
  const absl::Status status = core_.CheckInvariants();
  MP_CHECK(status.ok(), "the core's books", status.ToString());
}

void MasterScene::CancelStep() {
  if (waiting_.empty()) return;
  handlers_.Cancel(waiting_[feed_.Below(waiting_.size())], now_);
}

std::string MasterScene::Key() {
  constexpr absl::string_view kKeys[] = {"a", "b", "c", "d", "\xff\x80", "e", "f", ""};
  const size_t choice = feed_.Below(std::size(kKeys) + 1);
  return choice < std::size(kKeys) ? std::string(kKeys[choice]) : std::string(feed_.Bytes());
}

std::string MasterScene::NameSpace() {
  constexpr absl::string_view kNameSpaces[] = {"", "one", "default", "two", "three", "four"};
  return std::string(feed_.OneOf(kNameSpaces));
}

std::string MasterScene::NodeName() {
  constexpr absl::string_view kNames[] = {"n1", "n2", "n3", "n4", ""};
  return std::string(feed_.OneOf(kNames));
}

uint64_t MasterScene::Size() {
  constexpr uint64_t kSizes[] = {1000, 0, 1, 960, 4032, 4033, 8000, 16'000, 60'000};
  const size_t choice = feed_.Below(std::size(kSizes) + 1);
  return choice < std::size(kSizes) ? kSizes[choice] : feed_.Number();
}

SeenGrant MasterScene::Grant() {
  if (grants_.empty()) return {};
  return grants_[grants_.size() - 1 - feed_.Below(grants_.size())];
}

void MasterScene::Look(const v1::StartPutsRequest& request, const v1::StartPutsResponse& response) {
  for (int i = 0; i < response.results_size(); ++i) {
    const v1::PutResult& result = response.results(i);
    MP_CHECK(result.has_grant() == (result.status().code() == 0), "a grant, or why there is none");
    if (!result.has_grant()) continue;
    const v1::Grant& grant = result.grant();
    CheckPlaces(core_, now_, grant.replicas(), response.nodes());
    MP_CHECK(!grant.replicas().empty(), "a grant without replicas");
    for (const v1::Replica& replica : grant.replicas()) {
      MP_CHECK(PayloadBytes(replica) == request.puts(i).size_bytes(), "a grant of another size");
    }
    grants_.push_back({request.header().namespace_(), request.puts(i), grant});
    if (grants_.size() > kGrantsKept) grants_.pop_front();
  }
}

// Spares get a key here, under which nodes may report them.
void MasterScene::Look(const v1::CommitPutsRequest& request,
                       const v1::CommitPutsResponse& response) {
  MP_CHECK(response.results_size() == request.puts_size(), "results of another batch");
  for (const v1::Grant& grant : response.spares()) {
    CheckPlaces(core_, now_, grant.replicas(), response.nodes());
    v1::PutKey put;
    put.set_key(Key());
    put.set_size_bytes(request.spare().size_bytes());
    for (const v1::Replica& replica : grant.replicas()) {
      MP_CHECK(PayloadBytes(replica) == put.size_bytes(), "a spare of another size");
    }
    grants_.push_back({request.header().namespace_(), put, grant});
    if (grants_.size() > kGrantsKept) grants_.pop_front();
  }
}

void MasterScene::Look(const v1::LocateRequest&, const v1::LocateResponse& response) {
  for (const v1::LocateResult& result : response.results()) {
    MP_CHECK(result.has_location() == (result.status().code() == 0), "a location, or the miss");
    CheckPlaces(core_, now_, result.location().replicas(), response.nodes());
    for (const v1::Replica& replica : result.location().replicas()) {
      MP_CHECK(PayloadBytes(replica) == result.location().size_bytes(), "size of a location");
    }
  }
}

void MasterScene::Look(const v1::MatchPrefixRequest& request,
                       const v1::MatchPrefixResponse& response) {
  MP_CHECK(response.locations_size() <= request.keys_size(), "more than was asked for");
  MP_CHECK((response.locations_size() == request.keys_size()) == (response.miss().code() == 0),
           "the miss of a match");
  for (const v1::Location& location : response.locations()) {
    CheckPlaces(core_, now_, location.replicas(), response.nodes());
  }
}

// A reader who goes on from page to page comes to an end.
void MasterScene::Look(const v1::ListObjectsRequest& request,
                       const v1::ListObjectsResponse& response) {
  MP_CHECK(response.next_page_token() != request.page_token() || request.page_token().empty(),
           "the next page is the same one");
  if (request.limit() > 0) {
    MP_CHECK(static_cast<uint32_t>(response.objects_size()) <= request.limit(), "a long page");
  }
}

}  // namespace moonpool::master
