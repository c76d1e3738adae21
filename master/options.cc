#include "master/options.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/config/host_port.h"
#include "common/config/units.h"
#include "common/error.h"
#include "common/status_macros.h"
#include "master/core/eviction/registry.h"

namespace moonpool::master {
namespace {

constexpr ConfigRange<absl::Duration> kShort{absl::Milliseconds(10), absl::Minutes(10)};

std::string EvictionHelp() {
  const auto policies = EvictionPolicies();
  return absl::StrCat("What goes when room is needed: ",
                      absl::StrJoin(policies, "; ",
                                    [](std::string* out, const PolicyInfo& policy) {
                                      absl::StrAppend(out, policy.name, " (", policy.summary, ")");
                                    }),
                      ".");
}

void DescribeServer(MasterOptions& options, ConfigTable& table) {
  ServerOptions& server = options.server;
  table.Group("Addresses");
  table.ListenAddress("listen", &server.listen,
                      "Where clients and nodes call. Port 0: any free one.");
  table.ListenAddress("http.listen", &options.http_listen,
                      "Where /metrics, /healthz and /config are. Port 0: any free one.");

  table.Group("Server");
  table.Bytes("server.memory", &server.memory_bytes, {16 * kMiB, kTiB},
              "Memory that calls in flight may use.");
  table.Int("server.max-streams", &server.max_streams, {1, 1 << 20},
            "Calls in flight per connection.");
  table.Duration("server.stop-timeout", &server.stop_timeout, kShort,
                 "How long a stop waits for calls before it cuts them off.");
}

void DescribeMeta(MasterOptions& options, ConfigTable& table) {
  table.Group("Durable state");
  table.Text(
      "meta.dir", &options.meta_dir,
      "Folder for what has to outlive the master: its term, the fingerprints of namespaces, "
      "the registry of nodes, and removals that not every node has confirmed. Without one a "
      "restarted master takes the fingerprint that a node or a client brings first, and a "
      "removed key may come back with a node that the one before had given up or never met.");
}

void DescribeElection(MasterOptions& options, ConfigTable& table) {
  EtcdOptions& etcd = options.etcd;
  ElectionOptions& election = options.election;
  table.Group("Several masters");
  table.PeerAddresses(
      "etcd.endpoints", &etcd.endpoints,
      "Members of the etcd cluster in which the masters elect their leader and keep what has to "
      "outlive it. Without any, this master is alone.");
  table.Text("etcd.prefix", &election.prefix,
             "Where in etcd the masters of this pool meet: another one for each pool, the same for "
             "all its masters.");
  table.Text("etcd.ca", &etcd.ca_file,
             "PEM file of the CA that etcd's certificate is of. With it all is encrypted.");
  table.Text("etcd.cert", &etcd.cert_file,
             "PEM file of this master's certificate, where etcd wants one.");
  table.Text("etcd.key", &etcd.key_file, "PEM file of that certificate's key.");
  table.Text("etcd.user", &etcd.user, "Where etcd has authentication on.");
  table.Text("etcd.password-file", &etcd.password_file,
             "File with the user's password and nothing else.");
  table.PeerAddress("advertise", &election.address,
                    "Where clients, nodes and other masters call this one, if that is not "
                    "--listen.");
  table.Duration("election.lease", &election.lease, {kElectionLeaseMin, kElectionLeaseMax},
                 "How long a leader that etcd does not hear of still leads, in whole seconds. "
                 "Shorter: another leads sooner. Longer: an etcd that is away is ridden out.");
}

void DescribePool(CoreOptions& core, ConfigTable& table) {
  table.Group("Pool");
  std::vector<std::string> policies;
  for (const PolicyInfo& policy : EvictionPolicies()) policies.emplace_back(policy.name);
  table.Choice("eviction.policy", &core.eviction_policy, std::move(policies), EvictionHelp());
  table.Duration("grant.max", &core.max_grant, kShort,
                 "Longest time that a writer has from the grant to the commit.");
  table.Duration(
      "lease.max", &core.max_lease, kShort,
      "Longest lease that is given; and how long a restarted master evicts nothing it adopted.");
  table.Real("lease.fraction", &core.leased_fraction, {0.0, 1.0},
             "Share of the capacity that the leases of one namespace may hold.");
  table.Duration("condemn.duration", &core.condemn_duration, kShort,
                 "How long bytes rest that are still pinned at their node.");
  table.Bytes("stripe.size", &core.stripe_bytes, {kMiB, kTiB},
              "Larger objects are cut into parts on several nodes; smaller ones only where no hole "
              "is large enough.");
  table.Bytes("stripe.min-part", &core.min_part_bytes, {4 * kKiB, kGiB},
              "No part of an object is smaller, the last one aside.");
}

void DescribeNodes(MasterOptions& options, ConfigTable& table) {
  table.Group("Nodes");
  table.Duration("node.heartbeat", &options.handlers.heartbeat_interval, kShort,
                 "How often nodes report.");
  table.Duration("node.session-timeout", &options.handlers.session_timeout, kShort,
                 "Silence after which a node's session ends.");
  table.Duration("node.loss-timeout", &options.core.node_loss_timeout, kShort,
                 "How long a node may be away before its objects count as lost.");
  table.Duration("node.command-retry", &options.core.command_retry, kShort,
                 "A command without a result is repeated after this time.");
}

void DescribeReplicas(CoreOptions& core, ConfigTable& table) {
  table.Group("Replicas");
  table.Bytes("repair.bandwidth", &core.copy_bandwidth, {kMiB, kTiB},
              "Bytes per second that a node gives and takes in copies between nodes: for replicas "
              "that were lost, nodes that are drained, and objects that are hot.");
  table.Int("repair.parallel", &core.copies_per_node, {1, kMostCopiesOfNode},
            "Parts that a node gives and takes at the same time.");
  table.Duration("repair.timeout", &core.copy_timeout, kShort,
                 "How long a copy may take, and eight times what the bandwidth says.");
  table.Duration("repair.retry", &core.copy_retry, kShort,
                 "A copy that failed, or found no room, is tried again after this time.");
  table.Int("hot.reads", &core.hot_reads, {1, 1 << 30},
            "An object that is read so often within --hot-window gets another replica.");
  table.Duration("hot.window", &core.hot_window, kShort,
                 "An object is hot no more after three of these without a read.");
  table.Int("hot.max-replicas", &core.hot_max_replicas, {0, kMaxReplicas - 1},
            "Replicas that a hot object has at most beside those that its writer asked for. 0: "
            "none.");
  table.Duration("node.ramp", &core.node_ramp, {absl::ZeroDuration(), absl::Hours(24)},
                 "Time in which a node that comes empty grows to its full share of the puts, while "
                 "others have room.");
}

void DescribeLimits(MasterOptions& options, ConfigTable& table) {
  CoreOptions& core = options.core;
  HandlersOptions& handlers = options.handlers;
  table.Group("Limits");
  table.Int("limit.objects", &core.max_objects, {1, 0xf0000000}, "Objects in the index.");
  table.Int("limit.grants", &core.max_open_grants, {1, 1 << 28}, "Open grants.");
  table.Int("limit.leases", &core.max_leases, {0, 1 << 28}, "Leases of one namespace.");
  table.Int("limit.tombstones", &core.max_tombstones, {1, 1 << 28}, "Unconfirmed removals.");
  table.Int("limit.debts", &core.max_debts, {1, 1 << 28},
            "Dead objects per node that it has not confirmed to have forgotten.");
  table.Int(
      "limit.events", &core.max_events, {0, 1 << 24},
      "Last events that are kept for streams that were cut off, some 250 bytes each and 2.3 KiB "
      "at the most, while there are such. 0: nobody can follow events.");
  table.Int("limit.watchers", &handlers.max_watchers, {0, 1 << 16}, "Streams of events.");
  table.Int("limit.namespaces", &core.max_namespaces, {1, kMaxNamespaces}, "Namespaces.");
  table.Int("limit.nodes", &core.max_nodes, {1, 1 << 20}, "Nodes, also those that are away.");
  table.Int("limit.sessions", &handlers.max_sessions, {1, 1 << 20}, "Streams of nodes.");
  table.Int("limit.waiters", &handlers.max_waiters, {0, 1 << 20}, "Calls that wait.");
  table.Duration("limit.wait", &handlers.max_wait, kShort,
                 "Longest time that a call waits, whatever its caller allows.");
}

absl::Status BadOption(absl::string_view what, absl::string_view hint) {
  return MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kBadArgument, what,
                   {.hint = std::string(hint)});
}

absl::Status ValidateElected(const MasterOptions& options) {
  RETURN_IF_ERROR(Validate(options.etcd));
  if (!options.meta_dir.empty()) {
    return BadOption("--meta-dir and --etcd-endpoints exclude each other",
                     "masters that are elected keep their durable state in etcd");
  }
  ElectionOptions election = options.election;
  if (!election.address.empty()) return Validate(election);
  ASSIGN_OR_RETURN(HostPort listen, ParseHostPort(options.server.listen));
  const bool is_anywhere = listen.host.empty() || listen.host == "0.0.0.0" || listen.host == "::";
  if (is_anywhere) {
    return BadOption(absl::StrCat("--listen ", options.server.listen,
                                  " does not say where others call this master"),
                     "give that address with --advertise HOST:PORT");
  }
  if (listen.port == 0) listen.port = 1;  // the one that it gets is as good
  election.address = listen.ToString();
  return Validate(election);
}

}  // namespace

void Describe(MasterOptions& options, ConfigTable& table) {
  DescribeServer(options, table);
  DescribeMeta(options, table);
  DescribeElection(options, table);
  DescribePool(options.core, table);
  DescribeNodes(options, table);
  DescribeReplicas(options.core, table);
  DescribeLimits(options, table);
}

absl::Status Validate(const MasterOptions& options) {
  if (options.is_elected()) {
    RETURN_IF_ERROR(ValidateElected(options));
  } else if (!options.election.address.empty()) {
    return BadOption("--advertise without --etcd-endpoints",
                     "a master that is alone names itself to nobody");
  }
  if (options.handlers.session_timeout < 2 * options.handlers.heartbeat_interval) {
    return MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kBadArgument,
                     "--node-session-timeout is less than two times --node-heartbeat",
                     {.hint = "one late heartbeat would end every session"});
  }
  return absl::OkStatus();
}

}  // namespace moonpool::master
