// What a master answers about places, read without messages: as protobuf reads it, whatever it is.
#include <cstddef>
#include <cstdint>
#include <string>

#include "common/rpc/testing/check_answer.h"
#include "google/protobuf/stubs/logging.h"

namespace moonpool {
namespace {

void Run(uint8_t kind, const std::string& bytes) {
  switch (kind % 4) {
    case 0: CheckRead<LocateAnswer, v1::LocateResponse>(bytes); return;
    case 1: CheckRead<MatchPrefixAnswer, v1::MatchPrefixResponse>(bytes); return;
    case 2: CheckRead<StartPutsAnswer, v1::StartPutsResponse>(bytes); return;
    default: CheckRead<CommitPutsAnswer, v1::CommitPutsResponse>(bytes);
  }
}

}  // namespace
}  // namespace moonpool

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  if (size == 0) return 0;
  google::protobuf::SetLogHandler(nullptr);  // what does not parse is no news here
  moonpool::Run(bytes[0], std::string(reinterpret_cast<const char*>(bytes) + 1, size - 1));
  return 0;
}
