#include "transport/tcp/resolve.h"

#include <gtest/gtest.h>

#include "common/testing/status_matchers.h"

namespace moonpool::transport {
namespace {

struct ResolveTest : testing::Test {
  absl::StatusOr<SocketAddress> Look(absl::string_view address) {
    return Resolve(address, {.deadline = clock.Now() + absl::Seconds(10), .cancel = {}}, clock);
  }
  SteadyClock clock;
};

TEST_F(ResolveTest, NumericAddressesNeedNoLookUp) {
  for (const char* text : {"10.0.0.7:80", "[::1]:7420", "127.0.0.1:0"}) {
    ASSERT_OK_AND_ASSIGN(const SocketAddress address,
                         Resolve(text, {.deadline = absl::InfinitePast(), .cancel = {}}, clock));
    EXPECT_EQ(address.ToString(), text);
  }
}

TEST_F(ResolveTest, LoopbackIsKnownInEveryForm) {
  for (const char* text : {"127.0.0.1:1", "127.9.9.9:1", "[::1]:1", "[::ffff:127.0.0.1]:1"}) {
    EXPECT_TRUE(ParseNumericAddress(text)->is_loopback()) << text;
  }
  for (const char* text : {"10.0.0.1:1", "[::]:1", "[::ffff:10.0.0.1]:1"}) {
    EXPECT_FALSE(ParseNumericAddress(text)->is_loopback()) << text;
  }
}

TEST_F(ResolveTest, NamesAreLookedUp) {
  ASSERT_OK_AND_ASSIGN(const SocketAddress address, Look("localhost:80"));
  EXPECT_TRUE(address.is_loopback());
}

TEST_F(ResolveTest, NonsenseIsAnError) {
  for (const char* text : {"", "nonsense", ":80", "10.0.0.1:99999", "10.0.0.1:http:80"}) {
    EXPECT_FALSE(Look(text).ok()) << text;
  }
}

TEST_F(ResolveTest, EndsWithItsContext) {
  CancelSource source;
  source.Cancel();
  const CallContext context{.deadline = clock.Now() + absl::Seconds(10), .cancel = source.token()};
  const auto result = Resolve("localhost:80", context, clock);
  EXPECT_TRUE(result.ok() || absl::IsCancelled(result.status()));
}

}  // namespace
}  // namespace moonpool::transport
