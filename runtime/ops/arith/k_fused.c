/* SPDX-License-Identifier: Apache-2.0
 *
 * tenon.FusedMatMul on the engine of gemm.h: products that a chain brings together are computed tile by tile, side by
 * side, and the chain runs over a tile's rows while they are in cache. The order of sums is gemm.h's, so the bits are
 * those of MatMul and the chain's operators (chain.h says what halves do).
 */
#include "runtime/ops/arith/chain.h"
#include "runtime/ops/gemm/gemm.h"
#include "runtime/ops/kernel/kernel.h"

enum { ROWS = 2 * TNI_GEMM_ROWS, TILE = ROWS * TNI_GEMM_COLS };

/* Products of one width that the chain brings together, in units of tiles. */
typedef struct group {
  int64_t width, first_unit, n_tiles;
  uint32_t n_parts, parts[TN_FUSED_MAX_PARTS];
} group;

typedef struct fused {
  const tni_kargs *a;
  tni_fused f;
  const tni_hot *hot;
  tn_run *run;
  uint32_t dtype, work, size;
  int64_t M, K, m_tiles, mb, nb; /* of a tile */
  bool one_row;                  /* sums of one row, columns as they lie */
  group groups[TN_FUSED_MAX_PARTS];
  uint64_t worker_bytes;
} fused;

/* Products in the largest group. */
static uint32_t most_parts(const tni_fused *f) {
  uint32_t most = 1;
  for (uint32_t g = 0; g < f->n_groups; g++) {
    uint32_t n = 0;
    for (uint32_t p = 0; p < f->n_parts; p++) n += f->group[p] == g;
    if (n > most) most = n;
  }
  return most;
}

/* What a tile packs, then the sums of a group's products. */
static uint64_t worker_bytes(const tni_fused *f, uint32_t dtype) {
  const uint64_t size = dtype == TN_DT_F64 ? sizeof(double) : sizeof(float);
  return TNI_GEMM_PACKED * sizeof(float) + most_parts(f) * TILE * size;
}

uint64_t tni_fused_scratch(const tn_node *node, uint32_t dtype, uint32_t n_workers) {
  tni_fused f;
  if (tni_fused_read(node, &f)) return 0;
  return worker_bytes(&f, dtype) * (n_workers ? n_workers : 1);
}

double tni_fused_macs(const tn_node *node, const tni_tensor *x) {
  tni_fused f;
  double columns = 0;
  if (tni_fused_read(node, &f)) return 0;
  for (uint32_t p = 0; p < f.n_parts; p++) columns += (double)f.parts[p].count;
  return (double)tni_knumel(x) * columns;
}

/* Tiles side by side, about: products of a group share theirs. */
static int64_t tiles_of(const tni_fused *f, int64_t nb) {
  int64_t n = 0;
  for (uint32_t p = 0; p < f->n_parts; p++) n += (f->parts[p].count + nb - 1) / nb;
  return n * f->n_groups / f->n_parts;
}

/* Product p as a matrix product of its own. */
static tni_gemm gemm_of(const fused *k, uint32_t p, tni_ops_quantized *room) {
  const tni_part *part = &k->f.parts[p];
  const tni_tensor *w = k->a->in[1 + part->weight];
  tni_gemm g = {.dtype = k->dtype, .M = k->M, .N = part->count, .K = k->K, .batches = 1, .a = k->a->in[0]->data};
  g.a_row = k->K;
  g.a_col = 1;
  g.skips_zeros = k->a->skips_zeros;
  g.run = k->run;
  g.b_row = k->f.trans_b ? 1 : w->dims[1];
  g.b_col = k->f.trans_b ? k->K : 1;
  g.b = w->data ? (const char *)w->data + part->first * g.b_col * k->size : NULL;
  tni_ops_quantized_pack(&g, w, !k->f.trans_b, part->first, room);
  return g;
}

/* Sums in ascending k, as gemm.c has them for f64. c's rows are TNI_GEMM_COLS apart. */
static void tile_f64(const tni_gemm *g, int64_t m0, int64_t mb, int64_t n0, int64_t nb, double *c) {
  for (int64_t m = 0; m < mb; m++) {
    const f64u *a = (const f64u *)g->a + (m0 + m) * g->a_row;
    double *y = c + m * TNI_GEMM_COLS;
    tni_poll poll = {g->run, TNI_POLL};
    for (int64_t n = 0; n < nb; n++) y[n] = 0;
    for (int64_t i = 0; i < g->K && !tni_poll_stop(&poll, nb); i++) {
      const f64u *b = (const f64u *)g->b + i * g->b_row + n0 * g->b_col;
      for (int64_t n = 0; n < nb; n++) y[n] = y[n] + a[i] * b[n * g->b_col];
    }
  }
}

static void fused_sums(const fused *k, uint32_t p, int64_t m0, int64_t mb, int64_t n0, int64_t nb, float *packed,
                       char *c) {
  tni_ops_quantized room;
  const tni_gemm g = gemm_of(k, p, &room);
  if (k->work == TN_DT_F64)
    tile_f64(&g, m0, mb, n0, nb, (double *)(void *)c);
  else if (k->one_row)
    tni_gemm_row(&g, k->hot, 0, n0, nb, (float *)(void *)c);
  else
    tni_gemm_tile(&g, k->hot, 0, m0, mb, n0, nb, packed, (float *)(void *)c);
}

/* Registers of the other inputs for row m, columns from n0 of a group of this width. */
static void set_operands(const fused *k, uint32_t which, int64_t width, int64_t m, int64_t n0, int64_t n,
                         tni_registers *r, tni_chain_room *room) {
  const tni_chain *c = &k->f.chain;
  for (uint32_t i = 0; i < c->n_ops; i++) {
    const uint32_t regs[2] = {c->ops[i].a, c->ops[i].b};
    if (k->f.group[c->n_in + i] != which) continue;
    for (uint32_t s = 0; s < 2; s++) {
      if (regs[s] < k->f.n_parts || regs[s] >= c->n_in) continue;
      const uint32_t extra = regs[s] - k->f.n_parts;
      const tni_tensor *t = k->a->in[1 + k->f.n_weights + extra];
      const bool one = tni_knumel(t) == 1;
      const int64_t at = one ? 0 : t->rank == 1 ? n0 : m * width + n0;
      r->step[regs[s]] = !one;
      r->reg[regs[s]] = (const char *)t->data + at * k->size;
      if (k->work == k->dtype) continue;
      float *widened = tni_chain_widened(room, extra);
      tni_load_f32(k->dtype, t->data, at, one ? 1 : n, widened);
      r->reg[regs[s]] = widened;
    }
  }
}

/* n <= room->piece columns of row m, whose sums lie at c. */
static void finish_piece(const fused *k, uint32_t which, int64_t m, int64_t n0, int64_t n, const char *c,
                         tni_chain_room *room) {
  const group *g = &k->groups[which];
  const tni_chain *ch = &k->f.chain;
  const uint32_t wide = k->work == TN_DT_F64 ? 8 : 4;
  tni_registers r;
  void *dst[TN_CHAIN_MAX_OPS] = {NULL};
  r.work = k->work;
  for (uint32_t i = 0; i < g->n_parts; i++) {
    r.reg[g->parts[i]] = c + (size_t)i * TILE * wide;
    r.step[g->parts[i]] = 1;
  }
  set_operands(k, which, g->width, m, n0, n, &r, room);
  for (uint32_t o = 0; o < k->a->n_out; o++) {
    const uint32_t reg = ch->results[o];
    if (k->work == k->dtype && k->a->out[o] && k->f.group[reg] == which && reg >= ch->n_in)
      dst[reg - ch->n_in] = (char *)k->a->out[o]->data + (m * g->width + n0) * k->size;
  }
  tni_chain_run(ch, k->f.group, which, &r, dst, room, n);
  for (uint32_t o = 0; o < k->a->n_out; o++)
    if (k->a->out[o] && k->f.group[ch->results[o]] == which)
      tni_chain_store(&r, ch->results[o], k->dtype, k->a->out[o]->data, m * g->width + n0, n);
}

static void fused_unit(const fused *k, int64_t u, char *scratch, tni_chain_room *room) {
  uint32_t which = 0;
  while (which + 1 < k->f.n_groups && u >= k->groups[which + 1].first_unit) which++;
  const group *g = &k->groups[which];
  const int64_t t = u - g->first_unit, m0 = (t % k->m_tiles) * k->mb, n0 = (t / k->m_tiles) * k->nb;
  const int64_t mb = k->M - m0 < k->mb ? k->M - m0 : k->mb, nb = g->width - n0 < k->nb ? g->width - n0 : k->nb;
  const uint32_t wide = k->work == TN_DT_F64 ? 8 : 4;
  char *c = scratch + TNI_GEMM_PACKED * sizeof(float);
  for (uint32_t i = 0; i < g->n_parts; i++)
    fused_sums(k, g->parts[i], m0, mb, n0, nb, (float *)(void *)scratch, c + (size_t)i * TILE * wide);
  for (int64_t m = 0; m < mb; m++)
    for (int64_t n = 0; n < nb; n += room->piece)
      finish_piece(k, which, m0 + m, n0 + n, nb - n < room->piece ? nb - n : room->piece,
                   c + (m * TNI_GEMM_COLS + n) * (int64_t)wide, room);
}

static void fused_units(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  fused *k = arg;
  tni_chain_room room;
  tni_chain_begin(&k->f.chain, k->work, &room);
  for (int64_t u = begin; u < end && !tni_run_cancelled(k->run); u++)
    fused_unit(k, u, (char *)k->a->scratch + worker * k->worker_bytes, &room);
}

static int64_t set_groups(fused *k) {
  int64_t n = 0;
  for (uint32_t g = 0; g < k->f.n_groups; g++) {
    group *to = &k->groups[g];
    for (uint32_t p = 0; p < k->f.n_parts; p++)
      if (k->f.group[p] == g) to->parts[to->n_parts++] = p;
    to->width = k->f.parts[to->parts[0]].count;
    to->first_unit = n;
    to->n_tiles = (to->width + k->nb - 1) / k->nb;
    n += to->n_tiles * k->m_tiles;
  }
  return n;
}

/* Shapes as the rule has checked them, here of what lies in memory. */
static tn_status check_fused(const fused *k) {
  const tni_kargs *a = k->a;
  for (uint32_t i = 1; i < a->n_in; i++)
    if (a->in[i]->dtype != k->dtype) return tni_kdtype(a, a->in[i]->dtype);
  for (uint32_t p = 0; p < k->f.n_parts; p++) {
    const tni_tensor *w = a->in[1 + k->f.parts[p].weight];
    if (w->rank != 2 || w->dims[k->f.trans_b] != k->K ||
        k->f.parts[p].first + k->f.parts[p].count > w->dims[!k->f.trans_b])
      return tni_kfail(a, TN_E_INVALID, "FusedMatMul: part %u does not fit its weight", p);
  }
  for (uint32_t i = 0; i < k->f.chain.n_ops; i++) {
    const uint32_t regs[2] = {k->f.chain.ops[i].a, k->f.chain.ops[i].b};
    const int64_t width = k->groups[k->f.group[k->f.chain.n_in + i]].width;
    for (uint32_t s = 0; s < 2; s++) {
      if (regs[s] < k->f.n_parts || regs[s] >= k->f.chain.n_in) continue;
      const tni_tensor *t = a->in[1 + k->f.n_weights + regs[s] - k->f.n_parts];
      const int64_t n = tni_knumel(t);
      if (n != 1 && n != (t->rank == 1 ? width : k->M * width))
        return tni_kfail(a, TN_E_INVALID, "FusedMatMul: an operand of instruction %u does not fit", i);
    }
  }
  return TN_OK;
}

/* One row against weights of floats that lie as the sums go: pieces are wider then than a tile may be. */
static bool reads_in_place(const fused *k) {
  if (k->M != 1 || k->work != TN_DT_F32) return false;
  for (uint32_t p = 0; p < k->f.n_parts; p++) {
    tni_ops_quantized room;
    const tni_gemm g = gemm_of(k, p, &room);
    if (!tni_gemm_one_row(&g)) return false;
  }
  return true;
}

tn_status tni_k_fused_matmul(const tni_kargs *a) {
  const tni_tensor *x = a->in[0];
  fused k = {.a = a, .hot = tni_hot_get(), .run = a->run, .dtype = x->dtype, .work = x->dtype};
  const char *why = tni_fused_read(a->node, &k.f);
  if (why) return tni_kfail(a, TN_E_INVALID, "FusedMatMul: %s", why);
  if (tni_is_half(k.dtype)) k.work = TN_DT_F32;
  if (k.work != TN_DT_F32 && k.work != TN_DT_F64) return tni_kdtype(a, k.dtype);
  if (x->rank < 2) return tni_kfail(a, TN_E_INVALID, "FusedMatMul: an activation of rank %u", x->rank);
  k.size = tni_elem_size(k.dtype);
  k.K = x->dims[x->rank - 1];
  k.M = tni_dim_product(x, 0, x->rank - 1);
  k.one_row = reads_in_place(&k);
  k.nb = k.one_row ? TNI_GEMM_ROW_COLS : TNI_GEMM_COLS;
  k.mb = tni_gemm_rows(k.M, a->skips_zeros ? TNI_GEMM_ROWS : ROWS, tiles_of(&k.f, k.nb), a->run->n_workers);
  k.m_tiles = (k.M + k.mb - 1) / k.mb;
  k.worker_bytes = worker_bytes(&k.f, k.dtype);
  const int64_t n_units = set_groups(&k);
  tn_status st = check_fused(&k);
  if (st || k.M == 0) return st;
  const int64_t mb = k.M < k.mb ? k.M : k.mb;
  tni_kfor_polled(a->run, n_units, mb * k.nb * (k.K + 1) / (k.one_row ? 4 : 16) + 1, fused_units, &k);
  return TN_OK;
}
