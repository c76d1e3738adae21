#include "transport/stream/server_connection.h"

#include <sys/epoll.h>

#include <algorithm>
#include <cstring>

#include "common/error.h"

namespace moonpool::transport {
namespace {

constexpr size_t kInputBytes = 16 * 1024;
static_assert(kInputBytes >= 2 * kFrameBytesMax);

// Moved in one turn; then the other connections of the thread have theirs.
constexpr uint64_t kTurnBytes = 1 << 20;
constexpr int kTurnSteps = 256;
// One sendmsg: several make a turn.
constexpr size_t kSendBytes = 512 * 1024;
// Above these nothing is taken up until the peer has read its answers.
constexpr size_t kSmallOutputBytesMax = 16 * 1024;
constexpr size_t kBorrowedOutputMax = 64;
// A refused peer may still be sending: read that much before the close, or the reset that the close
// causes takes the refusal with it.
constexpr uint64_t kLingerBytesMax = 1 << 20;
constexpr absl::Duration kLingerTimeout = absl::Seconds(1);

}  // namespace

ServerConnection::ServerConnection(UniqueFd fd, ConnectionScope scope)
    : scope_(scope), fd_(std::move(fd)), opened_at_(scope.clock.Now()), moved_at_(opened_at_) {
  scope_.counters.connections_open.Add(1);
}

ServerConnection::~ServerConnection() { scope_.counters.connections_open.Subtract(1); }

void ServerConnection::Refuse(const absl::Status& reason) {
  output_.Commit(EncodeError(FrameType::kError, 0, reason, output_.Reserve()));
  CloseAfterOutput();
}

void ServerConnection::CloseAfterOutput() {
  state_ = State::kClosing;
  opened_at_ = scope_.clock.Now();
  discard_bytes_ = kLingerBytesMax;
  input_begin_ = input_end_ = 0;
}

ServerConnection::Next ServerConnection::TakeTurn() {
  const uint64_t received_before = scope_.counters.received_bytes.value();
  const auto received = [&] { return scope_.counters.received_bytes.value() - received_before; };
  Step last = Step::kDone;
  socket_is_drained_ = false;
  for (int step = 0; step < kTurnSteps && last == Step::kDone; ++step) {
    if (must_send_first() || received() >= kTurnBytes) break;
    last = StepOnce();
  }
  if (last == Step::kFailed) {
    // A peer that has stopped sending may still read why.
    if (state_ == State::kClosing) output_.Flush(fd_.get(), kSendBytes).IgnoreError();
    return Next::kClosed;
  }

  uint64_t sent = 0;
  bool socket_is_full = false;
  while (!output_.empty() && !socket_is_full && sent < kTurnBytes) {
    const absl::StatusOr<size_t> flushed = output_.Flush(fd_.get(), kSendBytes);
    if (!flushed.ok()) return Next::kClosed;
    socket_is_full = *flushed == 0;
    sent += *flushed;
  }
  scope_.counters.sent_bytes.Add(sent);
  if (sent > 0 || received() > 0) moved_at_ = scope_.clock.Now();
  if (state_ == State::kClosing && output_.empty() && !is_write_shut_) {
    is_write_shut_ = true;
    shutdown(fd_.get(), SHUT_WR);
  }
  const bool input_waits = last == Step::kBlocked || must_send_first();
  const bool output_waits = output_.empty() || socket_is_full;
  return input_waits && output_waits ? Next::kWait : Next::kTurn;
}

uint32_t ServerConnection::wanted_events() const {
  uint32_t events = 0;
  if (!must_send_first()) events |= EPOLLIN;
  if (!output_.empty()) events |= EPOLLOUT;
  return events;
}

bool ServerConnection::IsOverdue(absl::Time now) {
  // Closing gives the bytes to others, and a mapped writer that is only slow would still write.
  if (mapped_claims_ > 0) return false;
  const StreamServerLimits& limits = scope_.limits;
  bool overdue = false;
  if (state_ == State::kHandshake) {
    overdue = now - opened_at_ >= limits.handshake_timeout;
  } else if (state_ == State::kClosing) {
    return now - opened_at_ >= kLingerTimeout;  // counted when it began
  } else {
    const bool is_midway = state_ != State::kFrames || !input().empty() || !output_.empty();
    overdue = now - moved_at_ >= (is_midway ? limits.stall_timeout : limits.idle_timeout);
  }
  if (overdue) scope_.counters.timeouts.Add(1);
  return overdue;
}

bool ServerConnection::must_send_first() const {
  if (unconfirmed_.has_value()) return !output_.empty();
  return output_.small_bytes() >= kSmallOutputBytesMax ||
         output_.borrowed_count() >= kBorrowedOutputMax;
}

ServerConnection::Step ServerConnection::StepOnce() {
  if (unconfirmed_.has_value()) {
    ConfirmRead();
    return Step::kDone;
  }
  switch (state_) {
    case State::kHandshake:
    case State::kFrames: return StepFrame();
    case State::kPayload: return StepPayload();
    case State::kDiscard:
    case State::kClosing: return StepDiscard();
  }
  return Step::kFailed;
}

ServerConnection::Step ServerConnection::StepFrame() {
  if (input().size() < kFrameHeaderBytes) return FillInput();
  const absl::StatusOr<FrameHeader> header = ParseRequestHeader(input());
  if (!header.ok()) return OnBadFrame(header.status());
  const bool is_hello = header->type == FrameType::kHello;
  if (is_hello != (state_ == State::kHandshake)) {
    return OnBadFrame(MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kBadFrame,
                                "HELLO comes first, and once"));
  }
  if (input().size() < header->frame_bytes()) return FillInput();
  const absl::StatusOr<RequestBody> body =
      ParseRequestBody(*header, input().subspan(kFrameHeaderBytes, header->body_bytes));
  if (!body.ok()) return OnBadFrame(body.status());
  ConsumeInput(header->frame_bytes());
  return Serve(*header, *body);
}

ServerConnection::Step ServerConnection::OnBadFrame(const absl::Status& error) {
  scope_.counters.bad_frames.Add(1);
  Refuse(error);
  return Step::kDone;
}

// Throws away the rest of a payload that has no place, or what a refused peer still sends.
ServerConnection::Step ServerConnection::StepDiscard() {
  const size_t buffered = std::min<uint64_t>(input().size(), discard_bytes_);
  ConsumeInput(buffered);
  discard_bytes_ -= buffered;
  if (discard_bytes_ > 0) {
    if (socket_is_drained_) return Step::kBlocked;
    const size_t room = std::min<uint64_t>(scope_.scratch.size(), discard_bytes_);
    const iovec vector{scope_.scratch.data(), room};
    const Moved moved = ReceiveInto(absl::MakeConstSpan(&vector, 1), room);
    if (moved.step != Step::kDone) return moved.step;
    discard_bytes_ -= moved.bytes;
  }
  if (discard_bytes_ > 0) return Step::kDone;
  if (state_ == State::kClosing) return Step::kFailed;
  state_ = State::kFrames;
  return Step::kDone;
}

ServerConnection::Step ServerConnection::FillInput() {
  if (socket_is_drained_) return Step::kBlocked;
  MakeInputRoom();
  const size_t room = kInputBytes - input_end_;
  const iovec vector{input_.get() + input_end_, room};
  const Moved moved = ReceiveInto(absl::MakeConstSpan(&vector, 1), room);
  input_end_ += moved.bytes;
  return moved.step;
}

ServerConnection::Moved ServerConnection::ReceiveInto(absl::Span<const iovec> vectors,
                                                      size_t room) {
  const absl::StatusOr<size_t> received = Receive(fd_.get(), vectors);
  if (!received.ok()) return {Step::kFailed, 0};
  scope_.counters.received_bytes.Add(*received);
  // A short read has emptied the socket: what comes later raises a new event.
  socket_is_drained_ = *received < room;
  return {*received == 0 ? Step::kBlocked : Step::kDone, *received};
}

ConstBytes ServerConnection::input() const {
  return ConstBytes(input_.get() + input_begin_, input_end_ - input_begin_);
}

void ServerConnection::ConsumeInput(size_t bytes) {
  input_begin_ += bytes;
  if (input_begin_ == input_end_) input_begin_ = input_end_ = 0;
}

// Afterwards any frame fits behind what is there already.
void ServerConnection::MakeInputRoom() {
  if (input_ == nullptr) input_ = std::make_unique_for_overwrite<std::byte[]>(kInputBytes);
  if (kInputBytes - input_end_ >= kFrameBytesMax) return;
  std::memmove(input_.get(), input_.get() + input_begin_, input_end_ - input_begin_);
  input_end_ -= input_begin_;
  input_begin_ = 0;
}

}  // namespace moonpool::transport
