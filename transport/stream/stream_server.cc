#include "transport/stream/stream_server.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/error.h"
#include "common/status_macros.h"

namespace moonpool::transport {
namespace {

// Peers over the limit that are being told so at a time; others are closed without a word.
constexpr size_t kRefusingMax = 64;
constexpr int kAcceptsPerTurn = 64;

UniqueFd OpenSpare() { return UniqueFd(open("/dev/null", O_RDONLY | O_CLOEXEC)); }

absl::Status OutOfRange(absl::string_view field) {
  return MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kBadArgument,
                   absl::StrCat(field, " is out of its range"));
}

}  // namespace

absl::Status StreamServerLimits::Validate() const {
  if (threads < 1 || threads > 64) return OutOfRange("threads");
  if (connections_max < 1) return OutOfRange("connections_max");
  if (handshake_timeout <= absl::ZeroDuration()) return OutOfRange("handshake_timeout");
  if (stall_timeout <= absl::ZeroDuration()) return OutOfRange("stall_timeout");
  if (idle_timeout <= absl::ZeroDuration()) return OutOfRange("idle_timeout");
  if (claims_max < 1) return OutOfRange("claims_max");
  return absl::OkStatus();
}

StreamServer::StreamServer(std::string name, Target& target, std::unique_ptr<StreamBackend> backend,
                           StreamServerLimits limits, const Clock& clock, Logger& logger)
    : name_(std::move(name)),
      target_(target),
      backend_(std::move(backend)),
      limits_(limits),
      clock_(clock),
      logger_(logger),
      refusals_(clock, absl::Seconds(10)) {}

StreamServer::~StreamServer() { Stop(); }

absl::Status StreamServer::Start() {
  MP_CHECK(loops_.empty(), "started twice", name_);
  RETURN_IF_ERROR(limits_.Validate());
  ASSIGN_OR_RETURN(listener_, backend_->Listen());
  spare_ = OpenSpare();
  address_ = LocalAddress(listener_.get()).ToString();
  for (int i = 0; i < limits_.threads; ++i) {
    loops_.push_back(std::make_unique<IoLoop>(i, target_, *backend_, limits_, clock_));
  }
  // The one that accepts comes last: the others are ready for what it hands over.
  for (size_t i = loops_.size(); i-- > 0;) {
    const absl::Status started =
        loops_[i]->Start(listener_.get(), i == 0 ? static_cast<Acceptor*>(this) : nullptr);
    if (!started.ok()) {
      Stop();
      return started;
    }
  }
  logger_.Info("data server listens", {{"backend", name_}, {"address", address_}});
  return absl::OkStatus();
}

void StreamServer::Stop() {
  if (!listener_.valid()) return;
  backend_->WillStop();
  // In this order: the first loop accepts and hands over to the others.
  for (auto& loop : loops_) loop->Stop();
  listener_.Close();
  backend_->Retire();
}

ServerCounters StreamServer::counters() const {
  ServerCounters sum;
  for (const auto& loop : loops_) loop->counters().AddTo(&sum);
  return sum;
}

void StreamServer::OnAcceptable() {
  for (int i = 0; i < kAcceptsPerTurn; ++i) {
    if (!AcceptOne()) return;
  }
}

bool StreamServer::AcceptOne() {
  UniqueFd fd(accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  const int error = errno;
  if (!fd.valid() && (error == EMFILE || error == ENFILE)) {
    spare_.Close();
    UniqueFd turned_away(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    turned_away.Close();
    spare_ = OpenSpare();
    if (auto held_back = refusals_.Admit()) {
      logger_.Warn("no descriptors left for a peer",
                   {{"backend", name_}, {"held_back", *held_back}});
    }
    return true;
  }
  if (!fd.valid()) return error == EINTR || error == ECONNABORTED;
  size_t open = 0;
  for (const auto& loop : loops_) open += loop->load();
  if (open < limits_.connections_max) {
    LeastLoaded().Adopt(std::move(fd));
    return true;
  }
  if (auto held_back = refusals_.Admit()) {
    logger_.Warn(
        "too many connections",
        {{"backend", name_}, {"limit", limits_.connections_max}, {"held_back", *held_back}});
  }
  if (open < limits_.connections_max + kRefusingMax) {
    LeastLoaded().Adopt(std::move(fd),
                        MakeError(absl::StatusCode::kResourceExhausted, ErrorReason::kLimitReached,
                                  "the node serves as many connections as it may",
                                  {.retry_after = absl::Seconds(1)}));
  }
  return true;
}

IoLoop& StreamServer::LeastLoaded() {
  return **std::min_element(loops_.begin(), loops_.end(),
                            [](const auto& a, const auto& b) { return a->load() < b->load(); });
}

}  // namespace moonpool::transport
