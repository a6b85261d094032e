/* SPDX-License-Identifier: Apache-2.0
 *
 * Weight formats at their edges: matrices of more than 4 GiB, of which a few rows are packed into address space without
 * memory; sources that fail; params and structs that a format does not know.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "runtime/conform/edges/parts.h"

enum { MOST_ROWS = 4096, PAGE = 4096 };

/* A format with params that are taken. */
typedef struct bench {
  tni_cf *cf;
  tni_cf_plugin p;
  const tn_format *f;
  int64_t params[9];
  uint32_t n_params;
  int64_t N, K; /* of small matrices */
  tn_stats stats;
  float *zeros;
} bench;

/* Weights made of their row and column. */
typedef struct source {
  tn_weight w;
  long long given, fail_from; /* rows that were asked for; from that call on it fails, 0: never */
  long long fail_at;          /* that call fails; 0: none */
  long long calls;
} source;

static float value_of(int64_t n, int64_t k) {
  const uint64_t x = ((uint64_t)n * 0x9e3779b97f4a7c15u) ^ ((uint64_t)k * 0xc2b2ae3d27d4eb4fu);
  return (float)((int)((x ^ x >> 29) * 0xbf58476d1ce4e5b9u >> 40 & 0xffff) - 32768) / 32768;
}

static tn_status rows_give(const tn_weight *w, int64_t n0, int64_t n1, float *dst) {
  source *s = (source *)(uintptr_t)w;
  const long long call = __atomic_add_fetch(&s->calls, 1, __ATOMIC_RELAXED);
  if ((s->fail_from && call >= s->fail_from) || (s->fail_at && call == s->fail_at)) return TN_E_IO;
  if (n0 < 0 || n1 < n0 || n1 > w->N) return TN_E_INVALID;
  if (__atomic_add_fetch(&s->given, n1 - n0, __ATOMIC_RELAXED) > MOST_ROWS) return TN_E_LIMIT;
  for (int64_t n = n0; n < n1; n++)
    for (int64_t k = 0; k < w->K; k++) *dst++ = value_of(n, k);
  return TN_OK;
}

static source source_make(bench *b, int64_t N, int64_t K) {
  b->stats.n = (uint32_t)K;
  return (source){.w = {.h = TN_HDR(tn_weight), .N = N, .K = K, .dtype = TN_DT_F32, .rows = rows_give, .x = &b->stats}};
}

static tn_blob blob_make(const bench *b, const void *at, uint64_t bytes, int64_t N, int64_t K) {
  return (tn_blob){.h = TN_HDR(tn_blob),
                   .format = b->f,
                   .N = N,
                   .K = K,
                   .bytes = bytes,
                   .ptr = at,
                   .params = b->params,
                   .n_params = b->n_params};
}

/* --- more than 4 GiB --------------------------------------------------------------------------------------------- */

typedef struct giant {
  int64_t N, K, unit;
  uint64_t bytes;
  uint8_t *at;
} giant;

/* As many rows as take 2^33 elements and 4 GiB and a half of bytes. */
static bool giant_make(bench *b, giant *g) {
  tn_pack_size z = {0};
  *g = (giant){.K = 8192};
  for (g->N = (INT64_C(1) << 33) / g->K + 1024; g->N < INT64_C(1) << 28; g->N *= 2) {
    if (b->f->size(b->f, g->N, g->K, b->params, b->n_params, &z) != TN_OK) return false;
    g->unit = z.row_unit ? z.row_unit : 1;
    g->bytes = z.bytes;
    if (z.bytes > (UINT64_C(9) << 29) && z.bytes < UINT64_C(1) << 40) break;
  }
  g->N = g->N / g->unit * g->unit;
  if (b->f->size(b->f, g->N, g->K, b->params, b->n_params, &z) != TN_OK) return false;
  g->bytes = z.bytes;
  g->at = mmap(NULL, g->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return g->at != MAP_FAILED;
}

/* Whether a page from byte `from` on was written. */
static bool touched_from(const giant *g, uint64_t from) {
  const uint64_t first = from / PAGE * PAGE, n = g->bytes - first, step = UINT64_C(1) << 30;
  unsigned char *vec = malloc(step / PAGE);
  bool any = false;
  for (uint64_t at = 0; vec && at < n && !any; at += step) {
    const uint64_t some = n - at < step ? n - at : step;
    if (mincore(g->at + first + at, some, vec) != 0) break;
    for (uint64_t i = 0; i < (some + PAGE - 1) / PAGE && !any; i++) any = vec[i] & 1;
  }
  free(vec);
  return any;
}

static void rows_hold(bench *b, const giant *g, int64_t n0, int64_t n1) {
  const tn_blob blob = blob_make(b, g->at, g->bytes, g->N, g->K);
  const int64_t box[4] = {n0, n1, g->K - 96, g->K};
  float *w = malloc((size_t)((n1 - n0) * 96) * sizeof *w);
  if (!w) return;
  memset(w, 0xff, (size_t)((n1 - n0) * 96) * sizeof *w);
  if (b->f->unpack(&blob, box, w) != TN_OK)
    tni_cf_fail(b->cf, "%s: unpack of rows %lld to %lld of [%lld,%lld] failed", b->f->name, (long long)n0, (long long)n1,
                (long long)g->N, (long long)g->K);
  else
    for (int64_t i = 0; i < (n1 - n0) * 96; i++) {
      const double want = (double)value_of(n0 + i / 96, g->K - 96 + i % 96), off = fabs((double)w[i] - want);
      if (off <= (double)b->f->w_err * 1.01 + 0x1p-14) continue;
      tni_cf_fail(b->cf,
                  "%s [%lld,%lld], %llu bytes: row %lld, column %lld is %g and not %g: places in a packed matrix have "
                  "64 bits",
                  b->f->name, (long long)g->N, (long long)g->K, (unsigned long long)g->bytes, (long long)(n0 + i / 96),
                  (long long)(g->K - 96 + i % 96), (double)w[i], want);
      break;
    }
  free(w);
}

/* The last rows, some in the middle, the first: each is where it was when all are packed. */
static void pack_giant(bench *b, const giant *g) {
  source s = source_make(b, g->N, g->K);
  const int64_t n = g->unit * (g->unit < 8 ? 8 : 1), half = g->N / 2 / g->unit * g->unit;
  const int64_t from[] = {g->N - n, half, 0};
  tn_pack *p = NULL;
  tn_error e;
  tni_error_init(&e);
  tn_status st = b->f->begin(&b->p.host.pub, b->f, &s.w, b->params, b->n_params, &p, &e);
  for (int i = 0; st == TN_OK && i < 3; i++) {
    st = b->f->rows(p, from[i], from[i] + n, g->at);
    if (!i && st == TN_OK && !touched_from(g, UINT64_C(1) << 32))
      tni_cf_fail(b->cf, "%s [%lld,%lld]: the last rows are packed, and no byte past the first 4 GiB was written",
                  b->f->name, (long long)g->N, (long long)g->K);
  }
  /* A format may write what the whole matrix shares only here (format.h, end). */
  const tn_status end = p ? b->f->end(p, st == TN_OK ? g->at : NULL) : TN_OK;
  if (st == TN_OK) st = end;
  if (st != TN_OK) {
    if (s.given <= MOST_ROWS)
      tni_cf_fail(b->cf, "%s: packing rows of [%lld,%lld] failed: %s", b->f->name, (long long)g->N, (long long)g->K,
                  e.message);
    else
      tni_cf_note(b->cf, "%s reads the whole matrix before it packs", b->f->name);
    return;
  }
  for (int i = 0; i < 3; i++) rows_hold(b, g, from[i], from[i] + n);
}

static void ask_far(bench *b) {
  giant g;
  if (!giant_make(b, &g)) {
    tni_cf_note(b->cf, "%s takes no matrix of 2^33 elements, or there is no address space for it", b->f->name);
    return;
  }
  pack_giant(b, &g);
  (void)munmap(g.at, g.bytes);
}

/* --- what fails, what nobody knows ------------------------------------------------------------------------------- */

/* The source fails at its n-th call, once where all rows are asked for in one range, or from then on: begin, rows or end says
 * so, and everything comes back. */
static bool source_fails(bench *b, long long at, bool once) {
  source s = source_make(b, b->N, b->K);
  tn_pack_size z = {0};
  tn_pack *p = NULL;
  tn_error e;
  tni_error_init(&e);
  const long long live = atomic_load(&b->p.host.live);
  *(once ? &s.fail_at : &s.fail_from) = at;
  if (b->f->size(b->f, b->N, b->K, b->params, b->n_params, &z) != TN_OK) return false;
  uint8_t *blob = aligned_alloc(PAGE, (z.bytes + PAGE) / PAGE * PAGE);
  if (!blob) return false;
  tn_status st = b->f->begin(&b->p.host.pub, b->f, &s.w, b->params, b->n_params, &p, &e);
  if (st != TN_OK && !e.message[0]) tni_cf_fail(b->cf, "%s: begin fails without a text", b->f->name);
  const int64_t step = once ? b->N : z.row_unit ? z.row_unit : 1;
  for (int64_t n = 0; st == TN_OK && n < b->N; n += step)
    st = b->f->rows(p, n, n + step < b->N ? n + step : b->N, blob);
  const bool failed = s.calls >= at;
  const tn_status end = p ? b->f->end(p, st == TN_OK ? blob : NULL) : TN_OK;
  if (failed && st == TN_OK && end == TN_OK)
    tni_cf_fail(b->cf, "%s: tn_weight.rows failed at call %lld, and packing says OK: hand its status on", b->f->name, at);
  if (atomic_load(&b->p.host.live) != live)
    tni_cf_fail(b->cf, "%s: after tn_weight.rows failed at call %lld, %lld blocks were not given back", b->f->name, at,
                atomic_load(&b->p.host.live) - live);
  free(blob);
  return failed && b->cf->verdict == TNI_CF_PASS;
}

/* Every set of params names a format of its own: what it does not know it refuses, in size and begin alike. */
static void unknown_params(bench *b) {
  int64_t more[9] = {0};
  tn_pack_size z = {0};
  memcpy(more, b->params, b->n_params * sizeof *more);
  more[b->n_params] = INT64_C(0x7654321);
  if (b->f->size(b->f, b->N, b->K, more, b->n_params + 1, &z) == TN_OK)
    tni_cf_fail(b->cf, "%s: size takes %u params and %u: params that a format does not know are refused (plugin.h)",
                b->f->name, b->n_params, b->n_params + 1);
  source s = source_make(b, b->N, b->K);
  tn_pack *p = NULL;
  tn_error e;
  tni_error_init(&e);
  const tn_status st = b->f->begin(&b->p.host.pub, b->f, &s.w, more, b->n_params + 1, &p, &e);
  if (st == TN_OK)
    tni_cf_fail(b->cf, "%s: begin takes %u params and %u", b->f->name, b->n_params, b->n_params + 1);
  else if (!e.message[0])
    tni_cf_fail(b->cf, "%s: begin refuses %u params without a text", b->f->name, b->n_params + 1);
  if (st == TN_OK && p) (void)b->f->end(p, NULL);
}

/* tn_grid is the host's: of a short one, and of one with fields of a later minor, only what is known is written. */
static void short_grids(bench *b) {
  if (!TN_HAS(b->f, tn_format, grid) || !b->f->grid) return;
  for (uint32_t n = sizeof(tn_hdr); n <= sizeof(tn_grid) + 64; n += 4) {
    tni_cf_block m;
    if (!tni_cf_block_make(&m, n, 8, 0x5b, false)) return;
    memset(m.p, n > sizeof(tn_grid) ? 0x5b : 0, n);
    memset(m.p, 0, n < sizeof(tn_grid) ? n : sizeof(tn_grid));
    const tn_hdr h = {.size = n, .major = TN_ABI_MAJOR, .minor = TN_ABI_MINOR};
    memcpy(m.p, &h, sizeof h);
    (void)!b->f->grid(b->f, b->params, b->n_params, (tn_grid *)(void *)m.p);
    bool tail = tni_cf_block_holds(&m) && !memcmp(m.p, &h, sizeof h);
    for (uint32_t i = sizeof(tn_grid); i < n; i++) tail = tail && m.p[i] == 0x5b;
    if (!tail)
      tni_cf_fail(b->cf, "%s: with a tn_grid of %u bytes grid writes after them, or changes its header", b->f->name, n);
    tni_cf_block_finish(&m);
    if (!tail) return;
  }
}

/* A host of ABI 1.0 has a tn_quant without flags: what stands after it is not KEEP. */
typedef struct old_quant {
  tn_quant q;
  int64_t K;
} old_quant;

static tn_status quant_grid(const tn_quant *q, int64_t n0, int64_t n1, uint8_t *codes, float *scales, float *zeros) {
  const int64_t K = ((const old_quant *)q)->K, groups = (K + q->group - 1) / q->group;
  for (int64_t i = 0; codes && i < (n1 - n0) * K; i++) codes[i] = (uint8_t)((i + n0 * K) % 15 + 1);
  for (int64_t i = 0; scales && i < (n1 - n0) * groups; i++) scales[i] = 0.0625f;
  for (int64_t i = 0; zeros && i < (n1 - n0) * groups; i++) zeros[i] = 8;
  return TN_OK;
}

static tn_status quant_rows(const tn_weight *w, int64_t n0, int64_t n1, float *dst) {
  for (int64_t i = 0; i < (n1 - n0) * w->K; i++) dst[i] = (float)((int)((i + n0 * w->K) % 15) + 1 - 8) * 0.0625f;
  return TN_OK;
}

static uint8_t *quant_pack(bench *b, old_quant *q, uint32_t size, uint64_t *bytes, tn_status *st) {
  tn_pack_size z = {0};
  tn_pack *p = NULL;
  tn_error e;
  tni_error_init(&e);
  q->q.h = (tn_hdr){.size = size, .major = TN_ABI_MAJOR, .minor = size < sizeof(tn_quant) ? 0 : TN_ABI_MINOR};
  source s = source_make(b, b->N, b->K);
  s.w.quant = &q->q;
  s.w.rows = quant_rows;
  *st = b->f->size(b->f, b->N, b->K, b->params, b->n_params, &z);
  uint8_t *blob = *st == TN_OK ? aligned_alloc(PAGE, (z.bytes + PAGE) / PAGE * PAGE) : NULL;
  if (!blob) return NULL;
  memset(blob, 0, z.bytes);
  *st = b->f->begin(&b->p.host.pub, b->f, &s.w, b->params, b->n_params, &p, &e);
  if (*st == TN_OK) *st = b->f->rows(p, 0, b->N, blob);
  const tn_status end = p ? b->f->end(p, *st == TN_OK ? blob : NULL) : TN_OK;
  if (*st == TN_OK) *st = end;
  *bytes = z.bytes;
  return blob;
}

static void old_quants(bench *b) {
  old_quant q = {.q = {.bits = 4, .group = 32, .scheme = TN_QUANT_AFFINE, .scale_dtype = TN_DT_F32, .grid = quant_grid,
                       .zero_kind = TN_ZERO_HALF},
                 .K = b->K};
  uint64_t bytes = 0, old_bytes = 0;
  tn_status st, old;
  uint8_t *now = quant_pack(b, &q, sizeof(tn_quant), &bytes, &st);
  memset((uint8_t *)&q.q + TN_UPTO(tn_quant, reserved), 0xff, sizeof q.q - TN_UPTO(tn_quant, reserved));
  uint8_t *then = quant_pack(b, &q, (uint32_t)TN_UPTO(tn_quant, reserved), &old_bytes, &old);
  if (now && then && st == TN_OK && (old != TN_OK || memcmp(now, then, bytes) != 0))
    tni_cf_fail(b->cf,
                "%s: with a tn_quant of ABI 1.0, which ends before `flags`, %s: a field exists if it lies inside h.size "
                "(plugin.h, rule 1; TN_HAS)",
                b->f->name, old == TN_OK ? "it packs other bytes" : "packing fails");
  free(now);
  free(then);
}

/* --- structs of a later minor ------------------------------------------------------------------------------------- */

enum { MORE = 64 }; /* bytes of fields that nobody knows */

typedef struct lent {
  tni_cf_block m;
  bool there;
} lent;

/* A copy of the struct at p that ends where its page does; later: longer, and of the next minor. */
static void *lend(lent *l, const void *p, size_t n, bool later) {
  const size_t size = n + (later ? MORE : 0);
  const tn_hdr h = {.size = (uint32_t)size, .major = TN_ABI_MAJOR, .minor = TN_ABI_MINOR + later};
  l->there = tni_cf_block_make(&l->m, size, 8, 0xee, false);
  if (!l->there) return NULL;
  memset(l->m.p, 0xee, size);
  memcpy(l->m.p, p, n);
  memcpy(l->m.p, &h, sizeof h);
  return l->m.p;
}

static tn_status rows_made(const tn_weight *w, int64_t n0, int64_t n1, float *dst) {
  for (int64_t n = n0; n < n1; n++)
    for (int64_t k = 0; k < w->K; k++) *dst++ = value_of(n, k);
  return TN_OK;
}

/* Packs and unpacks with structs as they are or as a later host has them; bytes is what was packed, w what came back. */
static tn_status with_structs(bench *b, bool later, uint8_t *bytes, uint64_t n_bytes, int64_t unit, float *w) {
  const int64_t box[4] = {0, b->N, 0, b->K};
  lent weight, stats, blob;
  tn_pack *p = NULL;
  tn_error e;
  tni_error_init(&e);
  b->stats.n = (uint32_t)b->K;
  tn_weight mine = {.h = TN_HDR(tn_weight), .N = b->N, .K = b->K, .dtype = TN_DT_F32, .rows = rows_made};
  mine.x = lend(&stats, &b->stats, sizeof b->stats, later);
  const tn_blob packed = blob_make(b, bytes, n_bytes, b->N, b->K);
  const tn_weight *theirs = lend(&weight, &mine, sizeof mine, later);
  const tn_blob *of = lend(&blob, &packed, sizeof packed, later);
  memset(bytes, 0, n_bytes);
  tn_status st = theirs && of && mine.x ? TN_OK : TN_E_NO_MEMORY;
  if (st == TN_OK) st = b->f->begin(&b->p.host.pub, b->f, theirs, b->params, b->n_params, &p, &e);
  for (int64_t n = 0; st == TN_OK && n < b->N; n += unit) st = b->f->rows(p, n, n + unit < b->N ? n + unit : b->N, bytes);
  const tn_status end = p ? b->f->end(p, st == TN_OK ? bytes : NULL) : TN_OK;
  if (st == TN_OK) st = end;
  if (st == TN_OK) st = b->f->unpack(of, box, w);
  if (weight.there) tni_cf_block_finish(&weight.m);
  if (stats.there) tni_cf_block_finish(&stats.m);
  if (blob.there) tni_cf_block_finish(&blob.m);
  return st;
}

static void later_structs(bench *b) {
  const size_t floats = (size_t)(b->N * b->K);
  tn_pack_size z = {0};
  if (b->f->size(b->f, b->N, b->K, b->params, b->n_params, &z) != TN_OK) return;
  uint8_t *bytes[2] = {NULL, NULL};
  float *w = calloc(2 * floats, sizeof *w);
  tn_status st[2] = {TN_E_NO_MEMORY, TN_E_NO_MEMORY};
  for (int i = 0; w && i < 2; i++)
    if ((bytes[i] = aligned_alloc(PAGE, (z.bytes + PAGE) / PAGE * PAGE)))
      st[i] = with_structs(b, i, bytes[i], z.bytes, z.row_unit ? z.row_unit : 1, w + (size_t)i * floats);
  if (st[0] == TN_OK && st[1] != TN_OK)
    tni_cf_fail(b->cf,
                "a tn_weight, tn_stats or tn_blob of a later minor, which is longer, is refused: %s: %s: compare h.size with "
                "TN_UPTO, or ask TN_HAS (plugin.h, rule 1)",
                b->f->name, tni_status_name(st[1]));
  else if (st[0] == TN_OK && (memcmp(bytes[0], bytes[1], z.bytes) != 0 || memcmp(w, w + floats, floats * sizeof *w) != 0))
    tni_cf_fail(b->cf, "with a tn_weight, tn_stats or tn_blob of a later minor other bytes or weights come: %s (plugin.h, "
                       "rule 1)", b->f->name);
  free(bytes[0]);
  free(bytes[1]);
  free(w);
}

static void ask_refused(bench *b) {
  for (long long at = 1; at < 40 && source_fails(b, at, false); at++) continue;
  for (long long at = 1; at < 40 && source_fails(b, at, true); at++) continue;
  unknown_params(b);
}

static void ask_structs(bench *b) {
  short_grids(b);
  old_quants(b);
  later_structs(b);
}

/* --- cases ------------------------------------------------------------------------------------------------------- */

typedef struct job {
  const char *format;
  void (*ask)(bench *b);
} job;

/* The params of a claim, or some that size takes. */
static bool params_find(bench *b) {
  static const int64_t common[] = {32, 64, 128, 256, 16, 0, 1};
  const tni_cf_listing *l = b->cf->listing;
  tn_pack_size z;
  for (uint32_t i = 0; i < l->n_claimed; i++) {
    const tni_cf_claimed *c = &l->claimed[i];
    if (!c->format || strcmp(c->format, b->f->name) != 0) continue;
    memcpy(b->params, c->params, c->n_params * sizeof *c->params);
    b->n_params = c->n_params;
    return true;
  }
  b->n_params = 0;
  if (b->f->size(b->f, 64, 256, NULL, 0, &z) == TN_OK) return true;
  b->n_params = 1;
  for (size_t i = 0; i < sizeof common / sizeof *common; i++) {
    b->params[0] = common[i];
    if (b->f->size(b->f, 64, 256, b->params, 1, &z) == TN_OK) return true;
  }
  return false;
}

/* [64,256], where its tiles take no others (format.h, size). */
static void shape_find(bench *b) {
  tn_pack_size z;
  b->N = 24, b->K = 160;
  if (b->f->size(b->f, b->N, b->K, b->params, b->n_params, &z) != TN_OK) b->N = 64, b->K = 256;
}

static void ask_format(tni_cf *cf, const void *arg) {
  const job *j = arg;
  bench *b = TNI_NEW(cf->arena, bench);
  if (!b) return;
  b->cf = cf;
  b->zeros = TNI_NEW_ARRAY(cf->arena, float, 8192);
  b->stats = (tn_stats){.h = TN_HDR(tn_stats), .absmax = 8, .p999 = 4, .ch_over = b->zeros, .rows = 1};
  tn_status st = tni_cf_plugin_init(&b->p, cf->subject);
  if (st == TN_OK) st = tni_cf_plugin_enter(&b->p);
  if (st == TN_OK) st = tni_cf_plugin_check(&b->p, cf->subject);
  if (st != TN_OK) tni_cf_fail(cf, "%s: %s", b->p.step, b->p.err.message);
  for (uint32_t i = 0; st == TN_OK && i < b->p.plugin->n_formats; i++)
    if (!strcmp(b->p.plugin->formats[i]->name, j->format)) b->f = b->p.plugin->formats[i];
  const bool has = b->f && b->zeros && params_find(b);
  if (has) shape_find(b);
  if (has)
    j->ask(b);
  else if (st == TN_OK)
    tni_cf_skip(cf, "no params are known that %s takes", j->format);
  if (st == TN_OK) tni_cf_stop(cf, &b->p);
}

void tni_cf_edge_packed_cases(const tni_cf_listing *l, tni_cf_add add, void *ctx) {
  static const struct {
    const char *family, *question;
    void (*ask)(bench *b);
  } of[] = {{"sizes", "far-rows", ask_far}, {"errors", "packing", ask_refused}, {"structs", "format", ask_structs}};
  char name[128];
  for (uint32_t i = 0; i < l->n_formats; i++)
    for (size_t q = 0; q < sizeof of / sizeof *of; q++) {
      job *j = TNI_NEW(l->arena, job);
      if (!j) return;
      *j = (job){l->formats[i].name, of[q].ask};
      snprintf(name, sizeof name, "%s/%s/%s", of[q].family, l->formats[i].name, of[q].question);
      add(ctx, &(tni_cf_case){
                   .name = name, .levels = TNI_CF_LEVEL_ALL, .flags = TNI_CF_NO_DEVICE, .run = ask_format, .arg = j});
    }
}
