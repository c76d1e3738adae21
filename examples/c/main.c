// Stores a prompt's blocks as a chain, asks how much of a longer prompt is there, and reads it
// back.
//
//   moonpool-example-c HOST:PORT
//
// Exit codes: 0 ok, 1 failed, 2 wrong usage.
#include <stdio.h>
#include <stdlib.h>

#include "moonpool/c.h"

#define WANTED 3

// Of what failed last on this thread, for the caller to return.
static int failed(void) {
  fprintf(stderr, "moonpool-example-c: %s\n", moonpool_last_error());
  return 1;
}

// Two blocks of one prompt, each naming the one before it: of a chain, the end is evicted first.
static int store_prompt(moonpool_client* client) {
  static const char second[23];
  const moonpool_bytes first_value = moonpool_text("the keys and values of 16 tokens");
  const moonpool_bytes second_value = {second, sizeof(second)};
  const moonpool_put_item items[] = {
      {moonpool_text("prompt/0"), &first_value, 1, moonpool_text(NULL)},
      {moonpool_text("prompt/1"), &second_value, 1, moonpool_text("prompt/0")}};
  moonpool_result results[2];
  moonpool_errors* errors = NULL;
  int status = 0;
  size_t i;
  if (moonpool_put_many(client, items, 2, NULL, results, &errors) != MOONPOOL_OK) return failed();
  for (i = 0; i < 2; ++i) {
    // An engine that computed the same block was faster: what is stored is as good.
    if (results[i].code == MOONPOOL_OK || results[i].code == MOONPOOL_ALREADY_EXISTS) continue;
    fprintf(stderr, "moonpool-example-c: %s\n", moonpool_error_text(moonpool_errors_at(errors, i)));
    status = 1;
  }
  moonpool_errors_destroy(errors);
  return status;
}

static int read_block(moonpool_client* client, moonpool_bytes key, uint64_t size) {
  size_t bytes = 0;
  int code;
  char* const block = malloc(size + 1);
  if (block == NULL) return 1;
  code = moonpool_get(client, key, block, size, NULL, &bytes);
  free(block);
  if (code != MOONPOOL_OK) return failed();
  printf("%.*s: %lu bytes\n", (int)key.size, (const char*)key.data, (unsigned long)bytes);
  return 0;
}

static int read_prompt(moonpool_client* client) {
  const moonpool_bytes wanted[WANTED] = {moonpool_text("prompt/0"), moonpool_text("prompt/1"),
                                         moonpool_text("prompt/2")};
  uint64_t sizes[WANTED];
  moonpool_prefix_match match = {.struct_size = sizeof(match)};
  moonpool_errors* errors = NULL;
  int status = 0;
  size_t i;
  if (moonpool_match_prefix(client, wanted, WANTED, NULL, &match, sizes, &errors) != MOONPOOL_OK) {
    return failed();
  }
  printf("%d of %d blocks need not be computed\n", (int)match.matched, WANTED);
  for (i = 0; status == 0 && i < match.matched; ++i) {
    status = read_block(client, wanted[i], sizes[i]);
  }
  // A miss is an answer, not a failure. It says why.
  printf("the next: %s\n", moonpool_error_text(moonpool_errors_at(errors, match.matched)));
  moonpool_errors_destroy(errors);
  return status;
}

int main(int argc, char** argv) {
  // The fingerprint is what makes blocks of one layout readable as such: a client with another one
  // is refused instead of reading nonsense.
  moonpool_client_options options = {.struct_size = sizeof(options),
                                     .name_space = "example-c",
                                     .fingerprint = "toy-model/fp16/16-tokens"};
  moonpool_client* client = NULL;
  int status;
  if (argc != 2) {
    fprintf(stderr, "usage: moonpool-example-c HOST:PORT of the master\n");
    return 2;
  }
  options.masters = argv[1];
  if (moonpool_connect(&options, &client) != MOONPOOL_OK) return failed();
  status = store_prompt(client);
  if (status == 0) status = read_prompt(client);
  moonpool_close(client);
  return status;
}
