/* SPDX-License-Identifier: Apache-2.0
 *
 * Sizes, weights, plans, arguments, runs.
 */
static tn_status eval_shape(const tn_program *p, const dims_of *from, const tn_dims *dims, shape *to) {
  *to = (shape){.rank = from->rank, .elems = 1};
  for (uint32_t i = 0; i < from->rank; i++) {
    tn_status st = p->host->eval(&p->graph, from->d[i], dims, &to->d[i]);
    if (st != TN_OK) return st;
    if (to->d[i] < 0 || __builtin_mul_overflow(to->elems, to->d[i], &to->elems)) return TN_E_LIMIT;
  }
  return TN_OK;
}

/* Elements of x and z between neighbours along each axis of the result. */
static void fill_strides(tn_plan *p) {
  const step *t = p->step;
  for (uint32_t v = 0; v < (t->n_in > 1 ? 2 : 1); v++) {
    int64_t own[TN_MAX_RANK], next = 1;
    const shape *s = &p->in[v];
    for (uint32_t i = s->rank; i-- > 0;) {
      own[i] = s->d[i] == 1 ? 0 : next;
      next *= s->d[i];
    }
    for (uint32_t i = 0; i < p->out.rank; i++) {
      const uint32_t before = p->out.rank - s->rank;
      p->stride[v][i] = t->op == TN_OP_TRANSPOSE ? own[t->perm[i]] : i < before ? 0 : own[i - before];
    }
  }
}

static tn_status fill_plan(const tn_program *p, const step *t, const tn_dims *dims, tn_plan *out) {
  tn_status st = eval_shape(p, &t->out, dims, &out->out);
  for (uint32_t i = 0; st == TN_OK && i < t->n_in && i < 3; i++)
    if (!t->product || !i) st = eval_shape(p, &t->in[i], dims, &out->in[i]);
  for (uint32_t i = 0; st == TN_OK && i < t->n_extras; i++) st = eval_shape(p, &t->extra[i], dims, &out->extra[i]);
  if (st != TN_OK) return st;
  const shape *x = &out->in[0];
  out->program = p;
  out->step = t;
  if (t->product) {
    out->M = t->trans_a ? x->d[1] : 1;
    for (uint32_t i = 0; !t->trans_a && i + 1 < x->rank; i++) out->M *= x->d[i];
    int64_t floats = 0;
    for (uint32_t i = 0; i < t->n_parts + t->n_ops; i++) floats += t->width[i];
    out->scratch = (floats * 4 + 63) / 64 * 64;
  } else if (t->op == TN_OP_SOFTMAX) {
    out->axis = t->axis < 0 ? t->axis + x->rank : t->axis;
    out->inner = 1;
    for (uint32_t i = (uint32_t)out->axis + 1; i < x->rank; i++) out->inner *= x->d[i];
    out->M = x->d[out->axis] ? x->elems / x->d[out->axis] : 0;
  } else if (t->op == TN_OP_RMS_NORMALIZATION || t->op == TN_OP_LAYER_NORMALIZATION) {
    out->M = x->d[x->rank - 1] ? x->elems / x->d[x->rank - 1] : 0;
  } else {
    out->M = out->out.elems;
    fill_strides(out);
  }
  return TN_OK;
}

static tn_status measure(const tn_program *p, tn_id task, const tn_dims *dims, tn_measure *out) {
  tn_plan plan = {0};
  if (task >= p->info.n_tasks) return TN_E_INVALID;
  const step *t = &p->steps[task];
  tn_status st = fill_plan(p, t, dims, &plan);
  if (st != TN_OK) return st;
  out->scratch_bytes = (uint64_t)plan.scratch * p->host->max_workers;
  out->scratch_align = 64;
  for (uint32_t o = 0; out->slot_bytes && o < t->n_out; o++) {
    const tn_id slot = t->uses[t->out_use + o].slot;
    if (p->slots[slot]->kind == TN_SLOT_TEMP)
      out->slot_bytes[slot] = 4 * (uint64_t)(t->product ? plan.M * t->out_width[o] : plan.out.elems);
  }
  return TN_OK;
}

static tn_status set(tn_program *p, tn_id slot, const tn_view *view, const tn_blob *blob, tn_error *err) {
  if (slot >= p->info.n_slots || p->slots[slot]->kind != TN_SLOT_WEIGHT || !view || !view->ptr)
    return fail(err, TN_E_INVALID, "slot %u takes no weights, or they are not in memory", slot);
  if (p->slots[slot]->value != TN_NONE) {
    p->constant[slot] = view->ptr;
    return TN_OK;
  }
  for (uint32_t i = 0; i < p->info.n_tasks; i++) {
    step *t = &p->steps[i];
    tn_pack_size want;
    if (!t->product || t->weight_slot != slot) continue;
    if (!blob || blob->format != &g4 || blob->N != t->N || blob->K != t->K ||
        g4_size(&g4, t->N, t->K, NULL, 0, &want) != TN_OK || blob->bytes < want.bytes || view->bytes < want.bytes)
      break;
    t->blob = view->ptr;
    return TN_OK;
  }
  return fail(err, TN_E_INVALID, "slot %u gets weights of another task", slot);
}

static tn_status bind(tn_program *p, tn_id task, const tn_dims *dims, tn_plan **out, tn_error *err) {
  tn_plan plan = {0};
  tn_status st = task < p->info.n_tasks ? fill_plan(p, &p->steps[task], dims, &plan) : TN_E_INVALID;
  if (st != TN_OK) return fail(err, st, "there is no task %u, or its dims cannot be evaluated", task);
  tn_plan *kept = p->host->alloc(p->host->ctx, sizeof *kept, 64, TN_TAG_PLUGIN);
  if (!kept) return fail(err, TN_E_NO_MEMORY, "no memory for a plan");
  *kept = plan;
  *out = kept;
  return TN_OK;
}

static void unbind(tn_plan *plan) { plan->program->host->free(plan->program->host->ctx, plan); }

static tn_status args_set(tn_args *a, uint32_t use, const tn_view *view, tn_error *err) {
  const step *t = a->plan->step;
  if (use > t->n_uses) return fail(err, TN_E_INVALID, "there is no use %u", use);
  if (use == t->n_uses) {
    a->scratch = view->ptr;
    return TN_OK;
  }
  if (t->product && t->uses[use].slot == t->weight_slot) return TN_OK;
  if (!view->ptr && view->bytes) return fail(err, TN_E_INVALID, "use %u is not in memory", use);
  a->memory[use] = view->ptr;
  return TN_OK;
}

static void args_free(tn_args *a) { a->plan->program->host->free(a->plan->program->host->ctx, a); }

static tn_status args(tn_plan *plan, const tn_view *const *uses, uint32_t n, tn_args **out, tn_error *err) {
  const tn_host *h = plan->program->host;
  tn_args *a = h->alloc(h->ctx, sizeof *a, 64, TN_TAG_PLUGIN);
  if (!a) return fail(err, TN_E_NO_MEMORY, "no memory for arguments");
  *a = (tn_args){.plan = plan};
  tn_status st = TN_OK;
  for (uint32_t i = 0; st == TN_OK && i < n; i++) st = args_set(a, i, uses[i], err);
  if (st == TN_OK)
    *out = a;
  else
    args_free(a);
  return st;
}

static tn_status run(const tn_plan *plan, tn_args *a, tn_run *pool, tn_error *err) {
  const step *t = plan->step;
  if (pool->cancelled(pool)) return fail(err, TN_E_CANCELLED, "cancelled");
  if (t->product)
    pool->parallel_for(pool, plan->M, 1, products, a);
  else if (t->op == TN_OP_SOFTMAX)
    pool->parallel_for(pool, plan->M, 4, softmaxes, a);
  else if (t->op == TN_OP_RMS_NORMALIZATION || t->op == TN_OP_LAYER_NORMALIZATION)
    pool->parallel_for(pool, plan->M, 4, norms, a);
  else
    pool->parallel_for(pool, plan->M, 256, elements, a);
  return TN_OK;
}
