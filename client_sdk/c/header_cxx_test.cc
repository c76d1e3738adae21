// The header as C++11 sees it: compiled, with nothing before it, and not run.
#include "moonpool/c.h"

extern "C" int moonpool_header_in_cxx(moonpool_client* client);

extern "C" int moonpool_header_in_cxx(moonpool_client* client) {
  moonpool_get_options options = {};
  options.struct_size = sizeof(options);
  unsigned char buffer[8];
  return moonpool_get(client, moonpool_text("key"), buffer, sizeof(buffer), &options, nullptr);
}
