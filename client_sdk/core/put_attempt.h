// One item of a put, on its way: what is known of it, and what its present attempt writes where.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "client_sdk/core/location.h"
#include "client_sdk/core/spare_stock.h"
#include "common/rpc/place_answers.h"
#include "common/types.h"
#include "moonpool/client.h"
#include "moonpool/v1/master.pb.h"
#include "transport/ops.h"

namespace moonpool::client {

// Where an item stands.
enum class PutStage {
  kPending,  // needs a grant
  kGranted,  // writing
  kWritten,  // enough replicas are sealed
  kRefused,  // too few are: to be aborted, and tried again
  kDone,
};

struct PutAttempt {
  const PutItem* value = nullptr;
  absl::Status* result = nullptr;
  uint64_t size_bytes = 0;
  PutStage stage = PutStage::kPending;
  absl::Status failure;                     // of the last attempt
  absl::InlinedVector<Generation, 2> past;  // of attempts whose outcome the client does not know
  absl::InlinedVector<Generation, 2>
      written;                      // those of them that had as many replicas as are required
  bool is_final = false;            // trying again is of no use
  bool has_failed_at_home = false;  // a node on this host could not take it

  // Of the current attempt.
  bool is_spare = false;  // its grant names no key, and its commit does
  ToldGrant grant;
  Replicas replicas;
  absl::InlinedVector<absl::InlinedVector<transport::WriteOp, 1>, 1> ops;  // by replica, by part
  std::vector<uint32_t> failed_replicas;
  std::vector<v1::Part> pinned;

  // An attempt begins, with nothing known of it but its grant.
  void Begin(ToldGrant granted);
  // The same with all there is to know, from a spare.
  void Begin(SpareGrant spare);
  // `replicas` is what the writer wishes for.
  void PrepareWrites(const std::string& part_namespace, uint32_t wanted);
};

}  // namespace moonpool::client
