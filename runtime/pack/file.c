/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading a packed file: nothing in it is believed before it was checked.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "runtime/base/base.h"
#include "runtime/pack/internal.h"

static bool is_inside_file(uint64_t at, uint64_t count, uint64_t size, uint64_t end) {
  size_t n, last;
  return tni_mul_size(count, size, &n) && tni_add_size(at, n, &last) && last <= end;
}

static const char *check_header(const tni_pk_file *f) {
  const tni_pk_header *h = &f->head;
  if (memcmp(h->magic, TNI_PK_MAGIC, sizeof h->magic) != 0) return "not a packed-weight file";
  if (XXH3_64bits(h, offsetof(tni_pk_header, header_hash)) != h->header_hash) return "the header's checksum is wrong";
  if (h->version != TNI_PK_VERSION) return "written by another version";
  if (h->file_bytes != f->bytes) return "the file is truncated or longer than it says";
  if (h->n_segments > TNI_PK_MAX_SEGMENTS || h->n_stamps > TNI_PK_MAX_STAMPS) return "absurd counts";
  if (h->segments_at % 8 || h->sums_at % 8 || h->stamps_at[0] % 8 || h->stamps_at[1] % 8 ||
      h->stamps_at[0] > f->bytes || h->stamps_at[1] > f->bytes || h->data_at > f->bytes || h->segments_at < sizeof *h ||
      !is_inside_file(h->segments_at, h->n_segments, sizeof(tni_pk_segment), h->sums_at) ||
      !is_inside_file(h->sums_at, h->n_sums, sizeof(uint64_t), h->stamps_at[0]) ||
      !is_inside_file(h->stamps_at[0] + sizeof(tni_pk_slot), h->n_stamps, sizeof(tni_pk_stamp), h->stamps_at[1]) ||
      !is_inside_file(h->stamps_at[1] + sizeof(tni_pk_slot), h->n_stamps, sizeof(tni_pk_stamp), h->data_at))
    return "the header contradicts itself";
  if (XXH3_64bits(f->data + h->segments_at, h->stamps_at[0] - h->segments_at) != h->table_hash)
    return "the table's checksum is wrong";
  return NULL;
}

static const char *check_segments(const tni_pk_file *f) {
  for (uint32_t i = 0; i < f->head.n_segments; i++) {
    const tni_pk_segment *g = &f->segments[i];
    if (g->offset % TNI_PK_ALIGN || g->offset < f->head.data_at || !is_inside_file(g->offset, g->bytes, 1, f->bytes) ||
        !is_inside_file(g->first_sum, tni_pk_pieces(g->bytes), 1, f->head.n_sums) ||
        !is_inside_file(g->first_stamp, g->n_stamps, 1, f->head.n_stamps))
      return "a segment lies outside the file";
  }
  return NULL;
}

/* Copies the newer whole slot. The file may be restamped meanwhile: only the checked copy is used. */
static bool load_stamps(tni_pk_file *f) {
  size_t n = (size_t)f->head.n_stamps * sizeof(tni_pk_stamp);
  tni_pk_slot slot;
  f->stamps = calloc(1, n + 1);
  uint8_t *copy = malloc(sizeof(uint64_t) + n);
  f->slot = -1;
  for (int i = 0; copy && f->stamps && i < 2; i++) {
    const uint8_t *at = f->data + f->head.stamps_at[i];
    memcpy(&slot, at, sizeof slot);
    memcpy(copy, &slot.sequence, sizeof slot.sequence);
    memcpy(copy + sizeof slot.sequence, at + sizeof slot, n);
    if (slot.sequence <= f->sequence || XXH3_64bits(copy, sizeof slot.sequence + n) != slot.hash) continue;
    f->sequence = slot.sequence;
    f->slot = i;
    memcpy(f->stamps, copy + sizeof slot.sequence, n);
  }
  bool ok = copy && f->stamps;
  free(copy);
  return ok;
}

void tni_pk_unload(tni_pk_file *f) {
  tni_file_unmap(&f->map);
  free(f->stamps);
  *f = (tni_pk_file){.slot = -1};
}

void tni_pk_load(const tni_pack_store *s, const tni_log *log, tni_pk_file *f) {
  const char *path = s->path;
  tni_file m;
  tn_error err;
  tni_error_init(&err);
  *f = (tni_pk_file){.slot = -1};
  struct stat there;
  if (lstat(path, &there) != 0 && errno == ENOENT) return;
  tn_status st = tni_trust_map(path, s->o->sealed ? TNI_TRUST_ANY : 0, s->o->copy, &m, &err);
  if (st != TN_OK) {
    tni_log_line(log, TN_LOG_WARN, "packed weights in '%s' are not used and packed again: %s", path, err.message);
    return;
  }
  *f = (tni_pk_file){.data = m.data, .bytes = m.bytes, .device = m.device, .inode = m.inode, .map = m, .slot = -1};
  const char *why = f->bytes < sizeof f->head ? "too short" : NULL;
  if (!why) {
    memcpy(&f->head, f->data, sizeof f->head);
    why = check_header(f);
  }
  if (!why) {
    f->segments = (const tni_pk_segment *)(f->data + f->head.segments_at);
    f->sums = (const uint64_t *)(f->data + f->head.sums_at);
    why = check_segments(f);
  }
  if (!why && !load_stamps(f)) why = "out of memory";
  if (!why) return;
  tni_log_line(log, TN_LOG_WARN, "packed weights in '%s' are not used and packed again: %s", path, why);
  tni_pk_unload(f);
  f->damage = why;
  f->device = m.device; /* which file it was: not to be looked at again */
  f->inode = m.inode;
}

static const tni_pk_segment *find_segment(const tni_pk_file *f, const tni_pk_want *w) {
  for (uint32_t i = 0; f->data && i < f->head.n_segments; i++) {
    const tni_pk_segment *g = &f->segments[i];
    if (tni_pk_equal(g->key, w->key) && g->bytes == w->size.bytes && g->n_stamps == w->item->n_parts) return g;
  }
  return NULL;
}

uint32_t tni_pk_match(tni_pack_store *s) {
  uint32_t missing = 0;
  for (uint32_t i = 0; i < s->n_want; i++) s->spans[i].segment = find_segment(&s->file, &s->want[i]);
  tni_pk_check(s->o->pool, &s->file, s->spans, s->n_want);
  for (uint32_t i = 0; i < s->n_want; i++) {
    tni_pk_want *w = &s->want[i];
    const tni_pk_segment *g = s->spans[i].segment;
    const bool wrong = g && s->spans[i].wrong;
    w->found = g && !wrong;
    w->ptr = w->found ? s->file.data + g->offset : NULL;
    missing += !w->found;
    if (wrong && !w->broken)
      tni_log_line(s->o->log, TN_LOG_WARN, "packed weight '%s' in '%s' has a wrong checksum%s",
                   w->item->name ? w->item->name : "?", s->path, s->o->sealed ? "" : ": packing it again");
    w->broken = wrong;
  }
  return missing;
}

/* Puts today's stamps of the wanted segments over the file's. */
static bool merge_stamps(const tni_pack_store *s, tni_pk_stamp *to) {
  bool changed = s->file.slot < 0;
  for (uint32_t i = 0; i < s->n_want; i++) {
    const tni_pk_want *w = &s->want[i];
    const tni_pk_segment *g = find_segment(&s->file, w);
    for (uint32_t k = 0; g && k < g->n_stamps; k++) {
      const tni_pk_stamp *now = &s->stamps[w->first_stamp + k];
      if (!now->inode || memcmp(&to[g->first_stamp + k], now, sizeof *now) == 0) continue;
      to[g->first_stamp + k] = *now;
      changed = true;
    }
  }
  return changed;
}

static bool write_slot(const tni_pack_store *s, int fd, const tni_pk_stamp *stamps) {
  const tni_pk_file *f = &s->file;
  size_t n = f->head.n_stamps * sizeof *stamps, all = sizeof(tni_pk_slot) + n;
  int slot = f->slot == 0 ? 1 : 0;
  uint8_t *buf = malloc(all);
  if (!buf) return false;
  tni_pk_slot head = {.sequence = f->sequence + 1};
  /* The hash is of the sequence number and the stamps: lay them side by side, then put the head in front. */
  memcpy(buf + sizeof(uint64_t), &head.sequence, sizeof head.sequence);
  memcpy(buf + sizeof head, stamps, n);
  head.hash = XXH3_64bits(buf + sizeof(uint64_t), sizeof head.sequence + n);
  memcpy(buf, &head, sizeof head);
  bool ok = pwrite(fd, buf, all, (off_t)f->head.stamps_at[slot]) == (ssize_t)all && fsync(fd) == 0;
  free(buf);
  return ok;
}

void tni_pk_restamp(tni_pack_store *s) {
  struct stat st;
  size_t n = (size_t)s->file.head.n_stamps * sizeof(tni_pk_stamp);
  tni_pk_stamp *stamps = malloc(n + 1);
  if (!stamps) return;
  memcpy(stamps, s->file.stamps, n);
  if (merge_stamps(s, stamps)) {
    tn_status locked;
    int lock = tni_pk_lock(s, &locked);
    int fd = lock < 0 ? -1 : open(s->path, O_RDWR | O_CLOEXEC); /* without the lock two may write one slot */
    if (fd >= 0 && fstat(fd, &st) == 0 && (uint64_t)st.st_ino == s->file.inode && write_slot(s, fd, stamps))
      tni_log_line(s->o->log, TN_LOG_DEBUG, "packed weights in '%s': content unchanged, stamps renewed", s->path);
    if (fd >= 0) close(fd);
    tni_pk_unlock(lock);
  }
  free(stamps);
}
