/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/pack/store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/base/base.h"
#include "runtime/pack/internal.h"

/* Another process may have written the file since it was looked at. */
static uint32_t look_again(tni_pack_store *s) {
  struct stat st;
  bool there = stat(s->path, &st) == 0;
  bool same = there ? (uint64_t)st.st_ino == s->file.inode && (uint64_t)st.st_dev == s->file.device : !s->file.data;
  if (!same) {
    tni_pk_unload(&s->file);
    tni_pk_load(s, s->o->log, &s->file);
    return tni_pk_match(s);
  }
  uint32_t missing = 0;
  for (uint32_t i = 0; i < s->n_want; i++) missing += s->want[i].ptr == NULL;
  return missing;
}

/* Fills stats of what is about to be packed. */
static void count_missing(tni_pack_store *s) {
  s->done_bytes = s->total_bytes = 0;
  s->stats.packed_segments = s->stats.packed_bytes = s->stats.repaired_segments = 0;
  for (uint32_t i = 0; i < s->n_want; i++) {
    if (s->want[i].ptr) continue;
    s->total_bytes += s->want[i].size.bytes;
    s->stats.packed_segments++;
    s->stats.packed_bytes += s->want[i].size.bytes;
    s->stats.repaired_segments += s->want[i].broken;
  }
}

static void count_found(tni_pack_store *s) {
  s->stats.mapped_segments = s->stats.mapped_bytes = 0;
  for (uint32_t i = 0; i < s->n_want; i++) {
    if (!s->want[i].found) continue;
    s->stats.mapped_segments++;
    s->stats.mapped_bytes += s->want[i].size.bytes;
  }
}

static tn_status pack_missing(tni_pack_store *s, bool cacheable, tn_error *err) {
  tn_status st = TN_OK;
  bool wrote = false;
  s->lock = -1;
  if (cacheable) {
    s->lock = tni_pk_lock(s, &st);
    if (st != TN_OK) return tni_fail(err, st, s->path, "packing was cancelled");
    tni_pk_sweep(s, s->lock >= 0);
    if (look_again(s) == 0) {
      tni_pk_unlock(s->lock);
      s->stats.cached = 1;
      return TN_OK;
    }
  }
  int64_t start = tni_now_ns();
  count_missing(s);
  if (cacheable) st = tni_pk_write(s, &wrote, err);
  tni_pk_unlock(s->lock);
  s->lock = -1;
  if (st == TN_OK && !wrote) st = tni_pk_pack_memory(s, err);
  s->stats.pack_ns = tni_now_ns() - start;
  s->stats.cached = wrote;
  return st;
}

/* A sealed folder has everything of a device, or nothing. */
static tn_status take_sealed(tni_pack_store *s, const tni_pack_item *const *items, tn_error *err) {
  if (s->path && s->n_items) tni_pk_load(s, NULL, &s->file); /* damage is said below */
  if (s->file.damage)
    return tni_fail(err, TN_E_CORRUPT, s->path, "packed weights in '%s': %s", s->path, s->file.damage);
  tn_status st = tni_pk_keys(s, items, err);
  if (st != TN_OK) return st;
  const uint32_t missing = tni_pk_match(s);
  s->stats.cached = s->file.data != NULL;
  for (uint32_t i = 0; missing && s->file.data && i < s->n_want; i++) {
    const tni_pk_want *w = &s->want[i];
    const char *name = w->item->name ? w->item->name : "?";
    if (!w->ptr && w->broken)
      return tni_fail(err, TN_E_CORRUPT, s->path, "packed weight '%s' has a wrong checksum in '%s'", name, s->path);
    if (!w->ptr)
      return tni_fail(err, TN_E_CORRUPT, s->path,
                      "'%s' holds no packed weight '%s' as '%s' wants it: the model or the profile is another one",
                      s->path, name, w->item->format->name);
  }
  if (missing) {
    tni_log_line(s->o->log, TN_LOG_WARN, "no packed weights for '%s' here: packing %u matrices into memory",
                 s->o->device_name ? s->o->device_name : "?", missing);
    st = pack_missing(s, false, err);
  }
  count_found(s);
  return st;
}

static tn_status make_available(tni_pack_store *s, const tni_pack_item *const *items, tn_error *err) {
  tn_status st = tni_pk_paths(s, err);
  if (st != TN_OK) return st;
  if (s->o->sealed) return take_sealed(s, items, err);
  bool cacheable = s->path && s->n_items && tni_pk_make_dir(s);
  if (cacheable) tni_pk_load(s, s->o->log, &s->file);
  st = tni_pk_keys(s, items, err);
  if (st != TN_OK) return st;
  if (tni_pk_match(s) == 0) {
    s->stats.cached = cacheable;
  } else {
    st = pack_missing(s, cacheable, err);
    if (st != TN_OK) return st;
  }
  count_found(s);
  if (!s->stats.cached || !s->file.data) return TN_OK;
  tni_pk_restamp(s);
  tni_pk_touch(s);
  tni_pk_evict(s, s->file.bytes);
  return TN_OK;
}

/* From the file: what lies on disk only must not become part of this process's memory. */
static tn_status blob_read(const tn_blob *b, uint64_t offset, uint64_t n, void *dst) {
  const tni_pk_bytes *from = (const tni_pk_bytes *)(const void *)b->ctx;
  uint8_t *to = dst;
  if (offset > b->bytes || n > b->bytes - offset) return TN_E_INVALID;
  if (n && from->fd < 0) memcpy(to, from->ptr + offset, n);
  while (n && from->fd >= 0) {
    const ssize_t got = pread(from->fd, to, n, (off_t)(from->at + offset));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return TN_E_IO;
    to += got;
    offset += (uint64_t)got;
    n -= (uint64_t)got;
  }
  return TN_OK;
}

/* The file that is mapped, which may have lost its name to another by now: then there is none to read from. */
static void open_file(tni_pack_store *s) {
  struct stat st;
  if (!s->stats.cached || s->fd >= 0 || s->copied) return;
  s->fd = tni_file_open(s->path);
  if (s->fd < 0 ||
      (fstat(s->fd, &st) == 0 && (uint64_t)st.st_ino == s->file.inode && (uint64_t)st.st_dev == s->file.device))
    return;
  close(s->fd);
  s->fd = -1;
}

static tn_status make_blobs(tni_pack_store *s, const tni_pack_item *const *items, tn_error *err) {
  const uint8_t *base = s->own ? s->own : s->file.data;
  s->blobs = calloc((size_t)s->n_items + 1, sizeof *s->blobs);
  s->bytes = calloc((size_t)s->n_items + 1, sizeof *s->bytes);
  if (!s->blobs || !s->bytes) return tni_fail_memory(err, s->path);
  open_file(s);
  for (uint32_t i = 0; i < s->n_items; i++) {
    const tni_pk_want *w = &s->want[s->want_of[i]];
    s->bytes[i] = (tni_pk_bytes){.ptr = w->ptr, .at = s->fd < 0 ? 0 : (uint64_t)(w->ptr - base), .fd = s->fd};
    s->blobs[i] = (tn_blob){.h = TN_HDR(tn_blob),
                            .ctx = &s->bytes[i],
                            .format = items[i]->format,
                            .N = items[i]->weight->N,
                            .K = items[i]->weight->K,
                            .bytes = w->size.bytes,
                            .ptr = w->ptr,
                            .params = items[i]->params,
                            .n_params = items[i]->n_params,
                            .read = blob_read};
  }
  return TN_OK;
}

tn_status tni_pack_store_open(const tni_pack_opts *o, const tni_pack_item *const *items, uint32_t n,
                              tni_pack_store **out, tn_error *err) {
  tni_pack_store *s = calloc(1, sizeof *s);
  if (!s) return tni_fail_memory(err, o->dir);
  s->o = o;
  s->copied = o->copy;
  s->n_items = n;
  s->file.slot = -1;
  s->fd = -1;
  tn_status st = make_available(s, items, err);
  if (st == TN_OK) st = make_blobs(s, items, err);
  if (st != TN_OK) {
    tni_pack_store_close(s);
    return st;
  }
  if (s->stats.cached) snprintf(s->stats.path, sizeof s->stats.path, "%s", s->path);
  s->o = NULL;
  *out = s;
  return TN_OK;
}

const tn_blob *tni_pack_store_blob(const tni_pack_store *s, uint32_t i) { return i < s->n_items ? &s->blobs[i] : NULL; }

const tni_pack_stats *tni_pack_store_stats(const tni_pack_store *s) { return &s->stats; }

tn_status tni_pack_store_check(const tni_pack_store *s, tn_error *err) {
  const tn_status st = tni_watch_check(s->watch, s->path, TNI_WATCH_SIZE, err);
  return st == TN_OK ? tni_file_check(&s->file.map, s->path, TNI_WATCH_SIZE, err) : st;
}

void tni_pack_store_close(tni_pack_store *s) {
  if (!s) return;
  tni_pk_unload(&s->file);
  tni_watch_remove(s->watch);
  if (s->own) munmap(s->own, s->own_bytes);
  if (s->fd >= 0) close(s->fd);
  free(s->bytes);
  free(s->want);
  free(s->spans);
  free(s->want_of);
  free(s->stamps);
  free(s->blobs);
  free(s->path);
  free(s->dir);
  free(s);
}
