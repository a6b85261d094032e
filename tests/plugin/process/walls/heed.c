/* SPDX-License-Identifier: Apache-2.0
 *
 * A plugin that stops when it is told to, and only then: a pack's `begin` by host->cancelled, engines by run->cancelled.
 */
#include <time.h>

#include "tests/faults/corpus/whole.h"

enum { AT_ONCE = 1, A_WHILE, FOR_LONG, ENGINES = FOR_LONG }; /* how long an engine waits for that */

static void nap(void) {
  const struct timespec t = {0, 1000000};
  nanosleep(&t, NULL);
}

static tn_status heed_begin(const tn_host *host, const tn_format *f, const tn_weight *w, const int64_t *params,
                            uint32_t n, tn_pack **out, tn_error *err) {
  for (int i = 0; i < 20000 && !host->cancelled(host->ctx); i++) nap();
  return host->cancelled(host->ctx) ? TN_E_CANCELLED : whole_begin(host, f, w, params, n, out, err);
}

static tn_status heed_submit(tn_device *d, uint32_t engine, const tn_item *const *items, uint32_t n, tn_run *run,
                             tn_error *err) {
  const int naps = engine == FOR_LONG ? 20000 : engine == A_WHILE ? 100 : 0;
  (void)d, (void)items, (void)n, (void)err;
  for (int i = 0; i < naps && !run->cancelled(run); i++) nap();
  return run->cancelled(run) ? TN_E_CANCELLED : TN_OK;
}

static void add_engines(backend *w) {
  static const tn_engine one = {.h = TN_HDR(tn_engine), .name = "heed", .flags = TN_ENGINE_BLOCKING, .depth = 1};
  static const tn_engine any = {.h = TN_HDR(tn_engine), .name = "heed", .flags = TN_ENGINE_BLOCKING};
  static const tn_engine *const engines[ENGINES] = {&one, &one, &any};
  w->caps.engines = engines;
  w->caps.n_engines = ENGINES;
  w->device.submit = heed_submit;
}

WHOLE(w->format.begin = heed_begin; add_engines(w))
