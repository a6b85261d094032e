/* SPDX-License-Identifier: Apache-2.0
 *
 * A plugin that does not come to an end and logs "nag PID" every 50 ms: in `claim` or in a pack's `begin`, as TENON_NAG
 * says, for 20 s.
 */
#include <time.h>
#include <unistd.h>

#include "tests/faults/corpus/whole.h"

static void nag(const tn_host *host, const char *where) {
  const char *here = getenv("TENON_NAG");
  const struct timespec t = {0, 50000000};
  char line[64];
  if (!here || strcmp(here, where) != 0) return;
  snprintf(line, sizeof line, "nag %d", (int)getpid());
  for (int i = 0; i < 400; i++) {
    host->log(host->ctx, TN_LOG_ERROR, line);
    nanosleep(&t, NULL);
  }
}

static tn_status slow_claim(tn_device *d, const tn_graph *g, const tn_dims *at, const tn_claim_sink *sink,
                            tn_error *e) {
  nag(backend_of(d)->host, "claim");
  return claim(d, g, at, sink, e);
}

static tn_status slow_begin(const tn_host *host, const tn_format *f, const tn_weight *w, const int64_t *params,
                            uint32_t n, tn_pack **out, tn_error *err) {
  nag(host, "begin");
  return whole_begin(host, f, w, params, n, out, err);
}

WHOLE(w->device.claim = slow_claim; w->format.begin = slow_begin)
