#include "client_sdk/c/arguments.h"

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "client_sdk/c/border.h"
#include "common/status_macros.h"

namespace moonpool::c_api {
namespace {

// Far more than a key may have: the size of something else, which is not worth a copy.
constexpr size_t kKeyBytesCopied = size_t{64} << 10;
// Pieces of one item.
constexpr size_t kPiecesMax = size_t{1} << 20;

absl::Status CheckMemory(absl::string_view what, const void* data, size_t size) {
  if (size == 0) return absl::OkStatus();
  if (data == nullptr) {
    return WrongUse(absl::StrCat(what, ": the data is NULL, and the size is ", size));
  }
  if (size > PTRDIFF_MAX || reinterpret_cast<uintptr_t>(data) > UINTPTR_MAX - size) {
    return WrongUse(absl::StrCat(what, ": there is no memory of ", size, " bytes"));
  }
  return absl::OkStatus();
}

// An array of `count` elements may be read.
absl::Status CheckArray(absl::string_view what, const void* array, size_t count, size_t count_max) {
  if (count > count_max) {
    return WrongUse(absl::StrCat(what, ": the count is ", count, ", more than ", count_max));
  }
  if (array == nullptr && count > 0) {
    return WrongUse(absl::StrCat(what, " is NULL, and the count is ", count));
  }
  return absl::OkStatus();
}

// The pieces of one item, each turned into a span by `to_span`. Together they are an object, whose
// size has to be a number, too.
template <typename Piece, typename Span>
absl::StatusOr<std::vector<Span>> ToPieces(absl::string_view what, const Piece* pieces,
                                           size_t count,
                                           absl::StatusOr<Span> (*to_span)(absl::string_view,
                                                                           const Piece&)) {
  RETURN_IF_ERROR(CheckArray(what, pieces, count, kPiecesMax));
  std::vector<Span> spans;
  spans.reserve(count);
  size_t total = 0;
  for (size_t i = 0; i < count; ++i) {
    ASSIGN_OR_RETURN(const Span span, to_span(what, pieces[i]));
    if (span.size() > PTRDIFF_MAX - total) {
      return WrongUse(absl::StrCat(what, ": the sizes add up to more than there can be"));
    }
    total += span.size();
    spans.push_back(span);
  }
  return spans;
}

}  // namespace

absl::Status CheckGiven(absl::string_view what, const void* pointer) {
  return pointer == nullptr ? WrongUse(absl::StrCat(what, " is NULL")) : absl::OkStatus();
}

absl::StatusOr<std::string> ToKey(absl::string_view what, const moonpool_bytes& key) {
  RETURN_IF_ERROR(CheckMemory(what, key.data, key.size));
  if (key.size > kKeyBytesCopied) {
    return WrongUse(absl::StrCat(what, ": ", key.size, " bytes are the size of no key"));
  }
  return std::string(static_cast<const char*>(key.data), key.size);
}

absl::StatusOr<ConstBuffer> ToValue(absl::string_view what, const moonpool_bytes& value) {
  RETURN_IF_ERROR(CheckMemory(what, value.data, value.size));
  return ConstBuffer(static_cast<const std::byte*>(value.data), value.size);
}

absl::StatusOr<MutableBuffer> ToBuffer(absl::string_view what, const moonpool_buffer& buffer) {
  RETURN_IF_ERROR(CheckMemory(what, buffer.data, buffer.size));
  return MutableBuffer(static_cast<std::byte*>(buffer.data), buffer.size);
}

absl::StatusOr<std::vector<std::string>> ToKeys(const moonpool_bytes* keys, size_t count) {
  RETURN_IF_ERROR(CheckArray("keys", keys, count, MOONPOOL_BATCH_MAX));
  std::vector<std::string> taken;
  taken.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    ASSIGN_OR_RETURN(std::string key, ToKey(absl::StrCat("keys[", i, "]"), keys[i]));
    taken.push_back(std::move(key));
  }
  return taken;
}

absl::StatusOr<std::vector<PutItem>> ToItems(const moonpool_put_item* items, size_t count) {
  RETURN_IF_ERROR(CheckArray("items", items, count, MOONPOOL_BATCH_MAX));
  std::vector<PutItem> taken(count);
  for (size_t i = 0; i < count; ++i) {
    const std::string what = absl::StrCat("items[", i, "]");
    const moonpool_put_item& item = items[i];
    ASSIGN_OR_RETURN(taken[i].key, ToKey(what + ".key", item.key));
    ASSIGN_OR_RETURN(taken[i].value,
                     ToPieces(what + ".pieces", item.pieces, item.piece_count, &ToValue));
    ASSIGN_OR_RETURN(taken[i].parent, ToKey(what + ".parent", item.parent));
  }
  return taken;
}

absl::StatusOr<std::vector<GetItem>> ToItems(const moonpool_get_item* items, size_t count) {
  RETURN_IF_ERROR(CheckArray("items", items, count, MOONPOOL_BATCH_MAX));
  std::vector<GetItem> taken(count);
  for (size_t i = 0; i < count; ++i) {
    const std::string what = absl::StrCat("items[", i, "]");
    const moonpool_get_item& item = items[i];
    ASSIGN_OR_RETURN(taken[i].key, ToKey(what + ".key", item.key));
    ASSIGN_OR_RETURN(taken[i].into,
                     ToPieces(what + ".into", item.into, item.into_count, &ToBuffer));
  }
  return taken;
}

}  // namespace moonpool::c_api
