// The client as users link it, in front of a local pool.
#include "moonpool/client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <functional>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "client_sdk/src/testing/local_pool.h"
#include "common/clock.h"
#include "common/testing/status_matchers.h"
#include "common/testing/temp_dir.h"

namespace moonpool {
namespace {

using ::testing::HasSubstr;

class ClientTest : public ::testing::Test {
 protected:
  std::unique_ptr<Client> Connect(ClientOptions options = {}) {
    if (options.masters.empty()) options.masters = {master_.address()};
    if (!options.on_warning) options.on_warning = [](absl::string_view) {};
    absl::StatusOr<std::unique_ptr<Client>> client = Client::Connect(std::move(options));
    EXPECT_THAT(client, IsOk());
    return *std::move(client);
  }
  static ConstBuffer Bytes(const std::string& text) {
    return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
  }

  SteadyClock clock_;
  LocalNode node_{clock_};
  LocalMaster master_{node_};
};

TEST_F(ClientTest, PutsAndGetsOnEveryPath) {
  const std::string value(3 << 20, 'v');
  for (const Path path : {Path::kAuto, Path::kTcp, Path::kShm}) {
    const auto client = Connect({.path = path});
    const std::string key = absl::StrCat("k", static_cast<int>(path));
    EXPECT_THAT(client->Put(key, Bytes(value)), IsOk());
    EXPECT_THAT(client->Put({.key = key, .value = {Bytes(value)}}),
                StatusIs(absl::StatusCode::kAlreadyExists));
    std::string read(value.size() + 10, '?');
    const absl::StatusOr<size_t> got =
        client->Get(key, {reinterpret_cast<std::byte*>(read.data()), read.size()});
    ASSERT_THAT(got, IsOk());
    read.resize(*got);
    EXPECT_TRUE(read == value);
    ASSERT_OK_AND_ASSIGN(const std::string other, Connect({.path = path})->Get(key));
    EXPECT_TRUE(other == value);
    EXPECT_THAT(client->Put(key + "/text", "as text"), IsOk());
    EXPECT_EQ(*client->Get(key + "/text"), "as text");
  }
}

TEST_F(ClientTest, ViewsSharedMemory) {
  auto client = Connect();
  ASSERT_THAT(client->Put("k", Bytes("value")), IsOk());
  ASSERT_OK_AND_ASSIGN(View view, client->GetView("k"));
  client.reset();  // a view may outlive it
  ASSERT_EQ(view.pieces().size(), 1u);
  EXPECT_EQ(view.size_bytes(), 5u);
  EXPECT_EQ(std::memcmp(view.pieces()[0].data(), "value", 5), 0);
  EXPECT_TRUE(view.valid());
  node_.StopShm();
  EXPECT_FALSE(view.valid());
  EXPECT_THAT(Connect({.path = Path::kTcp})->GetView("k"),
              Fails(absl::StatusCode::kFailedPrecondition, ErrorReason::kPeerUnreachable));
}

TEST_F(ClientTest, FallsBackToTcpAndSaysSo) {
  node_.StopShm();
  std::string warning;
  const auto client =
      Connect({.on_warning = [&](absl::string_view line) { warning = std::string(line); }});
  EXPECT_THAT(client->Put("k", Bytes("value")), IsOk());
  EXPECT_THAT(client->Get("k"), IsOk());
  EXPECT_THAT(warning, HasSubstr("path to node failed node=n1 path=shm next=tcp"));
}

TEST_F(ClientTest, MapsNamedMemoryOfTrustedUsersOnly) {
  constexpr uid_t kStranger = 54321;
  const TempDir pool{kTmpfs};
  const std::string file = pool.path() + "/segment-0";
  LocalNode node(clock_, pool.path());
  LocalMaster master(node);
  std::string warning;
  const auto connect = [&](std::vector<uint32_t> trusted_uids) {
    warning.clear();
    return Connect({.masters = {master.address()},
                    .trusted_uids = std::move(trusted_uids),
                    .on_warning = [&](absl::string_view line) { warning = std::string(line); }});
  };
  ASSERT_THAT(connect({})->Put("k", Bytes("value")), IsOk());
  EXPECT_THAT(connect({})->GetView("k"), IsOk());
  EXPECT_EQ(warning, "");

  ASSERT_EQ(chmod(file.c_str(), 0620), 0);
  EXPECT_THAT(connect({})->Get("k"), IsOk());
  EXPECT_THAT(warning, HasSubstr("path to node failed node=n1 path=shm next=tcp"));
  EXPECT_THAT(warning, HasSubstr("could be cut short"));
  EXPECT_THAT(connect({})->Put("l", Bytes("value")), IsOk());
  EXPECT_THAT(warning, HasSubstr("path=shm next=tcp"));

  ASSERT_EQ(chmod(file.c_str(), 0600), 0);
  if (geteuid() != 0) GTEST_SKIP() << "only root gives files away: trusted_uids is not tested";
  ASSERT_EQ(chown(file.c_str(), kStranger, static_cast<gid_t>(-1)), 0);
  EXPECT_THAT(connect({kStranger + 1})->Get("k"), IsOk());
  EXPECT_THAT(warning, HasSubstr("user 54321"));
  EXPECT_THAT(connect({kStranger})->GetView("k"), IsOk());
  EXPECT_EQ(warning, "");
}

TEST_F(ClientTest, AnswersKeyByKey) {
  const auto client = Connect();
  ASSERT_THAT(client->Put("a", Bytes("1")), IsOk());
  const std::vector<std::string> keys = {"a", "b"};
  EXPECT_THAT(client->Exists(keys)[0], IsOk());
  EXPECT_THAT(client->Exists(keys)[1],
              Fails(absl::StatusCode::kNotFound, ErrorReason::kNeverStored));
  ASSERT_OK_AND_ASSIGN(const PrefixMatch match, client->MatchPrefix(keys));
  EXPECT_EQ(match.matched, 1u);
  const auto described = client->Describe(keys);
  ASSERT_THAT(described[0], IsOk());
  EXPECT_EQ(described[0]->size_bytes, 1u);
  EXPECT_EQ(described[0]->replicas, std::vector<std::vector<std::string>>{{"n1"}});
  EXPECT_THAT(described[1], StatusIs(absl::StatusCode::kNotFound));
  ASSERT_OK_AND_ASSIGN(const KeyPage page, client->ListKeys(""));
  EXPECT_EQ(page.keys, std::vector<std::string>{"a"});
  EXPECT_THAT(client->Remove(keys)[0], IsOk());
  EXPECT_THAT(client->Get("a"), Fails(absl::StatusCode::kNotFound, ErrorReason::kRemoved));
}

TEST_F(ClientTest, RefusesBadOptions) {
  for (const ClientOptions& options :
       {ClientOptions{}, ClientOptions{.masters = {"nowhere"}},
        ClientOptions{.masters = {"a:1"}, .timeout = absl::ZeroDuration()},
        ClientOptions{.masters = {"a:1"}, .async_threads = 0},
        ClientOptions{.masters = {"a:1"}, .name_space = "\xff\xfe"},
        ClientOptions{.masters = {"a:1"}, .name_space = ""},
        ClientOptions{.masters = {"a:1"}, .fingerprint = "llama\n"},
        ClientOptions{.masters = {"a:1"}, .fingerprint = "\xff"},
        ClientOptions{.masters = {"a:1"}, .fingerprint = std::string(248, 'f')},
        ClientOptions{.masters = {"a:1"}, .tcp_streams = 0},
        ClientOptions{.masters = {"a:1"}, .host_id = "\xff"}}) {
    EXPECT_THAT(Client::Connect(options),
                Fails(absl::StatusCode::kInvalidArgument, ErrorReason::kBadArgument));
  }
}

TEST_F(ClientTest, ConnectSaysWhatIsWrong) {
  const absl::Time begun = clock_.Now();
  const absl::Status dead =
      Client::Connect({.masters = {"127.0.0.1:1"}, .timeout = absl::Milliseconds(500)}).status();
  EXPECT_THAT(dead, StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_THAT(std::string(dead.message()), HasSubstr("127.0.0.1:1"));
  EXPECT_LE(clock_.Now() - begun, absl::Seconds(1));

  EXPECT_THAT(Client::Connect({.masters = {master_.address()}, .name_space = "unknown"}),
              Fails(absl::StatusCode::kNotFound, ErrorReason::kNamespaceUnknown));
  master_.fake().version_major = 7;
  EXPECT_THAT(Client::Connect({.masters = {master_.address()}}),
              Fails(absl::StatusCode::kFailedPrecondition, ErrorReason::kPeerVersion));
}

TEST_F(ClientTest, AsyncCallsRunOnItsThreads) {
  const auto client = Connect();
  const std::string value = "value";
  absl::Notification put_done, get_done, view_done, match_done, exists_done, remove_done;
  client->PutManyAsync({{.key = "k", .value = {Bytes(value)}}}, {},
                       [&](std::vector<absl::Status> results) {
                         EXPECT_THAT(results[0], IsOk());
                         put_done.Notify();
                       });
  put_done.WaitForNotification();
  std::string read(5, '?');
  client->GetManyAsync(
      {{.key = "k", .into = {{reinterpret_cast<std::byte*>(read.data()), read.size()}}}}, {},
      [&](std::vector<absl::StatusOr<size_t>> results) {
        EXPECT_THAT(results[0], IsOk());
        get_done.Notify();
      });
  get_done.WaitForNotification();
  EXPECT_EQ(read, value);
  client->GetViewAsync("k", {}, [&](absl::StatusOr<View> view) {
    EXPECT_THAT(view, IsOk());
    view_done.Notify();
  });
  client->MatchPrefixAsync({"k"}, {}, [&](absl::StatusOr<PrefixMatch> match) {
    EXPECT_EQ(match->matched, 1u);
    match_done.Notify();
  });
  client->ExistsAsync({"k"}, {}, [&](std::vector<absl::Status> results) {
    EXPECT_THAT(results[0], IsOk());
    exists_done.Notify();
  });
  for (absl::Notification* done : {&view_done, &match_done, &exists_done}) {
    done->WaitForNotification();
  }
  client->RemoveAsync({"k"}, {}, [&](std::vector<absl::Status> results) {
    EXPECT_THAT(results[0], IsOk());
    remove_done.Notify();
  });
  remove_done.WaitForNotification();
}

TEST_F(ClientTest, AsyncCallsAreBoundedAndEndWithTheClient) {
  absl::Notification is_running, go;
  master_.fake().on_call = [&](absl::string_view method) {
    if (method != "Exists" || is_running.HasBeenNotified()) return;
    is_running.Notify();
    go.WaitForNotification();
  };
  auto client = Connect({.async_threads = 1, .async_queue = 2});
  std::vector<absl::Status> outcomes(4, absl::UnknownError("not done"));
  for (size_t i = 0; i < outcomes.size(); ++i) {
    client->ExistsAsync(
        {"k"}, {}, [&outcomes, i](std::vector<absl::Status> results) { outcomes[i] = results[0]; });
    if (i == 0) is_running.WaitForNotification();
  }
  EXPECT_THAT(outcomes[3], Fails(absl::StatusCode::kResourceExhausted, ErrorReason::kLimitReached));
  std::thread destroyer([&] { client.reset(); });
  go.Notify();
  destroyer.join();
  EXPECT_THAT(outcomes[0], StatusIs(absl::StatusCode::kNotFound));
  // What waited ran, or was told that the client goes: whichever came first.
  for (const absl::Status& waited : {outcomes[1], outcomes[2]}) {
    EXPECT_TRUE(absl::IsNotFound(waited) || absl::IsCancelled(waited)) << Describe(waited);
  }
}

}  // namespace
}  // namespace moonpool
