// The control path beside bare gRPC: locate one key, and locate in batches of 64 from several
// threads, against an echo of the same bytes.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "bench/suite/ratios.h"
#include "bench/suite/rounds.h"
#include "cli/control_bench/grpc_echo.h"
#include "moonpool/client.h"
#include "moonpool/v1/master.pb.h"

namespace moonpool::cli {

class ControlSuite {
 public:
  // Stores some small objects to look for. `master` is one address.
  static absl::StatusOr<std::unique_ptr<ControlSuite>> Prepare(const std::string& master,
                                                               const std::string& name_space);
  ~ControlSuite();

  // Borrow the suite.
  std::vector<bench::Case> Cases();
  static std::vector<bench::Figure> Figures();

 private:
  // Requests of one size in turn over the stored keys, and an echo of the same bytes.
  struct Workload {
    size_t keys_per_call = 1;
    std::vector<v1::LocateRequest> requests;
    std::unique_ptr<GrpcEchoServer> echo;
  };

  ControlSuite(std::string master, std::string name_space)
      : master_(std::move(master)), name_space_(std::move(name_space)) {}
  absl::Status Store();
  absl::StatusOr<Workload> MakeWorkload(size_t keys_per_call) const;
  bench::Case LocateCase(const std::string& name, const Workload& workload, size_t threads) const;
  bench::Case EchoCase(const std::string& name, const Workload& workload, size_t threads) const;

  const std::string master_;
  const std::string name_space_;
  std::unique_ptr<Client> client_;
  std::vector<std::string> keys_;
  Workload one_;
  Workload batch_;
};

}  // namespace moonpool::cli
