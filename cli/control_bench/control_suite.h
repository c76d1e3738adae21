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
#include "cli/control_bench/put_calls.h"
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
  absl::Status PreparePuts();
  // What the put cases have committed.
  absl::Status RemovePuts();
  bench::Case PutCase();
  bench::Case PutEchoCase() const;

  const std::string master_;
  const std::string name_space_;
  std::unique_ptr<Client> client_;
  std::vector<std::string> keys_;
  Workload one_;
  Workload batch_;
  std::vector<std::unique_ptr<PutCalls>> puts_;  // per thread
  PutCalls::Sent put_;                           // one of their calls, for the echo
  std::unique_ptr<GrpcEchoServer> start_echo_;
  std::unique_ptr<GrpcEchoServer> commit_echo_;
};

}  // namespace moonpool::cli
