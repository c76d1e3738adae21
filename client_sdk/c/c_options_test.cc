// Option structs, of other versions too, and the numbers and names that C has of the SDK's.
#include <cstddef>
#include <cstring>
#include <string>

#include "client_sdk/c/c_fixture.h"
#include "client_sdk/c/options.h"
#include "common/error.h"
#include "common/version.h"
#include "moonpool/v1/common.pb.h"

namespace moonpool {
namespace {

using ::testing::HasSubstr;

class COptionsTest : public CFixture {};

// A struct of a later version: what this one knows, and two fields more.
template <typename Options>
struct Later {
  Options known = {};
  uint64_t more[2] = {};
};

TEST_F(COptionsTest, AnOlderCallersStructHasDefaultsForWhatItLacks) {
  // Behind what the caller says that it has lies something else.
  std::memset(static_cast<void*>(&options_.timeout_ms), 0xff,
              sizeof(options_) - offsetof(moonpool_client_options, timeout_ms));
  options_.struct_size = offsetof(moonpool_client_options, timeout_ms);
  Connect();
  const absl::StatusOr<ClientOptions> taken = c_api::ToSdk(&options_);
  ASSERT_THAT(taken, IsOk());
  EXPECT_EQ(taken->timeout, ClientOptions{}.timeout);
  EXPECT_EQ(taken->tcp_streams, ClientOptions{}.tcp_streams);
  EXPECT_EQ(taken->location_cache_entries, ClientOptions{}.location_cache_entries);
  EXPECT_TRUE(taken->verify);
  EXPECT_TRUE(taken->wait_for_master);

  moonpool_put_options put;
  std::memset(static_cast<void*>(&put), 0xff, sizeof(put));
  put.struct_size = sizeof(size_t);
  const absl::StatusOr<PutOptions> taken_put = c_api::ToSdk(&put);
  ASSERT_THAT(taken_put, IsOk());
  EXPECT_EQ(taken_put->replicas, 1u);
  EXPECT_EQ(taken_put->call.timeout, absl::ZeroDuration());
  EXPECT_TRUE(taken_put->wait_for_space);
}

TEST_F(COptionsTest, ALaterCallersStructIsTakenWhileItUsesNothingNew) {
  Later<moonpool_call_options> later;
  later.known = {.struct_size = sizeof(later), .timeout_ms = 7, .cancel = nullptr};
  const absl::StatusOr<CallOptions> taken = c_api::ToSdk(&later.known);
  ASSERT_THAT(taken, IsOk());
  EXPECT_EQ(taken->timeout, absl::Milliseconds(7));

  later.more[1] = uint64_t{1} << 63;  // the very last byte
  const absl::Status refused = c_api::ToSdk(&later.known).status();
  EXPECT_THAT(refused, Fails(absl::StatusCode::kInvalidArgument, ErrorReason::kBadArgument));
  EXPECT_THAT(Describe(refused), HasSubstr("moonpool_call_options has fields"));
  Connect();
  moonpool_result result = {};
  const moonpool_bytes key = moonpool_text("k");
  EXPECT_EQ(moonpool_exists(client_, &key, 1, &later.known, &result, nullptr),
            MOONPOOL_INVALID_ARGUMENT);
}

TEST_F(COptionsTest, SizesThatNoVersionHasAreRefused) {
  for (const size_t size : {size_t{0}, size_t{7}, sizeof(moonpool_client_options) + 1, SIZE_MAX}) {
    options_.struct_size = size;
    EXPECT_EQ(moonpool_connect(&options_, &client_), MOONPOOL_INVALID_ARGUMENT);
    EXPECT_THAT(moonpool_last_error(), HasSubstr("moonpool_client_options.struct_size is"));
  }
  moonpool_stats stats = {};
  options_.struct_size = sizeof(options_);
  Connect();
  EXPECT_EQ(moonpool_get_stats(client_, &stats), MOONPOOL_INVALID_ARGUMENT);
}

TEST_F(COptionsTest, StructsAreFilledAsFarAsTheCallerKnowsThem) {
  Connect();
  Put("k", "value");
  moonpool_stats older;
  std::memset(static_cast<void*>(&older), 0xee, sizeof(older));
  older.struct_size = offsetof(moonpool_stats, put_bytes);
  ASSERT_EQ(moonpool_get_stats(client_, &older), MOONPOOL_OK);
  EXPECT_EQ(older.puts, 1u);
  EXPECT_EQ(older.put_bytes, 0xeeeeeeeeeeeeeeeeu);
  EXPECT_EQ(older.struct_size, offsetof(moonpool_stats, put_bytes));

  Later<moonpool_stats> later;
  later.known.struct_size = sizeof(later);
  later.more[0] = later.more[1] = 9;
  ASSERT_EQ(moonpool_get_stats(client_, &later.known), MOONPOOL_OK);
  EXPECT_EQ(later.known.put_bytes, 5u);
  EXPECT_EQ(later.more[0], 0u);
  EXPECT_EQ(later.more[1], 0u);
}

TEST_F(COptionsTest, EveryOptionArrives) {
  const uint32_t uids[] = {7, 8};
  options_.masters = "a:1,b:2";
  options_.name_space = "n";
  options_.fingerprint = "f";
  options_.timeout_ms = 1500;
  options_.path = MOONPOOL_PATH_SHM;
  options_.no_verify = options_.no_wait_for_master = 1;
  options_.tcp_streams = 5;
  options_.location_cache_entries = 6;
  options_.tcp_congestion_control = "reno";
  options_.host_id = "h";
  options_.trusted_uids = uids;
  options_.trusted_uid_count = 2;
  const absl::StatusOr<ClientOptions> client = c_api::ToSdk(&options_);
  ASSERT_THAT(client, IsOk());
  EXPECT_THAT(client->masters, ::testing::ElementsAre("a:1", "b:2"));
  EXPECT_EQ(client->name_space, "n");
  EXPECT_EQ(client->fingerprint, "f");
  EXPECT_EQ(client->timeout, absl::Milliseconds(1500));
  EXPECT_EQ(client->path, Path::kShm);
  EXPECT_FALSE(client->verify);
  EXPECT_FALSE(client->wait_for_master);
  EXPECT_EQ(client->tcp_streams, 5);
  EXPECT_EQ(client->location_cache_entries, 6u);
  EXPECT_EQ(client->tcp_congestion_control, "reno");
  EXPECT_EQ(client->host_id, "h");
  EXPECT_THAT(client->trusted_uids, ::testing::ElementsAre(7, 8));

  const moonpool_put_options put_given = {.struct_size = sizeof(put_given),
                                          .timeout_ms = UINT64_MAX,
                                          .cancel = nullptr,
                                          .replicas = 3,
                                          .min_replicas = 2,
                                          .no_wait_for_space = 1,
                                          .wait_for_writer = 1};
  const absl::StatusOr<PutOptions> put = c_api::ToSdk(&put_given);
  ASSERT_THAT(put, IsOk());
  EXPECT_EQ(put->call.timeout, absl::InfiniteDuration());
  EXPECT_EQ(put->replicas, 3u);
  EXPECT_EQ(put->min_replicas, 2u);
  EXPECT_FALSE(put->wait_for_space);
  EXPECT_TRUE(put->wait_for_writer);

  const moonpool_match_options match_given = {
      .struct_size = sizeof(match_given), .timeout_ms = 1, .cancel = nullptr, .hold_ms = 30};
  EXPECT_EQ(c_api::ToSdk(&match_given)->hold, absl::Milliseconds(30));
  EXPECT_EQ(c_api::ToSdk(&match_given)->call.timeout, absl::Milliseconds(1));
}

TEST_F(COptionsTest, ValuesThatMeanNothingAreRefused) {
  const auto refused = [&](auto change) {
    moonpool_client_options changed = options_;
    change(changed);
    EXPECT_EQ(moonpool_connect(&changed, &client_), MOONPOOL_INVALID_ARGUMENT);
    EXPECT_EQ(LastReason(), MOONPOOL_REASON_BAD_ARGUMENT);
  };
  refused([](auto& options) { options.masters = nullptr; });
  refused([](auto& options) { options.path = 3; });
  refused([](auto& options) { options.no_verify = 2; });
  refused([](auto& options) { options.no_wait_for_master = UINT32_MAX; });
  refused([](auto& options) { options.tcp_streams = 65; });
  refused([](auto& options) { options.name_space = "\xff"; });
  refused([](auto& options) { options.trusted_uid_count = 1; });
  refused([](auto& options) { options.trusted_uid_count = SIZE_MAX; });
  auto put = Sized<moonpool_put_options>();
  put.no_wait_for_space = 2;
  EXPECT_FALSE(c_api::ToSdk(&put).ok());
  auto get = Sized<moonpool_get_options>();
  get.reserved = 1;
  EXPECT_FALSE(c_api::ToSdk(&get).ok());
}

TEST(CNumbers, AreThoseOfTheSdk) {
  // A reason that the header lacks makes this list another length than the proto's.
  const int reasons[] = {MOONPOOL_REASON_UNSPECIFIED,
                         MOONPOOL_REASON_KEY_EMPTY,
                         MOONPOOL_REASON_KEY_TOO_LONG,
                         MOONPOOL_REASON_VALUE_TOO_LARGE,
                         MOONPOOL_REASON_DUPLICATE_KEY,
                         MOONPOOL_REASON_BATCH_TOO_LARGE,
                         MOONPOOL_REASON_BUFFER_TOO_SHORT,
                         MOONPOOL_REASON_NAMESPACE_UNKNOWN,
                         MOONPOOL_REASON_FINGERPRINT_MISMATCH,
                         MOONPOOL_REASON_BAD_ARGUMENT,
                         MOONPOOL_REASON_NEVER_STORED,
                         MOONPOOL_REASON_EVICTED,
                         MOONPOOL_REASON_EXPIRED,
                         MOONPOOL_REASON_REMOVED,
                         MOONPOOL_REASON_NODE_LOST,
                         MOONPOOL_REASON_BEING_WRITTEN,
                         MOONPOOL_REASON_ALREADY_EXISTS,
                         MOONPOOL_REASON_NO_SPACE,
                         MOONPOOL_REASON_NO_NODES,
                         MOONPOOL_REASON_GRANT_ABORTED,
                         MOONPOOL_REASON_REPLICAS_UNMET,
                         MOONPOOL_REASON_STALE_GENERATION,
                         MOONPOOL_REASON_STALE_TERM,
                         MOONPOOL_REASON_CHECKSUM_MISMATCH,
                         MOONPOOL_REASON_BYTES_PINNED,
                         MOONPOOL_REASON_BAD_FRAME,
                         MOONPOOL_REASON_PEER_VERSION,
                         MOONPOOL_REASON_PEER_UNREACHABLE,
                         MOONPOOL_REASON_LIMIT_REACHED,
                         MOONPOOL_REASON_DEADLINE,
                         MOONPOOL_REASON_CANCELLED_BY_CALLER,
                         MOONPOOL_REASON_SHUTTING_DOWN,
                         MOONPOOL_REASON_NOT_SAVED,
                         MOONPOOL_REASON_NOT_LEADER};
  const auto* const known = v1::ErrorReason_descriptor();
  ASSERT_EQ(std::size(reasons), static_cast<size_t>(known->value_count()));
  for (int i = 0; i < known->value_count(); ++i) {
    EXPECT_EQ(reasons[i], known->value(i)->number()) << known->value(i)->name();
    EXPECT_EQ(moonpool_reason_name(reasons[i]), i == 0 ? "" : known->value(i)->name());
  }
  for (int code = MOONPOOL_OK; code <= MOONPOOL_UNAUTHENTICATED; ++code) {
    EXPECT_EQ(moonpool_code_name(code),
              absl::StatusCodeToString(static_cast<absl::StatusCode>(code)));
  }
  for (const int nothing : {-1, 17, 1000}) {
    EXPECT_STREQ(moonpool_code_name(nothing), "");
    EXPECT_STREQ(moonpool_reason_name(nothing), "");
  }
  EXPECT_STREQ(moonpool_version(), kReleaseVersion);
}

}  // namespace
}  // namespace moonpool
