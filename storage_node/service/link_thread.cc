#include "storage_node/service/link_thread.h"

#include <pthread.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/base/attributes.h"
#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/error.h"

namespace moonpool::storage_node {
namespace {

// Messages on their way before bulk has to wait. A few, so that the stream is never idle.
constexpr size_t kUnwrittenForRoom = 4;
// Beyond it nothing more is read: a master that sends commands has to take their results.
constexpr size_t kUnwrittenForRead = 64;
constexpr absl::Duration kRoundMax = absl::Seconds(1);

// For streams that gRPC still holds: it may call them until the process ends, so nothing destroys
// them.
void LeaveToTheProcess(std::unique_ptr<SessionStream> stream) {
  ABSL_CONST_INIT static absl::Mutex mutex(absl::kConstInit);
  static auto* const left = new std::vector<std::unique_ptr<SessionStream>>;
  absl::MutexLock lock(&mutex);
  left->push_back(std::move(stream));
}

}  // namespace

LinkThread::LinkThread(std::unique_ptr<MasterLink> link, const Clock& clock, const Logger& logger,
                       std::function<void()> each_round, absl::Duration end_max)
    : link_(std::move(link)),
      clock_(clock),
      logger_(logger),
      each_round_(std::move(each_round)),
      end_max_(end_max),
      events_(std::make_shared<StreamEvents>()) {}

LinkThread::~LinkThread() { MP_CHECK(!thread_.joinable(), "the link runs on"); }

void LinkThread::Start() {
  thread_ = std::thread([this] {
    pthread_setname_np(pthread_self(), "link");
    Run();
  });
}

void LinkThread::Stop() {
  if (!thread_.joinable()) return;
  {
    absl::MutexLock lock(&mutex_);
    is_stopping_ = true;
  }
  events_->Wake();
  thread_.join();
}

void LinkThread::Run() {
  const auto is_stopping = [this] {
    absl::MutexLock lock(&mutex_);
    return is_stopping_;
  };
  while (!is_stopping()) {
    LinkOutput out = link_->Tick(clock_.Now(), HasRoom());
    const absl::Time wake_at = out.wake_at;
    CarryOut(std::move(out));
    Publish();
    each_round_();
    const absl::Duration wait = std::min(wake_at - clock_.Now(), kRoundMax);
    for (StreamEvent& event : events_->Take(std::max(wait, absl::ZeroDuration()))) Handle(event);
  }
  Release(session_);
  Release(ask_);
  EndStreams();
}

void LinkThread::EndStreams() {
  const absl::Time deadline = clock_.Now() + end_max_;
  for (absl::Time now = clock_.Now(); !streams_.empty() && now < deadline; now = clock_.Now()) {
    for (const StreamEvent& event : events_->Take(std::min(kRoundMax, deadline - now))) {
      if (event.kind == StreamEvent::Kind::kEnded) streams_.erase(event.stream);
    }
  }
  if (streams_.empty()) return;
  logger_.Warn("streams to the master did not end", {{"streams", streams_.size()}});
  for (auto& [id, stream] : streams_) LeaveToTheProcess(std::move(stream));
  streams_.clear();
}

void LinkThread::Handle(StreamEvent& event) {
  const bool is_session = event.stream == session_.id;
  Line* const line = is_session ? &session_ : event.stream == ask_.id ? &ask_ : nullptr;
  switch (event.kind) {
    case StreamEvent::Kind::kMessage:
      if (line == nullptr || line->stream == nullptr) return;
      line->owes_read = true;
      CarryOut(is_session ? link_->OnMessage(event.message, clock_.Now())
                          : link_->OnAskMessage(event.message, clock_.Now()));
      break;
    case StreamEvent::Kind::kWritten:
      if (line != nullptr && line->unwritten > 0) --line->unwritten;
      break;
    case StreamEvent::Kind::kBroken:
      // Why comes with its end, which comes once we let go.
      if (line != nullptr && line->stream != nullptr) {
        std::exchange(line->stream, nullptr)->Release(/*is_broken=*/true);
      }
      return;
    case StreamEvent::Kind::kEnded:
      streams_.erase(event.stream);
      if (line == nullptr) return;
      *line = {};
      CarryOut(is_session ? link_->OnDisconnected(event.status, clock_.Now())
                          : link_->OnAskEnded(clock_.Now()));
      return;
  }
  ReadOn(session_);
  ReadOn(ask_);
}

void LinkThread::CarryOut(LinkOutput out) {
  if (out.adopt) {
    Release(session_);
    session_ = std::exchange(ask_, {});
  }
  if (out.disconnect) Release(session_);
  if (out.end_ask) Release(ask_);
  if (out.connect.has_value()) {
    Release(session_);
    Open(*out.connect, session_);
    // The stream takes messages at once and breaks when there is no connection.
    LinkOutput first = link_->OnConnected(clock_.Now());
    for (v1::NodeMessage& message : first.send) out.send.push_back(std::move(message));
  }
  if (out.ask.has_value()) {
    Release(ask_);
    Open(out.ask->address, ask_);
    Write(std::move(out.ask->registration), ask_);
  }
  for (v1::NodeMessage& message : out.send) Write(std::move(message), session_);
}

void LinkThread::Open(const std::string& address, Line& line) {
  auto stream = std::make_unique<SessionStream>(++last_id_, address, events_);
  line = {.id = last_id_, .stream = stream.get()};
  streams_.emplace(last_id_, std::move(stream));
  line.stream->Start();
}

void LinkThread::Write(v1::NodeMessage message, Line& line) {
  if (line.stream == nullptr) return;
  ++line.unwritten;
  line.stream->Write(std::move(message));
}

void LinkThread::ReadOn(Line& line) {
  if (line.stream == nullptr || !line.owes_read || line.unwritten >= kUnwrittenForRead) return;
  line.owes_read = false;
  line.stream->ReadNext();
}

void LinkThread::Release(Line& line) {
  if (line.stream != nullptr) line.stream->Release(/*is_broken=*/false);
  line = {};
}

bool LinkThread::HasRoom() const {
  return session_.stream != nullptr && session_.unwritten < kUnwrittenForRoom;
}

void LinkThread::Publish() {
  absl::MutexLock lock(&mutex_);
  state_ = link_->state();
  term_ = link_->term();
  failure_ = link_->last_failure();
}

std::string LinkThread::Describe() const {
  absl::MutexLock lock(&mutex_);
  std::string text(LinkStateName(state_));
  if (term_ != Term{}) absl::StrAppend(&text, " in term ", term_.value);
  if (!failure_.ok()) absl::StrAppend(&text, ": ", moonpool::Describe(failure_));
  return text;
}

bool LinkThread::is_live() const {
  absl::MutexLock lock(&mutex_);
  return state_ == LinkState::kLive;
}

}  // namespace moonpool::storage_node
