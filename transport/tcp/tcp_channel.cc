#include "transport/tcp/tcp_channel.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/error.h"
#include "common/status_macros.h"
#include "transport/stream/connect.h"

namespace moonpool::transport {
namespace {

// Streams are loaded in steps of this: small ops stay together on one socket, where they share
// system calls, and large ones spread.
constexpr uint64_t kSpreadBytes = 256 * 1024;

}  // namespace

absl::StatusOr<std::unique_ptr<ClientStream>> OpenTcpStream(const SocketAddress& address,
                                                            Incarnation incarnation,
                                                            const TcpClientOptions& options) {
  ASSIGN_OR_RETURN(UniqueFd fd, NewStreamSocket(address.family()));
  TuneTcp(fd.get(),
          {.congestion_control = options.congestion_control,
           .send_buffer_bytes = options.send_buffer_bytes,
           .receive_buffer_bytes = options.receive_buffer_bytes},
          address.is_loopback());
  RETURN_IF_ERROR(StartConnect(fd.get(), address));
  return std::make_unique<ClientStream>(
      std::move(fd), HelloFor(incarnation, options.client_id, 0),
      ClientStream::Limits{.ops_max = options.outstanding_ops_max,
                           .bytes_max = options.outstanding_bytes_max,
                           .progress_bytes = options.progress_bytes},
      nullptr);
}

TcpChannel::TcpChannel(std::string peer_name, const SocketAddress& address, Incarnation incarnation,
                       const TcpClientOptions& options, StreamDrivers& drivers,
                       std::unique_ptr<ClientStream> first)
    : peer_name_(std::move(peer_name)),
      address_(address),
      incarnation_(incarnation),
      options_(options),
      drivers_(drivers) {
  lanes_.push_back({.stream = std::move(first)});
}

std::optional<absl::Status> TcpChannel::connected() const {
  const ClientStream& first = *lanes_.front().stream;
  if (first.is_ready()) return absl::OkStatus();
  if (first.failure().ok()) return std::nullopt;
  return Annotate(first.failure(), absl::StrCat("connect to ", peer_name_));
}

absl::Status TcpChannel::failure() const {
  for (const Lane& lane : lanes_) {
    if (!lane.loan.has_value()) RETURN_IF_ERROR(lane.stream->failure());
  }
  return absl::OkStatus();
}

// The least loaded stream in steps of kSpreadBytes, the first of equals; a new one when all are
// loaded and there may be more.
absl::StatusOr<ClientStream*> TcpChannel::ChooseStream() {
  ClientStream* best = nullptr;
  for (const Lane& lane : lanes_) {
    if (lane.loan.has_value()) continue;
    if (best == nullptr || lane.stream->outstanding_bytes() / kSpreadBytes <
                               best->outstanding_bytes() / kSpreadBytes) {
      best = lane.stream.get();
    }
  }
  if (best->outstanding_bytes() < kSpreadBytes || lanes_.size() >= options_.streams) return best;
  ASSIGN_OR_RETURN(auto stream, OpenTcpStream(address_, incarnation_, options_));
  lanes_.push_back({.stream = std::move(stream)});
  return lanes_.back().stream.get();
}

template <typename Op>
absl::Status TcpChannel::SubmitOp(Op* op) {
  RETURN_IF_ERROR(Validate(*op));
  RETURN_IF_ERROR(failure());
  ASSIGN_OR_RETURN(ClientStream* const stream, ChooseStream());
  return stream->Add(op);
}

// All streams that are worth a thread, but one: so the first is never lent.
void TcpChannel::LendSome() {
  bool has_own = false;
  for (Lane& lane : lanes_) {
    if (lane.loan.has_value()) continue;
    if (lane.stream->outstanding_bytes() < std::max<uint64_t>(options_.lent_bytes_min, 1)) continue;
    if (!has_own) {
      has_own = true;
      continue;
    }
    lane.lent_ops = lane.stream->outstanding();
    std::optional<StreamDrivers::Loan> loan = drivers_.Lend(*lane.stream);
    if (!loan.has_value()) return;
    lane.loan.emplace(*std::move(loan));
  }
}

bool TcpChannel::Progress() {
  if (lanes_.size() > 1) LendSome();
  bool progressed = false;
  for (Lane& lane : lanes_) {
    if (!lane.loan.has_value()) {
      progressed |= lane.stream->Progress();
      continue;
    }
    progressed |= lane.loan->TakeMoved();
    if (lane.loan->is_over()) lane.loan.reset();
  }
  return progressed;
}

size_t TcpChannel::outstanding() const {
  size_t count = 0;
  for (const Lane& lane : lanes_) {
    count += lane.loan.has_value() ? lane.lent_ops : lane.stream->outstanding();
  }
  return count;
}

void TcpChannel::AppendWaits(std::vector<pollfd>* waits) const {
  for (const Lane& lane : lanes_) {
    if (lane.loan.has_value()) {
      waits->push_back({lane.loan->fd(), POLLIN, 0});
    } else {
      lane.stream->AppendWaits(waits);
    }
  }
}

void TcpChannel::Abandon(const absl::Status& status) {
  for (Lane& lane : lanes_) {
    lane.loan.reset();
    lane.stream->Fail(status);
  }
}

bool TcpChannel::healthy() const {
  for (const Lane& lane : lanes_) {
    if (!lane.loan.has_value() && !lane.stream->IsHealthy()) return false;
  }
  return true;
}

}  // namespace moonpool::transport
