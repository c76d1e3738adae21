// What etcd says is bytes from outside: an answer that does not fit its request is an error.
#include "master/etcd/etcd_wire.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <variant>

#include "common/testing/status_matchers.h"
#include "master/etcd/etcd_errors.h"
#include "master/etcd/etcd_options.h"

namespace moonpool::master {
namespace {

namespace pb = etcdserverpb;
using ::testing::HasSubstr;

const EtcdGet kRange = {.key = "/p/", .range_end = "/p0", .limit = 2};

MATCHER(IsGarbled, "is garbled") {
  return AsStatus(arg).code() == absl::StatusCode::kInternal &&
         ReasonOf(AsStatus(arg)) == ErrorReason::kBadFrame;
}

pb::RangeResponse RangeOf(std::vector<std::string> keys) {
  pb::RangeResponse range;
  range.mutable_header()->set_revision(9);
  for (const std::string& key : keys) {
    mvccpb::KeyValue& kv = *range.add_kvs();
    kv.set_key(key);
    kv.set_create_revision(3);
    kv.set_mod_revision(4);
  }
  return range;
}

TEST(EtcdWire, ARangeIsWhatWasAskedForInOrder) {
  const auto answer = FromWire(kRange, RangeOf({"/p/a", "/p/b"}));
  ASSERT_THAT(answer, IsOk());
  EXPECT_EQ(std::get<EtcdRange>(*answer).records.size(), 2u);
  EXPECT_EQ(std::get<EtcdRange>(*answer).revision, 9);

  EXPECT_THAT(FromWire(kRange, RangeOf({"/p/b", "/p/a"})), IsGarbled());
  EXPECT_THAT(FromWire(kRange, RangeOf({"/p/a", "/p/a"})), IsGarbled());
  EXPECT_THAT(FromWire(kRange, RangeOf({"/q"})), IsGarbled());
  EXPECT_THAT(FromWire(kRange, RangeOf({"/p/a", "/p/b", "/p/c"})), IsGarbled());
  EXPECT_THAT(FromWire(EtcdGet{.key = "/p/a"}, RangeOf({"/p/b"})), IsGarbled());
}

TEST(EtcdWire, ARangeWithoutRevisionsOrEndIsGarbled) {
  pb::RangeResponse range = RangeOf({});
  range.set_more(true);
  EXPECT_THAT(FromWire(kRange, range), IsGarbled()) << "it would be read again for ever";
  range = RangeOf({"/p/a"});
  range.mutable_header()->set_revision(0);
  EXPECT_THAT(FromWire(kRange, range), IsGarbled());
  range = RangeOf({"/p/a"});
  range.mutable_kvs(0)->set_create_revision(0);
  EXPECT_THAT(FromWire(kRange, range), IsGarbled()) << "a key that is there was made some time";
  range = RangeOf({"/p/a"});
  range.mutable_kvs(0)->set_mod_revision(2);
  EXPECT_THAT(FromWire(kRange, range), IsGarbled());
}

TEST(EtcdWire, ATransactionAnswersForEachOfItsParts) {
  const EtcdTxn txn = {.success = {EtcdPut{.key = "a", .value = "v"}},
                       .failure = {EtcdGet{.key = "a"}}};
  pb::TxnResponse wire;
  wire.mutable_header()->set_revision(9);
  EXPECT_THAT(FromWire(txn, wire), IsGarbled());
  wire.add_responses();
  EXPECT_THAT(FromWire(txn, wire), IsGarbled()) << "no range where one was asked for";
  *wire.mutable_responses(0)->mutable_response_range() = RangeOf({"a"});
  ASSERT_THAT(FromWire(txn, wire), IsOk());
  wire.set_succeeded(true);
  const auto answer = FromWire(txn, wire);
  ASSERT_THAT(answer, IsOk());
  EXPECT_TRUE(std::get<EtcdTxnResult>(*answer).ranges.empty());
  for (const int64_t revision : {int64_t{-1}, int64_t{0}, INT64_MAX}) {
    wire.mutable_header()->set_revision(revision);
    EXPECT_THAT(FromWire(txn, wire), IsGarbled()) << revision;
  }
}

TEST(EtcdWire, ALeaseHasANumberAndAPossibleLength) {
  pb::LeaseGrantResponse wire;
  wire.set_id(7);
  for (const int64_t ttl : {int64_t{0}, int64_t{-1}, INT64_MAX}) {
    wire.set_ttl(ttl);
    EXPECT_THAT(FromWire(EtcdGrantLease{}, wire), IsGarbled()) << ttl;
  }
  wire.set_ttl(2);
  EXPECT_THAT(FromWire(EtcdGrantLease{}, wire), IsOk());
  wire.set_error("no");
  EXPECT_THAT(FromWire(EtcdGrantLease{}, wire), StatusIs(absl::StatusCode::kUnavailable));
  wire.clear_error();
  wire.set_id(0);
  EXPECT_THAT(FromWire(EtcdGrantLease{}, wire), IsGarbled());
}

TEST(EtcdWire, ARenewalIsOfTheLeaseThatWasAskedFor) {
  pb::LeaseKeepAliveResponse wire;
  wire.set_id(7);
  wire.set_ttl(2);
  EXPECT_THAT(FromWire(EtcdKeepAlive{7}, wire), IsOk());
  EXPECT_THAT(FromWire(EtcdKeepAlive{8}, wire), IsGarbled());
  wire.set_ttl(0);
  EXPECT_THAT(FromWire(EtcdKeepAlive{7}, wire), StatusIs(absl::StatusCode::kNotFound));
  wire.set_ttl(-1);
  EXPECT_THAT(FromWire(EtcdKeepAlive{7}, wire), IsGarbled());
}

TEST(EtcdWire, AWatchEndsWithAnEventOfItsKeyOrALook) {
  pb::WatchResponse wire;
  wire.set_created(true);
  EXPECT_FALSE(IsAnswer(wire));
  wire.add_events()->mutable_kv()->set_key("k");
  EXPECT_TRUE(IsAnswer(wire));
  EXPECT_THAT(FromWire(EtcdAwaitChange{"k", 1}, wire), IsOk());
  EXPECT_THAT(FromWire(EtcdAwaitChange{"other", 1}, wire), IsGarbled());
  pb::WatchResponse compacted;
  compacted.set_canceled(true);
  compacted.set_compact_revision(5);
  EXPECT_THAT(FromWire(EtcdAwaitChange{"k", 1}, compacted), IsOk());
  pb::WatchResponse canceled;
  canceled.set_canceled(true);
  EXPECT_TRUE(IsAnswer(canceled));
  EXPECT_THAT(FromWire(EtcdAwaitChange{"k", 1}, canceled),
              StatusIs(absl::StatusCode::kUnavailable));
}

TEST(EtcdErrors, AnUnknownRefusalKeepsItsCode) {
  const EtcdError error =
      ExplainEtcdError("h:1", absl::StatusCode::kFailedPrecondition, "etcdserver: something new");
  EXPECT_EQ(error.kind, EtcdErrorKind::kFinal);
  EXPECT_EQ(error.status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(Describe(error.status), HasSubstr("etcd at h:1: etcdserver: something new"));
}

TEST(EtcdErrors, TheCallersDeadlineIsOneAlsoInTheMembersWords) {
  for (const auto code : {absl::StatusCode::kUnavailable, absl::StatusCode::kUnknown}) {
    const EtcdError error = ExplainEtcdError("h:1", code, "context deadline exceeded");
    EXPECT_EQ(error.kind, EtcdErrorKind::kElsewhere);
    EXPECT_EQ(error.status.code(), absl::StatusCode::kDeadlineExceeded);
  }
}

TEST(EtcdErrors, AFullEtcdComesWithAWayOut) {
  const EtcdError error = ExplainEtcdError("h:1", absl::StatusCode::kResourceExhausted,
                                           "etcdserver: mvcc: database space exceeded");
  EXPECT_EQ(error.kind, EtcdErrorKind::kFinal);
  EXPECT_THAT(Describe(error.status), HasSubstr("etcdctl alarm disarm"));
}

TEST(EtcdPrefixEnd, IsTheFirstKeyBehindThePrefix) {
  EXPECT_EQ(EtcdPrefixEnd("/p/"), "/p0");
  EXPECT_EQ(EtcdPrefixEnd("a\xff"), "b");
  EXPECT_EQ(EtcdPrefixEnd("\xff"), std::string(1, '\0'));
}

TEST(EtcdOptions, AreCheckedWithAHint) {
  EXPECT_THAT(Validate(EtcdOptions{.endpoints = {"a:1", "[::1]:2"}}), IsOk());
  const EtcdOptions bad[] = {
      {},
      {.endpoints = {"a"}},
      {.endpoints = {"a:0"}},
      {.endpoints = {"a:1"}, .cert_file = "c", .key_file = "k"},
      {.endpoints = {"a:1"}, .ca_file = "ca", .cert_file = "c"},
      {.endpoints = {"a:1"}, .user = "u"},
      {.endpoints = {"a:1"}, .password_file = "p"},
      {.endpoints = std::vector<std::string>(17, "a:1")},
  };
  for (const EtcdOptions& options : bad) {
    EXPECT_THAT(Validate(options), StatusIs(absl::StatusCode::kInvalidArgument));
  }
}

}  // namespace
}  // namespace moonpool::master
