#include "storage_node/link/copy_order.h"

#include "absl/strings/str_cat.h"
#include "common/error.h"
#include "common/rpc/extent_proto.h"
#include "common/status_macros.h"
#include "storage_node/link/sealed_part.h"
#include "transport/ops.h"

namespace moonpool::storage_node {
namespace {

absl::Status Bad(absl::string_view what) {
  return MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kBadArgument,
                   absl::StrCat("an impossible copy: ", what));
}

}  // namespace

absl::StatusOr<CopyOrder> CopyOrderFromProto(const v1::Copy& proto) {
  ASSIGN_OR_RETURN(const transport::SealRecord record, SealRecordFromProto(proto.part()));
  const CopyOrder order = {.record = record,
                           .claim = Generation{proto.claim()},
                           .source = {.name = proto.source().name(),
                                      .incarnation = Incarnation{proto.source().incarnation()},
                                      .host_id = proto.source().host_id(),
                                      .tcp_address = proto.source().tcp_address(),
                                      .shm_path = proto.source().shm_path()},
                           .source_extent = ExtentFromProto(proto.source_extent())};
  RETURN_IF_ERROR(Annotate(transport::Validate(order.source_extent), "the source's extent"));
  if (order.source_extent.length != record.extent.length) {
    return Bad(absl::StrCat(order.source_extent.length, " bytes into ", record.extent.length));
  }
  if (order.claim <= record.generation) {
    return Bad(absl::StrCat("claim ", ToString(order.claim), " is not newer than the part of ",
                            ToString(record.generation)));
  }
  return order;
}

}  // namespace moonpool::storage_node
