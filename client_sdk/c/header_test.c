// The header as C99 sees it: compiled, with nothing before it, and not run.
#include "moonpool/c.h"

int moonpool_header_in_c(moonpool_client* client);

int moonpool_header_in_c(moonpool_client* client) {
  const moonpool_put_options options = {.struct_size = sizeof(options), .replicas = 2};
  const moonpool_bytes pieces[] = {moonpool_text("a"), {"b\0c", 3}};
  const moonpool_put_item item = {moonpool_text("key"), pieces, 2, moonpool_text(NULL)};
  moonpool_result result;
  return moonpool_put_many(client, &item, 1, &options, &result, NULL);
}
