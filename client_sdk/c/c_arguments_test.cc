// Whatever is passed in: an answer, and never a crash.
#include <cstdint>
#include <string>
#include <vector>

#include "client_sdk/c/c_fixture.h"

namespace moonpool {
namespace {

using ::testing::HasSubstr;

class CArgumentsTest : public CFixture {
 protected:
  CArgumentsTest() { Connect(); }

  // That `code` is of wrong usage, and that the message says what was wrong.
  static void ExpectWrongUse(int code, const std::string& named) {
    EXPECT_EQ(code, MOONPOOL_INVALID_ARGUMENT) << named;
    EXPECT_EQ(LastReason(), MOONPOOL_REASON_BAD_ARGUMENT) << named;
    EXPECT_THAT(moonpool_last_error(), HasSubstr(named));
  }

  const moonpool_bytes key_ = moonpool_text("k");
  char byte_ = 0;
  size_t bytes_ = 0;
  moonpool_result result_ = {};
};

constexpr moonpool_bytes kNoBytes = {nullptr, 0};
constexpr moonpool_bytes kNothingThere = {nullptr, 1};

TEST_F(CArgumentsTest, WithoutAClientNothingIsDone) {
  void* value = nullptr;
  moonpool_view* view = nullptr;
  auto stats = Sized<moonpool_stats>();
  auto match = Sized<moonpool_prefix_match>();
  const moonpool_put_item put = {.key = key_, .pieces = nullptr, .piece_count = 0, .parent = {}};
  const moonpool_get_item get = {.key = key_, .into = nullptr, .into_count = 0};
  ExpectWrongUse(moonpool_put(nullptr, key_, key_, nullptr), "client");
  ExpectWrongUse(moonpool_put_many(nullptr, &put, 1, nullptr, &result_, nullptr), "client");
  EXPECT_EQ(result_.code, MOONPOOL_INVALID_ARGUMENT);
  ExpectWrongUse(moonpool_get(nullptr, key_, &byte_, 1, nullptr, &bytes_), "client");
  ExpectWrongUse(moonpool_get_many(nullptr, &get, 1, nullptr, &result_, nullptr), "client");
  ExpectWrongUse(moonpool_get_allocated(nullptr, key_, nullptr, &value, &bytes_), "client");
  ExpectWrongUse(moonpool_get_view(nullptr, key_, nullptr, &view), "client");
  ExpectWrongUse(moonpool_exists(nullptr, &key_, 1, nullptr, &result_, nullptr), "client");
  ExpectWrongUse(moonpool_remove(nullptr, &key_, 1, nullptr, &result_, nullptr), "client");
  ExpectWrongUse(moonpool_match_prefix(nullptr, &key_, 1, nullptr, &match, nullptr, nullptr),
                 "client");
  ExpectWrongUse(moonpool_describe(nullptr, &key_, 1, nullptr, &result_, nullptr), "client");
  moonpool_keys* keys = nullptr;
  ExpectWrongUse(moonpool_list_keys(nullptr, key_, nullptr, &keys), "client");
  ExpectWrongUse(moonpool_get_stats(nullptr, &stats), "client");
}

TEST_F(CArgumentsTest, WithoutAPlaceForTheOutcomeNothingIsDone) {
  void* value = nullptr;
  moonpool_client* other = nullptr;
  const moonpool_put_item put = {.key = key_, .pieces = nullptr, .piece_count = 0, .parent = {}};
  const moonpool_get_item get = {.key = key_, .into = nullptr, .into_count = 0};
  ExpectWrongUse(moonpool_connect(&options_, nullptr), "client");
  ExpectWrongUse(moonpool_connect(nullptr, &other), "options");
  ExpectWrongUse(moonpool_put_many(client_, &put, 1, nullptr, nullptr, nullptr), "results");
  ExpectWrongUse(moonpool_get_many(client_, &get, 1, nullptr, nullptr, nullptr), "results");
  ExpectWrongUse(moonpool_exists(client_, &key_, 1, nullptr, nullptr, nullptr), "results");
  ExpectWrongUse(moonpool_remove(client_, &key_, 1, nullptr, nullptr, nullptr), "results");
  ExpectWrongUse(moonpool_get_allocated(client_, key_, nullptr, nullptr, &bytes_), "value");
  ExpectWrongUse(moonpool_get_allocated(client_, key_, nullptr, &value, nullptr), "bytes");
  ExpectWrongUse(moonpool_get_view(client_, key_, nullptr, nullptr), "view");
  ExpectWrongUse(moonpool_match_prefix(client_, &key_, 1, nullptr, nullptr, nullptr, nullptr),
                 "moonpool_prefix_match");
  ExpectWrongUse(moonpool_list_keys(client_, key_, nullptr, nullptr), "keys");
  ExpectWrongUse(moonpool_get_stats(client_, nullptr), "moonpool_stats");
  ExpectWrongUse(moonpool_cancel_create(nullptr), "cancel");
  ExpectWrongUse(moonpool_cancel_calls(nullptr), "cancel");
}

TEST_F(CArgumentsTest, ToEndOrToReadNullDoesNothing) {
  moonpool_close(nullptr);
  moonpool_view_release(nullptr);
  moonpool_cancel_destroy(nullptr);
  moonpool_errors_destroy(nullptr);
  moonpool_free(nullptr);
  moonpool_keys_destroy(nullptr);
  EXPECT_EQ(moonpool_keys_count(nullptr), 0u);
  EXPECT_EQ(moonpool_keys_at(nullptr, 0).data, nullptr);
  EXPECT_EQ(moonpool_keys_next(nullptr).data, nullptr);
  EXPECT_EQ(moonpool_view_piece_count(nullptr), 0u);
  EXPECT_EQ(moonpool_view_piece(nullptr, 0).data, nullptr);
  EXPECT_EQ(moonpool_view_size(nullptr), 0u);
  EXPECT_EQ(moonpool_view_valid(nullptr), 0);
  EXPECT_EQ(moonpool_errors_at(nullptr, 0), nullptr);
  EXPECT_EQ(moonpool_error_code(nullptr), MOONPOOL_OK);
  EXPECT_EQ(moonpool_error_reason(nullptr), MOONPOOL_REASON_UNSPECIFIED);
  EXPECT_STREQ(moonpool_error_text(nullptr), "");
  EXPECT_STREQ(moonpool_error_message(nullptr), "");
  EXPECT_STREQ(moonpool_error_hint(nullptr), "");
  EXPECT_STREQ(moonpool_error_node(nullptr), "");
  EXPECT_EQ(moonpool_error_key(nullptr).size, 0u);
  EXPECT_EQ(moonpool_error_retry_after_ms(nullptr), 0u);
  EXPECT_EQ(moonpool_text(nullptr).size, 0u);
}

TEST_F(CArgumentsTest, BytesThatCannotBeThereAreRefused) {
  for (const moonpool_bytes& bytes :
       {kNothingThere, moonpool_bytes{"k", SIZE_MAX}, moonpool_bytes{"k", PTRDIFF_MAX},
        moonpool_bytes{"k", size_t{1} << 63}}) {
    ExpectWrongUse(moonpool_put(client_, bytes, key_, nullptr), "key");
    ExpectWrongUse(moonpool_get(client_, bytes, &byte_, 1, nullptr, nullptr), "key");
    ExpectWrongUse(moonpool_exists(client_, &bytes, 1, nullptr, &result_, nullptr), "keys[0]");
    const moonpool_put_item child = {
        .key = key_, .pieces = nullptr, .piece_count = 0, .parent = bytes};
    ExpectWrongUse(moonpool_put_many(client_, &child, 1, nullptr, &result_, nullptr),
                   "items[0].parent");
  }
  ExpectWrongUse(moonpool_put(client_, key_, kNothingThere, nullptr), "value");
  ExpectWrongUse(moonpool_put(client_, key_, {"v", SIZE_MAX}, nullptr), "value");
  ExpectWrongUse(moonpool_get(client_, key_, nullptr, 1, nullptr, nullptr), "into");
  ExpectWrongUse(moonpool_get(client_, key_, &byte_, SIZE_MAX, nullptr, nullptr), "into");
}

TEST_F(CArgumentsTest, KeysThatAreNoneAreTheirItemsFault) {
  const std::string longest(1025, 'k');
  const moonpool_bytes keys[] = {key_, kNoBytes, BytesOf(longest)};
  moonpool_result results[3];
  ASSERT_EQ(moonpool_exists(client_, keys, 3, nullptr, results, nullptr), MOONPOOL_OK);
  EXPECT_EQ(results[0].code, MOONPOOL_NOT_FOUND);
  EXPECT_EQ(results[1].reason, MOONPOOL_REASON_KEY_EMPTY);
  EXPECT_EQ(results[2].reason, MOONPOOL_REASON_KEY_TOO_LONG);
}

TEST_F(CArgumentsTest, CountsThatCannotBeAreRefused) {
  for (const size_t count : {size_t{MOONPOOL_BATCH_MAX} + 1, SIZE_MAX}) {
    auto match = Sized<moonpool_prefix_match>();
    EXPECT_EQ(moonpool_exists(client_, &key_, count, nullptr, &result_, nullptr),
              MOONPOOL_INVALID_ARGUMENT);
    EXPECT_EQ(LastReason(), MOONPOOL_REASON_BATCH_TOO_LARGE);
    EXPECT_EQ(moonpool_match_prefix(client_, &key_, count, nullptr, &match, nullptr, nullptr),
              MOONPOOL_INVALID_ARGUMENT);
  }
  EXPECT_EQ(result_.code, MOONPOOL_OK);  // nobody knows how much room there is
  ExpectWrongUse(moonpool_exists(client_, nullptr, 1, nullptr, &result_, nullptr), "keys");
  ExpectWrongUse(moonpool_put_many(client_, nullptr, 1, nullptr, &result_, nullptr), "items");
  ExpectWrongUse(moonpool_get_many(client_, nullptr, 1, nullptr, &result_, nullptr), "items");

  moonpool_put_item put = {.key = key_, .pieces = nullptr, .piece_count = 1, .parent = {}};
  ExpectWrongUse(moonpool_put_many(client_, &put, 1, nullptr, &result_, nullptr),
                 "items[0].pieces");
  put.pieces = &key_;
  put.piece_count = SIZE_MAX;
  ExpectWrongUse(moonpool_put_many(client_, &put, 1, nullptr, &result_, nullptr),
                 "items[0].pieces");
  moonpool_get_item get = {.key = key_, .into = nullptr, .into_count = SIZE_MAX};
  ExpectWrongUse(moonpool_get_many(client_, &get, 1, nullptr, &result_, nullptr), "items[0].into");
}

TEST_F(CArgumentsTest, SizesThatOverflowTogetherAreRefused) {
  const size_t half = size_t{PTRDIFF_MAX} / 2 + 1;
  const moonpool_bytes pieces[] = {{"p", half}, {"p", half}};
  const moonpool_buffer into[] = {{&byte_, half}, {&byte_, half}};
  const moonpool_put_item put = {.key = key_, .pieces = pieces, .piece_count = 2, .parent = {}};
  const moonpool_get_item get = {.key = key_, .into = into, .into_count = 2};
  ExpectWrongUse(moonpool_put_many(client_, &put, 1, nullptr, &result_, nullptr), "add up");
  ExpectWrongUse(moonpool_get_many(client_, &get, 1, nullptr, &result_, nullptr), "add up");
}

TEST_F(CArgumentsTest, ABatchThatIsRefusedSaysSoInEachResult) {
  std::vector<moonpool_bytes> keys(3, key_);
  keys[2] = kNothingThere;
  std::vector<moonpool_result> results(3);
  auto* errors = reinterpret_cast<moonpool_errors*>(1);
  ExpectWrongUse(moonpool_remove(client_, keys.data(), 3, nullptr, results.data(), &errors),
                 "keys[2]");
  EXPECT_EQ(errors, nullptr);
  for (const moonpool_result& result : results) {
    EXPECT_EQ(result.code, MOONPOOL_INVALID_ARGUMENT);
    EXPECT_EQ(result.reason, MOONPOOL_REASON_BAD_ARGUMENT);
  }
}

}  // namespace
}  // namespace moonpool
