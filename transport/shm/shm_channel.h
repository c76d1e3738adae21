// A channel to a node on the same host.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "common/checksum.h"
#include "transport/channel.h"
#include "transport/shm/shm_peer.h"
#include "transport/shm/shm_transport.h"
#include "transport/span_cursor.h"
#include "transport/stream/client_stream.h"

namespace moonpool::transport {

// Reads come out of the mapping; writes, and whatever is not mapped, go over a stream of its own
// (used by one thread, as the channel is).
class ShmChannel final : public Channel, private ViewSource {
 public:
  // `stream` is ready.
  ShmChannel(std::shared_ptr<ShmPeer> peer, std::unique_ptr<ClientStream> stream,
             const ShmClientOptions& options);
  ~ShmChannel() override;

  absl::string_view backend() const override { return "shm"; }
  absl::Status Submit(ReadOp* op) override;
  absl::Status Submit(WriteOp* op) override;
  void Doubt(Generation generation, const Extent& extent) override {
    stream_->Doubt(generation, extent);
  }
  bool Progress() override;
  size_t outstanding() const override;
  void AppendWaits(std::vector<pollfd>* waits) const override;
  void Abandon(const absl::Status& status) override;
  bool healthy() const override;
  ViewSource* views() override { return this; }

 private:
  absl::StatusOr<std::unique_ptr<PinnedPart>> OpenView(Generation generation,
                                                       const Extent& extent) override;
  absl::Status CheckRoom(uint64_t bytes) const;
  size_t mapped_reads() const { return tail_ - head_; }
  ReadOp& Front() { return *reads_[head_ % reads_.size()]; }
  void StartRead();
  uint64_t CopySome(uint64_t bytes_max);
  void FinishFront(const absl::Status& status);
  absl::Status Judge(const ReadOp& op) const;

  const std::shared_ptr<ShmPeer> peer_;
  const std::unique_ptr<ClientStream> stream_;
  const ShmClientOptions options_;

  // A ring of reads to copy; positions only grow.
  std::vector<ReadOp*> reads_;
  size_t head_ = 0;
  size_t tail_ = 0;
  uint64_t read_bytes_ = 0;
  // The front's.
  bool is_started_ = false;
  ConstBytes left_;
  SpanCursor<std::byte> into_;
  CopyTo to_ = CopyTo::kCache;
  ChecksumStream checksum_;
};

}  // namespace moonpool::transport
