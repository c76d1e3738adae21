#include "master/meta/records.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace moonpool::master {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr absl::string_view kAnyBytes("a/\0\xff", 4);

MetaRecord RecordOf(const DurableChange& change) {
  const MetaChange encoded = EncodeChange(change);
  return {encoded.key, encoded.value.value_or("deleted")};
}

TEST(Records, WhatIsWrittenIsReadBack) {
  const DurableNamespace name_space{"models/a", std::string(kAnyBytes)};
  const DurableNode node{"n/1", Incarnation{0x0102030405060708}, Generation::Of(Term{9}, 5)};
  const DurableRemoval removal{"models/a", std::string(kAnyBytes), Generation::Of(Term{9}, 7)};
  const DecodedState decoded =
      DecodeRecords({RecordOf(Term{0x01020304}), RecordOf(RegistryClosed{}), RecordOf(name_space),
                     RecordOf(node), RecordOf(removal), RecordOf(DurableDrain{"node/1"})});
  EXPECT_EQ(decoded.state, (DurableState{.term = Term{0x01020304},
                                         .is_registry_closed = true,
                                         .namespaces = {name_space},
                                         .nodes = {node},
                                         .removals = {removal},
                                         .drains = {{"node/1"}}}));
  EXPECT_EQ(decoded.unknown, 0u);
  EXPECT_THAT(decoded.quarantined, IsEmpty());
}

TEST(Records, ANameMayLookLikeAnotherKind) {
  const DurableNamespace name_space{"node/removed/a", "fingerprint"};
  const DurableNode node{"removed/a", Incarnation{1}, {}};
  const DecodedState decoded = DecodeRecords({RecordOf(name_space), RecordOf(node)});
  EXPECT_EQ(decoded.state, (DurableState{.namespaces = {name_space}, .nodes = {node}}));
}

TEST(Records, WhatIsForgottenDeletesWhatWasWritten) {
  EXPECT_EQ(EncodeChange(NodeForgotten{"n1"}),
            (MetaChange{EncodeChange(DurableNode{.name = "n1"}).key, std::nullopt}));
  EXPECT_EQ(EncodeChange(RemovalForgotten{"ns", "k"}),
            (MetaChange{EncodeChange(DurableRemoval{"ns", "k", {}}).key, std::nullopt}));
  EXPECT_EQ(EncodeChange(DrainEnded{"n1"}),
            (MetaChange{EncodeChange(DurableDrain{"n1"}).key, std::nullopt}));
}

// They are on disks: neither may change without a new version.
TEST(Records, TheBytesAreThoseOfTheFormat) {
  using absl::string_view;
  EXPECT_EQ(RecordOf(Term{0x01020304}), (MetaRecord{"term", "\x01\x04\x03\x02\x01"}));
  EXPECT_EQ(RecordOf(DurableDrain{"n1"}), (MetaRecord{"drain/n1", "\x01"}));
  EXPECT_EQ(RecordOf(DurableNamespace{"ns", "fp"}), (MetaRecord{"namespace/ns",
                                                                "\x01"
                                                                "fp"}));
  EXPECT_EQ(
      RecordOf(DurableNode{"n", Incarnation{2}, Generation{3}}),
      (MetaRecord{"node/n", std::string(string_view("\1\2\0\0\0\0\0\0\0\3\0\0\0\0\0\0\0", 17))}));
  EXPECT_EQ(RecordOf(RegistryClosed{}), (MetaRecord{"registry", "\x01"}));
  EXPECT_EQ(RecordOf(DurableRemoval{"ns", "k", Generation{5}}),
            (MetaRecord{std::string(string_view("removed/ns\0k", 12)),
                        std::string(string_view("\1\5\0\0\0\0\0\0\0", 9))}));
}

TEST(Records, ANamespaceEndsAtTheFirstZero) {
  const DurableRemoval removal{"ns", std::string(absl::string_view("\0\0", 2)), Generation{1}};
  EXPECT_THAT(DecodeRecords({RecordOf(removal)}).state.removals, ElementsAre(removal));
}

TEST(Records, TheRegistryIsOpenUntilARecordSaysOtherwise) {
  EXPECT_FALSE(DecodeRecords({RecordOf(Term{1})}).state.is_registry_closed);
  EXPECT_TRUE(DecodeRecords({RecordOf(RegistryClosed{})}).state.is_registry_closed);
}

TEST(Records, NewerKindsAndVersionsAreLeftAlone) {
  const DurableNode node{"n", Incarnation{1}, {}};
  MetaRecord newer = RecordOf(node);
  newer.value[0] = 2;
  const DecodedState decoded =
      DecodeRecords({{"tenant/n", "x"}, {"", ""}, {"terms", "x"}, newer, RecordOf(node)});
  EXPECT_EQ(decoded.unknown, 4u);
  EXPECT_THAT(decoded.quarantined, IsEmpty());
  EXPECT_THAT(decoded.state.nodes, ElementsAre(node));
}

TEST(Records, ABrokenOneIsQuarantinedAndTheRestIsUsed) {
  const std::string long_name(kMaxNamespaceBytes + 1, 'n');
  const std::string long_key(kMaxKeyBytes + 1, 'k');
  const std::vector<MetaRecord> broken = {
      {"term", ""},
      {"term", std::string(5, '\0')},
      {"term", std::string(absl::string_view("\1\1\0\0", 4))},
      {"term", std::string(absl::string_view("\1\0\0\0\0", 5))},
      {"term", std::string(absl::string_view("\1\1\0\0\0\0", 6))},
      {"registry", ""},
      {"registry", "\x01\x01"},
      RecordOf(DurableNamespace{"", "fp"}),
      RecordOf(DurableNamespace{long_name, "fp"}),
      RecordOf(DurableNamespace{"ns", ""}),
      RecordOf(DurableNode{"", Incarnation{1}, {}}),
      RecordOf(DurableNode{long_name, Incarnation{1}, {}}),
      RecordOf(DurableNode{"n", Incarnation{0}, {}}),
      {"removed/ns", RecordOf(DurableRemoval{"ns", "k", Generation{1}}).value},
      RecordOf(DurableRemoval{"", "k", Generation{1}}),
      RecordOf(DurableRemoval{long_name, "k", Generation{1}}),
      RecordOf(DurableRemoval{"ns", "", Generation{1}}),
      RecordOf(DurableRemoval{"ns", long_key, Generation{1}}),
      RecordOf(DurableRemoval{"ns", "k", Generation{0}}),
      RecordOf(DurableDrain{""}),
      RecordOf(DurableDrain{long_name}),
      {"drain/n", "\x01\x01"},
  };
  for (const MetaRecord& record : broken) {
    const DecodedState decoded =
        DecodeRecords({record, RecordOf(DurableNode{"good", Incarnation{1}, {}})});
    EXPECT_THAT(decoded.quarantined, ElementsAre(record.key)) << record.value.size();
    EXPECT_EQ(decoded.state.nodes.size(), 1u) << record.key;
    EXPECT_EQ(decoded.state.namespaces.size() + decoded.state.removals.size() +
                  decoded.state.drains.size(),
              0u)
        << record.key;
  }
}

}  // namespace
}  // namespace moonpool::master
