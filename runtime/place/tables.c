/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/place/tables.h"

#include <sys/mman.h>

#include "runtime/base/base.h"
#include "runtime/graph/graph.h"

enum { AROUND = 64 * 1024 }; /* fault_around_bytes */

static const tni_value *value_of(const tn_model *m, tn_id v) { return tni_graph_value(m->graph, v); }

static bool lies_in_file(const tn_model *m, const char *data) {
  for (uint32_t i = 0; i < m->import->n_files; i++) {
    const char *begin = m->import->files[i].data;
    if (begin && data >= begin && data < begin + m->import->files[i].bytes) return true;
  }
  return false;
}

bool tni_is_mapped(const tn_model *m, const tni_tensor *t) { return lies_in_file(m, t->data); }

/* Bytes of a table's rows: its elements, or where it lies quantized codes, scales and zeros. */
typedef struct piece {
  const void *data;
  uint64_t bytes, offset; /* in its file */
} piece;

static uint32_t pieces_of(const tni_value *v, piece out[TNI_QUANTIZED_PIECES]) {
  const tni_quantized *q = v->tensor->quantized;
  tni_quantized_piece pieces[TNI_QUANTIZED_PIECES];
  uint32_t n = 0;
  if (v->tensor->data || !q || tni_is_stored_halves(q)) {
    out[0] = (piece){v->tensor->data, v->tensor->bytes, v->origin.offset};
    return 1;
  }
  tni_quantized_pieces(q, pieces);
  for (int i = 0; i < TNI_QUANTIZED_PIECES; i++)
    if (pieces[i].bytes) out[n++] = (piece){pieces[i].data, pieces[i].bytes, q->from[i].offset};
  return n;
}

/* Codes that another constant reads too: a head's. */
static bool shares_codes(const tn_model *m, tn_id v) {
  const tni_quantized *q = value_of(m, v)->tensor->quantized;
  for (tn_id i = 0; q && i < m->graph->n_values; i++) {
    const tni_tensor *t = value_of(m, i)->tensor;
    if (i != v && t && t->quantized && t->quantized->codes == q->codes) return true;
  }
  return false;
}

bool tni_is_table(const tn_model *m, tn_id v) {
  const tni_value *val = value_of(m, v);
  if (val->pub.kind != TN_VALUE_CONST || !val->tensor || val->is_output || val->pub.rank < 1) return false;
  piece pieces[TNI_QUANTIZED_PIECES];
  uint64_t bytes = 0;
  const uint32_t n_pieces = pieces_of(val, pieces);
  for (uint32_t i = 0; i < n_pieces; i++) {
    if (!lies_in_file(m, pieces[i].data)) return false;
    bytes += pieces[i].bytes;
  }
  if (bytes < TNI_TABLE_BYTES || shares_codes(m, v)) return false;
  for (uint32_t u = 0; u < val->pub.n_uses; u++) {
    const tni_node *n = tni_graph_node(m->graph, val->pub.uses[u]);
    if (n->n_captures || n->pub.op != TN_OP_GATHER || n->pub.in[0] != v || n->pub.in[1] == v ||
        tni_attr_i(&n->pub, "axis", 0) != 0)
      return false;
  }
  return val->pub.n_uses > 0;
}

/* Rows that the Gathers of v can look up; -1: not known. */
static int64_t rows_read(const tn_model *m, const tni_value *v, const int64_t *dims) {
  int64_t rows = 0;
  for (uint32_t u = 0; u < v->pub.n_uses; u++) {
    const tni_value *ids = value_of(m, tni_graph_node(m->graph, v->pub.uses[u])->pub.in[1]);
    int64_t d[TN_MAX_RANK], count;
    if (ids->pub.rank > TN_MAX_RANK) return -1;
    for (uint32_t a = 0; a < ids->pub.rank; a++)
      if (tni_ex_eval(m->graph->exprs, ids->pub.dims[a], dims, tni_ex_n_symbols(m->graph->exprs), &d[a]) != TN_OK)
        return -1;
    if (tni_dims_count(d, ids->pub.rank, &count) != TN_OK || __builtin_add_overflow(rows, count, &rows)) return -1;
  }
  return rows;
}

static int64_t most_rows(const tn_model *m, const tni_value *v, const int64_t *context, const int64_t *step) {
  const int64_t all = rows_read(m, v, context), one = rows_read(m, v, step);
  if (all < 0 || one < 0 || one > INT64_MAX - TNI_TABLE_ROWS) return -1;
  return all < one + TNI_TABLE_ROWS - 1 ? all : one + TNI_TABLE_ROWS - 1;
}

/* Of one piece with n rows, of which so many are looked up. */
static uint64_t piece_bytes(const piece *p, uint64_t n, uint64_t rows) {
  const uint64_t row = p->bytes / n;
  /* A row that may lie across the border of two windows maps both. */
  bool aligned = row && AROUND % row == 0 && p->offset % row == 0;
  uint64_t windows = aligned ? 1 : row / AROUND + 2, bytes;
  if (__builtin_mul_overflow(rows, windows * AROUND, &bytes)) return p->bytes;
  return bytes < p->bytes ? bytes : p->bytes;
}

uint64_t tni_table_bytes(const tn_model *m, tn_id v, const int64_t *context, const int64_t *step) {
  const tni_value *val = value_of(m, v);
  const uint64_t n = (uint64_t)val->tensor->dims[0];
  const int64_t rows = most_rows(m, val, context, step);
  piece pieces[TNI_QUANTIZED_PIECES];
  const uint32_t n_pieces = pieces_of(val, pieces);
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < n_pieces; i++)
    bytes += rows < 0 || !n ? pieces[i].bytes : piece_bytes(&pieces[i], n, (uint64_t)rows);
  return bytes;
}

static void advise_random(const piece *p) {
  const uintptr_t begin = ((uintptr_t)p->data + AROUND - 1) & ~(uintptr_t)(AROUND - 1);
  const uintptr_t end = ((uintptr_t)p->data + p->bytes) & ~(uintptr_t)(AROUND - 1);
  if (begin >= end) return;
  (void)madvise((void *)begin, end - begin, MADV_RANDOM);
  (void)madvise((void *)begin, end - begin, MADV_NOHUGEPAGE);
}

tn_status tni_table_add(tn_model *m, tn_id v) {
  for (uint32_t i = 0; i < m->n_tables; i++)
    if (m->tables[i] == v) return TN_OK;
  if (!m->tables && !(m->tables = TNI_NEW_ARRAY(m->arena, tn_id, m->graph->n_values))) return TN_E_NO_MEMORY;
  m->tables[m->n_tables++] = v;
  piece pieces[TNI_QUANTIZED_PIECES];
  const uint32_t n = pieces_of(value_of(m, v), pieces);
  for (uint32_t i = 0; i < n; i++) advise_random(&pieces[i]);
  return TN_OK;
}

uint64_t tni_tables_rows(const tn_model *m, const int64_t *dims) {
  uint64_t rows = 0;
  for (uint32_t i = 0; i < m->n_tables; i++) {
    const int64_t n = rows_read(m, value_of(m, m->tables[i]), dims);
    rows += n < 0 ? TNI_TABLE_ROWS : (uint64_t)n;
  }
  return rows;
}

void tni_tables_used(const tn_model *m, uint64_t rows, uint64_t *looked_up) {
  *looked_up += rows;
  if (*looked_up < TNI_TABLE_ROWS) return;
  *looked_up = 0;
  for (uint32_t i = 0; i < m->n_tables; i++) {
    piece pieces[TNI_QUANTIZED_PIECES];
    const uint32_t n = pieces_of(value_of(m, m->tables[i]), pieces);
    for (uint32_t k = 0; k < n; k++) tni_file_drop(pieces[k].data, pieces[k].bytes);
  }
}
