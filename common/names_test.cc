#include "common/names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "common/error.h"
#include "common/testing/status_matchers.h"
#include "common/types.h"

namespace moonpool {
namespace {

using absl::StatusCode;

TEST(Names, ANamespaceHasLettersDigitsAndAFewMarks) {
  EXPECT_TRUE(IsNamespaceName("llama-3.1/bf16:tp8@rev_2+x"));
  EXPECT_TRUE(IsNamespaceName(std::string(kMaxNamespaceBytes, 'n')));
  EXPECT_FALSE(IsNamespaceName(std::string(kMaxNamespaceBytes + 1, 'n')));
  for (const char* const wrong : {"", "a b", "a\nb", "\x1f", "a\x7f", "n\xc3\xa9", "\xff\xfe"}) {
    EXPECT_FALSE(IsNamespaceName(wrong)) << wrong;
  }
  EXPECT_FALSE(IsNamespaceName(absl::string_view("a\0b", 3)));
}

TEST(Names, ANodeHasWhatIsSeen) {
  EXPECT_TRUE(IsNodeName("node-0.rack7!"));
  EXPECT_TRUE(IsNodeName(std::string(kMaxLabelBytes, 'n')));
  EXPECT_FALSE(IsNodeName(std::string(kMaxLabelBytes + 1, 'n')));
  for (const char* const wrong : {"", "a b", "a\tb", "\x1b[31m", "n\xc3\xa9"}) {
    EXPECT_FALSE(IsNodeName(wrong)) << wrong;
  }
}

TEST(Names, ALabelIsPrintableUtf8) {
  for (const char* const right :
       {"", "rack 7", "\xc3\xa9t\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x8c\x99", "\xf4\x8f\xbf\xbf",
        "\xed\x9f\xbf", "\xee\x80\x80", "\xc2\xa0"}) {
    EXPECT_TRUE(IsLabel(right)) << right;
  }
  EXPECT_TRUE(IsLabel(std::string(kMaxLabelBytes, 'n')));
  EXPECT_FALSE(IsLabel(std::string(kMaxLabelBytes + 1, 'n')));
  for (const char* const wrong : {
           "a\nb",
           "\x1f",
           "\x7f",
           "\xc2\x80",
           "\xc2\x9f",  // control characters
           "\xff",
           "\x80",
           "\xc3",
           "\xc3(",
           "\xe2\x82",
           "\xe2(\xac",
           "\xf0\x9f\x8c",
           "\xc0\xaf",
           "\xc1\xbf",
           "\xe0\x80\xaf",
           "\xf0\x80\x80\xaf",  // longer than need be
           "\xed\xa0\x80",
           "\xed\xbf\xbf",  // surrogates
           "\xf4\x90\x80\x80",
           "\xf5\x80\x80\x80",  // beyond Unicode
       }) {
    EXPECT_FALSE(IsLabel(wrong)) << wrong;
  }
}

TEST(Names, APartCarriesNameAndFingerprint) {
  const std::string long_name(kMaxNamespaceBytes, 'n');
  const std::string long_fingerprint(kMaxNamespaceBytes - 2, 'f');
  for (const PartNamespace& parts :
       {PartNamespace{}, PartNamespace{"default", ""}, PartNamespace{"a", "llama/bf16 tp=8"},
        PartNamespace{"a", long_fingerprint}, PartNamespace{long_name, ""}}) {
    const std::string text = JoinPartNamespace(parts);
    EXPECT_LE(text.size(), kMaxNamespaceBytes);
    EXPECT_TRUE(parts.name.empty() || CheckPartNamespace(parts).ok());
    const std::optional<PartNamespace> split = SplitPartNamespace(text);
    ASSERT_TRUE(split.has_value()) << text;
    EXPECT_EQ(split->name, parts.name);
    EXPECT_EQ(split->fingerprint, parts.fingerprint);
  }
  for (const std::string& wrong :
       {std::string("a\x1f"),
        std::string("\x1f"
                    "f"),
        std::string("a\x1f"
                    "f\x1fg"),
        std::string("a b"), std::string("a\xff"), std::string("a\x1f\xff"), long_name + "n",
        "a\x1f" + long_fingerprint + "f"}) {
    EXPECT_FALSE(SplitPartNamespace(wrong).has_value()) << wrong;
  }
  const auto refused = Fails(StatusCode::kInvalidArgument, ErrorReason::kBadArgument);
  EXPECT_THAT(CheckPartNamespace({"a", long_fingerprint + "f"}), refused);
  EXPECT_THAT(CheckPartNamespace({"a b", "f"}), refused);
  EXPECT_THAT(CheckPartNamespace({"a", "\xff"}), refused);
}

TEST(Names, WhatIsRefusedIsShownEscaped) {
  const auto refused = Fails(StatusCode::kInvalidArgument, ErrorReason::kBadArgument);
  EXPECT_THAT(CheckNamespaceName("ok"), IsOk());
  EXPECT_THAT(CheckNodeName("ok"), IsOk());
  EXPECT_THAT(CheckLabel("--rack", ""), IsOk());
  const absl::Status name = CheckNamespaceName("a\x1b\n");
  EXPECT_THAT(name, refused);
  EXPECT_EQ(name.message(), "\"a\\x1b\\n\" is no name for a namespace");
  EXPECT_EQ(DetailOf(name)->hint, "1 to 255 letters, digits and any of . _ / - : @ +");
  EXPECT_THAT(CheckNodeName("two words"), refused);
  const absl::Status label = CheckLabel("--rack", std::string(300, '\xff'));
  EXPECT_THAT(label, refused);
  EXPECT_LT(label.message().size(), 300u) << "as much as one needs to know it again";
}

}  // namespace
}  // namespace moonpool
