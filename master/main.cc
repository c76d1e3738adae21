// moonpool-master: knows where every object is and who may use it.
#include <cstdio>
#include <memory>
#include <utility>

#include "absl/time/clock.h"
#include "common/program/program.h"
#include "common/random.h"
#include "common/rpc/protobuf_log.h"
#include "common/status_macros.h"
#include "common/version.h"
#include "master/core/core.h"
#include "master/etcd/etcd_client.h"
#include "master/meta/begin_term.h"
#include "master/meta/rocks_meta_store.h"
#include "master/options.h"
#include "master/service/candidacy.h"
#include "master/service/segments_page.h"
#include "master/service/server.h"

namespace moonpool::master {
namespace {

constexpr absl::Duration kBeginTimeout = absl::Seconds(60);

// Without durable state it is greater than any that an earlier master here has used as long as the
// wall clock was not set back and masters start a second apart. Where it was, nodes that have seen
// a higher term raise it when they register, before they take part.
Term TermOfThisStart() { return Term{static_cast<uint32_t>(absl::ToUnixSeconds(absl::Now()))}; }

// The core, in a term that is durable where there is a store.
absl::StatusOr<std::unique_ptr<Core>> BeginCore(const MasterOptions& options, MetaStore* store,
                                                Program& program) {
  const Random random(EntropySeed());
  const Term now = TermOfThisStart();
  if (store == nullptr) {
    program.logger().Info("no --meta-dir: fingerprints and removals end with this process");
    return std::make_unique<Core>(options.core, now, random);
  }
  const absl::Time deadline = program.clock().Now() + kBeginTimeout;
  ASSIGN_OR_RETURN(const BegunTerm begun, BeginTerm(*store, now, program.clock(), deadline));
  LogLeft(begun.left, program.logger());
  return std::make_unique<Core>(options.core, begun.term, random, begun.left.state);
}

// Until somebody stops it.
absl::Status Serve(const MasterOptions& options, MasterServer& server, Program& program) {
  ASSIGN_OR_RETURN(const auto operations,
                   program.StartOperations(
                       {.listen = options.http_listen}, [&server] { return server.health(); },
                       [&server](HttpServer& http) {
                         ServeSegments([&server] { return server.ServingNodes(); }, http);
                       }));
  std::printf("ready: --master %s --http %s\n", server.address().c_str(),
              operations->address().c_str());
  std::fflush(stdout);
  program.stop().Wait();
  server.Stop();
  return absl::OkStatus();
}

MasterServer MakeServer(const MasterOptions& options, Mastership mastership, Program& program) {
  return {options.server,
          options.handlers,
          mastership,
          {program.clock(), program.registry(), program.logger()}};
}

absl::Status ServeAlone(const MasterOptions& options, Program& program) {
  std::unique_ptr<MetaStore> store;
  if (!options.meta_dir.empty()) {
    ASSIGN_OR_RETURN(store, RocksMetaStore::Open({.dir = options.meta_dir},
                                                 {program.clock(), program.logger()}));
  }
  ASSIGN_OR_RETURN(std::unique_ptr<Core> core, BeginCore(options, store.get(), program));
  const Term term = core->term();
  MasterServer server = MakeServer(options, Mastership::kAlone, program);
  server.ServeAlone(std::move(core), std::move(store));
  RETURN_IF_ERROR(server.Start());
  program.logger().Info("term begins", {{"term", term.value}});
  return Serve(options, server, program);
}

absl::Status ServeElected(const MasterOptions& options, Program& program) {
  // Before the server: its calls end with that one.
  ASSIGN_OR_RETURN(const auto etcd,
                   EtcdClient::Create(options.etcd, program.clock(), program.logger()));
  MasterServer server = MakeServer(options, Mastership::kElected, program);
  RETURN_IF_ERROR(server.Start());
  CandidacyOptions candidacy{.election = options.election, .core = options.core};
  if (candidacy.election.address.empty()) candidacy.election.address = server.address();
  program.logger().Info("stands for election", {{"address", candidacy.election.address},
                                                {"prefix", candidacy.election.prefix}});
  server.StandForElection(std::move(candidacy), *etcd);
  return Serve(options, server, program);
}

absl::Status ServeAny(const MasterOptions& options, Program& program) {
  RETURN_IF_ERROR(Validate(options));
  return options.is_elected() ? ServeElected(options, program) : ServeAlone(options, program);
}

}  // namespace
}  // namespace moonpool::master

int main(int argc, char** argv) {
  using namespace moonpool;
  SilenceProtobufLog();
  master::MasterOptions options;
  LogOptions log;
  ConfigTable table({.program = "moonpool-master",
                     .summary = "Knows where every object of the pool is and who may use it.",
                     .version = kReleaseVersion});
  master::Describe(options, table);
  DescribeLog(log, table);
  return RunProgram({argc, argv}, table, log,
                    [&](Program& program) { return master::ServeAny(options, program); });
}
