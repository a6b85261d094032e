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

static void *where(const tn_args *a, place p) {
  unsigned char *base = p.in == USE ? a->memory[p.index] : a->scratch;
  return base ? base + p.offset : NULL;
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

/* Where row y of image n begins, and from one pixel and channel to the next, in elements. */
typedef struct stride {
  int64_t begin, x, c;
} stride;

static stride stride_of(const action *a, uint32_t form, int64_t n, int64_t y) {
  return form & LAST ? (stride){(n * a->h + y) * a->w * a->c, a->c, 1}
                     : (stride){(n * a->c * a->h + y) * a->w, 1, a->h * a->w};
}

/* Rows of pixels, from form to form: layout, and the type of bytes. */
static void copy_rows(const work *w, int64_t begin, int64_t end) {
  const action *a = w->action;
  const void *from = where(w->args, a->from);
  void *to = where(w->args, a->to);
  const unsigned char bits = flip(a->from_form, a->to_form);
  for (int64_t j = begin; j < end; j++) {
    const stride f = stride_of(a, a->from_form, j / a->h, j % a->h), t = stride_of(a, a->to_form, j / a->h, j % a->h);
    for (int64_t x = 0; x < a->w; x++) {
      const int64_t i = f.begin + x * f.x, o = t.begin + x * t.x;
      if (a->step->kind == F32)
        for (int64_t c = 0; c < a->c; c++) ((float *)to)[o + c * t.c] = ((const float *)from)[i + c * f.c];
      else
        for (int64_t c = 0; c < a->c; c++)
          ((unsigned char *)to)[o + c * t.c] = ((const unsigned char *)from)[i + c * f.c] ^ bits;
    }
  }
}

static enum xnn_status set_up(const step *s, xnn_operator_t op, const action *a, const void *from, void *to) {
  const size_t n = (size_t)a->n, h = (size_t)a->h, w = (size_t)a->w;
  switch (s->kind) {
    case QU8:
      return xnn_setup_convolution2d_nhwc_qu8(op, n, h, w, from, to, NULL);
    case QC8:
      return xnn_setup_convolution2d_nhwc_qc8(op, n, h, w, from, to, NULL);
    default:
      return xnn_setup_convolution2d_nhwc_f32(op, n, h, w, from, to, NULL);
  }
}

static enum xnn_status run_slice(const work *w, int64_t k) {
  const action *a = w->action;
  const step *s = a->step;
  const int64_t outer = s->OC / s->slices * k, inner = s->groups > 1 ? s->C / s->slices * k : 0;
  const unsigned char *from = where(w->args, a->from);
  unsigned char *to = where(w->args, a->to);
  const int64_t size = (int64_t)size_of(s);
  const enum xnn_status st = set_up(s, s->op[k], a, from + inner * size, to + outer * size);
  return st == xnn_status_success ? xnn_run_operator(s->op[k], NULL) : st;
}

static void jobs(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  work *w = arg;
  const action *a = w->action;
  (void)worker;
  if (a->copies) copy_rows(w, begin, end);
  for (int64_t k = begin; !a->copies && k < end; k++)
    if (run_slice(w, k) != xnn_status_success) __atomic_store_n(&w->failed, 1, __ATOMIC_RELAXED);
}

static tn_status run_item(const tn_args *a, tn_run *run) {
  work w = {.args = a};
  for (uint32_t i = 0; i < a->plan->n_actions; i++) {
    const action *x = w.action = &a->plan->actions[i];
    if (run->cancelled(run)) return TN_E_CANCELLED;
    run->parallel_for(run, x->copies ? x->n * x->h : x->step->slices, 1, jobs, &w);
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
