/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/base/base.h"
#include "runtime/cli/shell/shell.h"

int cli_replace_begin(cli_replaced *r, const char *path) {
  struct stat was;
  const bool there = stat(path, &was) == 0;
  *r = (cli_replaced){.path = path, .through = there && !S_ISREG(was.st_mode)};
  const int n = snprintf(r->half, sizeof r->half, "%s.tmp.%ld", path, (long)getpid());
  if (!r->through && (n < 0 || (size_t)n >= sizeof r->half)) return ENAMETOOLONG;
  r->f = fopen(r->through ? path : r->half, "w");
  if (!r->f) return errno;
  return !there || r->through || fchmod(fileno(r->f), was.st_mode & 07777) == 0 ? 0 : cli_replace_end(r, errno);
}

int cli_replace_end(cli_replaced *r, int why) {
  const int closed = tni_close_written(r->f);
  if (!why) why = closed;
  if (!why && !r->through && rename(r->half, r->path) != 0) why = errno;
  if (why && !r->through) (void)unlink(r->half);
  return why;
}
