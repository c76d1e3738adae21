#include "tests/fuzz/client_steps.h"

#include <utility>

#include "common/version.h"

namespace moonpool::master {
namespace {

constexpr size_t kKeysMax = 5;  // of one batch

void FillVersion(ByteFeed& feed, v1::Version* version) {
  version->set_major(feed.OneIn(64) ? feed.Number32() : kWireMajor);
}

// 0 = as long as the master has patience.
uint64_t TimeoutMs(ByteFeed& feed) {
  constexpr uint64_t kTimeouts[] = {1000, 0, 1, 30'000};
  const size_t choice = feed.Below(std::size(kTimeouts) + 1);
  return choice < std::size(kTimeouts) ? kTimeouts[choice] : feed.Number();
}

}  // namespace

void ClientSteps::Step() {
  switch (feed_.Below(5)) {
    case 0: return PutStep();
    case 1: return ReadStep();
    case 2: return ObjectStep();
    case 3: return AdminStep();
    default: return RawStep();
  }
}

void ClientSteps::PutStep() {
  switch (feed_.Below(4)) {
    case 0:
    case 1: return StartPuts();
    case 2: return CommitPuts();
    default: return AbortPuts();
  }
}

void ClientSteps::ReadStep() {
  switch (feed_.Below(3)) {
    case 0: return Locate();
    case 1: return MatchPrefix();
    default: return Exists();
  }
}

void ClientSteps::ObjectStep() {
  switch (feed_.Below(4)) {
    case 0: return Remove();
    case 1: return ListObjects();
    case 2: return OpenNamespace();
    default: return scene_.CancelStep();
  }
}

void ClientSteps::AdminStep() {
  switch (feed_.Below(5)) {
    case 0: {
      v1::ForgetNodeRequest request;
      FillVersion(feed_, request.mutable_version());
      request.set_name(scene_.NodeName());
      return scene_.Call(&Handlers::ForgetNode, request);
    }
    case 1: {
      v1::WhyRequest request;
      FillVersion(feed_, request.mutable_version());
      request.set_namespace_(scene_.NameSpace());
      request.set_key(scene_.Key());
      return scene_.Call(&Handlers::Why, request);
    }
    case 2: {
      v1::ListNodesRequest request;
      FillVersion(feed_, request.mutable_version());
      return scene_.Call(&Handlers::ListNodes, request);
    }
    case 4: {
      v1::DrainNodeRequest request;
      FillVersion(feed_, request.mutable_version());
      request.set_name(scene_.NodeName());
      request.set_cancel(feed_.OneIn(3));
      return scene_.Call(&Handlers::DrainNode, request);
    }
    default: {
      v1::GetStatusRequest request;
      FillVersion(feed_, request.mutable_version());
      return scene_.Call(&Handlers::GetStatus, request);
    }
  }
}

void ClientSteps::RawStep() {
  const size_t choice = feed_.Below(12);
  const absl::string_view bytes = feed_.Bytes();
  const auto call = [&](auto method, auto request) {
    if (!request.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return;
    scene_.Call(method, request);
  };
  switch (choice) {
    case 0: return call(&Handlers::StartPuts, v1::StartPutsRequest());
    case 1: return call(&Handlers::CommitPuts, v1::CommitPutsRequest());
    case 2: return call(&Handlers::AbortPuts, v1::AbortPutsRequest());
    case 3: return scene_.CallBytes(&Handlers::Locate, bytes);
    case 4: return scene_.CallBytes(&Handlers::MatchPrefix, bytes);
    case 5: return call(&Handlers::Exists, v1::ExistsRequest());
    case 6: return call(&Handlers::Remove, v1::RemoveRequest());
    case 7: return call(&Handlers::ListObjects, v1::ListObjectsRequest());
    case 8: return call(&Handlers::OpenNamespace, v1::OpenNamespaceRequest());
    case 9: return call(&Handlers::Why, v1::WhyRequest());
    case 11: return call(&Handlers::DrainNode, v1::DrainNodeRequest());
    default: return call(&Handlers::ForgetNode, v1::ForgetNodeRequest());
  }
}

void ClientSteps::FillHeader(const std::string& name_space, v1::RequestHeader* header) {
  FillVersion(feed_, header->mutable_version());
  header->set_client_id(feed_.Below(3));
  header->set_host_id(feed_.OneIn(4) ? scene_.NodeName() : "");
  header->set_namespace_(name_space);
  header->set_timeout_ms(TimeoutMs(feed_));
  if (!feed_.OneIn(4)) return;
  const SeenGrant seen = scene_.Grant();
  v1::Touch* touch = header->add_touched();
  touch->set_handle(feed_.OneIn(4) ? feed_.Number32() : seen.grant.handle());
  touch->set_generation(seen.grant.generation());
}

void ClientSteps::StartPuts() {
  v1::StartPutsRequest request;
  FillHeader(scene_.NameSpace(), request.mutable_header());
  request.set_request_id(feed_.Below(4));
  const size_t puts = 1 + feed_.Below(kKeysMax);
  for (size_t i = 0; i < puts; ++i) {
    v1::PutKey* put = request.add_puts();
    put->set_key(scene_.Key());
    put->set_size_bytes(scene_.Size());
    if (feed_.OneIn(2)) put->set_parent(scene_.Key());
  }
  request.set_replicas(static_cast<uint32_t>(feed_.Below(4)));
  if (feed_.OneIn(4)) request.set_min_replicas(1);
  if (feed_.OneIn(16)) request.set_replicas(feed_.Number32());
  if (feed_.OneIn(16)) request.set_min_replicas(feed_.Number32());
  request.set_wait_for_space(feed_.OneIn(3));
  request.set_wait_for_writer(feed_.OneIn(3));
  scene_.Call(&Handlers::StartPuts, request);
}

void ClientSteps::CommitPuts() {
  v1::CommitPutsRequest request;
  const size_t puts = 1 + feed_.Below(2);
  for (size_t i = 0; i < puts; ++i) {
    const SeenGrant seen = scene_.Grant();
    if (i == 0) FillHeader(seen.name_space, request.mutable_header());
    v1::CommitPut* put = request.add_puts();
    put->set_generation(feed_.OneIn(8) ? feed_.Number() : seen.grant.generation());
    put->set_handle(feed_.OneIn(8) ? feed_.Number32() : seen.grant.handle());
    if (feed_.OneIn(4)) put->add_failed_replicas(feed_.Number32());
    if (!feed_.OneIn(2)) continue;
    put->set_key(scene_.Key());
    if (feed_.OneIn(2)) put->set_parent(scene_.Key());
  }
  if (feed_.OneIn(2)) {
    request.mutable_spare()->set_size_bytes(scene_.Size());
    request.mutable_spare()->set_replicas(static_cast<uint32_t>(feed_.Below(3)));
    request.mutable_spare()->set_count(static_cast<uint32_t>(feed_.Below(4)));
  }
  scene_.Call(&Handlers::CommitPuts, request);
}

void ClientSteps::AbortPuts() {
  v1::AbortPutsRequest request;
  const SeenGrant seen = scene_.Grant();
  FillHeader(seen.name_space, request.mutable_header());
  v1::AbortPut* put = request.add_puts();
  put->set_generation(feed_.OneIn(8) ? feed_.Number() : seen.grant.generation());
  put->set_handle(feed_.OneIn(8) ? feed_.Number32() : seen.grant.handle());
  if (feed_.OneIn(4)) put->set_key(scene_.Key());
  for (const v1::Replica& replica : seen.grant.replicas()) {
    for (const v1::Part& part : replica.parts()) {
      if (!feed_.OneIn(2)) continue;
      *put->add_pinned() = part;
      if (feed_.OneIn(8)) put->add_pinned()->mutable_extent()->set_offset(feed_.Number());
    }
  }
  scene_.Call(&Handlers::AbortPuts, request);
}

template <typename Request>
Request ClientSteps::OfKeys() {
  Request request;
  FillHeader(scene_.NameSpace(), request.mutable_header());
  const size_t keys = 1 + feed_.Below(kKeysMax);
  for (size_t i = 0; i < keys; ++i) request.add_keys(scene_.Key());
  return request;
}

void ClientSteps::Locate() {
  auto request = OfKeys<v1::LocateRequest>();
  if (feed_.OneIn(2)) request.set_lease_ms(TimeoutMs(feed_));
  request.set_wait_for_writer(feed_.OneIn(3));
  scene_.Call(&Handlers::Locate, request);
}

void ClientSteps::MatchPrefix() {
  auto request = OfKeys<v1::MatchPrefixRequest>();
  if (feed_.OneIn(2)) request.set_lease_ms(TimeoutMs(feed_));
  scene_.Call(&Handlers::MatchPrefix, request);
}

void ClientSteps::Exists() { scene_.Call(&Handlers::Exists, OfKeys<v1::ExistsRequest>()); }

void ClientSteps::Remove() { scene_.Call(&Handlers::Remove, OfKeys<v1::RemoveRequest>()); }

void ClientSteps::ListObjects() {
  v1::ListObjectsRequest request;
  FillHeader(scene_.NameSpace(), request.mutable_header());
  if (feed_.OneIn(2)) request.set_prefix(scene_.Key());
  if (feed_.OneIn(2)) request.set_page_token(absl::StrCat(feed_.Number()));
  if (feed_.OneIn(4)) request.set_page_token(std::string(feed_.Bytes()));
  request.set_limit(static_cast<uint32_t>(feed_.Below(4)));
  scene_.Call(&Handlers::ListObjects, request);
}

void ClientSteps::OpenNamespace() {
  v1::OpenNamespaceRequest request;
  FillHeader(feed_.OneIn(4) ? std::string(feed_.Bytes()) : scene_.NameSpace(),
             request.mutable_header());
  if (!feed_.OneIn(4)) request.set_fingerprint(scene_.NodeName());
  scene_.Call(&Handlers::OpenNamespace, request);
}

}  // namespace moonpool::master
