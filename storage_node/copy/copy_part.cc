#include "storage_node/copy/copy_part.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/error.h"
#include "common/status_macros.h"
#include "transport/channel.h"
#include "transport/target.h"

namespace moonpool::storage_node {
namespace {

using absl::StatusCode;

absl::Status Superseded(Generation claim) {
  return MakeError(StatusCode::kFailedPrecondition, ErrorReason::kStaleGeneration,
                   absl::StrCat("claim ", ToString(claim), " was freed or superseded meanwhile"),
                   {.hint = "copy under a new claim, to another extent"});
}

// Names the source: what it did wrong is not this node's.
absl::Status OfSource(const absl::Status& status, const std::string& source) {
  if (status.ok()) return status;
  ErrorDetail detail = DetailOf(status).value_or(ErrorDetail{});
  detail.node = source;
  return WithDetail(Annotate(status, absl::StrCat("read from node ", source)), detail);
}

// Receives in steps in which nobody else gets the bytes. In between they may go to somebody, and
// then the channel must never write there again: it is given up.
absl::Status Receive(transport::Channel& channel, transport::WriteClaim& claim,
                     const CopyOrder& order, transport::Waiter& waiter,
                     const CallContext& context) {
  transport::Channel* const channels[] = {&channel};
  while (channel.outstanding() > 0) {
    absl::Status ended = context.Check(waiter.clock());
    if (ended.ok() && !claim.BeginStep()) ended = Superseded(order.claim);
    if (!ended.ok()) {
      channel.Abandon(ended);
      return ended;
    }
    const bool progressed = channel.Progress();
    claim.EndStep();
    if (!progressed) waiter.Wait(channels, context);
  }
  return absl::OkStatus();
}

// The order's part, with the checksum that its source knows. As a reader does: the part is that of
// this object, or it is of no use.
absl::StatusOr<transport::SealRecord> RecordOf(const transport::PartHeader& header,
                                               const CopyOrder& order) {
  transport::SealRecord record = order.record;
  record.payload_checksum = header.payload_checksum;
  if (transport::HeaderOf(record) == header) return record;
  return MakeError(StatusCode::kDataLoss, ErrorReason::kChecksumMismatch,
                   absl::StrCat("the header of generation ", ToString(record.generation),
                                " is not that of the part to be copied"),
                   {.hint = "copy from another replica"});
}

// Sealed by an earlier copy under the same claim.
bool IsThere(const CopyOrder& order, const ExtentIndex& index) {
  const auto there = index.FindRecord(order.record.generation, order.record.extent);
  if (!there.has_value()) return false;
  transport::SealRecord wanted = order.record;
  wanted.payload_checksum = there->payload_checksum;
  return *there == wanted;
}

// The payload is in the claim afterwards, and is that of the header.
absl::StatusOr<transport::PartHeader> FetchInto(transport::WriteClaim& claim,
                                                const CopyOrder& order, SourceChannels& sources,
                                                transport::Waiter& waiter,
                                                const CallContext& context) {
  transport::ReadOp read;
  read.generation = order.record.generation;
  read.extent = order.source_extent;
  read.into = {claim.payload()};
  while (true) {
    const absl::StatusOr<SourceChannels::Opened> opened = sources.Open(order.source, context);
    RETURN_IF_ERROR(OfSource(opened.status(), order.source.name));
    absl::Status status = opened->channel->Submit(&read);
    if (status.ok()) {
      RETURN_IF_ERROR(Receive(*opened->channel, claim, order, waiter, context));
      status = read.status;
    }
    if (status.ok()) return read.header;
    // A connection that was kept may have died unnoticed: once more with a new one.
    if (!absl::IsUnavailable(status) || opened->is_new) {
      return OfSource(status, order.source.name);
    }
    sources.Close(order.source);
  }
}

}  // namespace

absl::StatusOr<uint64_t> CopyPart(const CopyOrder& order, ExtentIndex& index,
                                  SourceChannels& sources, transport::Waiter& waiter,
                                  const CallContext& context) {
  RETURN_IF_ERROR(context.Check(waiter.clock()));
  const auto claim =
      index.Claim(order.claim, order.record.extent, transport::WriterKind::kStepwise);
  if (absl::IsAlreadyExists(claim.status()) && IsThere(order, index)) return 0;
  RETURN_IF_ERROR(Annotate(claim.status(), "claim the bytes for a copy"));
  ASSIGN_OR_RETURN(const transport::PartHeader header,
                   FetchInto(**claim, order, sources, waiter, context));
  const absl::StatusOr<transport::SealRecord> record = RecordOf(header, order);
  RETURN_IF_ERROR(OfSource(record.status(), order.source.name));
  (*claim)->SetWritten();
  RETURN_IF_ERROR(Annotate(index.SealCopy(*record, order.claim), "seal the copy"));
  return record->extent.payload_bytes();
}

}  // namespace moonpool::storage_node
