#include "storage_node/service/node.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/config/host_port.h"
#include "common/error.h"
#include "common/host_id.h"
#include "common/names.h"
#include "common/random.h"
#include "common/status_macros.h"
#include "storage_node/service/socket_path.h"
#include "transport/shm/shm_server.h"
#include "transport/tcp/tcp_server.h"

namespace moonpool::storage_node {
namespace {

constexpr int kShmThreadsMax = 2;  // its requests are small: the bytes are mapped

absl::Status Bad(absl::string_view what, std::string hint) {
  return MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kBadArgument, what,
                   {.hint = std::move(hint)});
}

bool IsEveryAddress(absl::string_view host) { return host == "0.0.0.0" || host == "::"; }

std::string HostName() {
  char name[256] = {};
  if (gethostname(name, sizeof(name) - 1) != 0 || name[0] == '\0') return "node";
  return name;
}

// `listening`: HOST:PORT with the real port.
absl::StatusOr<HostPort> Advertised(const std::string& advertise, const std::string& listening) {
  ASSIGN_OR_RETURN(const HostPort real, ParseHostPort(listening));
  if (advertise.empty()) return real;
  ASSIGN_OR_RETURN(HostPort told, ParseHostPort(advertise));
  if (told.port == 0) told.port = real.port;
  return told;
}

// Of a socket that is taken: its path was made of the name.
absl::Status WithNameHint(const absl::Status& status, absl::string_view name) {
  if (!absl::IsUnavailable(status)) return status;
  return MakeError(status.code(), ErrorReason::kUnspecified, status.message(),
                   {.hint = absl::StrCat("is a node named ", name,
                                         " running here? choose another --name, or give this one "
                                         "another --shm-path")});
}

}  // namespace

absl::Status NodeOptions::Validate() const {
  if (masters.empty()) return Bad("no master is given", "set --master HOST:PORT");
  // All of these go to the master, which cannot read a registration with a byte that is no text.
  if (!name.empty()) RETURN_IF_ERROR(Annotate(CheckNodeName(name), "--name"));
  RETURN_IF_ERROR(CheckLabel("--rack", rack));
  RETURN_IF_ERROR(CheckLabel("--host-id", host_id));
  RETURN_IF_ERROR(CheckLabel("--shm-path", shm_path));
  if (!shm_path.empty() && shm_path[0] != '/') {
    return Bad("--shm-path is no absolute path", "clients connect from other working directories");
  }
  if (!pool_dir.empty() && name.empty()) {
    return Bad("--pool-dir needs a --name: the master knows the pool again by it",
               "set --name to one that is unique in the cluster and stays the same");
  }
  ASSIGN_OR_RETURN(const HostPort listen, ParseHostPort(data_listen));
  if (IsEveryAddress(listen.host) && data_advertise.empty()) {
    return Bad(absl::StrCat("--data-listen ", data_listen, " is no address that clients can use"),
               "set --data-advertise HOST:0 to one under which clients reach this host; port 0 "
               "stands for the port that is listened on");
  }
  if (data_advertise.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const HostPort advertise, ParseHostPort(data_advertise));
  if (IsEveryAddress(advertise.host)) {
    return Bad("--data-advertise must be an address that clients can use", "name one interface");
  }
  return absl::OkStatus();
}

Node::Node(NodeOptions options, Dependencies dependencies)
    : options_(std::move(options)),
      dependencies_(dependencies),
      serve_metrics_(dependencies.registry),
      link_metrics_(dependencies.registry),
      pool_metrics_(dependencies.registry),
      scrub_metrics_(dependencies.registry) {}

Node::~Node() { Stop(); }

absl::Status Node::Start(std::function<bool()> should_stop) {
  RETURN_IF_ERROR(options_.Validate());
  identity_.host_id = options_.host_id.empty() ? LocalHostId() : options_.host_id;
  identity_.rack = options_.rack;
  RETURN_IF_ERROR(StartPool(std::move(should_stop)));
  MakeScrubber();
  RETURN_IF_ERROR(StartTcp());
  if (options_.shm_enabled) RETURN_IF_ERROR(StartShm());
  StartCopies();
  StartLink();
  // At once: what an earlier life has left may have been damaged since.
  scrubber_->Start();
  dependencies_.logger.Info("node serves", {{"node", identity_.name},
                                            {"incarnation", identity_.incarnation.value},
                                            {"host_id", identity_.host_id},
                                            {"tcp", identity_.tcp_address},
                                            {"shm", identity_.shm_path},
                                            {"bytes", options_.dram_bytes}});
  return absl::OkStatus();
}

absl::Status Node::StartPool(std::function<bool()> should_stop) {
  ASSIGN_OR_RETURN(pool_, NodePool::Open({.memory = {.capacity_bytes = options_.dram_bytes,
                                                     .huge_pages = options_.huge_pages,
                                                     .prefault_threads = options_.prefault_threads,
                                                     .numa_node = options_.numa_node,
                                                     .should_stop = std::move(should_stop)},
                                          .parts_max = options_.parts_max,
                                          .dir = options_.pool_dir,
                                          .pins_dir = options_.pool_pins_dir,
                                          .lock_wait = options_.pool_lock_wait},
                                         dependencies_.clock, dependencies_.logger));
  identity_.incarnation = pool_->incarnation();
  target_ = std::make_unique<NodeTarget>(pool_->incarnation(), pool_->index(), serve_metrics_);
  return absl::OkStatus();
}

absl::Status Node::StartTcp() {
  transport::TcpServerOptions tcp;
  tcp.listen_address = options_.data_listen;
  tcp.limits.threads = options_.io_threads;
  tcp.limits.connections_max = options_.connections_max;
  auto server = transport::NewTcpServer(*target_, tcp, dependencies_.clock, dependencies_.logger);
  RETURN_IF_ERROR(
      Annotate(WithPortHint(server->Start(), "--data-listen"), "start the data server"));
  const std::string listening = server->address();
  servers_.push_back({std::move(server), ServerMetrics(dependencies_.registry, "tcp")});
  ASSIGN_OR_RETURN(const HostPort advertised, Advertised(options_.data_advertise, listening));
  identity_.tcp_address = advertised.ToString();
  identity_.name =
      options_.name.empty() ? absl::StrCat(HostName(), "-", advertised.port) : options_.name;
  return Annotate(CheckNodeName(identity_.name), "the host's name does not serve; set --name");
}

absl::Status Node::StartShm() {
  transport::ShmServerOptions shm;
  shm.socket_path = options_.shm_path;
  if (shm.socket_path.empty()) {
    ASSIGN_OR_RETURN(shm.socket_path, DefaultSocketPath(identity_.name));
  }
  shm.mapped_writers = options_.shm_mapped_writers;
  shm.pin_slots = options_.shm_pin_slots;
  shm.pins_dir = pool_->pins_dir();
  shm.limits.threads = std::min(options_.io_threads, kShmThreadsMax);
  shm.limits.connections_max = options_.connections_max;
  std::vector<transport::ShmSegment> segments;
  segments.push_back(
      {.id = SegmentId{0}, .fd = pool_->memory().fd(), .bytes = pool_->memory().mapped_bytes()});
  auto server = transport::NewShmServer(*target_, std::move(segments), shm, dependencies_.clock,
                                        dependencies_.logger);
  RETURN_IF_ERROR(
      Annotate(WithNameHint(server->Start(), identity_.name), "start the shared-memory server"));
  identity_.shm_path = server->address();
  servers_.push_back({std::move(server), ServerMetrics(dependencies_.registry, "shm")});
  return absl::OkStatus();
}

void Node::StartCopies() {
  copies_ = std::make_unique<CopyThreads>(
      CopyThreadsOptions{.threads = options_.copy_threads, .host_id = identity_.host_id},
      pool_->index(), dependencies_.clock, dependencies_.registry);
  copies_->queue().SetOnResult([this] { link_->Wake(); });
  copies_->Start();
}

void Node::StartLink() {
  MasterLinkOptions options;
  options.masters = options_.masters;
  options.backoff_max = options_.backoff_max;
  auto link = std::make_unique<MasterLink>(identity_, options,
                                           MasterLink::Dependencies{.index = pool_->index(),
                                                                    .copies = copies_->queue(),
                                                                    .metrics = link_metrics_,
                                                                    .logger = dependencies_.logger},
                                           Random(EntropySeed()));
  const auto each_round = [this] {
    pool_->ReleaseEnded();
    pool_metrics_.Update(pool_->index());
    for (DataServer& each : servers_) each.metrics.Update(each.server->counters());
  };
  link_ = std::make_unique<LinkThread>(std::move(link), dependencies_.clock, dependencies_.logger,
                                       each_round);
  pool_->index().seal_reports().SetOnPending([this] { link_->Wake(); });
  pool_->index().lost_parts().SetOnPending([this] { link_->Wake(); });
  link_->Start();
}

// Before anybody is served, who may doubt what is here; it starts when the master can be told.
void Node::MakeScrubber() {
  scrubber_ = std::make_unique<ScrubThread>(
      std::make_unique<Scrubber>(
          pool_->index(), ScrubberOptions{.bytes_per_second = options_.scrub_bytes_per_second},
          scrub_metrics_, dependencies_.logger),
      dependencies_.clock);
  pool_->index().doubted_parts().SetOnPending([this] { scrubber_->Wake(); });
}

void Node::Stop() {
  if (scrubber_ != nullptr) scrubber_->Stop();
  if (link_ != nullptr) link_->Stop();
  if (copies_ != nullptr) copies_->Stop();
  if (pool_ != nullptr) pool_->index().WillStop();
  for (auto it = servers_.rbegin(); it != servers_.rend(); ++it) it->server->Stop();
  servers_.clear();
}

Health Node::health() const {
  return Health{.is_healthy = true,
                .text = absl::StrCat("serving; link to the master ", link_->Describe())};
}

}  // namespace moonpool::storage_node
