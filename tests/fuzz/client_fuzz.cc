// What a master tells the SDK, with nodes that are honest: it may make calls fail, but every call
// ends in time, writes into its buffers only, and what a get returns is what was put under the key.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "client_sdk/core/testing/fake_pool.h"
#include "common/check.h"
#include "google/protobuf/stubs/logging.h"
#include "tests/fuzz/byte_feed.h"
#include "tests/fuzz/hostile_master.h"

namespace moonpool::client {
namespace {

constexpr absl::Duration kTimeout = absl::Seconds(2);
constexpr uint64_t kGetBytesMax = uint64_t{1} << 20;
constexpr absl::string_view kKeys[] = {"a", "b", "c", "d"};

// One key has one value for ever, so that every get can be judged.
std::string ValueOf(absl::string_view key) {
  return std::string(50 * static_cast<size_t>(key[0] - 'a'), key[0]);
}

class Scene {
 public:
  explicit Scene(ByteFeed& feed)
      : feed_(feed), pool_({"local1", "n2"}), master_(feed, pool_.nodes) {
    google::protobuf::SetLogHandler(nullptr);  // what does not parse is no news here
    SessionOptions options;
    options.client_id = options.seed = 1;
    options.get_bytes_max = kGetBytesMax;
    options.spares = {.puts_before = 1, .puts_after_failure = 1};
    options.peers.host_id = kLocalHost;
    options.peers.paths = {{&pool_.shm, /*same_host_only=*/true}, {&pool_.tcp, false}};
    client_ = std::make_unique<CoreClient>(master_, pool_.waiter, pool_.log.logger(), options);
    for (const absl::string_view key : kKeys) Store(key);
  }

  void Step() {
    const absl::Time begun = pool_.clock.Now();
    switch (feed_.Below(8)) {
      case 0:
      case 1: Put(); break;
      case 2:
      case 3: GetInto(); break;
      case 4: Get(); break;
      case 5: View(); break;
      case 6: Match(); break;
      default: Others(); break;
    }
    MP_CHECK(pool_.clock.Now() - begun <= kTimeout, "a call outlives its time");
    if (feed_.OneIn(8)) pool_.clock.Advance(absl::Milliseconds(feed_.Number() & 0xffff));
  }

 private:
  std::string Key() { return std::string(feed_.OneOf(kKeys)); }
  CallOptions InTime() const { return {.timeout = kTimeout}; }

  // On the first node, as a put of before.
  void Store(absl::string_view key) {
    const std::string value = ValueOf(key);
    FakeNode& node = *pool_.nodes.all().front();
    const uint64_t bytes = kPartHeaderBytes + value.size();
    transport::WriteOp write;
    write.record = {.generation = Generation::Of(Term{7}, ++stored_),
                    .name_space = "default",
                    .key = std::string(key),
                    .parent = {},
                    .extent = {SegmentId{0}, node.Allocate(bytes), bytes},
                    .object_bytes = value.size(),
                    .part_count = 1};
    write.from = {BytesOf(value)};
    MP_CHECK(node.Write(write).ok(), "an honest write");
    v1::Location location;
    location.set_generation(write.record.generation.value);
    location.set_size_bytes(value.size());
    v1::Part* part = location.add_replicas()->add_parts();
    part->set_node_id(1);
    part->mutable_extent()->set_offset(write.record.extent.offset);
    part->mutable_extent()->set_length(bytes);
    master_.Know(location);
  }

  void Put() {
    const std::string first = Key();
    const std::string second = Key();
    const std::string values[] = {ValueOf(first), ValueOf(second)};
    const PutItem items[] = {{.key = first, .value = {BytesOf(values[0])}},
                             {.key = second, .value = {BytesOf(values[1])}, .parent = first}};
    const size_t count = 1 + feed_.Below(2);
    const PutOptions options = {.call = InTime(),
                                .replicas = static_cast<uint32_t>(1 + feed_.Below(2)),
                                .min_replicas = static_cast<uint32_t>(feed_.Below(2)),
                                .wait_for_space = feed_.OneIn(2)};
    const auto results = client_->PutMany(absl::MakeConstSpan(items).first(count), options);
    MP_CHECK(results.size() == count, "results", results.size());
  }

  // Into two pieces in the middle of a larger buffer, whose rest stays as it is.
  void GetInto() {
    constexpr char kUntouched = '#';
    constexpr size_t kMargin = 64;
    const std::string key = Key();
    const size_t room = std::min<size_t>(feed_.Byte(), 200);
    const size_t cut = feed_.Below(room + 1);
    std::string buffer(room + 2 * kMargin, kUntouched);
    const MutableBuffer all = BufferOf(&buffer);
    const GetItem item = {
        .key = key, .into = {all.subspan(kMargin, cut), all.subspan(kMargin + cut, room - cut)}};
    const auto got = client_->GetMany({&item, 1}, {.call = InTime()}).front();
    const std::string margin(kMargin, kUntouched);
    MP_CHECK(buffer.substr(0, kMargin) == margin, "bytes before the buffer");
    MP_CHECK(buffer.substr(kMargin + room) == margin, "bytes behind the buffer");
    if (got.ok()) {
      MP_CHECK(buffer.substr(kMargin, *got) == ValueOf(key), "wrong bytes", key, *got);
    } else {
      MP_CHECK(!Describe(got.status()).empty(), "an error without words");
    }
  }

  void Get() {
    const std::string key = Key();
    const absl::StatusOr<std::string> got = client_->Get(key, {.call = InTime()});
    MP_CHECK(!got.ok() || *got == ValueOf(key), "wrong bytes", key);
  }

  void View() {
    const std::string key = Key();
    const absl::StatusOr<moonpool::View> view = client_->GetView(key, {.call = InTime()});
    if (!view.ok()) return;
    std::string seen;
    for (const ConstBuffer piece : view->pieces()) {
      seen.append(reinterpret_cast<const char*>(piece.data()), piece.size());
    }
    MP_CHECK(seen == ValueOf(key) && view->size_bytes() == seen.size(), "wrong bytes", key);
  }

  void Match() {
    const std::vector<std::string> keys = {Key(), Key(), Key()};
    const auto match = client_->MatchPrefix(keys, {.call = InTime(), .hold = kTimeout});
    if (!match.ok()) return;
    MP_CHECK(match->matched <= keys.size() && match->sizes.size() == match->matched, "matched");
    MP_CHECK(match->held >= absl::ZeroDuration(), "a lease of the past");
  }

  void Others() {
    const std::vector<std::string> keys = {Key(), Key()};
    switch (feed_.Below(5)) {
      case 3: MP_CHECK(client_->Describe(keys, InTime()).size() == keys.size(), "results"); break;
      case 4: List(); break;
      case 0: MP_CHECK(client_->Exists(keys, InTime()).size() == keys.size(), "results"); break;
      case 1: MP_CHECK(client_->Remove(keys, InTime()).size() == keys.size(), "results"); break;
      default: client_->OpenNamespace("f", InTime()).IgnoreError();
    }
  }

  void List() {
    constexpr size_t kLimit = 3;
    const auto page = client_->ListKeys("k", {.call = InTime(), .limit = kLimit});
    MP_CHECK(!page.ok() || page->keys.size() <= kLimit, "a page that is too large");
  }

  ByteFeed& feed_;
  FakePool pool_;
  HostileMaster master_;
  std::unique_ptr<CoreClient> client_;
  uint32_t stored_ = 0;
};

}  // namespace
}  // namespace moonpool::client

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  moonpool::ByteFeed feed(data, size);
  moonpool::client::Scene scene(feed);
  while (!feed.empty()) scene.Step();
  return 0;
}
