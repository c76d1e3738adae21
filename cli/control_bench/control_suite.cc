#include "cli/control_bench/control_suite.h"

#include <functional>
#include <thread>

#include "absl/strings/str_cat.h"
#include "bench/measure/latency.h"
#include "bench/measure/stopwatch.h"
#include "cli/control_bench/call_queue.h"
#include "common/random.h"
#include "common/rpc/grpc/place_calls.h"
#include "common/rpc/grpc/status_convert.h"
#include "common/status_macros.h"
#include "common/types.h"
#include "common/version.h"
#include "moonpool/v1/master.grpc.pb.h"

namespace moonpool::cli {
namespace {

constexpr size_t kKeys = 4096;
constexpr size_t kBatch = 64;
constexpr size_t kThreads = 8;  // calls in flight, each of a thread of its own
constexpr uint64_t kCallTimeoutMillis = 10'000;

// One thread's calls: each call does `keys_per_call` keys.
using Caller = std::function<absl::Status()>;

struct Lane {
  bench::LatencyHistogram calls;
  absl::Status status;
};

void RunLane(const Caller& call, absl::Duration time, Lane& lane) {
  const bench::Stopwatch total;
  while (lane.status.ok() && total.elapsed() < time) {
    const bench::Stopwatch watch;
    lane.status = call();
    lane.calls.Add(watch.elapsed());
  }
}

absl::StatusOr<bench::Reading> RunCallers(const std::vector<Caller>& callers, size_t keys_per_call,
                                          absl::Duration time) {
  std::vector<Lane> lanes(callers.size());
  // Not measured: the connection.
  for (size_t i = 0; i < callers.size(); ++i) RETURN_IF_ERROR(callers[i]());
  const bench::Stopwatch watch;
  std::vector<std::thread> threads;
  for (size_t i = 1; i < callers.size(); ++i) {
    threads.emplace_back([&, i] { RunLane(callers[i], time, lanes[i]); });
  }
  RunLane(callers[0], time, lanes[0]);
  for (std::thread& thread : threads) thread.join();
  const double seconds = absl::ToDoubleSeconds(watch.elapsed());
  bench::LatencyHistogram calls;
  for (const Lane& lane : lanes) {
    RETURN_IF_ERROR(lane.status);
    calls.Merge(lane.calls);
  }
  return bench::Reading{.rate = static_cast<double>(calls.count() * keys_per_call) / seconds,
                        .p50_us = calls.QuantileMicros(0.5)};
}

v1::RequestHeader HeaderOf(const std::string& name_space, uint64_t client_id) {
  v1::RequestHeader header;
  header.mutable_version()->set_major(kWireMajor);
  header.mutable_version()->set_minor(kWireMinor);
  header.set_client_id(client_id);
  header.set_namespace_(name_space);
  header.set_timeout_ms(kCallTimeoutMillis);
  return header;
}

void SetDeadline(grpc::ClientContext& context) {
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::milliseconds(kCallTimeoutMillis));
}

// Takes locations up as the client does.
class Locator {
 public:
  Locator(const std::string& master, const std::vector<v1::LocateRequest>& requests, size_t first)
      : calls_(OwnChannel(master)), requests_(requests), next_(first) {}

  absl::Status Call() {
    grpc::ClientContext context;
    SetDeadline(context);
    const auto call =
        calls_.AsyncLocate(&context, requests_[next_++ % requests_.size()], queue_.queue());
    LocateAnswer answer;
    RETURN_IF_ERROR(queue_.Await(*call, &answer));
    for (const LocateAnswer::Result& result : answer.results) RETURN_IF_ERROR(result.status);
    return absl::OkStatus();
  }

 private:
  PlaceCalls calls_;
  CallQueue queue_;
  const std::vector<v1::LocateRequest>& requests_;
  size_t next_;
};

// What an echo is to answer.
absl::StatusOr<std::string> AnswerTo(const v1::LocateRequest& request, const std::string& master) {
  grpc::ClientContext context;
  SetDeadline(context);
  v1::LocateResponse response;
  RETURN_IF_ERROR(FromGrpc(
      v1::MasterService::NewStub(OwnChannel(master))->Locate(&context, request, &response)));
  return response.SerializeAsString();
}

}  // namespace

absl::StatusOr<std::unique_ptr<ControlSuite>> ControlSuite::Prepare(const std::string& master,
                                                                    const std::string& name_space) {
  std::unique_ptr<ControlSuite> suite(new ControlSuite(master, name_space));
  RETURN_IF_ERROR(suite->Store());
  ASSIGN_OR_RETURN(suite->one_, suite->MakeWorkload(1));
  ASSIGN_OR_RETURN(suite->batch_, suite->MakeWorkload(kBatch));
  RETURN_IF_ERROR(suite->PreparePuts());
  return suite;
}

ControlSuite::~ControlSuite() {
  if (client_ != nullptr) (void)client_->Remove(keys_);
}

absl::Status ControlSuite::Store() {
  ASSIGN_OR_RETURN(client_, Client::Connect({.masters = {master_}, .name_space = name_space_}));
  const std::vector<std::byte> value(64, std::byte{7});
  const std::string prefix = absl::StrCat("bench-locate/", EntropySeed(), "/");
  std::vector<PutItem> items;
  for (size_t i = 0; i < kKeys; ++i) {
    keys_.push_back(absl::StrCat(prefix, i));
    items.push_back({.key = keys_.back(), .value = {value}, .parent = ""});
  }
  for (const absl::Status& result : client_->PutMany(items)) RETURN_IF_ERROR(result);
  return absl::OkStatus();
}

absl::StatusOr<ControlSuite::Workload> ControlSuite::MakeWorkload(size_t keys_per_call) const {
  Workload workload;
  workload.keys_per_call = keys_per_call;
  const uint64_t client_id = EntropySeed();
  for (size_t first = 0; first + keys_per_call <= keys_.size(); first += keys_per_call) {
    v1::LocateRequest& request = workload.requests.emplace_back();
    *request.mutable_header() = HeaderOf(name_space_, client_id);
    for (size_t i = 0; i < keys_per_call; ++i) request.add_keys(keys_[first + i]);
  }
  ASSIGN_OR_RETURN(const std::string answer, AnswerTo(workload.requests[0], master_));
  ASSIGN_OR_RETURN(workload.echo, GrpcEchoServer::Start(answer));
  return workload;
}

bench::Case ControlSuite::LocateCase(const std::string& name, const Workload& workload,
                                     size_t threads) const {
  return {.name = name,
          .rate_unit = "keys/s",
          .measure = [this, &workload, threads](absl::Duration time) {
            std::vector<Caller> callers;
            for (size_t i = 0; i < threads; ++i) {
              auto locator = std::make_shared<Locator>(master_, workload.requests, i * 7);
              callers.push_back([locator] { return locator->Call(); });
            }
            return RunCallers(callers, workload.keys_per_call, time);
          }};
}

bench::Case ControlSuite::EchoCase(const std::string& name, const Workload& workload,
                                   size_t threads) const {
  return {
      .name = name, .rate_unit = "keys/s", .measure = [&workload, threads](absl::Duration time) {
        std::vector<Caller> callers;
        const std::string request = workload.requests[0].SerializeAsString();
        for (size_t i = 0; i < threads; ++i) {
          auto client = std::make_shared<GrpcEchoClient>(workload.echo->address(), request);
          callers.push_back([client] { return client->Call(); });
        }
        return RunCallers(callers, workload.keys_per_call, time);
      }};
}

absl::Status ControlSuite::PreparePuts() {
  const v1::RequestHeader header = HeaderOf(name_space_, EntropySeed());
  const std::string prefix = absl::StrCat("bench-puts/", EntropySeed(), "/");
  for (size_t i = 0; i < kThreads; ++i) {
    puts_.push_back(
        std::make_unique<PutCalls>(master_, header, absl::StrCat(prefix, i, "/"), kBatch));
  }
  ASSIGN_OR_RETURN(put_, puts_[0]->CallAndTell());
  ASSIGN_OR_RETURN(start_echo_, GrpcEchoServer::Start(put_.start_response));
  ASSIGN_OR_RETURN(commit_echo_, GrpcEchoServer::Start(put_.commit_response));
  return RemovePuts();
}

absl::Status ControlSuite::RemovePuts() {
  for (const auto& calls : puts_) {
    const std::vector<std::string> keys = calls->TakeKeys();
    for (size_t first = 0; first < keys.size(); first += kMaxBatchKeys) {
      const auto some = absl::MakeConstSpan(keys).subspan(first, kMaxBatchKeys);
      for (const absl::Status& result : client_->Remove(some)) RETURN_IF_ERROR(result);
    }
  }
  return absl::OkStatus();
}

bench::Case ControlSuite::PutCase() {
  return {.name = "start_commit_64_8t",
          .rate_unit = "keys/s",
          .measure = [this](absl::Duration time) -> absl::StatusOr<bench::Reading> {
            std::vector<Caller> callers;
            for (const auto& calls : puts_) {
              callers.push_back([&calls] { return calls->Call(); });
            }
            auto reading = RunCallers(callers, kBatch, time);
            RETURN_IF_ERROR(RemovePuts());
            return reading;
          }};
}

bench::Case ControlSuite::PutEchoCase() const {
  return {.name = "echo_start_commit_64_8t",
          .rate_unit = "keys/s",
          .measure = [this](absl::Duration time) {
            std::vector<Caller> callers;
            for (size_t i = 0; i < kThreads; ++i) {
              auto start =
                  std::make_shared<GrpcEchoClient>(start_echo_->address(), put_.start_request);
              auto commit =
                  std::make_shared<GrpcEchoClient>(commit_echo_->address(), put_.commit_request);
              callers.push_back([start, commit] {
                const absl::Status started = start->Call();
                return started.ok() ? commit->Call() : started;
              });
            }
            return RunCallers(callers, kBatch, time);
          }};
}

std::vector<bench::Case> ControlSuite::Cases() {
  return {EchoCase("echo_1", one_, 1),
          LocateCase("locate_1", one_, 1),
          EchoCase("echo_64", batch_, 1),
          LocateCase("locate_64", batch_, 1),
          EchoCase("echo_64_8t", batch_, kThreads),
          LocateCase("locate_64_8t", batch_, kThreads),
          PutEchoCase(),
          PutCase()};
}

std::vector<bench::Figure> ControlSuite::Figures() {
  using bench::Bound;
  using bench::Field;
  return {{.name = "locate_1_p50_us", .of = "locate_1", .field = Field::kP50Micros},
          {.name = "locate_1_p50_vs_grpc_echo",
           .of = "locate_1",
           .field = Field::kP50Micros,
           .over = "echo_1",
           .bound = Bound::kAtMost,
           .limit = 1.3},
          {.name = "locate_64_keys_per_s", .of = "locate_64_8t"},
          {.name = "locate_64_vs_grpc_echo",
           .of = "locate_64_8t",
           .over = "echo_64_8t",
           .bound = Bound::kAtLeast,
           .limit = 0.6},
          {.name = "start_commit_64_keys_per_s", .of = "start_commit_64_8t"},
          {.name = "start_commit_64_vs_grpc_echo",
           .of = "start_commit_64_8t",
           .over = "echo_start_commit_64_8t",
           .bound = Bound::kAtLeast,
           .limit = 0.4}};
}

}  // namespace moonpool::cli
