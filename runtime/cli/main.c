/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>
#include <sys/auxv.h>

#include "runtime/cli/cli.h"

/* From what the kernel gave the process: left alone, jansson opens /dev/urandom. */
static void seed_json(void) {
  const void *random = (const void *)getauxval(AT_RANDOM);
  size_t seed = 0;
  if (random) memcpy(&seed, random, sizeof seed);
  json_object_seed(seed | 1);
}

int main(int argc, char **argv) {
  cli_streams_open();
  seed_json();
  const int rc = cli_dispatch(argc, (const char **)argv);
  return cli_streams_close(rc == CLI_HELPED ? EXIT_DONE : rc);
}
