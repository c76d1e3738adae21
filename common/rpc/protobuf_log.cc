#include "common/rpc/protobuf_log.h"

#include <google/protobuf/stubs/logging.h>

#include <cstdio>
#include <string>

namespace moonpool {
namespace {

void WriteFatalOnly(google::protobuf::LogLevel level, const char* file, int line,
                    const std::string& message) {
  if (level != google::protobuf::LOGLEVEL_FATAL) return;
  std::fprintf(stderr, "libprotobuf %s:%d: %s\n", file, line, message.c_str());
}

}  // namespace

void SilenceProtobufLog() { google::protobuf::SetLogHandler(&WriteFatalOnly); }

}  // namespace moonpool
