/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the bytes of a constant lie in the model's files, so that a packed copy is recognised without reading them.
 */
#include <string.h>
#include <xxhash.h>

#include "runtime/onnx/onnx.h"
#include "runtime/place/packing.h"

static void set_place(tni_pack_source *s, const char *path, const tni_file *f) {
  s->file = path;
  s->device = f->device;
  s->inode = f->inode;
  s->size = f->bytes;
  s->mtime_ns = f->mtime_ns;
  s->ctime_ns = f->ctime_ns;
  s->generation = f->generation;
}

/* NULL: it lies in no file of the model. */
static const tni_file *find_place(const tni_model *import, const tni_origin *from, tni_pack_source *s) {
  for (uint32_t i = 0; from->file && i < import->n_files; i++) {
    if (strcmp(import->paths[i], from->file) != 0) continue;
    set_place(s, from->file, &import->files[i]);
    s->offset = from->offset;
    return &import->files[i];
  }
  return NULL;
}

static uint64_t feed(uint64_t h, const void *p, size_t bytes) { return XXH3_64bits_withSeed(p ? p : "", bytes, h); }

/* How codes, scales and zeros become elements. */
static uint64_t reading_of(const tni_quantized *q) {
  const uint64_t is[] = {q->bits,
                         q->zero_kind,
                         (uint64_t)q->N,
                         (uint64_t)q->K,
                         (uint64_t)q->block,
                         q->scale_dtype,
                         (uint64_t)q->row_bytes,
                         (uint64_t)q->zero_row_bytes,
                         q->flip};
  const tni_quantized_levels *l = q->levels;
  uint64_t h = feed(0, is, sizeof is);
  if (!l) return h;
  const uint64_t table[] = {l->n, l->vec, l->n_steps, l->index_bits, (uint64_t)l->index_row_bytes};
  h = feed(h, table, sizeof table);
  h = feed(h, l->value, (size_t)l->n * l->vec * sizeof *l->value);
  return feed(h, l->steps, l->n_steps * sizeof *l->steps);
}

/* Codes, scales and zeros may lie in several files: the stamp is that of the codes, and `others` stands for the rest,
 * with the place of each piece, or what it says where it is in memory alone. Codes in memory have no stamp. */
static void find_quantized(const tni_model *import, const tni_quantized *q, tni_pack_source *s) {
  tni_quantized_piece pieces[TNI_QUANTIZED_PIECES];
  tni_pack_source codes = *s;
  if (!find_place(import, &q->from[TNI_QUANTIZED_CODES], &codes)) return;
  tni_quantized_pieces(q, pieces);
  codes.others = reading_of(q);
  for (int i = TNI_QUANTIZED_CODES + 1; i < TNI_QUANTIZED_PIECES; i++) {
    tni_pack_source at = {0};
    if (find_place(import, &q->from[i], &at)) {
      const uint64_t is[] = {
          pieces[i].bytes,      at.device, at.inode, at.size, at.offset, at.generation, (uint64_t)at.mtime_ns,
          (uint64_t)at.ctime_ns};
      codes.others = feed(codes.others, is, sizeof is);
    } else {
      codes.others = feed(codes.others, pieces[i].data, (size_t)pieces[i].bytes);
    }
    if (at.mtime_ns > codes.newest_ns) codes.newest_ns = at.mtime_ns;
    if (at.ctime_ns > codes.newest_ns) codes.newest_ns = at.ctime_ns;
  }
  *s = codes;
}

void tni_packed_source(const tn_model *m, tn_id v, tni_pack_source *s) {
  const tni_value *val = tni_graph_value(m->graph, v);
  const tni_quantized *q = val->tensor->quantized;
  const tni_left_out *left = tni_left_of(m->import, val);
  *s = (tni_pack_source){
      .offset = val->origin.offset, .bytes = val->tensor->bytes, .content = left ? left->content : NULL};
  if (q && !tni_is_stored_halves(q)) {
    if (!left) find_quantized(m->import, q, s);
    return;
  }
  if (q) s->bytes = tni_quantized_bytes(q);
  const tni_file *f = find_place(m->import, &val->origin, s);
  const char *data = q ? (const char *)q->codes : val->tensor->data, *begin = f ? f->data : NULL;
  if (f && data >= begin && data < begin + f->bytes) s->mapped = data;
}
