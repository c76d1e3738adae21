#include "master/handlers/handlers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "master/handlers/handlers_fixture.h"
#include "master/handlers/wire.h"

namespace moonpool::master {
namespace {

using ::testing::HasSubstr;

using HandlersTest = HandlersFixture;

TEST_F(HandlersTest, PutThenLocateNamesTheNodeOnce) {
  AddNode("n1", 64 * kMiB);
  Put("a", 1000);
  Put("b", 2000);
  Answer<v1::LocateResponse> answer;
  handlers.Locate(KeysRequest<v1::LocateRequest>({"a", "b", "c"}), now, answer.done());
  ASSERT_TRUE(answer.is_there());
  ASSERT_THAT(answer.status, IsOk());
  const v1::LocateResponse& response = answer.response;
  EXPECT_EQ(response.header().term(), 7u);
  ASSERT_EQ(response.results_size(), 3);
  EXPECT_EQ(response.results(0).location().size_bytes(), 1000u);
  EXPECT_EQ(response.results(1).location().replicas(0).parts(0).extent().length(),
            2000 + kPartHeaderBytes);
  EXPECT_EQ(WireReason(response.results(2).status()), ErrorReason::kNeverStored);
  ASSERT_EQ(response.nodes_size(), 1);
  EXPECT_EQ(response.nodes(0).name(), "n1");
  EXPECT_EQ(handlers.counts().hits, 2u);
  EXPECT_EQ(handlers.counts().misses[static_cast<size_t>(ErrorReason::kNeverStored)], 1u);
}

TEST_F(HandlersTest, MatchPrefixStopsAtTheFirstMissAndExistsSaysEach) {
  AddNode("n1", 64 * kMiB);
  Put("a", 10);
  Put("c", 10);
  Answer<v1::MatchPrefixResponse> match;
  handlers.MatchPrefix(KeysRequest<v1::MatchPrefixRequest>({"a", "b", "c"}), now, match.done());
  ASSERT_THAT(match.status, IsOk());
  EXPECT_EQ(match.response.locations_size(), 1);
  EXPECT_EQ(WireReason(match.response.miss()), ErrorReason::kNeverStored);

  Answer<v1::ExistsResponse> exists;
  handlers.Exists(KeysRequest<v1::ExistsRequest>({"a", "b", "c"}), now, exists.done());
  ASSERT_THAT(exists.status, IsOk());
  EXPECT_EQ(exists.response.results(0).code(), 0);
  EXPECT_NE(exists.response.results(1).code(), 0);
  EXPECT_EQ(exists.response.results(2).code(), 0);
}

TEST_F(HandlersTest, AnotherMajorVersionIsRefusedEverywhere) {
  const auto is_refused = [](const absl::Status& status) {
    return status.code() == absl::StatusCode::kFailedPrecondition &&
           moonpool::ReasonOf(status) == ErrorReason::kPeerVersion;
  };
  auto locate = KeysRequest<v1::LocateRequest>({"a"});
  locate.mutable_header()->mutable_version()->set_major(kWireMajor + 1);
  Answer<v1::LocateResponse> located;
  handlers.Locate(locate, now, located.done());
  EXPECT_TRUE(is_refused(located.status)) << located.status;

  Answer<v1::StartPutsResponse> put;
  handlers.StartPuts(v1::StartPutsRequest(), now, put.done());
  EXPECT_TRUE(is_refused(put.status)) << put.status;

  Answer<v1::WhyResponse> why;
  handlers.Why(v1::WhyRequest(), now, why.done());
  EXPECT_TRUE(is_refused(why.status)) << why.status;

  // Another minor version is served.
  locate = KeysRequest<v1::LocateRequest>({"a"});
  locate.mutable_header()->mutable_version()->set_minor(99);
  Answer<v1::LocateResponse> minor;
  handlers.Locate(locate, now, minor.done());
  EXPECT_THAT(minor.status, IsOk());
  EXPECT_EQ(handlers.counts().bad_requests, 3u);
}

TEST_F(HandlersTest, BatchesHaveABound) {
  auto request = NewRequest<v1::ExistsRequest>();
  for (size_t i = 0; i <= kMaxBatchKeys; ++i) request.add_keys("k");
  Answer<v1::ExistsResponse> answer;
  handlers.Exists(request, now, answer.done());
  EXPECT_THAT(answer.status,
              Fails(absl::StatusCode::kInvalidArgument, ErrorReason::kBatchTooLarge));

  request.mutable_keys()->RemoveLast();
  Answer<v1::ExistsResponse> fits;
  handlers.Exists(request, now, fits.done());
  EXPECT_THAT(fits.status, IsOk());
}

TEST_F(HandlersTest, EmptyBatchesAreAnsweredWithNothing) {
  Answer<v1::LocateResponse> answer;
  handlers.Locate(KeysRequest<v1::LocateRequest>({}), now, answer.done());
  ASSERT_THAT(answer.status, IsOk());
  EXPECT_EQ(answer.response.results_size(), 0);
}

TEST_F(HandlersTest, HostilePutsAreRefusedKeyByKey) {
  AddNode("n1", 64 * kMiB);
  auto request = PutRequest({"", std::string(kMaxKeyBytes + 1, 'k'), "huge", "huge2", "good"}, 10);
  request.mutable_puts(2)->set_size_bytes(std::numeric_limits<uint64_t>::max());
  request.mutable_puts(3)->set_size_bytes(std::numeric_limits<uint64_t>::max() - kPartHeaderBytes);
  Answer<v1::StartPutsResponse> answer;
  handlers.StartPuts(request, now, answer.done());
  ASSERT_THAT(answer.status, IsOk());
  EXPECT_EQ(WireReason(answer.response.results(0).status()), ErrorReason::kKeyEmpty);
  EXPECT_EQ(WireReason(answer.response.results(1).status()), ErrorReason::kKeyTooLong);
  EXPECT_EQ(WireReason(answer.response.results(2).status()), ErrorReason::kValueTooLarge);
  EXPECT_EQ(WireReason(answer.response.results(3).status()), ErrorReason::kValueTooLarge);
  EXPECT_TRUE(answer.response.results(4).has_grant());
  EXPECT_THAT(core.CheckInvariants(), IsOk());
}

TEST_F(HandlersTest, HostileFieldsAreRefused) {
  const auto expect_refused = [&](const v1::StartPutsRequest& request) {
    Answer<v1::StartPutsResponse> answer;
    handlers.StartPuts(request, now, answer.done());
    ASSERT_TRUE(answer.is_there());
    EXPECT_THAT(answer.status, StatusIs(absl::StatusCode::kInvalidArgument));
  };
  auto request = PutRequest({"a"}, 10);
  request.set_replicas(1u << 31);
  expect_refused(request);
  request = PutRequest({"a"}, 10);
  request.set_min_replicas(2);
  expect_refused(request);
  request = PutRequest({"a"}, 10);
  request.mutable_header()->set_host_id(std::string(kMaxLabelBytes + 1, 'h'));
  expect_refused(request);
  request = PutRequest({"a"}, 10);
  request.mutable_header()->set_namespace_(std::string(kMaxNamespaceBytes + 1, 'n'));
  expect_refused(request);
  request = PutRequest({"a"}, 10);
  for (int i = 0; i <= kMaxTouches; ++i) request.mutable_header()->add_touched();
  expect_refused(request);
  request = PutRequest({"a"}, 10);
  request.mutable_header()->set_host_id("host\n1");
  expect_refused(request);
  EXPECT_EQ(handlers.counts().bad_requests, 6u);
}

TEST_F(HandlersTest, UnknownHandlesAndGenerationsHarmNothing) {
  AddNode("n1", 64 * kMiB);
  auto commit = NewRequest<v1::CommitPutsRequest>();
  commit.add_puts()->set_handle(0xffffffff);
  commit.add_puts()->set_generation(~uint64_t{0});
  commit.mutable_puts(1)->add_failed_replicas(0xffffffff);
  Answer<v1::CommitPutsResponse> committed;
  handlers.CommitPuts(commit, now, committed.done());
  ASSERT_THAT(committed.status, IsOk());
  EXPECT_EQ(WireReason(committed.response.results(0)), ErrorReason::kGrantAborted);

  auto abort = NewRequest<v1::AbortPutsRequest>();
  v1::AbortPut* put = abort.add_puts();
  put->set_handle(12345);
  put->add_pinned()->mutable_extent()->set_length(~uint64_t{0});
  abort.mutable_header()->add_touched()->set_handle(77);
  Answer<v1::AbortPutsResponse> aborted;
  handlers.AbortPuts(abort, now, aborted.done());
  EXPECT_THAT(aborted.status, IsOk());
  EXPECT_THAT(core.CheckInvariants(), IsOk());
}

TEST_F(HandlersTest, NamespacesKeepTheirFingerprint) {
  auto open = NewRequest<v1::OpenNamespaceRequest>();
  open.mutable_header()->set_namespace_("team");
  open.set_fingerprint("llama/bf16");
  Answer<v1::OpenNamespaceResponse> first;
  handlers.OpenNamespace(open, now, first.done());
  ASSERT_THAT(first.status, IsOk());
  EXPECT_EQ(first.response.fingerprint(), "llama/bf16");

  open.set_fingerprint("llama/fp8");
  Answer<v1::OpenNamespaceResponse> second;
  handlers.OpenNamespace(open, now, second.done());
  EXPECT_THAT(second.status,
              Fails(absl::StatusCode::kFailedPrecondition, ErrorReason::kFingerprintMismatch));

  auto locate = KeysRequest<v1::LocateRequest>({"a"});
  locate.mutable_header()->set_namespace_("nobody");
  Answer<v1::LocateResponse> located;
  handlers.Locate(locate, now, located.done());
  EXPECT_THAT(located.status, Fails(absl::StatusCode::kNotFound, ErrorReason::kNamespaceUnknown));
}

TEST_F(HandlersTest, ANodeIsForgottenOnlyWhenItIsAway) {
  Node& node = AddNode("n1", kMiB);
  v1::ForgetNodeRequest request;
  FillVersion(request.mutable_version());
  request.set_name("n1");
  Answer<v1::ForgetNodeResponse> refused;
  handlers.ForgetNode(request, now, refused.done());
  EXPECT_THAT(refused.status, StatusIs(absl::StatusCode::kFailedPrecondition));
  handlers.CloseSession(*node.session, now);
  Answer<v1::ForgetNodeResponse> forgotten;
  handlers.ForgetNode(request, now, forgotten.done());
  EXPECT_THAT(forgotten.status, IsOk());
  request.set_name("nobody");
  Answer<v1::ForgetNodeResponse> unknown;
  handlers.ForgetNode(request, now, unknown.done());
  EXPECT_THAT(unknown.status, StatusIs(absl::StatusCode::kNotFound));
}

TEST_F(HandlersTest, StatusNodesWhyAndListTellWhatIsThere) {
  AddNode("n1", 64 * kMiB);
  Put("prefix/a", 1000);
  Advance(absl::Seconds(1));

  v1::GetStatusRequest status_request;
  FillVersion(status_request.mutable_version());
  Answer<v1::GetStatusResponse> status;
  handlers.GetStatus(status_request, now, status.done());
  ASSERT_THAT(status.status, IsOk());
  EXPECT_EQ(status.response.objects(), 1u);
  EXPECT_EQ(status.response.nodes_up(), 1u);
  EXPECT_EQ(status.response.uptime_ms(), 1000u);
  EXPECT_EQ(status.response.totals().puts_committed(), 1u);

  v1::ListNodesRequest nodes_request;
  FillVersion(nodes_request.mutable_version());
  Answer<v1::ListNodesResponse> listed;
  handlers.ListNodes(nodes_request, now, listed.done());
  ASSERT_EQ(listed.response.nodes_size(), 1);
  EXPECT_TRUE(listed.response.nodes(0).up());
  EXPECT_EQ(listed.response.nodes(0).segments(0).medium(), "dram");

  v1::WhyRequest why_request;
  FillVersion(why_request.mutable_version());
  why_request.set_key("prefix/a");
  Answer<v1::WhyResponse> why;
  handlers.Why(why_request, now, why.done());
  ASSERT_THAT(why.status, IsOk());
  EXPECT_EQ(why.response.state(), "stored");
  EXPECT_EQ(why.response.nodes_size(), 1);

  auto list = NewRequest<v1::ListObjectsRequest>();
  list.set_prefix("prefix/");
  Answer<v1::ListObjectsResponse> objects;
  handlers.ListObjects(list, now, objects.done());
  ASSERT_THAT(objects.status, IsOk());
  ASSERT_EQ(objects.response.objects_size(), 1);
  EXPECT_EQ(objects.response.objects(0).key(), "prefix/a");
  EXPECT_EQ(objects.response.objects(0).age_ms(), 1000u);

  list.set_page_token("nonsense \xff");
  Answer<v1::ListObjectsResponse> bad;
  handlers.ListObjects(list, now, bad.done());
  EXPECT_TRUE(bad.is_there());
  EXPECT_THAT(bad.status, ::testing::Not(IsOk()));
}

TEST_F(HandlersTest, AfterShutdownEveryCallIsTurnedAway) {
  AddNode("n1", 64 * kMiB);
  handlers.Shutdown(now);
  Answer<v1::LocateResponse> answer;
  handlers.Locate(KeysRequest<v1::LocateRequest>({"a"}), now, answer.done());
  EXPECT_THAT(answer.status, Fails(absl::StatusCode::kUnavailable, ErrorReason::kShuttingDown));
  EXPECT_TRUE(nodes[0]->session->is_finished());
  EXPECT_THAT(handlers.OpenSession([] {}, now), StatusIs(absl::StatusCode::kUnavailable));
}

}  // namespace
}  // namespace moonpool::master
