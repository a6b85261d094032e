/* SPDX-License-Identifier: Apache-2.0
 *
 * ok_sections: constant matrices are packed as a header and [K,N] floats, and programs have the floats attached alone.
 */
#include <string.h>

#include "fixed.h"

struct tn_pack {
  const tn_host *host;
  const tn_weight *w;
};

static uint32_t wrong_of(const tn_host *host) {
  const char *name = "none";
  return host->option(host->ctx, "wrong", TN_OPT_STRING, &name) == TN_OK ? fixed_wrong_of(name) : FIXED_none;
}

static tn_status size(const tn_format *f, int64_t N, int64_t K, const int64_t *params, uint32_t n, tn_pack_size *out) {
  uint64_t elems;
  (void)params;
  if ((N % 16 || K % 64) && wrong_of(((const fixed_format *)(const void *)f)->host) == FIXED_ok_tiles) return TN_E_UNSUPPORTED;
  if (n || N < 0 || K < 0 || __builtin_mul_overflow((uint64_t)N, (uint64_t)K, &elems) || elems > UINT64_MAX / 8)
    return TN_E_INVALID;
  *out = (tn_pack_size){.bytes = FIXED_HEAD + elems * sizeof(float), .align = 64, .row_unit = 1};
  return TN_OK;
}

static tn_status begin(const tn_host *host, const tn_format *f, const tn_weight *w, const int64_t *params, uint32_t n,
                       tn_pack **out, tn_error *err) {
  (void)f, (void)params;
  if (n) return fixed_fail(err, TN_E_INVALID, "fixed32 has no params");
  tn_pack *p = host->alloc(host->ctx, sizeof *p, 64, TN_TAG_PACK);
  if (!p) return fixed_fail(err, TN_E_NO_MEMORY, "no memory to pack");
  p->host = host;
  p->w = w;
  *out = p;
  return TN_OK;
}

static tn_status rows(tn_pack *p, int64_t n0, int64_t n1, void *blob) {
  const int64_t N = p->w->N, K = p->w->K;
  float *row = p->host->alloc(p->host->ctx, (size_t)(K + 1) * sizeof *row, 64, TN_TAG_PACK);
  tn_status st = row ? TN_OK : TN_E_NO_MEMORY;
  for (int64_t n = n0; st == TN_OK && n < n1; n++) {
    st = p->w->rows(p->w, n, n + 1, row);
    for (int64_t k = 0; st == TN_OK && k < K; k++)
      memcpy((char *)blob + FIXED_HEAD + (k * N + n) * (int64_t)sizeof *row, &row[k], sizeof *row);
  }
  p->host->free(p->host->ctx, row);
  return st;
}

static tn_status end(tn_pack *p, void *blob) {
  if (blob) memset(blob, 0x7f, FIXED_HEAD);
  p->host->free(p->host->ctx, p);
  return TN_OK;
}

static tn_status unpack(const tn_blob *b, const int64_t box[4], float *dst) {
  for (int64_t n = box[0]; n < box[1]; n++)
    for (int64_t k = box[2]; k < box[3]; k++)
      memcpy(dst++, (const char *)b->ptr + FIXED_HEAD + (k * b->N + n) * (int64_t)sizeof *dst, sizeof *dst);
  return TN_OK;
}

/* The header, and the floats. */
static tn_status sections(const tn_format *f, int64_t N, int64_t K, const int64_t *params, uint32_t n, uint32_t cap,
                          tn_section *out, uint32_t *count) {
  tn_pack_size z;
  if (size(f, N, K, params, n, &z) != TN_OK) return TN_E_INVALID;
  const uint32_t wrong = wrong_of(((const fixed_format *)(const void *)f)->host);
  tn_section all[2] = {{.bytes = FIXED_HEAD, .align = 64},
                       {.offset = FIXED_HEAD, .bytes = z.bytes - FIXED_HEAD, .align = 64}};
  if (wrong == FIXED_sect_overlap) all[0].bytes += 4;
  if (wrong == FIXED_sect_misaligned) all[1].align = 4096;
  if (wrong == FIXED_sect_beyond) all[1].bytes += 64;
  for (uint32_t i = 0; i < 2 && (i < cap || wrong == FIXED_sect_cap); i++) out[i] = all[i];
  *count = 2;
  return TN_OK;
}

static const tn_numerics numerics = {.h = TN_HDR(tn_numerics), .act_dtype = TN_DT_F32, .acc_inner = TN_DT_F32,
                                     .acc_outer = TN_DT_F32, .scale_dtype = TN_DT_F32, .finite_max = 1e30};

void fixed_format_fill(fixed_format *f, const tn_host *host) {
  f->host = host;
  f->pub = (tn_format){.h = TN_HDR(tn_format), .name = "fixed32", .version = 1, .bits = 32, .group = 1};
  f->pub.bits_per_weight = 32, f->pub.x_err = 0x1p-24f;
  f->pub.numerics = &numerics;
  f->pub.size = size, f->pub.begin = begin, f->pub.rows = rows, f->pub.end = end;
  f->pub.unpack = unpack, f->pub.sections = sections;
}

bool fixed_packs(const fixed_device *d, const tn_graph *g, tn_id v) {
  if (!fixed_is_sections(d->wrong) || d->old || v == TN_NONE) return false;
  const tn_value *w = g->values[v];
  if (w->kind != TN_VALUE_CONST || w->rank != 2 || w->dtype != TN_DT_F32) return false;
  int64_t K, N, hi;
  const bool known = d->host->range(g, w->dims[0], &K, &hi) == TN_OK && d->host->range(g, w->dims[1], &N, &hi) == TN_OK;
  if (d->wrong == FIXED_ok_tiles && (!known || N % 16 || K % 64)) return false;
  for (uint32_t i = 0; i < g->n_nodes; i++)
    for (uint32_t k = 0; k < g->nodes[i]->n_in; k++)
      if (g->nodes[i]->in[k] == v && (g->nodes[i]->op != TN_OP_MATMUL || k != 1)) return false;
  return true;
}
