/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>

#include "runtime/base/json.h"
#include "runtime/cli/cli.h"

/* From what the kernel gave the process: left alone, jansson opens /dev/urandom. */
static void seed_json(void) {
  const void *random = (const void *)getauxval(AT_RANDOM);
  size_t seed = 0;
  if (random) memcpy(&seed, random, sizeof seed);
  json_object_seed(seed | 1);
}

enum { STACK = 512 << 10, PAGE = 4096 }; /* run takes 200 KB of it */

/* The main thread's stack grows as it is used, and where memory is limited a page that it cannot have ends the process
 * without a word. Its pages are taken while that can still be said; other threads have theirs from the beginning. */
__attribute__((noinline)) static void touch_stack(void) {
  volatile char room[STACK];
  for (size_t i = 0; i < sizeof room; i += PAGE) room[sizeof room - 1 - i] = 0;
}

static bool take_stack(void) {
  void *room = mmap(NULL, STACK + 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (room == MAP_FAILED) return false;
  munmap(room, STACK + 4 * PAGE);
  touch_stack();
  return true;
}

int main(int argc, char **argv) {
  if (!take_stack()) {
    fputs("tenon: out of memory\n", stderr);
    return EXIT_DEVICE;
  }
  cli_streams_open();
  seed_json();
  int rc = cli_dispatch(argc, (const char **)argv);
  /* What was printed may lack something. */
  if ((rc == EXIT_DONE || rc == EXIT_CHECK) && tni_json_short()) {
    fputs("tenon: out of memory\n", stderr);
    rc = EXIT_DEVICE;
  }
  return cli_end_soon(cli_streams_close(rc == CLI_HELPED ? EXIT_DONE : rc));
}
