#include "bench/trace/byte_source.h"

#include <lzma.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace moonpool::trace {
namespace {

struct CloseFile {
  void operator()(FILE* file) const { std::fclose(file); }
};

class FileSource : public ByteSource {
 public:
  explicit FileSource(FILE* file) : file_(file) {}
  absl::StatusOr<size_t> Read(char* out, size_t size) override {
    const size_t count = std::fread(out, 1, size, file_.get());
    if (std::ferror(file_.get())) return absl::UnavailableError("reading the file failed");
    return count;
  }

 private:
  std::unique_ptr<FILE, CloseFile> file_;
};

class XzSource : public ByteSource {
 public:
  explicit XzSource(std::unique_ptr<ByteSource> input) : input_(std::move(input)) {}
  XzSource(const XzSource&) = delete;
  XzSource& operator=(const XzSource&) = delete;
  ~XzSource() override { lzma_end(&stream_); }

  absl::Status Start() {
    // What `xz -9` needs is 65 MiB.
    constexpr uint64_t kMemoryMax = uint64_t{128} << 20;
    return ToStatus(lzma_stream_decoder(&stream_, kMemoryMax, LZMA_CONCATENATED));
  }

  absl::StatusOr<size_t> Read(char* out, size_t size) override {
    stream_.next_out = reinterpret_cast<uint8_t*>(out);
    stream_.avail_out = size;
    while (stream_.avail_out > 0 && !at_end_) {
      if (stream_.avail_in == 0 && !input_ended_) {
        ASSIGN_OR_RETURN(stream_.avail_in, input_->Read(buffer_.data(), buffer_.size()));
        stream_.next_in = reinterpret_cast<const uint8_t*>(buffer_.data());
        input_ended_ = stream_.avail_in == 0;
      }
      const lzma_ret result = lzma_code(&stream_, input_ended_ ? LZMA_FINISH : LZMA_RUN);
      at_end_ = result == LZMA_STREAM_END;
      if (!at_end_) RETURN_IF_ERROR(ToStatus(result));
    }
    return size - stream_.avail_out;
  }

 private:
  static absl::Status ToStatus(lzma_ret result) {
    switch (result) {
      case LZMA_OK: return absl::OkStatus();
      case LZMA_BUF_ERROR: return absl::InvalidArgumentError("xz data ends too early");
      case LZMA_MEM_ERROR:
      case LZMA_MEMLIMIT_ERROR: return absl::InvalidArgumentError("xz data needs too much memory");
      default: return absl::InvalidArgumentError(absl::StrCat("xz data is damaged (", result, ")"));
    }
  }

  std::unique_ptr<ByteSource> input_;
  lzma_stream stream_ = LZMA_STREAM_INIT;
  std::array<char, 1 << 16> buffer_;
  bool input_ended_ = false;
  bool at_end_ = false;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ByteSource>> OpenFile(const std::string& path) {
  FILE* file = std::fopen(path.c_str(), "rb");
  if (file != nullptr) return std::make_unique<FileSource>(file);
  const int error = errno;
  const std::string message = std::generic_category().message(error);
  return error == ENOENT ? absl::NotFoundError(message) : absl::UnavailableError(message);
}

absl::StatusOr<std::unique_ptr<ByteSource>> OpenXz(std::unique_ptr<ByteSource> input) {
  auto source = std::make_unique<XzSource>(std::move(input));
  RETURN_IF_ERROR(source->Start());
  return source;
}

absl::StatusOr<std::string> ReadAll(ByteSource& source, size_t max_bytes) {
  constexpr size_t kStep = size_t{1} << 20;
  std::string text;
  while (true) {
    const size_t before = text.size();
    text.resize(before + kStep);
    ASSIGN_OR_RETURN(const size_t count, source.Read(text.data() + before, kStep));
    text.resize(before + count);
    if (text.size() > max_bytes) {
      return absl::InvalidArgumentError(absl::StrCat("longer than ", max_bytes, " bytes"));
    }
    if (count < kStep) return text;
  }
}

}  // namespace moonpool::trace
