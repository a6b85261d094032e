/* SPDX-License-Identifier: Apache-2.0 */
#include "plugins/common/formats/lev.h"

#include <string.h>

#include "plugins/common/base/base.h"
#include "plugins/common/formats/act8.h"
#include "plugins/common/formats/f16.h"
#include "plugins/common/formats/source.h"

enum { ROWS = TNI_LEV_ROWS, UNIT = TNI_LEV_UNIT, LINE = 64, MAX_BLOCK = TNI_LEV_MAX_BLOCK, PARENTS = 32 };
enum { MAX_QUADS = MAX_BLOCK / 4, MAX_BLOCK_BYTES = 4 * UNIT, FIELDS = 4 };
_Static_assert(ROWS == TNI_CM_SOURCE_ROWS, "blocks of the source are ours");

/* Shift of quad i of four in a unit of fields of two bits. */
static const uint8_t field_of[FIELDS] = {0, 4, 2, 6};

struct tn_pack {
  const tn_host *host;
  const tn_weight *weight;
  const tni_lev_kind *kind;
  tni_lev_geometry geo;
  const tn_quant *given; /* codes that are to be kept; NULL: floats */
  tn_grid grid;
};

const tni_lev_kind *tni_lev_kind_of(const tn_format *f) {
  for (int i = 0; f && i < TNI_LEV_KINDS; i++)
    if (!strcmp(f->name, tni_lev_formats[i].name)) return &tni_lev_kinds[i];
  return NULL;
}

/* --- units ------------------------------------------------------------------------------------------------------ */

/* Where byte i of a unit has the low two bits of quads 4 * four .. of its row: a unit of them, or a byte for each row.
 */
static uint32_t low_at(const tni_lev_kind *k, uint32_t four, uint32_t i) {
  const uint32_t r = i / 4;
  return k->shared ? UNIT + 16 * (r / 4 % 2) + 8 * (r / 8) + 4 * four + r % 4 : four * UNIT + i;
}
/* And where that of its top bits is. */
static uint32_t top_at(const tni_lev_kind *k, uint32_t i) { return (k->shared ? 0 : 2 * UNIT) + i; }

/* Own bits of a block, [quad][64] one a byte -> units. */
static void encode_units(const tni_lev_kind *k, const uint8_t *own, uint8_t *units) {
  memset(units, 0, k->block_bytes);
  for (uint32_t quad = 0; quad < k->block / 4; quad++) {
    const uint32_t four = quad / 4, shift = field_of[quad % 4];
    for (uint32_t i = 0; i < UNIT; i++, own++) {
      if (k->bits == 4) {
        units[quad / 2 * UNIT + i] |= (uint8_t)(*own << 4 * (quad % 2));
        continue;
      }
      units[low_at(k, four, i)] |= (uint8_t)((*own & 3) << shift);
      if (k->bits == 3) units[top_at(k, i)] |= (uint8_t)(*own >> 2 << (shift + four));
    }
  }
}

static uint32_t own_bits(const tni_lev_kind *k, const uint8_t *units, uint32_t quad, uint32_t i) {
  const uint32_t four = quad / 4, shift = field_of[quad % 4];
  if (k->bits == 4) return units[quad / 2 * UNIT + i] >> 4 * (quad % 2) & 15;
  const uint32_t low = units[low_at(k, four, i)] >> shift & 3;
  return k->bits == 2 ? low : low | (units[top_at(k, i)] >> (shift + four) & 1u) << 2;
}

/* The byte of a quad's dword whose bits byte i reads beside its own. */
static uint32_t other_byte(const tni_lev_kind *k, uint32_t i) {
  return k->vec == 2 ? i ^ 1 : (i & ~3u) | ((i + 1) & 3);
}

static uint32_t entry_at(const tni_lev_kind *k, const uint8_t *units, uint32_t quad, uint32_t i) {
  const uint32_t own = own_bits(k, units, quad, i), more = 4 - k->bits;
  if (!more) return own;
  return own | own_bits(k, units, quad, other_byte(k, i)) >> (k->bits - more) << k->bits;
}

void tni_lev_decode(const tni_lev_kind *k, const uint8_t *codes, int8_t *quads) {
  for (uint32_t quad = 0; quad < k->block / 4; quad++)
    for (uint32_t i = 0; i < UNIT; i++) *quads++ = k->level[entry_at(k, codes, quad, i)];
}

static float scale_of(uint16_t parent, uint8_t index, uint32_t row) {
  return tni_cm_f16_to_f32(parent) * TNI_LEV_SCALE_UNIT * tni_lev_steps[row < 8 ? index & 15 : index >> 4];
}

float tni_lev_scale(const uint8_t *row_block, uint32_t row, size_t block) {
  uint16_t parent;
  memcpy(&parent, row_block + 2 * row, sizeof parent);
  return scale_of(parent, row_block[PARENTS + 8 * block + row % 8], row);
}

/* --- sizes ------------------------------------------------------------------------------------------------------ */

tn_status tni_lev_geometry_of(const tni_lev_kind *kind, int64_t N, int64_t K, tni_lev_geometry *out) {
  if (!kind || N < 1 || K < 1 || N > TNI_LEV_MAX_DIM || K > TNI_LEV_MAX_DIM) return TN_E_INVALID;
  tni_lev_geometry g = {.N = N, .K = K};
  g.row_blocks = (N + ROWS - 1) / ROWS;
  g.blocks = (K + kind->block - 1) / kind->block;
  g.head_bytes = (int64_t)tni_lev_head_bytes((size_t)g.blocks);
  g.row_block_bytes = g.head_bytes + g.blocks * kind->block_bytes; /* < 2^31 * 2^5 */
  g.K_padded = (g.blocks + 1) / 2 * 2 * kind->block;
  if (__builtin_mul_overflow((uint64_t)g.row_blocks, (uint64_t)g.row_block_bytes, &g.bytes)) return TN_E_LIMIT;
  if (g.bytes > INT64_MAX) return TN_E_LIMIT;
  *out = g;
  return TN_OK;
}

static tn_status size_of(const tn_format *f, int64_t N, int64_t K, const int64_t *params, uint32_t n,
                         tn_pack_size *out) {
  tni_lev_geometry g;
  (void)params;
  if (n || !out) return TN_E_INVALID;
  const tn_status st = tni_lev_geometry_of(tni_lev_kind_of(f), N, K, &g);
  if (st == TN_OK) *out = (tn_pack_size){.bytes = g.bytes, .align = LINE, .row_unit = ROWS};
  return st;
}

/* --- packing ---------------------------------------------------------------------------------------------------- */

static tn_status grid_of_lev(const tn_format *f, const int64_t *params, uint32_t n, tn_grid *out) {
  const tni_lev_kind *k = tni_lev_kind_of(f);
  (void)params;
  if (n || !k) return TN_E_INVALID;
  return tni_cm_give_grid(out, &(tn_grid){.kind = TN_GRID_LEVELS,
                                          .n_codes = tni_lev_codes(k),
                                          .group = k->block,
                                          .scale_dtype = TN_DT_F16,
                                          .scale_unit = TNI_LEV_SCALE_UNIT,
                                          .level_dtype = TN_DT_I8,
                                          .vec = k->vec,
                                          .n_steps = TNI_LEV_STEPS,
                                          .levels = tni_lev_levels(k),
                                          .steps = tni_lev_steps});
}

bool tni_lev_holds(const tni_lev_kind *kind, const tn_weight *w) {
  tn_grid g = {.h = TN_HDR(tn_grid)};
  return grid_of_lev(&tni_lev_formats[kind->which], NULL, 0, &g) == TN_OK && tni_cm_on_grid(w, &g) != NULL;
}

static tn_status begin_lev(const tn_host *host, const tn_format *f, const tn_weight *w, const int64_t *params,
                           uint32_t n, tn_pack **out, tn_error *err) {
  const tni_lev_kind *kind = tni_lev_kind_of(f);
  tni_lev_geometry g;
  if (!w || !w->rows) return tni_cm_fail(err, TN_E_INVALID, f->name, "the weight gives no rows");
  const tn_status st = n ? TN_E_INVALID : tni_lev_geometry_of(kind, w->N, w->K, &g);
  if (st != TN_OK)
    return tni_cm_fail(err, st, f->name, "[%lld,%lld] cannot be packed", (long long)w->N, (long long)w->K);
  tn_pack *p = host->alloc(host->ctx, sizeof *p, 16, TN_TAG_PACK);
  if (!p) return tni_cm_fail(err, TN_E_NO_MEMORY, f->name, "out of memory");
  *p = (tn_pack){.host = host, .weight = w, .kind = kind, .geo = g, .grid = {.h = TN_HDR(tn_grid)}};
  const tn_status known = grid_of_lev(f, params, n, &p->grid);
  p->given = known == TN_OK ? tni_cm_on_grid(w, &p->grid) : NULL;
  if (known != TN_OK || (tni_cm_keeps(w) && !p->given)) {
    host->free(host->ctx, p);
    return tni_cm_fail(err, TN_E_INVALID, f->name, "codes that are to be kept are not on its grid");
  }
  *out = p;
  return TN_OK;
}

/* What a row is packed from: codes of the grid, an index for each block, the parent. */
typedef struct lev_row {
  uint8_t *codes, *index;
  uint16_t parent;
} lev_row;

/* A row of the source's own codes. False where the grid does not hold them. */
static bool take_row(const tn_pack *p, const tni_cm_source *s, int64_t row, lev_row *r) {
  const int64_t blocks = p->geo.blocks;
  float parent;
  if (s->row_codes != (p->geo.K + p->kind->vec - 1) / p->kind->vec || s->blocks != blocks || !s->index) return false;
  if (!tni_cm_source_parent(s, &p->grid, row, &parent)) return false;
  memcpy(r->codes, s->codes + row * s->row_codes, (size_t)s->row_codes);
  memcpy(r->index, s->index + row * blocks, (size_t)blocks);
  r->parent = tni_cm_f32_to_f16(parent);
  for (int64_t i = 0; i < s->row_codes; i++)
    if (r->codes[i] >= p->grid.n_codes) return false;
  for (int64_t i = 0; i < blocks; i++)
    if (r->index[i] >= TNI_LEV_STEPS) return false;
  return true;
}

/* Own bits of one row into the quads of a block that starts at k0. */
static void put_own(const tni_lev_kind *k, const lev_row *r, int64_t K, int64_t k0, int64_t row, uint8_t *own) {
  const int64_t n = K - k0 < k->block ? K - k0 : k->block;
  const int64_t whole = (n + k->vec - 1) / k->vec * k->vec; /* of a code that is cut off all bits stay */
  for (int64_t i = 0; i < whole; i++)
    own[i / 4 * UNIT + row * 4 + i % 4] =
        (uint8_t)tni_lev_own(k, r->codes[(k0 + i) / k->vec], (uint32_t)((k0 + i) % k->vec));
}

static void put_block(const tn_pack *p, const lev_row *rows, int64_t n_rows, int64_t block, uint8_t *head) {
  const tni_lev_kind *k = p->kind;
  uint8_t own[MAX_QUADS * UNIT] = {0}, *index = head + PARENTS + 8 * block;
  for (int64_t r = 0; r < n_rows; r++) {
    put_own(k, &rows[r], p->geo.K, block * k->block, r, own);
    index[r % 8] |= (uint8_t)(rows[r].index[block] << (r < 8 ? 0 : 4));
  }
  encode_units(k, own, head + p->geo.head_bytes + block * k->block_bytes);
}

/* The source's row as it is, or fitted. */
static tn_status read_row(const tn_pack *p, const tni_cm_source *s, int64_t row, float *floats, lev_row *r) {
  const tni_lev_kind *k = p->kind;
  const float *w = s->codes ? floats : s->w + row * s->K;
  if (s->codes && take_row(p, s, row, r)) return TN_OK;
  if (tni_cm_keeps(p->weight)) return TN_E_INVALID;
  for (int64_t i = 0; s->codes && i < s->K; i++) {
    const uint32_t entry = tni_lev_entry(k, s->codes[row * s->row_codes + i / k->vec], (uint32_t)(i % k->vec));
    floats[i] = (float)k->level[entry] * s->scales[row * s->blocks + i / s->block];
  }
  return tni_lev_fit_row(k, w, s->K, r->codes, r->index, &r->parent) ? TN_E_INVALID : TN_OK;
}

static tn_status pack_lev_block(const void *ctx, const tni_cm_source *s, int64_t row, int64_t n_rows, uint8_t *block) {
  const tn_pack *p = ctx;
  const int64_t K = p->geo.K, blocks = p->geo.blocks, each = K + blocks;
  const size_t floats = s->codes ? (size_t)K * sizeof(float) : 0;
  uint8_t *room = p->host->alloc(p->host->ctx, (size_t)(each * n_rows) + floats, 64, TN_TAG_PACK);
  lev_row rows[ROWS];
  tn_status st = TN_OK;
  if (!room) return TN_E_NO_MEMORY;
  memset(block, 0, (size_t)p->geo.head_bytes);
  for (int64_t r = 0; st == TN_OK && r < n_rows; r++) {
    uint8_t *own = room + floats + r * each;
    rows[r] = (lev_row){.codes = own, .index = own + K};
    st = read_row(p, s, row + r, (float *)(void *)room, &rows[r]);
    memcpy(block + 2 * r, &rows[r].parent, sizeof rows[r].parent);
  }
  for (int64_t b = 0; st == TN_OK && b < blocks; b++) put_block(p, rows, n_rows, b, block);
  p->host->free(p->host->ctx, room);
  return st;
}

static tn_status pack_lev_rows(tn_pack *p, int64_t n0, int64_t n1, void *blob) {
  return tni_cm_source_blocks(p->host, p->weight, p->given, n0, n1, pack_lev_block, p, blob, p->geo.row_block_bytes);
}

static tn_status end_lev(tn_pack *p, void *blob) {
  (void)blob; /* no header */
  if (p) p->host->free(p->host->ctx, p);
  return TN_OK;
}

/* --- unpacking -------------------------------------------------------------------------------------------------- */

/* Parents, the indices of one block, and its codes. */
typedef struct lev_piece {
  uint16_t parent[ROWS];
  uint8_t index[8], codes[MAX_BLOCK_BYTES];
} lev_piece;

static tn_status get_bytes(const tn_blob *b, int64_t offset, size_t n, void *dst) {
  if (!b->ptr) return b->read(b, (uint64_t)offset, n, dst);
  memcpy(dst, (const uint8_t *)b->ptr + offset, n);
  return TN_OK;
}

static tn_status get_piece(const tn_blob *b, const tni_lev_kind *k, const tni_lev_geometry *g, int64_t row_block,
                           int64_t block, lev_piece *out) {
  const int64_t at = row_block * g->row_block_bytes;
  tn_status st = get_bytes(b, at, sizeof out->parent, out->parent);
  if (st == TN_OK) st = get_bytes(b, at + PARENTS + 8 * block, sizeof out->index, out->index);
  if (st == TN_OK) st = get_bytes(b, at + g->head_bytes + block * k->block_bytes, k->block_bytes, out->codes);
  return st;
}

static tn_status unpack_lev(const tn_blob *b, const int64_t box[4], float *dst) {
  const tni_lev_kind *k = b->format ? tni_lev_kind_of(b->format) : NULL;
  tni_lev_geometry g;
  lev_piece piece;
  tn_status st = tni_lev_geometry_of(k, b->N, b->K, &g);
  if (st != TN_OK || b->n_params) return TN_E_INVALID;
  const int64_t n0 = box[0], n1 = box[1], k0 = box[2], k1 = box[3], width = k1 - k0;
  if (n0 < 0 || n0 > n1 || n1 > g.N || k0 < 0 || k0 > k1 || k1 > g.K || b->bytes < g.bytes) return TN_E_INVALID;
  if (n0 == n1 || k0 == k1) return TN_OK;
  for (int64_t rb = n0 / ROWS; rb * ROWS < n1; rb++) {
    const int64_t r0 = rb * ROWS > n0 ? rb * ROWS : n0, r1 = (rb + 1) * ROWS < n1 ? (rb + 1) * ROWS : n1;
    for (int64_t i = k0 / k->block; i * k->block < k1; i++) {
      const int64_t start = i * k->block, a = start > k0 ? start : k0,
                    z = start + k->block < k1 ? start + k->block : k1;
      if ((st = get_piece(b, k, &g, rb, i, &piece)) != TN_OK) return st;
      for (int64_t r = r0; r < r1; r++) {
        const uint32_t lane = (uint32_t)(r - rb * ROWS);
        const float scale = scale_of(piece.parent[lane], piece.index[lane % 8], lane);
        for (int64_t c = a; c < z; c++) {
          const uint32_t at = (uint32_t)(c - start);
          dst[(r - n0) * width + (c - k0)] =
              (float)k->level[entry_at(k, piece.codes, at / 4, lane * 4 + at % 4)] * scale;
        }
      }
    }
  }
  return TN_OK;
}

#define FORMAT(label, version_, bits_, all_in, err, num)                                                       \
  {                                                                                                            \
    .h = TN_HDR(tn_format), .name = label, .version = version_, .bits = bits_, .flags = TN_FMT_READS_QUANT,    \
    .bits_per_weight = all_in, .w_err = err, .x_err = 0.5f / 127.0f + 1e-6f, .numerics = num, .size = size_of, \
    .begin = begin_lev, .rows = pack_lev_rows, .end = end_lev, .unpack = unpack_lev, .grid = grid_of_lev,      \
  }
/* Bits per weight at K 4096; errors relative to the largest of all rows: of a step above a block's own scale, and of
 * what a start clips. */
const tn_format tni_lev_formats[TNI_LEV_KINDS] = {
    FORMAT("lev4", 2, 4, 4.129f, 0.3f, TNI_ACT8_G32_F32), FORMAT("lev4s", 2, 4, 4.254f, 0.3f, TNI_ACT8_G16_F32),
    FORMAT("lev3", 3, 3, 3.129f, 0.6f, TNI_ACT8_G32_F32), FORMAT("lev2", 2, 2, 2.129f, 1.0f, TNI_ACT8_G32_F32),
    FORMAT("lev1", 2, 1, 1.629f, 1.0f, TNI_ACT8_G32_F32)};
#undef FORMAT
