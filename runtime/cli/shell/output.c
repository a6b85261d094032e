/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base/base.h"
#include "runtime/cli/shell/shell.h"

void cli_streams_open(void) {
  /* The wrong way round for 0 and 1: use is an error and no silence. */
  static const int modes[] = {O_WRONLY, O_RDONLY, O_WRONLY};
  for (int fd = 0; fd < 3; fd++)
    if (fcntl(fd, F_GETFD) < 0 && errno == EBADF) (void)open("/dev/null", modes[fd]);
}

static bool reader_is_gone(int fd) {
  struct pollfd p = {.fd = fd, .events = POLLOUT};
  return poll(&p, 1, 0) == 1 && (p.revents & POLLERR);
}

static int first_failure; /* of stdout: errno */

bool cli_streams_flush(void) {
  if (fflush(stdout) != 0 && !first_failure) first_failure = errno;
  return !first_failure && !ferror(stdout);
}

int cli_streams_close(int rc) {
  const bool out_gone = reader_is_gone(STDOUT_FILENO), err_gone = reader_is_gone(STDERR_FILENO);
  const int last = tni_close_written(stdout), why = first_failure ? first_failure : last;
  if (why && (why == EPIPE || out_gone)) {
    (void)tni_close_written(stderr);
    return EXIT_PIPE;
  }
  if (why) {
    fprintf(stderr, "tenon: the output could not be written: %s\n", strerror(why));
    rc = EXIT_OUTPUT;
  }
  const int said = tni_close_written(stderr);
  if (said && rc == EXIT_DONE) return said == EPIPE || err_gone ? EXIT_PIPE : EXIT_OUTPUT;
  return rc;
}
