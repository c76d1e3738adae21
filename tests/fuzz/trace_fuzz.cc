// Any bytes as a trace: as text of each format, as a tar archive of sessions, and as an xz stream
// of such an archive. Refused with InvalidArgument, or a trace that is in order; never a crash.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "bench/trace/byte_source.h"
#include "bench/trace/formats.h"
#include "bench/trace/tar_reader.h"
#include "common/check.h"

namespace moonpool::trace {
namespace {

constexpr size_t kMemberBytesMax = size_t{1} << 20;
constexpr size_t kArchiveBytesMax = size_t{4}
                                    << 20;  // a short xz stream can be a very long archive

void CheckRefusal(const absl::Status& status) {
  MP_CHECK(absl::IsInvalidArgument(status), "code", status.ToString());
  MP_CHECK(!status.message().empty(), "an error without a cause");
}

void CheckTrace(const absl::StatusOr<Trace>& trace) {
  if (!trace.ok()) return CheckRefusal(trace.status());
  MP_CHECK(trace->block_tokens > 0, "blocks have no tokens");
  const auto earlier = [](const Request& a, const Request& b) { return a.arrival < b.arrival; };
  MP_CHECK(std::is_sorted(trace->requests.begin(), trace->requests.end(), earlier),
           "requests out of order");
  for (const Request& request : trace->requests) {
    MP_CHECK(request.arrival >= absl::ZeroDuration(), "before the start");
  }
}

void ReadTar(absl::string_view bytes) {
  StringSource source(bytes);
  TarReader reader(source, kMemberBytesMax);
  while (true) {
    const absl::StatusOr<std::optional<TarMember>> member = reader.Next();
    if (!member.ok()) return CheckRefusal(member.status());
    if (!member->has_value()) return;
    MP_CHECK((*member)->content.size() <= kMemberBytesMax, "member", (*member)->content.size());
    CheckTrace(ParseAgentSession((*member)->content));
  }
}

void ReadXz(absl::string_view bytes) {
  const auto source = OpenXz(std::make_unique<StringSource>(bytes));
  MP_CHECK(source.ok(), "opening reads nothing", source.status().ToString());
  const absl::StatusOr<std::string> archive = ReadAll(**source, kArchiveBytesMax);
  if (!archive.ok()) return CheckRefusal(archive.status());
  ReadTar(*archive);
}

void Run(absl::string_view bytes) {
  CheckTrace(ParseConversationTrace(bytes));
  CheckTrace(ParseAgentSession(bytes));
  ReadTar(bytes);
  ReadXz(bytes);
}

}  // namespace
}  // namespace moonpool::trace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  moonpool::trace::Run(absl::string_view(reinterpret_cast<const char*>(data), size));
  return 0;
}
