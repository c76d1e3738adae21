// What the CLI asks of the master, besides what the client SDK does. Blocking calls over gRPC.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "moonpool/v1/admin.pb.h"
#include "moonpool/v1/master.pb.h"

namespace moonpool::cli {

// Thread-safe. Every call ends by the timeout, and goes to the master that leads: LeaderChoice says
// how it is found. Masters that are there and elect a leader are waited for. UNAVAILABLE: none
// answers or leads; the message names them and the hint says how to get one.
class MasterLink {
 public:
  MasterLink(std::vector<std::string> masters, absl::Duration timeout);
  ~MasterLink();

  absl::StatusOr<v1::GetStatusResponse> GetStatus();
  absl::StatusOr<v1::ListNodesResponse> ListNodes();
  absl::StatusOr<v1::WhyResponse> Why(absl::string_view name_space, absl::string_view key);
  absl::Status ForgetNode(absl::string_view name);
  absl::Status DrainNode(absl::string_view name, bool cancel);
  // One page.
  absl::StatusOr<v1::ListObjectsResponse> ListObjects(absl::string_view name_space,
                                                      absl::string_view prefix,
                                                      absl::string_view page_token, uint32_t limit);
  // Who has answered the last call that was answered; "" before the first.
  std::string leader() const;

 private:
  struct Rep;
  const std::unique_ptr<Rep> rep_;
};

// For people at a command line: "no master answers" with the way to get one in its hint.
absl::Status WithNoMasterHint(const absl::Status& status);

}  // namespace moonpool::cli
