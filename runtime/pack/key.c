/* SPDX-License-Identifier: Apache-2.0
 *
 * What a segment is known by. Part: XXH3-128 of its raw bytes (or of its rows as floats where raw bytes are not to be
 * had). Content: of all parts, with how they are read. Key: content and everything else that decides the packed bytes.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <xxhash.h>

#include "runtime/base/base.h"
#include "runtime/pack/internal.h"

enum { ROW_BYTES = 1 << 20, HASH_BYTES = 16 << 20 };
static const int64_t RACY_NS = 2000000000;

static tni_pk_hash from_xxh(XXH128_hash_t h) { return (tni_pk_hash){h.low64, h.high64}; }

static void feed_bytes(XXH3_state_t *h, const void *p, size_t n) {
  if (n) XXH3_128bits_update(h, p, n);
}
static void feed_u64(XXH3_state_t *h, uint64_t v) { feed_bytes(h, &v, sizeof v); }
static void feed_text(XXH3_state_t *h, const char *s) {
  feed_u64(h, strlen(s));
  feed_bytes(h, s, strlen(s));
}

/* How bytes become a matrix. */
static void feed_reading(XXH3_state_t *h, const tn_weight *w) {
  feed_u64(h, w->dtype);
  feed_u64(h, w->flags);
  feed_u64(h, (uint64_t)w->N);
  feed_u64(h, (uint64_t)w->K);
  feed_u64(h, w->raw != NULL);
  const tn_quant *q = w->quant;
  feed_u64(h, q ? 1 : 0);
  if (!q) return;
  feed_u64(h, q->bits);
  feed_u64(h, q->group);
  feed_u64(h, q->scheme);
  feed_u64(h, q->scale_dtype);
  if (q->scheme != TN_QUANT_LEVELS) return;
  const uint32_t vec = q->vec ? q->vec : 1;
  feed_u64(h, vec);
  feed_u64(h, q->n_levels);
  feed_bytes(h, q->levels, sizeof *q->levels * q->n_levels * vec);
  feed_u64(h, q->n_steps);
  feed_bytes(h, q->steps, sizeof *q->steps * q->n_steps);
}

static void feed_stats(XXH3_state_t *h, const tn_stats *x) {
  feed_u64(h, x ? 1 : 0);
  if (!x) return;
  feed_bytes(h, &x->absmax, sizeof x->absmax);
  feed_bytes(h, &x->p999, sizeof x->p999);
  const float *arrays[] = {x->ch_over, x->ch_mean, x->ch_weight};
  for (int i = 0; i < 3; i++) {
    feed_u64(h, arrays[i] ? x->n : 0);
    if (arrays[i]) feed_bytes(h, arrays[i], x->n * sizeof(float));
  }
}

static tn_status hash_raw(const tni_pack_store *s, const tn_weight *w, const tni_pack_source *src, XXH3_state_t *h) {
  for (uint64_t at = 0; at < src->bytes; at += HASH_BYTES) {
    const uint64_t n = src->bytes - at < HASH_BYTES ? src->bytes - at : HASH_BYTES;
    if (tni_pk_cancelled(s)) return TN_E_CANCELLED;
    feed_bytes(h, (const uint8_t *)w->raw + at, n);
    if (src->mapped) tni_file_drop((const uint8_t *)src->mapped + at, n);
  }
  return TN_OK;
}

static tn_status hash_rows(const tni_pack_store *s, const tn_weight *w, XXH3_state_t *h) {
  size_t row, bytes;
  if (!w->rows || w->N < 0 || w->K < 0) return TN_E_INVALID;
  if (!tni_mul_size((size_t)w->K, sizeof(float), &row)) return TN_E_LIMIT;
  int64_t step = row && row < ROW_BYTES ? ROW_BYTES / (int64_t)row : 1;
  if (!tni_mul_size(row, (size_t)step, &bytes)) return TN_E_LIMIT;
  float *buf = malloc(bytes ? bytes : 1);
  if (!buf) return TN_E_NO_MEMORY;
  tn_status st = TN_OK;
  for (int64_t n = 0; n < w->N && st == TN_OK; n += step) {
    int64_t end = w->N - n < step ? w->N : n + step;
    st = tni_pk_cancelled(s) ? TN_E_CANCELLED : w->rows(w, n, end, buf);
    if (st == TN_OK) feed_bytes(h, buf, row * (size_t)(end - n));
  }
  free(buf);
  return st;
}

/* One part to find the content of. */
typedef struct key_part {
  const tn_weight *weight;
  const tni_pack_source *source;
  tni_pk_stamp *stamp;
  bool known;
  tn_status st;
} key_part;

typedef struct hashing {
  const tni_pack_store *s;
  key_part *parts;
} hashing;

static void hash_part(const tni_pack_store *s, key_part *p) {
  XXH3_state_t *h = XXH3_createState();
  if (!h) {
    p->st = TN_E_NO_MEMORY;
    return;
  }
  XXH3_128bits_reset(h);
  /* Raw bytes of a quantized weight are its codes only. */
  bool raw = p->weight->raw && p->source->bytes && !p->weight->quant;
  p->st = raw ? hash_raw(s, p->weight, p->source, h) : hash_rows(s, p->weight, h);
  if (!raw && p->source->mapped) tni_file_drop(p->source->mapped, p->source->bytes);
  p->stamp->content = from_xxh(XXH3_128bits_digest(h));
  XXH3_freeState(h);
}

static void hash_parts(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  hashing *j = arg;
  (void)worker;
  for (int64_t i = begin; i < end; i++)
    if (!j->parts[i].known) hash_part(j->s, &j->parts[i]);
}

static tni_pk_stamp stamp_of(const tni_pack_store *s, const key_part *p) {
  tni_pk_stamp t = {0};
  if (!p->source->file || !p->source->inode || s->o->portable) return t;
  t.device = p->source->device;
  t.inode = p->source->inode;
  t.size = p->source->size;
  t.mtime_ns = p->source->mtime_ns;
  t.ctime_ns = p->source->ctime_ns;
  t.generation = p->source->generation;
  t.offset = p->source->offset;
  t.bytes = p->source->bytes;
  const uint64_t reading[] = {p->weight->dtype,       p->weight->flags,       (uint64_t)p->weight->N,
                              (uint64_t)p->weight->K, p->weight->raw != NULL, p->source->others};
  t.reading = XXH3_64bits(reading, sizeof reading);
  return t;
}

static bool index_stamps(const tni_pk_file *f, tni_map *m) {
  for (uint32_t i = 0; f->data && i < f->head.n_stamps; i++)
    if (f->stamps[i].inode && !tni_map_put(m, &f->stamps[i], offsetof(tni_pk_stamp, content), i)) return false;
  return true;
}

/* A file written within the clock's grain of now may change again without its time moving. */
static bool is_racy(const tni_pack_source *s) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  const int64_t at = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
  const int64_t ages[] = {at - s->mtime_ns, at - s->ctime_ns, at - s->newest_ns};
  for (int i = 0; i < 3; i++)
    if (ages[i] > -RACY_NS && ages[i] < RACY_NS) return true;
  return false;
}

static tn_status find_contents(tni_pack_store *s, key_part *parts, uint32_t n, tn_error *err) {
  tni_map *known = tni_map_create();
  uint64_t at;
  if (!known || !index_stamps(&s->file, known)) {
    tni_map_destroy(known);
    return tni_fail_memory(err, s->path);
  }
  for (uint32_t i = 0; i < n; i++) {
    const uint64_t *content = parts[i].source->content;
    if (content) {
      *parts[i].stamp = (tni_pk_stamp){.content = {content[0], content[1]}};
      parts[i].known = true;
      continue;
    }
    *parts[i].stamp = stamp_of(s, &parts[i]);
    parts[i].known = parts[i].stamp->inode && tni_map_get(known, parts[i].stamp, offsetof(tni_pk_stamp, content), &at);
    if (parts[i].known) parts[i].stamp->content = s->file.stamps[at].content;
  }
  tni_map_destroy(known);
  for (uint32_t i = 0; i < n; i++) s->stats.read_parts += !parts[i].known;
  hashing j = {s, parts};
  tni_pool_for(s->o->pool, n, 1, hash_parts, &j);
  for (uint32_t i = 0; i < n; i++)
    if (!parts[i].known && is_racy(parts[i].source)) {
      tni_pk_hash content = parts[i].stamp->content;
      *parts[i].stamp = (tni_pk_stamp){.content = content};
    }
  return TN_OK;
}

static void keys_of(const tni_pack_item *it, const tni_pk_stamp *stamps, XXH3_state_t *h, tni_pk_want *w) {
  const tn_format *f = it->format;
  XXH3_128bits_reset(h);
  feed_u64(h, it->n_parts);
  for (uint32_t i = 0; i < it->n_parts; i++) {
    feed_bytes(h, &stamps[i].content, sizeof stamps[i].content);
    feed_reading(h, it->parts[i]);
  }
  w->content = from_xxh(XXH3_128bits_digest(h));
  XXH3_128bits_reset(h);
  feed_bytes(h, &w->content, sizeof w->content);
  feed_u64(h, (uint64_t)it->weight->N);
  feed_u64(h, (uint64_t)it->weight->K);
  feed_text(h, f->name);
  feed_u64(h, f->version);
  feed_u64(h, it->n_params);
  for (uint32_t i = 0; i < it->n_params; i++) feed_u64(h, (uint64_t)it->params[i]);
  if (f->flags & TN_FMT_READS_STATS) feed_stats(h, it->weight->x);
  /* Other bytes than before begin got TN_QUANT_KEEP (keep.h). */
  if (it->weight->quant && !(f->flags & TN_FMT_READS_QUANT)) feed_text(h, "kept");
  w->key = from_xxh(XXH3_128bits_digest(h));
}

static tn_status check_item(const tni_pack_item *it, tn_pack_size *size, tn_error *err) {
  const char *name = it->name ? it->name : "weight";
  const tn_format *f = it->format;
  if (!f || !f->name || !f->size || !f->begin || !f->rows || !f->end || !it->weight || !it->n_parts)
    return tni_fail(err, TN_E_INTERNAL, name, "'%s': incomplete weight format", name);
  tn_status st = f->size(f, it->weight->N, it->weight->K, it->params, it->n_params, size);
  if (st != TN_OK)
    return tni_fail(err, st, name, "'%s' [%lld,%lld]: format '%s' gives no size (%s)", name, (long long)it->weight->N,
                    (long long)it->weight->K, f->name, tni_status_name(st));
  uint32_t a = size->align;
  if (!size->bytes || size->bytes > INT64_MAX / 2 || !size->row_unit || a > TNI_PK_ALIGN || (a & (a - 1)))
    return tni_fail(err, TN_E_INTERNAL, name, "'%s': format '%s' states %llu bytes, alignment %u, row unit %u", name,
                    f->name, (unsigned long long)size->bytes, a, size->row_unit);
  return TN_OK;
}

tn_status tni_pack_bytes(const tni_pack_item *it, uint64_t *bytes, tn_error *err) {
  tn_pack_size size = {0};
  tn_status st = check_item(it, &size, err);
  if (st == TN_OK) *bytes = size.bytes;
  return st;
}

/* Items with the same key share one segment. */
static tn_status make_wants(tni_pack_store *s, const tni_pack_item *const *items, tn_error *err) {
  XXH3_state_t *h = XXH3_createState();
  tni_map *seen = tni_map_create();
  tn_status st = h && seen ? TN_OK : tni_fail_memory(err, s->path);
  uint32_t stamp = 0;
  for (uint32_t i = 0; i < s->n_items && st == TN_OK; stamp += items[i++]->n_parts) {
    uint64_t at;
    tni_pk_want w = {.item = items[i], .first_stamp = stamp};
    st = check_item(items[i], &w.size, err);
    if (st != TN_OK) break;
    keys_of(items[i], &s->stamps[stamp], h, &w);
    if (!tni_map_get(seen, &w.key, sizeof w.key, &at)) {
      at = s->n_want;
      s->want[s->n_want++] = w;
      if (!tni_map_put(seen, &w.key, sizeof w.key, at)) st = tni_fail_memory(err, s->path);
    }
    s->want_of[i] = (uint32_t)at;
  }
  tni_map_destroy(seen);
  XXH3_freeState(h);
  return st;
}

static uint32_t list_parts(tni_pack_store *s, const tni_pack_item *const *items, key_part *parts) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < s->n_items; i++)
    for (uint32_t k = 0; k < items[i]->n_parts; k++, n++)
      parts[n] = (key_part){.weight = items[i]->parts[k], .source = &items[i]->sources[k], .stamp = &s->stamps[n]};
  return n;
}

tn_status tni_pk_keys(tni_pack_store *s, const tni_pack_item *const *items, tn_error *err) {
  size_t n = 0;
  tn_pack_size size;
  for (uint32_t i = 0; i < s->n_items; i++) {
    tn_status st = check_item(items[i], &size, err); /* before anything is hashed */
    if (st != TN_OK) return st;
    n += items[i]->n_parts;
  }
  if (n > TNI_PK_MAX_STAMPS || s->n_items > TNI_PK_MAX_SEGMENTS)
    return tni_fail(err, TN_E_LIMIT, NULL, "too many weights to pack: %zu", n);
  s->n_stamps = (uint32_t)n;
  s->stamps = calloc(n + 1, sizeof *s->stamps);
  s->want = calloc((size_t)s->n_items + 1, sizeof *s->want);
  s->want_of = calloc((size_t)s->n_items + 1, sizeof *s->want_of);
  s->spans = calloc((size_t)s->n_items + 1, sizeof *s->spans);
  key_part *parts = calloc(n + 1, sizeof *parts);
  tn_status st = s->stamps && s->want && s->want_of && s->spans && parts ? TN_OK : tni_fail_memory(err, s->path);
  if (st == TN_OK) st = find_contents(s, parts, list_parts(s, items, parts), err);
  for (uint32_t i = 0; i < n && st == TN_OK; i++)
    if (parts[i].st == TN_E_CANCELLED)
      st = tni_fail(err, TN_E_CANCELLED, NULL, "packing was cancelled");
    else if (parts[i].st != TN_OK)
      st = tni_fail(err, parts[i].st, NULL, "cannot read weight part %u to be packed (%s)", i,
                    tni_status_name(parts[i].st));
  free(parts);
  return st == TN_OK ? make_wants(s, items, err) : st;
}
