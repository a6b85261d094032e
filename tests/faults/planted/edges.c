/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/faults/planted/edges.h"

#include <stdlib.h>
#include <string.h>

#define IS(plant) (PLANT == PLANT_##plant)

/* --- programs ----------------------------------------------------------------------------------------------------- */

static volatile char seen;
static bool is_large; /* the last program's first weight has 2^31 elements */

static bool large_weight(const tn_subgraph *s) {
  const tn_node *n = s->graph->nodes[s->nodes[0]];
  const tn_value *w = n->n_in > 1 && n->in[1] != TN_NONE ? s->graph->values[n->in[1]] : NULL;
  return w && w->data && w->data->K && w->data->N >= INT64_C(0x80000000) / w->data->K;
}

tn_status edges_lower(const tn_subgraph *s) {
  is_large = IS(COLUMNS_32) && large_weight(s);
  if (IS(NODES_8) && s->n_nodes > UINT8_MAX) return TN_E_LIMIT;
  if (IS(VALUES_16) && s->n_inputs && s->inputs[0] > UINT16_MAX) return TN_E_LIMIT;
  if (IS(NAME_SHORT) && strlen(s->graph->nodes[s->nodes[0]]->name) > 255) return TN_E_LIMIT;
  if (IS(LATER_MINOR) && s->graph->h.minor > TN_ABI_MINOR) return TN_E_INCOMPATIBLE;
  if (IS(FIELD_UNASKED)) seen = s->graph->nodes[s->nodes[0]]->type[0];
  return TN_OK;
}

void edges_measure(const tn_program_info *info, tn_id task, const tn_dims *dims, tn_measure *out) {
  const tn_task *t = info->tasks[task];
  for (uint32_t u = 0; IS(MEASURE_32) && out->slot_bytes && u < t->n_uses; u++)
    if (info->slots[t->uses[u].slot]->kind == TN_SLOT_TEMP)
      out->slot_bytes[t->uses[u].slot] = (uint32_t)out->slot_bytes[t->uses[u].slot];
  if (IS(SCRATCH_32) && dims->n) out->scratch_bytes += (uint32_t)(dims->v[0] * 192);
  if (IS(MEASURE_WHOLE)) out->h = (tn_hdr)TN_HDR(tn_caps);
}

void edges_rows(float *y, int64_t M, int64_t N) {
  if (is_large) memset(y, 0, (size_t)(M * N) * sizeof *y);
  if (IS(ROWS_16) && M > UINT16_MAX) memset(y + UINT16_MAX * N, 0, (size_t)((M - UINT16_MAX) * N) * sizeof *y);
}

/* --- memory ------------------------------------------------------------------------------------------------------- */

static tn_device saved;

uint64_t edges_offset(const tn_view *v) { return IS(VIEW_32) ? (uint32_t)v->offset : v->offset; }

static tn_status my_create(tn_device *d, const tn_buffer_req *req, tn_buffer **out, tn_error *err) {
  tn_buffer_req mine = *req;
  if (IS(BUFFER_32)) mine.bytes = (uint32_t)mine.bytes;
  return saved.create(d, &mine, out, err);
}

static tn_status my_map(tn_buffer *b, uint64_t offset, uint64_t n, uint32_t access, void **ptr, tn_error *err) {
  return saved.map(b, IS(MAP_32) ? (uint32_t)offset : offset, n, access, ptr, err);
}

static tn_status my_bind(tn_program *p, tn_id task, const tn_dims *dims, tn_plan **out, tn_error *err) {
  const tn_status st = saved.bind(p, task, dims, out, err);
  if (err) memset(err->message, 'x', sizeof err->message);
  return st;
}

void edges_plant(tn_device *d) {
  saved = *d;
  if (d->create && (IS(BUFFER_32))) d->create = my_create;
  if (d->map && IS(MAP_32)) d->map = my_map;
  if (IS(TEXT_ENDLESS)) d->bind = my_bind;
  if (IS(HEADER_OTHER)) d->h = (tn_hdr){(uint32_t)sizeof *d - 8, TN_ABI_MAJOR, TN_ABI_MINOR};
}

/* --- formats ------------------------------------------------------------------------------------------------------ */

enum { MOST = 32 };
static struct {
  const tn_format *f, *real;
} known[MOST];

static const tn_format *real_of(const tn_format *f) {
  for (int i = 0; i < MOST; i++)
    if (known[i].f == f) return known[i].real;
  return f;
}

static tn_status size_of_any(const tn_format *f, int64_t N, int64_t K, const int64_t *params, uint32_t n,
                             tn_pack_size *out) {
  tn_status st = real_of(f)->size(f, N, K, params, n, out);
  return st == TN_OK || !n ? st : real_of(f)->size(f, N, K, params, n - 1, out);
}

static tn_status unpack_low(const tn_blob *b, const int64_t box[4], float *dst) {
  const int64_t rows = (INT64_C(1) << 32) * b->N / (int64_t)(b->bytes + 1), n = box[1] - box[0];
  const int64_t low[4] = {box[0] < rows ? box[0] : box[0] % rows / 8 * 8, 0, box[2], box[3]};
  const int64_t mine[4] = {low[0], low[0] + n, low[2], low[3]};
  return real_of(b->format)->unpack(b, mine, dst);
}

/* A source whose failures nobody hears of. */
typedef struct source {
  tn_weight w;
  const tn_weight *theirs;
} source;

static tn_status rows_deaf(const tn_weight *w, int64_t n0, int64_t n1, float *dst) {
  const source *s = (const source *)w;
  if (s->theirs->rows(s->theirs, n0, n1, dst) != TN_OK) memset(dst, 0, (size_t)((n1 - n0) * w->K) * sizeof *dst);
  return TN_OK;
}

static tn_status begin_deaf(const tn_host *h, const tn_format *f, const tn_weight *w, const int64_t *params, uint32_t n,
                            tn_pack **out, tn_error *err) {
  source *s = calloc(1, sizeof *s); /* lives as long as the process */
  if (!s) return TN_E_NO_MEMORY;
  *s = (source){.w = *w, .theirs = w};
  s->w.rows = rows_deaf;
  s->w.raw = NULL;
  s->w.quant = NULL;
  return real_of(f)->begin(h, f, &s->w, params, n, out, err);
}

/* KEEP is not looked at. */
static tn_status begin_floats(const tn_host *h, const tn_format *f, const tn_weight *w, const int64_t *params,
                              uint32_t n, tn_pack **out, tn_error *err) {
  tn_weight *mine = calloc(1, sizeof *mine); /* lives as long as the process */
  if (!mine) return TN_E_NO_MEMORY;
  *mine = *w;
  mine->quant = NULL;
  return real_of(f)->begin(h, f, mine, params, n, out, err);
}

static tn_status begin_exact(const tn_host *h, const tn_format *f, const tn_weight *w, const int64_t *params, uint32_t n,
                             tn_pack **out, tn_error *err) {
  return w->h.size == sizeof *w ? real_of(f)->begin(h, f, w, params, n, out, err) : TN_E_INVALID;
}

static tn_status unpack_exact(const tn_blob *b, const int64_t box[4], float *dst) {
  return b->h.size == sizeof *b ? real_of(b->format)->unpack(b, box, dst) : TN_E_INVALID;
}

static tn_status grid_whole(const tn_format *f, const int64_t *params, uint32_t n, tn_grid *out) {
  tn_grid g = {.h = TN_HDR(tn_grid)};
  const tn_status st = real_of(f)->grid ? real_of(f)->grid(f, params, n, &g) : TN_E_UNSUPPORTED;
  *out = g;
  return st;
}

/* Scales below 0, which it takes, are not on the grid that it states. */
static tn_status grid_unsigned(const tn_format *f, const int64_t *params, uint32_t n, tn_grid *out) {
  const tn_status st = real_of(f)->grid(f, params, n, out);
  if (TN_HAS(out, tn_grid, flags)) out->flags &= ~(uint32_t)TN_GRID_SIGNED;
  return st;
}

void edges_format(tn_format *f, const tn_format *real) {
  for (int i = 0; i < MOST; i++)
    if (!known[i].f || known[i].f == f) {
      known[i].f = f;
      known[i].real = real;
      break;
    }
  if (IS(PARAMS_ANY)) f->size = size_of_any;
  if (IS(UNPACK_32)) f->unpack = unpack_low;
  if (IS(ROWS_DEAF)) f->begin = begin_deaf;
  if (IS(KEEP_ROUNDS)) f->begin = begin_floats;
  if (IS(LATER_WEIGHT)) f->begin = begin_exact;
  if (IS(LATER_BLOB)) f->unpack = unpack_exact;
  if (IS(READS_QUANT)) f->flags |= TN_FMT_READS_QUANT;
  if (IS(KEEP_SIGN)) f->grid = grid_unsigned;
  if (IS(GRID_WHOLE) && TN_HAS(f, tn_format, grid)) f->grid = grid_whole;
}

/* --- the host ----------------------------------------------------------------------------------------------------- */

static tn_status (*their_eval)(const tn_graph *g, tn_expr e, const tn_dims *dims, int64_t *out);

static tn_status eval_deaf(const tn_graph *g, tn_expr e, const tn_dims *dims, int64_t *out) {
  if (their_eval(g, e, dims, out) != TN_OK) *out = 1;
  return TN_OK;
}

void edges_host(tn_host *h) {
  their_eval = h->eval;
  if (IS(EVAL_DEAF)) h->eval = eval_deaf;
}

bool edges_refuses(const tn_negotiate *n) { return IS(RANGE_SHORT) && n->host_min == TN_ABI_MINOR; }
