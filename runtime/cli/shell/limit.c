/* SPDX-License-Identifier: Apache-2.0
 *
 * --max-memory: the system refuses the process what is over it (RLIMIT_DATA: the heap and private mappings, thread
 * stacks included; mapped weights do not count, they are the file's). Refused allocations end in "out of memory" with
 * the place.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "runtime/cli/shell/shell.h"

unsigned long long cli_size(const char *s) {
  static const char units[] = "KMG";
  char *end;
  errno = 0;
  if (*s < '0' || *s > '9') return 0;
  unsigned long long v = strtoull(s, &end, 10);
  const char *unit = *end ? strchr(units, *end >= 'a' ? *end - 'a' + 'A' : *end) : NULL;
  const unsigned shift = unit ? 10 * (unsigned)(unit - units + 1) : 0;
  if (errno || (*end && (!unit || end[1])) || v > (~0ull >> shift)) return 0;
  return v << shift;
}

void cli_lift_limit(void) {
  struct rlimit now;
  if (getrlimit(RLIMIT_DATA, &now) != 0) return;
  now.rlim_cur = now.rlim_max;
  (void)setrlimit(RLIMIT_DATA, &now);
}

int cli_limit_data(unsigned long long bytes) {
  struct rlimit now;
  if (getrlimit(RLIMIT_DATA, &now) != 0 || (now.rlim_max != RLIM_INFINITY && bytes > now.rlim_max)) return -1;
  now.rlim_cur = bytes;
  return setrlimit(RLIMIT_DATA, &now) == 0 ? 0 : errno;
}
