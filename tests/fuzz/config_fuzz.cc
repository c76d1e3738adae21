// Any bytes as a config file: an error or settings within their ranges, never a crash; and what
// was accepted is printed as a file that is accepted again and means the same.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "common/check.h"
#include "common/config/config_table.h"
#include "common/config/units.h"
#include "common/log.h"

namespace moonpool {
namespace {

struct Options {
  std::string name = "n1";
  std::string listen = "127.0.0.1:0";
  std::vector<std::string> masters;
  uint64_t dram_bytes = kGiB;
  absl::Duration heartbeat = absl::Seconds(1);
  int threads = 2;
  double watermark = 0.9;
  bool verify = true;
  LogOptions log;
};

ConfigTable Describe(Options& options) {
  ConfigTable table({.program = "fuzz", .summary = "S.", .version = "1"});
  table.Text("name", &options.name, "h");
  table.ListenAddress("data.listen", &options.listen, "h");
  table.PeerAddresses("masters", &options.masters, "h");
  table.Bytes("memory.dram", &options.dram_bytes, {kMiB, kTiB}, "h");
  table.Duration("heartbeat.interval", &options.heartbeat, {absl::Milliseconds(1)}, "h");
  table.Int("data.threads", &options.threads, {1, 64}, "h");
  table.Real("memory.watermark", &options.watermark, {0, 1}, "h");
  table.Bool("memory.verify", &options.verify, "h");
  DescribeLog(options.log, table);
  return table;
}

void Run(absl::string_view toml) {
  Options options;
  ConfigTable table = Describe(options);
  const absl::Status status = table.ApplyToml(toml, "fuzz.toml");
  if (!status.ok()) {
    MP_CHECK(status.code() == absl::StatusCode::kInvalidArgument, "code", status.message());
    return;
  }
  MP_CHECK(options.threads >= 1 && options.threads <= 64, "threads", options.threads);
  MP_CHECK(options.dram_bytes >= kMiB && options.dram_bytes <= kTiB, "dram", options.dram_bytes);
  MP_CHECK(options.watermark >= 0 && options.watermark <= 1, "watermark", options.watermark);

  Options again;
  ConfigTable second = Describe(again);
  const absl::Status reread = second.ApplyToml(table.Toml(), "printed.toml");
  MP_CHECK(reread.ok(), "printed config is refused", reread.message());
  MP_CHECK(second.ChangedSettings() == table.ChangedSettings(), "printed config differs");
}

}  // namespace
}  // namespace moonpool

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  moonpool::Run(absl::string_view(reinterpret_cast<const char*>(data), size));
  return 0;
}
