#include "bench/trace/trace_reader.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "bench/trace/byte_source.h"
#include "bench/trace/formats.h"
#include "bench/trace/json_fields.h"
#include "bench/trace/tar_reader.h"
#include "common/error.h"
#include "common/status_macros.h"

namespace moonpool::trace {
namespace {

namespace fs = std::filesystem;

constexpr size_t kFileBytesMax = size_t{1} << 30;
constexpr size_t kSessionBytesMax = size_t{64} << 20;
constexpr uint64_t kSessionsMax = uint64_t{1} << 24;

bool Earlier(const Request& a, const Request& b) { return a.arrival < b.arrival; }

// Merges sessions into one trace.
class SessionMerger {
 public:
  explicit SessionMerger(const ReadTraceOptions& options) : options_(options) {}

  absl::Status Add(absl::string_view text) {
    ASSIGN_OR_RETURN(Trace session, ParseAgentSession(text));
    if (sessions_ == kSessionsMax) return absl::InvalidArgumentError("too many sessions");
    if (sessions_ > 0 && session.block_tokens != trace_.block_tokens) {
      return absl::InvalidArgumentError("its block_size is not that of the sessions before");
    }
    trace_.block_tokens = session.block_tokens;
    for (Request& request : session.requests) {
      request.arrival += static_cast<double>(sessions_) * options_.session_spacing;
      for (uint64_t& block : request.blocks) block += sessions_ * kBlockIdLimit;
      trace_.requests.push_back(std::move(request));
    }
    ++sessions_;
    return absl::OkStatus();
  }

  // No later session can change the first limit_requests.
  bool HasEnough() const {
    if (trace_.requests.size() < options_.limit_requests) return false;
    const absl::Duration next_start = static_cast<double>(sessions_) * options_.session_spacing;
    const auto is_settled = [&](const Request& request) { return request.arrival < next_start; };
    return static_cast<uint64_t>(std::count_if(trace_.requests.begin(), trace_.requests.end(),
                                               is_settled)) >= options_.limit_requests;
  }

  Trace Take() {
    std::stable_sort(trace_.requests.begin(), trace_.requests.end(), Earlier);
    return std::move(trace_);
  }

 private:
  const ReadTraceOptions& options_;
  Trace trace_;
  uint64_t sessions_ = 0;
};

absl::StatusOr<Trace> ReadArchive(ByteSource& source, const ReadTraceOptions& options) {
  SessionMerger merger(options);
  TarReader reader(source, kSessionBytesMax);
  while (!merger.HasEnough()) {
    ASSIGN_OR_RETURN(const std::optional<TarMember> member, reader.Next());
    if (!member) break;
    if (!absl::EndsWith(member->name, ".json")) continue;
    const absl::Status added = merger.Add(member->content);
    if (!added.ok()) return Annotate(added, member->name);
  }
  return merger.Take();
}

absl::Status AddFile(const std::string& file, SessionMerger& merger) {
  ASSIGN_OR_RETURN(const std::unique_ptr<ByteSource> source, OpenFile(file));
  ASSIGN_OR_RETURN(const std::string text, ReadAll(*source, kSessionBytesMax));
  return merger.Add(text);
}

absl::StatusOr<Trace> ReadFolder(const std::string& path, const ReadTraceOptions& options) {
  std::error_code error;
  std::vector<std::string> files;
  for (fs::directory_iterator it(path, error), end; !error && it != end; it.increment(error)) {
    if (it->path().extension() == ".json") files.push_back(it->path().string());
  }
  if (error) return absl::UnavailableError(absl::StrCat(path, ": ", error.message()));
  std::sort(files.begin(), files.end());
  SessionMerger merger(options);
  for (const std::string& file : files) {
    if (merger.HasEnough()) break;
    const absl::Status added = AddFile(file, merger);
    if (!added.ok()) return Annotate(added, file);
  }
  return merger.Take();
}

absl::StatusOr<Trace> ReadText(absl::string_view text, const ReadTraceOptions& options) {
  const absl::string_view start = text.substr(0, size_t{1} << 16);
  if (absl::StrContains(start, "\"timestamp\"")) return ParseConversationTrace(text);
  if (absl::StrContains(start, "\"requests\"")) {
    SessionMerger merger(options);
    RETURN_IF_ERROR(merger.Add(text));
    return merger.Take();
  }
  return absl::InvalidArgumentError(
      "neither a conversation trace (lines with \"timestamp\") nor an agent session (an object "
      "with "
      "\"requests\"), nor a tar archive of sessions");
}

absl::StatusOr<Trace> ReadFile(const std::string& path, const ReadTraceOptions& options) {
  constexpr size_t kTarMagicEnd = 262;
  ASSIGN_OR_RETURN(std::unique_ptr<ByteSource> probe, OpenFile(path));
  std::string start(kTarMagicEnd, '\0');
  ASSIGN_OR_RETURN(const size_t count, probe->Read(start.data(), start.size()));
  start.resize(count);
  ASSIGN_OR_RETURN(std::unique_ptr<ByteSource> source, OpenFile(path));
  if (absl::StartsWith(start, absl::string_view("\xfd"
                                                "7zXZ\0",
                                                6))) {
    ASSIGN_OR_RETURN(source, OpenXz(std::move(source)));
    return ReadArchive(*source, options);
  }
  if (absl::EndsWith(start, "ustar")) return ReadArchive(*source, options);
  ASSIGN_OR_RETURN(const std::string text, ReadAll(*source, kFileBytesMax));
  return ReadText(text, options);
}

}  // namespace

absl::StatusOr<Trace> ReadTrace(const std::string& path, const ReadTraceOptions& options) {
  std::error_code error;
  absl::StatusOr<Trace> trace =
      fs::is_directory(path, error) ? ReadFolder(path, options) : ReadFile(path, options);
  if (!trace.ok()) return Annotate(trace.status(), path);
  if (trace->requests.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": no requests in it"));
  }
  if (trace->requests.size() > options.limit_requests) {
    trace->requests.resize(options.limit_requests);
  }
  trace->name = fs::path(path).filename().string();
  return trace;
}

}  // namespace moonpool::trace
