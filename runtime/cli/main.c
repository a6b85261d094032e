/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>

#include "runtime/base/json.h"
#include "runtime/cli/cli.h"

/* From what the kernel gave the process: left alone, jansson opens /dev/urandom. */
static void seed_json(void) {
  const void *random = (const void *)getauxval(AT_RANDOM);
  size_t seed = 0;
  if (random) memcpy(&seed, random, sizeof seed);
  json_object_seed(seed | 1);
}

/* What stdout holds yet is written now. A pipe that the reader closed is no mistake, and nothing is said. */
static int close_output(int rc) {
  const int failed = ferror(stdout);
  errno = 0;
  if (fclose(stdout) == 0 && !failed) return rc;
  if (errno == EPIPE) return EXIT_PIPE;
  fprintf(stderr, "tenon: the output could not be written%s%s\n", errno ? ": " : "", errno ? strerror(errno) : "");
  return EXIT_OUTPUT;
}

int main(int argc, char **argv) {
  seed_json();
  int rc = cli_dispatch(argc, (const char **)argv);
  /* What was printed may lack something. */
  if ((rc == EXIT_DONE || rc == EXIT_CHECK) && tni_json_short()) {
    fputs("tenon: out of memory\n", stderr);
    rc = EXIT_DEVICE;
  }
  return close_output(rc == CLI_HELPED ? EXIT_DONE : rc);
}
