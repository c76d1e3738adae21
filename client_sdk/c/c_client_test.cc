// What a client in C can do, in front of a local pool.
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"
#include "client_sdk/c/c_fixture.h"

namespace moonpool {
namespace {

using ::testing::Each;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class CClientTest : public CFixture {
 protected:
  // The master's threads are in it until they have gone, which may be after the test.
  struct HeldCalls {
    absl::Notification first_has_come, go;
    std::once_flag once;
  };

  CClientTest() { Connect(); }

  // From now on the master answers nothing until it may go.
  std::shared_ptr<HeldCalls> HoldCalls() {
    auto held = std::make_shared<HeldCalls>();
    master_.fake().on_call = [held](absl::string_view) {
      std::call_once(held->once, [&] { held->first_has_come.Notify(); });
      held->go.WaitForNotification();
    };
    return held;
  }
};

TEST_F(CClientTest, PutsAndGets) {
  const std::string value(3 << 20, 'v');
  Put("k", value);
  EXPECT_EQ(moonpool_put(client_, moonpool_text("k"), moonpool_text("other"), nullptr),
            MOONPOOL_ALREADY_EXISTS);
  std::string read(value.size() + 10, '?');
  size_t bytes = 0;
  ASSERT_EQ(moonpool_get(client_, moonpool_text("k"), read.data(), read.size(), nullptr, &bytes),
            MOONPOOL_OK);
  read.resize(bytes);
  EXPECT_TRUE(read == value);
  EXPECT_EQ(moonpool_get(client_, moonpool_text("k"), read.data(), 10, nullptr, &bytes),
            MOONPOOL_INVALID_ARGUMENT);
  EXPECT_EQ(LastReason(), MOONPOOL_REASON_BUFFER_TOO_SHORT);
  EXPECT_EQ(bytes, 0u);
}

TEST_F(CClientTest, GetsIntoMemoryThatItAllocates) {
  Put("k", "value");
  Put("empty", "");
  void* value = nullptr;
  size_t bytes = 0;
  ASSERT_EQ(moonpool_get_allocated(client_, moonpool_text("k"), nullptr, &value, &bytes),
            MOONPOOL_OK);
  EXPECT_EQ(std::string(static_cast<char*>(value), bytes), "value");
  moonpool_free(value);
  ASSERT_EQ(moonpool_get_allocated(client_, moonpool_text("empty"), nullptr, &value, &bytes),
            MOONPOOL_OK);
  EXPECT_NE(value, nullptr);
  EXPECT_EQ(bytes, 0u);
  moonpool_free(value);
  ASSERT_EQ(moonpool_get_allocated(client_, moonpool_text("none"), nullptr, &value, &bytes),
            MOONPOOL_NOT_FOUND);
  EXPECT_EQ(value, nullptr);
}

TEST_F(CClientTest, TakesKeysOfAnyBytes) {
  const std::string key("a\0b\xff", 4);
  Put(key, "value");
  char read[5];
  EXPECT_EQ(moonpool_get(client_, BytesOf(key), read, sizeof(read), nullptr, nullptr), MOONPOOL_OK);
  EXPECT_EQ(moonpool_get(client_, moonpool_text("a"), read, sizeof(read), nullptr, nullptr),
            MOONPOOL_NOT_FOUND);
}

TEST_F(CClientTest, PutsAndGetsBatches) {
  const moonpool_bytes pieces[] = {moonpool_text("va"), moonpool_text(""), moonpool_text("lue")};
  const moonpool_put_item items[] = {
      {.key = moonpool_text("a"), .pieces = pieces, .piece_count = 3, .parent = {}},
      {.key = moonpool_text("b"), .pieces = pieces, .piece_count = 1, .parent = moonpool_text("a")},
      {.key = moonpool_text("a"), .pieces = pieces, .piece_count = 1, .parent = {}},
      {.key = moonpool_text("empty"), .pieces = nullptr, .piece_count = 0, .parent = {}}};
  moonpool_result results[4];
  moonpool_errors* errors = nullptr;
  ASSERT_EQ(moonpool_put_many(client_, items, 4, nullptr, results, &errors), MOONPOOL_OK);
  EXPECT_EQ(results[0].code, MOONPOOL_OK);
  EXPECT_EQ(results[1].code, MOONPOOL_OK);
  EXPECT_EQ(results[2].code, MOONPOOL_INVALID_ARGUMENT);
  EXPECT_EQ(results[2].reason, MOONPOOL_REASON_DUPLICATE_KEY);
  EXPECT_EQ(results[3].code, MOONPOOL_OK);
  EXPECT_EQ(moonpool_errors_at(errors, 1), nullptr);
  EXPECT_THAT(moonpool_error_text(moonpool_errors_at(errors, 2)), HasSubstr("stands twice"));
  moonpool_errors_destroy(errors);

  char head[3], tail[4], other[8];
  const moonpool_buffer into[] = {{head, sizeof(head)}, {tail, sizeof(tail)}};
  const moonpool_buffer into_other[] = {{other, sizeof(other)}};
  const moonpool_get_item wanted[] = {
      {.key = moonpool_text("a"), .into = into, .into_count = 2},
      {.key = moonpool_text("none"), .into = into_other, .into_count = 1},
      {.key = moonpool_text("b"), .into = into_other, .into_count = 1},
      {.key = moonpool_text("empty"), .into = nullptr, .into_count = 0}};
  ASSERT_EQ(moonpool_get_many(client_, wanted, 4, nullptr, results, &errors), MOONPOOL_OK);
  EXPECT_EQ(results[0].bytes, 5u);
  EXPECT_EQ(std::string(head, 3) + std::string(tail, 2), "value");
  EXPECT_EQ(results[1].code, MOONPOOL_NOT_FOUND);
  EXPECT_EQ(results[1].reason, MOONPOOL_REASON_NEVER_STORED);
  EXPECT_EQ(results[1].bytes, 0u);
  EXPECT_EQ(results[2].bytes, 2u);
  EXPECT_EQ(results[3].code, MOONPOOL_OK);
  const moonpool_error* const miss = moonpool_errors_at(errors, 1);
  EXPECT_THAT(moonpool_error_text(miss), StartsWith("NOT_FOUND (NEVER_STORED): "));
  EXPECT_EQ(std::string(static_cast<const char*>(moonpool_error_key(miss).data),
                        moonpool_error_key(miss).size),
            "none");
  moonpool_errors_destroy(errors);
}

TEST_F(CClientTest, BatchesThatSucceedMakeNoErrors) {
  Put("k", "value");
  const moonpool_bytes key = moonpool_text("k");
  moonpool_result result;
  auto* errors = reinterpret_cast<moonpool_errors*>(1);
  ASSERT_EQ(moonpool_exists(client_, &key, 1, nullptr, &result, &errors), MOONPOOL_OK);
  EXPECT_EQ(errors, nullptr);
  EXPECT_EQ(moonpool_exists(client_, nullptr, 0, nullptr, nullptr, nullptr), MOONPOOL_OK);
  EXPECT_EQ(moonpool_put_many(client_, nullptr, 0, nullptr, nullptr, nullptr), MOONPOOL_OK);
}

TEST_F(CClientTest, ViewsOutliveTheClient) {
  Put("k", "value");
  moonpool_view* view = nullptr;
  ASSERT_EQ(moonpool_get_view(client_, moonpool_text("k"), nullptr, &view), MOONPOOL_OK);
  moonpool_close(client_);
  client_ = nullptr;
  ASSERT_EQ(moonpool_view_piece_count(view), 1u);
  EXPECT_EQ(moonpool_view_size(view), 5u);
  EXPECT_EQ(std::memcmp(moonpool_view_piece(view, 0).data, "value", 5), 0);
  EXPECT_EQ(moonpool_view_piece(view, 1).size, 0u);
  EXPECT_EQ(moonpool_view_valid(view), 1);
  node_.StopShm();
  EXPECT_EQ(moonpool_view_valid(view), 0);
  moonpool_view_release(view);

  options_.path = MOONPOOL_PATH_TCP;
  Connect();
  EXPECT_EQ(moonpool_get_view(client_, moonpool_text("k"), nullptr, &view),
            MOONPOOL_FAILED_PRECONDITION);
  EXPECT_EQ(LastReason(), MOONPOOL_REASON_PEER_UNREACHABLE);
  EXPECT_EQ(view, nullptr);
}

TEST_F(CClientTest, AnswersKeyByKey) {
  Put("a", "1");
  Put("b", "22");
  const moonpool_bytes keys[] = {moonpool_text("a"), moonpool_text("b"), moonpool_text("c")};
  const moonpool_match_options hold = {
      .struct_size = sizeof(hold), .timeout_ms = 0, .cancel = nullptr, .hold_ms = 1000};
  auto match = Sized<moonpool_prefix_match>();
  uint64_t sizes[] = {9, 9, 9};
  moonpool_errors* errors = nullptr;
  ASSERT_EQ(moonpool_match_prefix(client_, keys, 3, &hold, &match, sizes, &errors), MOONPOOL_OK);
  EXPECT_EQ(match.matched, 2u);
  EXPECT_THAT(sizes, ::testing::ElementsAre(1u, 2u, 0u));
  EXPECT_GT(match.held_ms, 0u);
  EXPECT_EQ(match.miss_code, MOONPOOL_NOT_FOUND);
  EXPECT_EQ(match.miss_reason, MOONPOOL_REASON_NEVER_STORED);
  EXPECT_THAT(moonpool_error_text(moonpool_errors_at(errors, 2)), HasSubstr("NEVER_STORED"));
  moonpool_errors_destroy(errors);
  ASSERT_EQ(moonpool_match_prefix(client_, keys, 2, nullptr, &match, nullptr, nullptr),
            MOONPOOL_OK);
  EXPECT_EQ(match.miss_code, MOONPOOL_OK);

  moonpool_result results[3];
  ASSERT_EQ(moonpool_describe(client_, keys, 3, nullptr, results, nullptr), MOONPOOL_OK);
  EXPECT_EQ(results[1].bytes, 2u);
  EXPECT_EQ(results[2].code, MOONPOOL_NOT_FOUND);
  ASSERT_EQ(moonpool_remove(client_, keys, 3, nullptr, results, nullptr), MOONPOOL_OK);
  EXPECT_EQ(results[0].code, MOONPOOL_OK);
  EXPECT_EQ(results[2].code, MOONPOOL_NOT_FOUND);
  ASSERT_EQ(moonpool_exists(client_, keys, 3, nullptr, results, nullptr), MOONPOOL_OK);
  EXPECT_THAT(results, Each(Field(&moonpool_result::code, MOONPOOL_NOT_FOUND)));
  EXPECT_EQ(results[0].reason, MOONPOOL_REASON_REMOVED);
}

TEST_F(CClientTest, ListsKeys) {
  Put("a/1", "x");
  Put("b/1", "x");
  moonpool_keys* keys = nullptr;
  ASSERT_EQ(moonpool_list_keys(client_, moonpool_text("a/"), nullptr, &keys), MOONPOOL_OK);
  ASSERT_EQ(moonpool_keys_count(keys), 1u);
  const moonpool_bytes key = moonpool_keys_at(keys, 0);
  EXPECT_EQ(std::string(static_cast<const char*>(key.data), key.size), "a/1");
  EXPECT_EQ(moonpool_keys_at(keys, 1).size, 0u);
  EXPECT_EQ(moonpool_keys_next(keys).size, 0u);
  moonpool_keys_destroy(keys);
}

TEST_F(CClientTest, CallsEndWhenTheyAreCancelled) {
  const std::shared_ptr<HeldCalls> held = HoldCalls();
  moonpool_cancel* cancel = nullptr;
  ASSERT_EQ(moonpool_cancel_create(&cancel), MOONPOOL_OK);
  const moonpool_call_options options = {
      .struct_size = sizeof(options), .timeout_ms = 0, .cancel = cancel};
  const moonpool_bytes key = moonpool_text("k");
  moonpool_result result = {};
  std::thread caller(
      [&] { EXPECT_EQ(moonpool_exists(client_, &key, 1, &options, &result, nullptr), 0); });
  held->first_has_come.WaitForNotification();
  EXPECT_EQ(moonpool_cancel_calls(cancel), MOONPOOL_OK);
  moonpool_cancel_destroy(cancel);  // the call may still run
  caller.join();
  EXPECT_EQ(result.code, MOONPOOL_CANCELLED);
  EXPECT_EQ(result.reason, MOONPOOL_REASON_CANCELLED_BY_CALLER);
  held->go.Notify();
}

TEST_F(CClientTest, CallsEndByTheirOwnTimeout) {
  const std::shared_ptr<HeldCalls> held = HoldCalls();
  const moonpool_get_options options = {.struct_size = sizeof(options),
                                        .timeout_ms = 50,
                                        .cancel = nullptr,
                                        .no_verify = 0,
                                        .reserved = 0};
  char byte;
  EXPECT_EQ(moonpool_get(client_, moonpool_text("k"), &byte, 1, &options, nullptr),
            MOONPOOL_DEADLINE_EXCEEDED);
  held->go.Notify();
}

TEST_F(CClientTest, WarnsThroughTheCallersFunction) {
  node_.StopShm();
  Put("k", "value");
  EXPECT_THAT(warnings_, HasSubstr("path to node failed node=n1 path=shm next=tcp"));
}

TEST_F(CClientTest, Counts) {
  Put("k", "value");
  char read[5];
  EXPECT_EQ(moonpool_get(client_, moonpool_text("k"), read, 5, nullptr, nullptr), MOONPOOL_OK);
  EXPECT_EQ(moonpool_get(client_, moonpool_text("l"), read, 5, nullptr, nullptr),
            MOONPOOL_NOT_FOUND);
  auto stats = Sized<moonpool_stats>();
  ASSERT_EQ(moonpool_get_stats(client_, &stats), MOONPOOL_OK);
  EXPECT_EQ(stats.puts, 1u);
  EXPECT_EQ(stats.put_bytes, 5u);
  EXPECT_EQ(stats.gets, 2u);
  EXPECT_EQ(stats.hits, 1u);
  EXPECT_EQ(stats.misses, 1u);
  EXPECT_EQ(stats.get_bytes, 5u);
  EXPECT_GT(stats.master_calls, 0u);
}

TEST_F(CClientTest, TheLastErrorIsThatOfTheThread) {
  EXPECT_NE(moonpool_get(client_, moonpool_text("k"), nullptr, 0, nullptr, nullptr), MOONPOOL_OK);
  std::thread([&] {
    EXPECT_STREQ(moonpool_last_error(), "");
    EXPECT_EQ(moonpool_error_code(moonpool_last_error_detail()), MOONPOOL_OK);
    EXPECT_NE(moonpool_get(nullptr, {}, nullptr, 0, nullptr, nullptr), MOONPOOL_OK);
    EXPECT_STREQ(moonpool_last_error(),
                 "INVALID_ARGUMENT (BAD_ARGUMENT): client is NULL; see moonpool/c.h");
  }).join();
  Put("l", "value");  // a call that succeeds leaves it alone
  const moonpool_error* const error = moonpool_last_error_detail();
  EXPECT_STREQ(moonpool_last_error(), moonpool_error_text(error));
  EXPECT_EQ(moonpool_error_code(error), MOONPOOL_NOT_FOUND);
  EXPECT_EQ(moonpool_error_reason(error), MOONPOOL_REASON_NEVER_STORED);
  EXPECT_EQ(moonpool_error_key(error).size, 1u);
  EXPECT_THAT(moonpool_error_message(error), HasSubstr("key \"k\""));
  EXPECT_STREQ(moonpool_error_node(error), "");
  EXPECT_EQ(moonpool_error_retry_after_ms(error), 0u);
}

TEST_F(CClientTest, ConnectSaysWhatIsWrong) {
  moonpool_client* client = nullptr;
  options_.masters = "127.0.0.1:1,127.0.0.1:2";
  options_.timeout_ms = 500;
  EXPECT_EQ(moonpool_connect(&options_, &client), MOONPOOL_UNAVAILABLE);
  EXPECT_THAT(moonpool_last_error(), HasSubstr("127.0.0.1:"));
  options_.masters = master_.address().c_str();
  options_.name_space = "unknown";
  EXPECT_EQ(moonpool_connect(&options_, &client), MOONPOOL_NOT_FOUND);
  EXPECT_EQ(LastReason(), MOONPOOL_REASON_NAMESPACE_UNKNOWN);
  for (const char* masters : {"", "nowhere", "a:1,", "a:1,,b:2"}) {
    options_.masters = masters;
    EXPECT_EQ(moonpool_connect(&options_, &client), MOONPOOL_INVALID_ARGUMENT) << masters;
    EXPECT_EQ(LastReason(), MOONPOOL_REASON_BAD_ARGUMENT) << masters;
  }
  EXPECT_EQ(client, nullptr);
}

}  // namespace
}  // namespace moonpool
