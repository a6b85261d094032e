/* SPDX-License-Identifier: Apache-2.0
 *
 * A step of the model: the actions of a plan one after the other, the slices of each on the host's pool. An operator is
 * told where its memory is just before it runs: `submit` is called for one item at a time, so nobody else does. */
#include "backend.h"

struct tn_args {
  tn_plan *plan;
  unsigned char *scratch;
  uint32_t n_uses;
  unsigned char *memory[];
};

static float *where(const tn_args *a, place p) {
  unsigned char *base = p.in == USE ? a->memory[p.index] : a->scratch;
  return base ? (float *)(void *)(base + p.offset) : NULL;
}

void args_free(tn_args *a) {
  const tn_host *h = a->plan->program->device->host;
  h->free(h->ctx, a);
}

tn_status args_set(tn_args *a, uint32_t use, const tn_view *view, tn_error *err) {
  if (use > a->n_uses) return fail(err, TN_E_INVALID, "there is no use %u", use);
  const int nothing = use == a->n_uses && !view->bytes; /* of scratch there may be none */
  if (!view->buffer && !nothing) return fail(err, TN_E_INVALID, "use %u is not in the device's memory", use);
  *(use == a->n_uses ? &a->scratch : &a->memory[use]) = nothing ? NULL : at(view);
  return TN_OK;
}

tn_status args(tn_plan *plan, const tn_view *const *uses, uint32_t n, tn_args **out, tn_error *err) {
  const tn_host *h = plan->program->device->host;
  const uint32_t n_uses = plan->program->parts[plan->task].task.n_uses;
  if (n != n_uses + 1) return fail(err, TN_E_INVALID, "%u views for %u uses", n, n_uses);
  tn_args *a = h->alloc(h->ctx, sizeof *a + n_uses * sizeof(void *), 64, TN_TAG_PLUGIN);
  if (!a) return fail(err, TN_E_NO_MEMORY, "no memory for arguments");
  *a = (tn_args){.plan = plan, .n_uses = n_uses};
  for (uint32_t i = 0; i < n; i++) {
    const tn_status st = args_set(a, i, uses[i], err);
    if (st == TN_OK) continue;
    args_free(a);
    return st;
  }
  *out = a;
  return TN_OK;
}

typedef struct work {
  const tn_args *args;
  const action *action;
  int32_t failed;
} work;

/* Rows of pixels, in either direction. */
static void change_layout(const work *w, int64_t begin, int64_t end) {
  const action *a = w->action;
  const float *from = where(w->args, a->from);
  float *to = where(w->args, a->to);
  for (int64_t j = begin; j < end; j++) {
    const int64_t n = j / a->h, y = j % a->h;
    for (int64_t x = 0; x < a->w; x++)
      for (int64_t c = 0; c < a->c; c++) {
        const int64_t last = ((n * a->h + y) * a->w + x) * a->c + c, first = ((n * a->c + c) * a->h + y) * a->w + x;
        to[a->what == TO_LAST ? last : first] = from[a->what == TO_LAST ? first : last];
      }
  }
}

static enum xnn_status run_slice(const work *w, int64_t k) {
  const action *a = w->action;
  const step *s = a->step;
  const int64_t outer = s->OC / s->slices * k, inner = s->groups > 1 ? s->C / s->slices * k : 0;
  const enum xnn_status st = xnn_setup_convolution2d_nhwc_f32(s->op[k], (size_t)a->n, (size_t)a->h, (size_t)a->w,
      where(w->args, a->from) + inner, where(w->args, a->to) + outer, NULL);
  return st == xnn_status_success ? xnn_run_operator(s->op[k], NULL) : st;
}

static void jobs(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  work *w = arg;
  const action *a = w->action;
  (void)worker;
  if (a->what != EXECUTE) change_layout(w, begin, end);
  for (int64_t k = begin; a->what == EXECUTE && k < end; k++)
    if (run_slice(w, k) != xnn_status_success) __atomic_store_n(&w->failed, 1, __ATOMIC_RELAXED);
}

static tn_status run_item(const tn_args *a, tn_run *run) {
  work w = {.args = a};
  for (uint32_t i = 0; i < a->plan->n_actions; i++) {
    const action *x = w.action = &a->plan->actions[i];
    if (run->cancelled(run)) return TN_E_CANCELLED;
    run->parallel_for(run, x->what == EXECUTE ? x->step->slices : x->n * x->h, 1, jobs, &w);
  }
  return w.failed ? TN_E_INTERNAL : TN_OK;
}

/* BLOCKING: every item is done when this returns. */
tn_status submit(tn_device *d, uint32_t engine, const tn_item *const *items, uint32_t n, tn_run *run, tn_error *err) {
  const tn_host *h = ((device *)d)->host;
  if (engine != 1) return fail(err, TN_E_INVALID, "there is one engine");
  for (uint32_t i = 0; i < n; i++) {
    tn_error why = {.h = TN_HDR(tn_error), .node = TN_NONE, .task = TN_NONE};
    const tn_status st = run_item(items[i]->args, run);
    if (st != TN_OK) (void)fail(&why, st, st == TN_E_CANCELLED ? "stopped" : "XNNPACK could not compute");
    h->done(items[i]->ticket, st, NULL, st == TN_OK ? NULL : &why);
  }
  return TN_OK;
}
