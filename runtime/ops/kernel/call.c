/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/base.h"
#include "runtime/ops/kernel/elements.h"

static void under_for(tn_run *run, int64_t n, int64_t grain, tn_body body, void *arg) {
  tn_run *under = ((tni_krun *)run->ctx)->under;
  under->parallel_for(under, n, grain, body, arg);
}

static int32_t under_cancelled(const tn_run *run) {
  tni_krun *k = run->ctx;
  if (__atomic_load_n(&k->stopped, __ATOMIC_RELAXED)) return 1;
  if (!tni_run_cancelled(k->under)) return 0;
  __atomic_store_n(&k->stopped, 1, __ATOMIC_RELAXED);
  return 1;
}

tn_run *tni_krun_begin(tni_krun *k, tn_run *under) {
  *k = (tni_krun){.under = under,
                  .run = {.h = TN_HDR(tn_run),
                          .ctx = (void *)k,
                          .n_workers = under->n_workers,
                          .step = under->step,
                          .parallel_for = under_for,
                          .cancelled = under_cancelled}};
  return &k->run;
}

tn_status tni_krun_end(const tni_krun *k, const tni_kargs *a, tn_status s) {
  if (!k->stopped) return s;
  if (s) tni_error_init(a->err); /* what stopped early may look wrong to the kernel itself */
  return tni_kfail(a, TN_E_CANCELLED, "cancelled");
}

tn_status tni_kernel_call(tni_kernel_fn fn, const tni_kargs *a) {
  tni_krun run;
  tni_kargs mine = *a;
  mine.run = tni_krun_begin(&run, a->run);
  return tni_krun_end(&run, &mine, fn(&mine));
}

/* --- threads --- */

enum { SMALL = 16384 }; /* elements below which waking a thread costs more than the work */

void tni_kfor_polled(tn_run *run, int64_t n, int64_t cost, tn_body body, void *arg) {
  if (n <= 0) return;
  const int64_t grain = cost >= SMALL ? 1 : cost > 0 ? (SMALL + cost - 1) / cost : n;
  if (n <= grain || run->n_workers <= 1)
    body(arg, 0, n, 0);
  else
    run->parallel_for(run, n, grain, body, arg);
}

typedef struct pieces {
  tn_run *run;
  int64_t most; /* indices between two questions */
  tn_body body;
  void *arg;
} pieces;

static void in_pieces(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  const pieces *p = arg;
  while (begin < end && !tni_run_cancelled(p->run)) {
    const int64_t n = end - begin < p->most ? end - begin : p->most;
    p->body(p->arg, begin, begin + n, worker);
    begin += n;
  }
}

void tni_kfor(tn_run *run, int64_t n, int64_t cost, tn_body body, void *arg) {
  pieces p = {run, cost >= TNI_POLL ? 1 : TNI_POLL / (cost > 0 ? cost : 1), body, arg};
  if (n > 0 && n <= p.most / (TNI_POLL / SMALL))
    body(arg, 0, n, 0);
  else
    tni_kfor_polled(run, n, cost, in_pieces, &p);
}
