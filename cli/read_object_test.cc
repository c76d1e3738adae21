#include "cli/read_object.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "common/testing/status_matchers.h"

namespace moonpool::cli {
namespace {

// One key, whose value is another one each time somebody has asked how large it is.
class FakeClient {
 public:
  explicit FakeClient(std::vector<std::string> values) : values_(std::move(values)) {}

  absl::StatusOr<PrefixMatch> MatchPrefix(absl::Span<const std::string> keys, const MatchOptions&) {
    if (keys[0] != "k") {
      return PrefixMatch{.miss = MakeError(absl::StatusCode::kNotFound, ErrorReason::kEvicted, "")};
    }
    return PrefixMatch{.matched = 1, .sizes = {value().size()}};
  }
  std::vector<absl::StatusOr<size_t>> GetMany(absl::Span<const GetItem> items, const GetOptions&) {
    if (asked_ + 1 < values_.size()) ++asked_;
    const MutableBuffer into = items[0].into[0];
    if (into.size() < value().size()) {
      return {
          MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kBufferTooShort, "too short")};
    }
    std::copy_n(reinterpret_cast<const std::byte*>(value().data()), value().size(), into.begin());
    return {value().size()};
  }

 private:
  const std::string& value() const { return values_[asked_]; }

  const std::vector<std::string> values_;
  size_t asked_ = 0;
};

// The value, or what went wrong.
std::string Read(std::vector<std::string> values) {
  FakeClient client(std::move(values));
  const absl::StatusOr<ObjectBytes> object = ReadObject(client, "k");
  if (!object.ok()) return Describe(object.status());
  return std::string(reinterpret_cast<const char*>(object->bytes.get()), object->size);
}

TEST(ReadObject, GivesTheBytesOfOneValue) {
  EXPECT_EQ(Read({"value"}), "value");
  EXPECT_EQ(Read({""}), "");
}

TEST(ReadObject, FollowsAnObjectThatIsReplaced) {
  EXPECT_EQ(Read({"small", "a larger one"}), "a larger one");
  EXPECT_EQ(Read({"a larger one", "small"}), "small");
}

TEST(ReadObject, GivesUpWhenItGrowsAllTheTime) {
  EXPECT_EQ(Read({"", "1", "12", "123", "1234", "12345"}),
            "INVALID_ARGUMENT (BUFFER_TOO_SHORT): too short");
}

TEST(ReadObject, AMissSaysWhy) {
  FakeClient client({"value"});
  EXPECT_THAT(ReadObject(client, "other"),
              Fails(absl::StatusCode::kNotFound, ErrorReason::kEvicted));
}

}  // namespace
}  // namespace moonpool::cli
