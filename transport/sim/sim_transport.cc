#include "transport/sim/sim_transport.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/checksum.h"
#include "common/error.h"
#include "common/status_macros.h"
#include "transport/sim/sim_views.h"

namespace moonpool::sim {

using transport::Channel;
using transport::ConstBytes;
using transport::PartHeader;
using transport::PeerAddress;
using transport::ReadOp;
using transport::WriteClaim;
using transport::WriteOp;
using transport::WriterKind;

namespace {

// How long an end of a broken connection takes to see it.
constexpr absl::Duration kNoticeAfter = absl::Milliseconds(1);

constexpr absl::Duration kConnectTimeout = absl::Milliseconds(500);
constexpr int kWriteSteps = 3;

absl::Status Broken(absl::string_view why) {
  return MakeError(absl::StatusCode::kUnavailable, ErrorReason::kPeerUnreachable, why);
}

// One operation on its way. Events hold it by shared_ptr; `read` and `write` are cleared when the
// channel gives the operation up, so that no late event touches the caller's memory.
struct Flight {
  ReadOp* read = nullptr;
  WriteOp* write = nullptr;
  // What travels.
  Generation generation;
  Extent extent;
  bool confirm = false;  // of a read: nothing else will tell whose bytes they were
  transport::SealRecord record;
  std::vector<std::byte> bytes;
  absl::Status answer;
  bool answered = false;
  std::shared_ptr<WriteClaim> claim;
};

class SimChannel final : public Channel, private transport::ViewSource {
 public:
  // Without a viewer it has no views.
  SimChannel(SimFabric& fabric, std::string host, std::shared_ptr<SimFabric::Server> server,
             size_t outstanding_max, std::shared_ptr<SimFabric::Viewer> viewer)
      : outstanding_max_(outstanding_max),
        fabric_(fabric),
        host_(std::move(host)),
        server_(std::move(server)),
        viewer_(std::move(viewer)),
        there_(fabric.network().NewStream()),
        back_(fabric.network().NewStream()) {
    server_->links.push_back(link_);
  }

  ~SimChannel() override { Forget(); }

  absl::string_view backend() const override { return "sim"; }

  // One message there and one back.
  void ShakeHands(const PeerAddress& peer) {
    peer_ = peer;
    Network& network = fabric_.network();
    network.Send(host_, server_->host, 0,
                 [&fabric = fabric_, server = server_, host = host_, link = link_] {
                   server->Do([&fabric, server, host, link] {
                     fabric.network().Send(server->host, host, 0, [&fabric, link] {
                       link->answered = true;
                       fabric.scheduler().Wake(link->waiting);
                     });
                   });
                 });
  }

  std::optional<absl::Status> connected() const override {
    if (link_->broken || (link_->answered && !server_->alive)) {
      return Broken(absl::StrCat("no answer from ", peer_.tcp_address));
    }
    if (!link_->answered) return std::nullopt;
    if (server_->target->incarnation() == peer_.incarnation) return absl::OkStatus();
    return MakeError(absl::StatusCode::kFailedPrecondition, ErrorReason::kStaleGeneration,
                     absl::StrCat("node at ", peer_.tcp_address, " has another incarnation"));
  }

  absl::Status Submit(ReadOp* op) override {
    RETURN_IF_ERROR(transport::Validate(*op));
    RETURN_IF_ERROR(Ready());
    op->done = false;
    auto flight = std::make_shared<Flight>();
    flight->read = op;
    flight->generation = op->generation;
    flight->extent = op->extent;
    flight->confirm = !op->verify;
    flights_.push_back(flight);
    ToServer(there_, [this_ = Context(), flight] {
      this_.server->Do([this_, flight] { this_.ServeRead(flight); });
    });
    return absl::OkStatus();
  }

  absl::Status Submit(WriteOp* op) override {
    RETURN_IF_ERROR(transport::Validate(*op));
    RETURN_IF_ERROR(Ready());
    op->done = false;
    auto flight = std::make_shared<Flight>();
    flight->write = op;
    for (const ConstBytes piece : op->from) {
      flight->bytes.insert(flight->bytes.end(), piece.begin(), piece.end());
    }
    op->record.payload_checksum = Checksum(absl::MakeConstSpan(flight->bytes));
    flight->record = op->record;
    flights_.push_back(flight);
    ToServer(there_, [this_ = Context(), flight] {
      this_.server->Do([this_, flight] { this_.ServeWrite(flight); });
    });
    if (fabric_.random().Uniform() < fabric_.faults().duplicate_write) {
      auto again = std::make_shared<Flight>(*flight);
      again->write = nullptr;  // its answer interests nobody
      ToServer(0, [this_ = Context(), again] {
        this_.server->Do([this_, again] { this_.ServeWrite(again); });
      });
    }
    return absl::OkStatus();
  }

  void Doubt(Generation generation, const Extent& extent) override {
    if (link_->broken) return;
    ToServer(there_, [this_ = Context(), generation, extent] {
      this_.server->Do([this_, generation, extent] {
        if (this_.server->alive) this_.server->target->Doubt(generation, extent);
      });
    });
  }

  bool Progress() override {
    fabric_.scheduler().PollFromOutside();
    if (link_->broken && !flights_.empty()) {
      Finish(Broken("connection lost"));
      return true;
    }
    bool moved = false;
    std::deque<std::shared_ptr<Flight>> waiting;
    for (const std::shared_ptr<Flight>& flight : flights_) {
      if (!flight->answered) {
        waiting.push_back(flight);
        continue;
      }
      Land(*flight);
      moved = true;
    }
    flights_ = std::move(waiting);
    return moved;
  }

  size_t outstanding() const override { return flights_.size(); }
  void AppendWaits(std::vector<pollfd>*) const override {}
  void Abandon(const absl::Status& status) override {
    link_->broken = true;
    Finish(status);
  }
  bool healthy() const override { return !link_->broken; }
  transport::ViewSource* views() override { return viewer_ == nullptr ? nullptr : this; }

  void SetWaiting(uint64_t token) { link_->waiting = token; }

 private:
  // First the pin, then the look at the header: so the node sees the one, or this the other.
  absl::StatusOr<std::unique_ptr<transport::PinnedPart>> OpenView(Generation generation,
                                                                  const Extent& extent) override {
    if (!viewer_->is_open()) return Broken("the node has gone");
    ASSIGN_OR_RETURN(const ConstBytes memory, server_->target->OpenRead(generation, extent));
    viewer_->Pin(generation);
    absl::StatusOr<PartHeader> header =
        transport::CheckPartHeader(generation, extent, memory.subspan(0, kPartHeaderBytes));
    if (!header.ok()) {
      viewer_->Unpin(generation);
      return header.status();
    }
    return std::make_unique<SimPinnedPart>(viewer_, *header, memory.subspan(kPartHeaderBytes));
  }

  // The server's end: what an event needs after the channel itself may be gone.
  struct ServerEnd {
    SimFabric& fabric;
    std::string client_host;
    std::shared_ptr<SimFabric::Server> server;
    std::shared_ptr<SimFabric::Link> link;
    uint64_t back;

    bool gone() const { return !server->alive || link->broken; }

    void Answer(const std::shared_ptr<Flight>& flight, absl::Status status) const {
      flight->claim.reset();
      flight->answer = std::move(status);
      const bool sent = fabric.network().Send(server->host, client_host, back, [*this, flight] {
        flight->answered = true;
        fabric.scheduler().Wake(link->waiting);
      });
      if (!sent) Break();
    }

    // Noticed by the client after a while, as a reset would be.
    void Break() const {
      fabric.scheduler().After(kNoticeAfter, [*this] {
        link->broken = true;
        fabric.scheduler().Wake(link->waiting);
      });
    }

    // In two halves, so that an owner may change in between.
    void ServeRead(const std::shared_ptr<Flight>& flight) const {
      if (gone()) return;
      absl::StatusOr<ConstBytes> memory =
          server->target->OpenRead(flight->generation, flight->extent);
      if (!memory.ok()) return Answer(flight, memory.status());
      const ConstBytes bytes = *memory;
      const size_t half = bytes.size() / 2;
      flight->bytes.assign(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(half));
      fabric.scheduler().After(Pause(), [*this, flight, bytes, half] {
        server->Do([*this, flight, rest = bytes.subspan(half)] { ServeRest(flight, rest); });
      });
    }

    void ServeRest(const std::shared_ptr<Flight>& flight, ConstBytes rest) const {
      if (gone()) return;
      flight->bytes.insert(flight->bytes.end(), rest.begin(), rest.end());
      if (!flight->bytes.empty() && fabric.random().Uniform() < fabric.faults().bit_flip) {
        flight->bytes[fabric.random().Below(flight->bytes.size())] ^= std::byte{0x10};
      }
      Answer(flight, flight->confirm
                         ? server->target->OpenRead(flight->generation, flight->extent).status()
                         : absl::OkStatus());
    }

    void ServeWrite(const std::shared_ptr<Flight>& flight) const {
      if (!server->alive) return;
      const transport::SealRecord& record = flight->record;
      auto claim = server->target->Claim(record.generation, record.extent, WriterKind::kStepwise);
      if (absl::IsAlreadyExists(claim.status())) {
        return Answer(flight, server->target->Seal(record));
      }
      if (!claim.ok()) return Answer(flight, claim.status());
      flight->claim = *std::move(claim);
      WriteStep(flight, 0);
    }

    void WriteStep(const std::shared_ptr<Flight>& flight, int step) const {
      if (!server->alive) return;
      const size_t size = flight->bytes.size();
      const size_t begin = size * static_cast<size_t>(step) / kWriteSteps;
      const size_t end = size * static_cast<size_t>(step + 1) / kWriteSteps;
      if (!flight->claim->BeginStep()) {
        return Answer(flight, MakeError(absl::StatusCode::kFailedPrecondition,
                                        ErrorReason::kStaleGeneration, "superseded in mid-write"));
      }
      if (end > begin) {
        std::memcpy(flight->claim->payload().data() + begin, flight->bytes.data() + begin,
                    end - begin);
      }
      flight->claim->EndStep();
      if (step + 1 == kWriteSteps) {
        flight->claim->SetWritten();
        return Answer(flight, server->target->Seal(flight->record));
      }
      fabric.scheduler().After(Pause(), [*this, flight, step] {
        server->Do([*this, flight, step] { WriteStep(flight, step + 1); });
      });
    }

    absl::Duration Pause() const {
      return absl::Microseconds(1 + static_cast<int64_t>(fabric.random().Below(300)));
    }
  };

  ServerEnd Context() const {
    return ServerEnd{
        .fabric = fabric_, .client_host = host_, .server = server_, .link = link_, .back = back_};
  }

  absl::Status Ready() const {
    if (link_->broken) return Broken("connection lost");
    if (flights_.size() >= outstanding_max_) {
      return MakeError(absl::StatusCode::kResourceExhausted, ErrorReason::kLimitReached,
                       "too many operations outstanding on the channel");
    }
    return absl::OkStatus();
  }

  void ToServer(uint64_t stream, std::function<void()> arrive) {
    if (!fabric_.network().Send(host_, server_->host, stream, std::move(arrive))) {
      Context().Break();
    }
  }

  // Takes over what arrived, checking it as every backend does.
  void Land(Flight& flight) {
    if (flight.write != nullptr) {
      flight.write->status = flight.answer;
      flight.write->done = true;
      return;
    }
    ReadOp& op = *flight.read;
    op.status = flight.answer.ok() ? TakePart(flight, op) : flight.answer;
    if (absl::IsDataLoss(op.status)) Doubt(op.generation, op.extent);
    op.done = true;
  }

  static absl::Status TakePart(const Flight& flight, ReadOp& op) {
    const ConstBytes bytes = flight.bytes;
    ASSIGN_OR_RETURN(op.header, transport::CheckPartHeader(op.generation, op.extent,
                                                           bytes.subspan(0, kPartHeaderBytes)));
    ConstBytes payload = bytes.subspan(kPartHeaderBytes);
    if (op.verify) RETURN_IF_ERROR(transport::CheckPayload(op.header, Checksum(payload)));
    for (const transport::MutableBytes piece : op.into) {
      std::ranges::copy(payload.first(piece.size()), piece.begin());
      payload.remove_prefix(piece.size());
    }
    return absl::OkStatus();
  }

  void Finish(const absl::Status& status) {
    for (const std::shared_ptr<Flight>& flight : flights_) {
      if (flight->read != nullptr) {
        flight->read->status = status;
        flight->read->done = true;
      }
      if (flight->write != nullptr) {
        flight->write->status = status;
        flight->write->done = true;
      }
    }
    Forget();
  }

  void Forget() {
    for (const std::shared_ptr<Flight>& flight : flights_) {
      flight->read = nullptr;
      flight->write = nullptr;
    }
    flights_.clear();
  }

  const size_t outstanding_max_;
  SimFabric& fabric_;
  const std::string host_;
  const std::shared_ptr<SimFabric::Server> server_;
  const std::shared_ptr<SimFabric::Viewer> viewer_;
  const uint64_t there_;
  const uint64_t back_;
  PeerAddress peer_;
  const std::shared_ptr<SimFabric::Link> link_ = std::make_shared<SimFabric::Link>();
  std::deque<std::shared_ptr<Flight>> flights_;
};

class SimTransport final : public transport::Transport {
 public:
  SimTransport(SimFabric& fabric, std::string host, size_t outstanding_max, bool has_views)
      : fabric_(fabric),
        host_(std::move(host)),
        outstanding_max_(outstanding_max),
        has_views_(has_views) {}

  absl::string_view name() const override { return "sim"; }
  bool Reaches(const PeerAddress& peer) const override { return !peer.tcp_address.empty(); }

  absl::StatusOr<std::unique_ptr<Channel>> Connect(const PeerAddress& peer,
                                                   const CallContext& context) override {
    ASSIGN_OR_RETURN(std::unique_ptr<SimChannel> channel, Start(peer, context));
    Scheduler& scheduler = fabric_.scheduler();
    const uint64_t token = scheduler.NewToken();
    channel->SetWaiting(token);
    scheduler.Block(token, std::min(context.deadline, scheduler.Now() + kConnectTimeout));
    RETURN_IF_ERROR(
        channel->connected().value_or(Broken(absl::StrCat("no answer from ", peer.tcp_address))));
    return channel;
  }

  absl::StatusOr<std::unique_ptr<Channel>> StartConnect(const PeerAddress& peer,
                                                        const CallContext& context) override {
    return Start(peer, context);
  }

 private:
  absl::StatusOr<std::unique_ptr<SimChannel>> Start(const PeerAddress& peer,
                                                    const CallContext& context) {
    RETURN_IF_ERROR(context.Check(fabric_.scheduler()));
    std::shared_ptr<SimFabric::Server> server = fabric_.Find(peer.tcp_address);
    if (server == nullptr) return Broken(absl::StrCat("nobody listens at ", peer.tcp_address));
    std::shared_ptr<SimFabric::Viewer> viewer;
    if (has_views_) {
      viewer = std::make_shared<SimFabric::Viewer>(host_, server);
      server->viewers.push_back(viewer);
    }
    auto channel = std::make_unique<SimChannel>(fabric_, host_, std::move(server), outstanding_max_,
                                                std::move(viewer));
    channel->ShakeHands(peer);
    return channel;
  }

  SimFabric& fabric_;
  const std::string host_;
  const size_t outstanding_max_;
  const bool has_views_;
};

class SimWaiter final : public transport::Waiter {
 public:
  explicit SimWaiter(SimFabric& fabric) : fabric_(fabric) {}

  void Wait(absl::Span<Channel* const> channels, const CallContext& context) override {
    Scheduler& scheduler = fabric_.scheduler();
    const uint64_t token = scheduler.NewToken();
    for (Channel* const channel : channels) {
      static_cast<SimChannel*>(channel)->SetWaiting(token);
    }
    // Bounded, so that a cancellation (which wakes nobody here) is seen.
    const absl::Time look = scheduler.Now() + absl::Milliseconds(50);
    scheduler.Block(token, std::min(context.deadline, look));
  }

  const Clock& clock() const override { return fabric_.scheduler(); }

 private:
  SimFabric& fabric_;
};

}  // namespace

std::unique_ptr<transport::Transport> NewSimTransport(SimFabric& fabric, std::string host,
                                                      size_t outstanding_max) {
  return std::make_unique<SimTransport>(fabric, std::move(host), outstanding_max, false);
}

std::unique_ptr<transport::Transport> NewSimSharedMemory(SimFabric& fabric, std::string host,
                                                         size_t outstanding_max) {
  return std::make_unique<SimTransport>(fabric, std::move(host), outstanding_max, true);
}

std::unique_ptr<transport::Waiter> NewSimWaiter(SimFabric& fabric) {
  return std::make_unique<SimWaiter>(fabric);
}

}  // namespace moonpool::sim
