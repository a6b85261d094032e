/* SPDX-License-Identifier: Apache-2.0
 *
 * Writing: a temporary file with all its space reserved, mapped, packed into; then its tables, msync, fsync, rename,
 * fsync of the folder. The header comes last, so that a file without it is not a packed file under any name.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "runtime/base/base.h"
#include "runtime/pack/internal.h"

/* A segment of the file to be. */
typedef struct plan_segment {
  tni_pk_segment rec;
  const tni_pk_want *want;    /* NULL: kept for another configuration */
  const uint8_t *copy;        /* bytes that are there already, or NULL: to be packed */
  const tni_pk_stamp *stamps; /* rec.n_stamps of them */
} plan_segment;

typedef struct plan {
  tni_pk_header head;
  plan_segment *seg;
  uint32_t n;
  int fd;
  uint8_t *map;
  char *tmp;
} plan;

/* An old segment nobody asked for now stays while it belongs to this model as it is: its content is wanted in another
 * format, or its source is a file that the wanted ones come from too, unchanged. */
static bool still_valid(const tni_pack_store *s, const tni_pk_segment *g) {
  for (uint32_t i = 0; i < s->n_want; i++) {
    if (tni_pk_equal(s->want[i].key, g->key)) return false; /* in the plan already */
  }
  for (uint32_t i = 0; i < s->n_want; i++)
    if (tni_pk_equal(s->want[i].content, g->content)) return true;
  for (uint32_t k = 0; k < g->n_stamps; k++) {
    const tni_pk_stamp *old = &s->file.stamps[g->first_stamp + k];
    bool found = false;
    for (uint32_t i = 0; i < s->n_stamps && !found; i++)
      found = old->inode && memcmp(old, &s->stamps[i], offsetof(tni_pk_stamp, offset)) == 0;
    if (!found) return false;
  }
  return g->n_stamps > 0;
}

static void plan_wanted(const tni_pack_store *s, plan *p) {
  for (uint32_t i = 0; i < s->n_want; i++) {
    const tni_pk_want *w = &s->want[i];
    plan_segment *g = &p->seg[p->n++];
    *g = (plan_segment){.want = w, .copy = w->ptr, .stamps = &s->stamps[w->first_stamp]};
    g->rec = (tni_pk_segment){.key = w->key,
                              .content = w->content,
                              .bytes = w->size.bytes,
                              .N = w->item->weight->N,
                              .K = w->item->weight->K,
                              .n_stamps = w->item->n_parts,
                              .format_version = w->item->format->version};
    snprintf(g->rec.format, sizeof g->rec.format, "%s", w->item->format->name);
  }
}

static void plan_kept(const tni_pack_store *s, plan *p) {
  for (uint32_t i = 0; s->file.data && i < s->file.head.n_segments; i++) {
    const tni_pk_segment *g = &s->file.segments[i];
    const uint8_t *bytes = s->file.data + g->offset;
    tni_pk_span span = {.segment = g};
    if (!still_valid(s, g)) continue;
    tni_pk_check(s->o->pool, &s->file, &span, 1);
    if (span.wrong) continue;
    p->seg[p->n++] = (plan_segment){.rec = *g, .copy = bytes, .stamps = &s->file.stamps[g->first_stamp]};
  }
}

static bool align_up(uint64_t *at, uint64_t align) {
  size_t up;
  if (!tni_add_size(*at, align - 1, &up)) return false;
  *at = up & ~(align - 1);
  return true;
}

/* Gives everything its place. false: the sizes overflow. */
static bool lay_out(plan *p) {
  uint64_t n_sums = 0, n_stamps = 0;
  for (uint32_t i = 0; i < p->n; i++) {
    tni_pk_segment *g = &p->seg[i].rec;
    g->first_sum = n_sums;
    g->first_stamp = (uint32_t)n_stamps;
    n_sums += tni_pk_pieces(g->bytes);
    n_stamps += g->n_stamps;
  }
  if (n_stamps > TNI_PK_MAX_STAMPS || p->n > TNI_PK_MAX_SEGMENTS) return false;
  tni_pk_header *h = &p->head;
  *h = (tni_pk_header){.magic = TNI_PK_MAGIC, .version = TNI_PK_VERSION, .n_segments = p->n, .n_sums = n_sums};
  uint64_t slot = sizeof(tni_pk_slot) + n_stamps * sizeof(tni_pk_stamp);
  h->n_stamps = (uint32_t)n_stamps;
  h->segments_at = sizeof *h;
  h->sums_at = h->segments_at + p->n * sizeof(tni_pk_segment);
  h->stamps_at[0] = h->sums_at + n_sums * sizeof(uint64_t);
  h->stamps_at[1] = h->stamps_at[0] + slot;
  h->data_at = h->stamps_at[1] + slot;
  if (!align_up(&h->data_at, TNI_PK_ALIGN)) return false;
  uint64_t at = h->data_at;
  for (uint32_t i = 0; i < p->n; i++) {
    size_t end;
    p->seg[i].rec.offset = at;
    if (!tni_add_size(at, p->seg[i].rec.bytes, &end)) return false;
    at = end;
    if (!align_up(&at, TNI_PK_ALIGN)) return false;
  }
  h->file_bytes = at;
  return at <= INT64_MAX;
}

/* False: without memory (p->seg is NULL), or they are too many or too large. */
static bool make_plan(const tni_pack_store *s, plan *p, bool keep) {
  *p = (plan){.fd = -1};
  p->seg = calloc((size_t)s->n_want + (s->file.data ? s->file.head.n_segments : 0) + 1, sizeof *p->seg);
  if (!p->seg) return false;
  plan_wanted(s, p);
  if (keep) plan_kept(s, p);
  return lay_out(p);
}

static int open_temporary(const tni_pack_store *s, plan *p) {
  size_t n = strlen(s->path) + 48;
  p->tmp = malloc(n);
  if (!p->tmp) return ENOMEM;
  for (int tries = 0; tries < 100; tries++) {
    snprintf(p->tmp, n, "%s.tmp.%ld.%llx", s->path, (long)getpid(), (unsigned long long)tni_now_ns());
    p->fd = open(p->tmp, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (p->fd >= 0 || errno != EEXIST) break;
  }
  if (p->fd < 0) {
    int e = errno;
    free(p->tmp);
    p->tmp = NULL;
    return e;
  }
  (void)flock(p->fd, LOCK_EX | LOCK_NB); /* tells sweepers that the writer lives */
  if (!tni_file_reserve(p->fd, 0, p->head.file_bytes)) return errno;
  void *map = mmap(NULL, p->head.file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, p->fd, 0);
  if (map == MAP_FAILED) return errno;
  p->map = map;
  return 0;
}

static tn_status fill_segments(tni_pack_store *s, plan *p, tn_error *err) {
  for (uint32_t i = 0; i < p->n; i++) {
    const plan_segment *g = &p->seg[i];
    uint8_t *dst = p->map + g->rec.offset;
    if (g->copy && tni_pk_cancelled(s)) return tni_fail(err, TN_E_CANCELLED, NULL, "packing was cancelled");
    tn_status st = TN_OK;
    if (g->copy)
      memcpy(dst, g->copy, g->rec.bytes);
    else
      st = tni_pk_pack(s, g->want, dst, err);
    if (st != TN_OK) return st;
    tni_file_drop(dst, g->rec.bytes);
    if (g->copy) tni_file_drop(g->copy, g->rec.bytes);
  }
  return TN_OK;
}

/* Records, sums and both slots as they go into the file, from segments_at on. */
static uint8_t *make_tables(tni_pack_store *s, plan *p, uint64_t *bytes) {
  tni_pk_header *h = &p->head;
  const uint64_t base = h->segments_at;
  *bytes = h->stamps_at[1] + sizeof(tni_pk_slot) + h->n_stamps * sizeof(tni_pk_stamp) - base;
  uint8_t *t = calloc(1, *bytes), *stamps = t ? t + (h->stamps_at[0] - base) + sizeof(tni_pk_slot) : NULL;
  for (uint32_t i = 0; t && i < p->n; i++) {
    const tni_pk_segment *g = &p->seg[i].rec;
    tni_pk_sign(s);
    memcpy(t + i * sizeof *g, g, sizeof *g);
    tni_pk_sum(s->o->pool, p->map + g->offset, g->bytes, (uint64_t *)(void *)(t + (h->sums_at - base)) + g->first_sum);
    tni_file_drop(p->map + g->offset, g->bytes);
    memcpy(stamps + g->first_stamp * sizeof(tni_pk_stamp), p->seg[i].stamps, g->n_stamps * sizeof(tni_pk_stamp));
  }
  if (!t) return NULL;
  /* The hash covers the sequence number and the stamps: the slot's second word holds the number for a moment. */
  tni_pk_slot slot = {.sequence = 1};
  memcpy(stamps - sizeof(uint64_t), &slot.sequence, sizeof slot.sequence);
  slot.hash = XXH3_64bits(stamps - sizeof(uint64_t), sizeof(uint64_t) + h->n_stamps * sizeof(tni_pk_stamp));
  memcpy(stamps - sizeof slot, &slot, sizeof slot);
  h->table_hash = XXH3_64bits(t, h->stamps_at[0] - base);
  h->header_hash = XXH3_64bits(h, offsetof(tni_pk_header, header_hash));
  return t;
}

static bool write_all(int fd, const void *data, uint64_t n, uint64_t at) {
  const uint8_t *p = data;
  while (n) {
    ssize_t w = pwrite(fd, p, n, (off_t)at);
    if (w < 0 && errno == EINTR) continue;
    if (w <= 0) return false;
    p += w;
    at += (uint64_t)w;
    n -= (uint64_t)w;
  }
  return true;
}

static bool sync_folder(const char *dir) {
  int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  bool ok = fd >= 0 && fsync(fd) == 0;
  if (fd >= 0) close(fd);
  return ok;
}

/* 0, or the errno of what failed; then the file has no name, or its old one. */
static int publish_pack(tni_pack_store *s, plan *p) {
  uint64_t bytes;
  uint8_t *tables = make_tables(s, p, &bytes);
  if (!tables) return ENOMEM;
  if (s->o->unchanged && !s->o->unchanged(s->o->unchanged_user)) {
    tni_log_line(s->o->log, TN_LOG_WARN, "packed weights: a file of the model was changed while it was packed");
    free(tables);
    return ESTALE;
  }
  errno = 0;
  bool ok = msync(p->map, p->head.file_bytes, MS_SYNC) == 0 && write_all(p->fd, tables, bytes, p->head.segments_at) &&
            fsync(p->fd) == 0 && write_all(p->fd, &p->head, sizeof p->head, 0) && fsync(p->fd) == 0 &&
            rename(p->tmp, s->path) == 0;
  int e = ok ? 0 : errno ? errno : EIO;
  free(tables);
  if (!ok) return e;
  free(p->tmp);
  p->tmp = NULL;
  if (!sync_folder(s->dir))
    tni_log_line(s->o->log, TN_LOG_WARN, "packed weights: cannot sync the folder '%s': %s", s->dir, strerror(errno));
  return 0;
}

static void drop_plan(plan *p) {
  if (p->tmp) (void)unlink(p->tmp);
  if (p->map) munmap(p->map, p->head.file_bytes);
  if (p->fd >= 0) close(p->fd);
  free(p->tmp);
  free(p->seg);
}

/* The new file's bytes become the store's. false: they cannot be watched. */
static bool adopt_file(tni_pack_store *s, plan *p) {
  tni_watch *w = s->o->copy ? NULL : tni_watch_add(p->map, p->head.file_bytes, p->fd);
  if (!w) return false;
  for (uint32_t i = 0; i < s->n_want; i++) {
    s->want[i].ptr = p->map + p->seg[i].rec.offset;
  }
  (void)mprotect(p->map, p->head.file_bytes, PROT_READ);
  tni_pk_unload(&s->file);
  s->watch = w;
  s->own = p->map;
  s->own_bytes = p->head.file_bytes;
  p->map = NULL;
  (void)flock(p->fd, LOCK_UN);
  s->fd = p->fd;
  p->fd = -1;
  return true;
}

/* Packed already, but the file failed afterwards: memory takes the bytes, so that nothing is packed twice. */
static tn_status rescue_old(tni_pack_store *s, plan *p, tn_error *err) {
  void *m = mmap(NULL, p->head.file_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (m == MAP_FAILED) return tni_fail_memory(err, s->path);
  for (uint32_t i = 0; i < s->n_want; i++) {
    const tni_pk_segment *g = &p->seg[i].rec;
    if (s->want[i].ptr) continue;
    memcpy((uint8_t *)m + g->offset, p->map + g->offset, g->bytes);
    s->want[i].ptr = (uint8_t *)m + g->offset;
  }
  s->own = m;
  s->own_bytes = p->head.file_bytes;
  return TN_OK;
}

static void not_kept(const tni_pack_store *s, int e) {
  tni_log_line(s->o->log, TN_LOG_WARN, "packed weights are not kept: cannot write '%s': %s", s->path, strerror(e));
}

tn_status tni_pk_write(tni_pack_store *s, bool *wrote, tn_error *err) {
  plan p;
  bool planned = make_plan(s, &p, true);
  *wrote = false;
  if (planned && s->o->max_bytes && p.head.file_bytes > s->o->max_bytes) {
    drop_plan(&p);
    planned = make_plan(s, &p, false);
  }
  tn_status st = planned  ? TN_OK
                 : !p.seg ? tni_fail_memory(err, s->path)
                          : tni_fail(err, TN_E_LIMIT, s->path, "too many or too large weights to pack");
  if (st == TN_OK && s->o->max_bytes && p.head.file_bytes > s->o->max_bytes) {
    tni_log_line(s->o->log, TN_LOG_WARN, "packed weights are not kept: '%s' would take %llu bytes, the limit is %llu",
                 s->path, (unsigned long long)p.head.file_bytes, (unsigned long long)s->o->max_bytes);
  } else if (st == TN_OK) {
    tni_pk_evict(s, p.head.file_bytes);
    int e = open_temporary(s, &p);
    if (e) {
      not_kept(s, e);
    } else if ((st = fill_segments(s, &p, err)) == TN_OK) {
      e = publish_pack(s, &p);
      *wrote = !e;
      if (e) {
        not_kept(s, e);
        st = rescue_old(s, &p, err);
      } else if (!adopt_file(s, &p)) {
        st = rescue_old(s, &p, err);
      }
    }
  }
  drop_plan(&p);
  return st;
}

tn_status tni_pk_pack_memory(tni_pack_store *s, tn_error *err) {
  uint64_t total = 0;
  for (uint32_t i = 0; i < s->n_want; i++) {
    size_t sum;
    if (s->want[i].ptr) continue;
    if (!tni_add_size(total, s->want[i].size.bytes, &sum)) return tni_fail_memory(err, s->want[i].item->name);
    total = sum;
    if (!align_up(&total, TNI_PK_ALIGN)) return tni_fail_memory(err, s->want[i].item->name);
  }
  if (!total) return TN_OK;
  void *m = mmap(NULL, total, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (m == MAP_FAILED)
    return tni_fail(err, TN_E_NO_MEMORY, NULL, "no memory for %llu bytes of packed weights", (unsigned long long)total);
  s->own = m;
  s->own_bytes = total;
  uint64_t at = 0;
  for (uint32_t i = 0; i < s->n_want; i++) {
    tni_pk_want *w = &s->want[i];
    if (w->ptr) continue;
    tn_status st = tni_pk_pack(s, w, (uint8_t *)m + at, err);
    if (st != TN_OK) return st;
    w->ptr = (uint8_t *)m + at;
    at += w->size.bytes;
    (void)align_up(&at, TNI_PK_ALIGN);
  }
  return TN_OK;
}
