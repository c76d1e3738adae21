#include "transport/shm/shm_server.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/error.h"
#include "common/status_macros.h"
#include "transport/shm/mapping.h"
#include "transport/shm/pin_file.h"
#include "transport/shm/pin_page.h"
#include "transport/stream/stream_server.h"

namespace moonpool::transport {
namespace {

absl::Status BadOption(absl::string_view what) {
  return MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kBadArgument, what);
}

// Holds what the peer may use, until its socket has closed.
class ShmSession final : public PeerSession {
 public:
  ShmSession(Target& target, const std::atomic<bool>& is_stopping, bool is_mapped_writer,
             std::unique_ptr<PinPage> pins)
      : target_(target),
        is_stopping_(is_stopping),
        is_mapped_writer_(is_mapped_writer),
        pins_(std::move(pins)) {
    if (pins_ != nullptr) target_.AttachViewer(pins_.get());
  }
  ~ShmSession() override {
    if (pins_ == nullptr) return;
    pins_->Close();
    // A session that ends since the server stops sees it: its thread was told afterwards. One whose
    // peer has gone at that moment may see either, and nobody is left who views anything.
    if (is_stopping_.load(std::memory_order_relaxed)) pins_->LeaveToNextLife();
    target_.DetachViewer(pins_.get());
  }
  bool is_mapped_writer() const override { return is_mapped_writer_; }

 private:
  Target& target_;
  const std::atomic<bool>& is_stopping_;
  const bool is_mapped_writer_;
  const std::unique_ptr<PinPage> pins_;
};

class ShmBackend final : public StreamBackend {
 public:
  ShmBackend(Target& target, std::vector<ShmSegment> segments, const ShmServerOptions& options)
      : target_(target), segments_(std::move(segments)), options_(options) {}

  absl::StatusOr<UniqueFd> Listen() override;
  void WillStop() override { is_stopping_.store(true, std::memory_order_relaxed); }
  void Retire() override;
  void Prepare(int) override {}
  absl::StatusOr<std::unique_ptr<PeerSession>> Admit(int fd, const HelloRequest& hello,
                                                     HelloAnswer* answer,
                                                     std::vector<int>* descriptors) override;

 private:
  absl::Status CheckOptions() const;
  absl::Status OpenReadOnly();
  absl::Status Bind(int fd, const SocketAddress& address) const;

  Target& target_;
  const std::vector<ShmSegment> segments_;
  const ShmServerOptions options_;
  std::vector<UniqueFd> read_only_;  // the segments once more, for readers
  ino_t socket_inode_ = 0;
  std::atomic<bool> is_stopping_{false};
};

absl::Status ShmBackend::CheckOptions() const {
  if (segments_.size() > kMappedSegmentsMax) {
    return BadOption(absl::StrCat("more than ", kMappedSegmentsMax, " segments to map"));
  }
  for (const ShmSegment& segment : segments_) {
    const absl::Status kept = CheckKeepsItsLength(segment.fd, {.giver = geteuid()});
    if (!kept.ok()) return BadOption(absl::StrCat("no client would map it: ", kept.message()));
  }
  if (options_.pin_slots < 1 || options_.pin_slots > kPinSlotsMax) {
    return BadOption("pin_slots is out of its range");
  }
  return options_.pins_dir.empty() ? absl::OkStatus() : PreparePinsFolder(options_.pins_dir);
}

absl::Status ShmBackend::OpenReadOnly() {
  for (const ShmSegment& segment : segments_) {
    if (fchmod(segment.fd, 0600) != 0) return SocketError("chmod of a segment", errno);
    // The same file, opened anew: the descriptor's own rights are what a peer gets.
    const std::string path = absl::StrCat("/proc/self/fd/", segment.fd);
    read_only_.emplace_back(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!read_only_.back().valid()) return SocketError("open a segment for reading", errno);
  }
  return absl::OkStatus();
}

absl::Status ShmBackend::Bind(int fd, const SocketAddress& address) const {
  const auto* raw = reinterpret_cast<const sockaddr*>(&address.storage);
  // Before bind, so that the socket is never there with wider rights.
  if (fchmod(fd, options_.socket_mode) != 0) return SocketError("chmod of the socket", errno);
  if (bind(fd, raw, address.length) == 0) return absl::OkStatus();
  if (errno != EADDRINUSE) return SocketError(absl::StrCat("bind ", options_.socket_path), errno);
  // Only what a node that was killed has left behind may be replaced.
  struct stat there {};
  if (lstat(options_.socket_path.c_str(), &there) != 0 || !S_ISSOCK(there.st_mode)) {
    return MakeError(absl::StatusCode::kFailedPrecondition, ErrorReason::kBadArgument,
                     absl::StrCat(options_.socket_path, " exists and is no socket"),
                     {.hint = "give another path, or remove the file"});
  }
  ASSIGN_OR_RETURN(const UniqueFd probe, NewStreamSocket(AF_UNIX));
  if (connect(probe.get(), raw, address.length) == 0 || errno != ECONNREFUSED) {
    return SocketError(absl::StrCat("bind ", options_.socket_path), EADDRINUSE);
  }
  unlink(options_.socket_path.c_str());
  if (bind(fd, raw, address.length) == 0) return absl::OkStatus();
  return SocketError(absl::StrCat("bind ", options_.socket_path), errno);
}

absl::StatusOr<UniqueFd> ShmBackend::Listen() {
  RETURN_IF_ERROR(CheckOptions());
  RETURN_IF_ERROR(OpenReadOnly());
  ASSIGN_OR_RETURN(const SocketAddress address, UnixAddress(options_.socket_path));
  ASSIGN_OR_RETURN(UniqueFd fd, NewStreamSocket(AF_UNIX));
  RETURN_IF_ERROR(Bind(fd.get(), address));
  // The process's umask has had its say; the option decides.
  struct stat file {};
  if (chmod(options_.socket_path.c_str(), options_.socket_mode) != 0 ||
      stat(options_.socket_path.c_str(), &file) != 0 || listen(fd.get(), SOMAXCONN) != 0) {
    return SocketError(absl::StrCat("listen on ", options_.socket_path), errno);
  }
  socket_inode_ = file.st_ino;
  return fd;
}

void ShmBackend::Retire() {
  // Unless somebody else has taken the place meanwhile.
  struct stat file {};
  if (stat(options_.socket_path.c_str(), &file) == 0 && file.st_ino == socket_inode_) {
    unlink(options_.socket_path.c_str());
  }
  read_only_.clear();
}

absl::StatusOr<std::unique_ptr<PeerSession>> ShmBackend::Admit(int fd, const HelloRequest& hello,
                                                               HelloAnswer* answer,
                                                               std::vector<int>* descriptors) {
  const bool is_writer = options_.mapped_writers && PeerUser(fd) == geteuid() &&
                         (hello.wants & kHelloMappedWriter) != 0;
  if (is_writer) answer->grants |= kHelloMappedWriter;
  if ((hello.wants & kHelloMapping) == 0) {
    return std::make_unique<ShmSession>(target_, is_stopping_, is_writer, nullptr);
  }
  ASSIGN_OR_RETURN(auto pins, options_.pins_dir.empty()
                                  ? PinPage::Create(options_.pin_slots)
                                  : PinFile::Create(options_.pins_dir, options_.pin_slots));
  answer->grants |= kHelloMapping;
  answer->pin_slots = options_.pin_slots;
  // The order is that of shm/handshake.h.
  for (size_t i = 0; i < segments_.size(); ++i) {
    answer->segments.push_back({segments_[i].id, segments_[i].bytes});
    descriptors->push_back(read_only_[i].get());
  }
  descriptors->push_back(pins->fd());
  if (is_writer) {
    for (const ShmSegment& segment : segments_) descriptors->push_back(segment.fd);
  }
  return std::make_unique<ShmSession>(target_, is_stopping_, is_writer, std::move(pins));
}

}  // namespace

std::unique_ptr<Server> NewShmServer(Target& target, std::vector<ShmSegment> segments,
                                     ShmServerOptions options, const Clock& clock, Logger& logger) {
  options.limits.idle_timeout = absl::InfiniteDuration();
  auto backend = NewShmBackend(target, std::move(segments), options);
  return std::make_unique<StreamServer>("shm", target, std::move(backend), options.limits, clock,
                                        logger);
}

std::unique_ptr<StreamBackend> NewShmBackend(Target& target, std::vector<ShmSegment> segments,
                                             const ShmServerOptions& options) {
  return std::make_unique<ShmBackend>(target, std::move(segments), options);
}

}  // namespace moonpool::transport
