/* SPDX-License-Identifier: Apache-2.0
 *
 * A recorder as a file: a head, then of every activation its counts, the bins that hold something (first pass), both
 * sums of every channel, and how many rows were above (second pass). Numbers are the recorder's own, so that a recorder
 * that goes on has the bits of one that was never stopped. All parts are multiples of 8 bytes long.
 */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "runtime/base/base.h"
#include "runtime/calib/recorder.h"

static const char MAGIC[8] = {'T', 'E', 'N', 'O', 'N', 'C', 'P', '1'};
enum { ORDER = 0x01020304 };

typedef struct kept_head {
  char magic[8];
  uint32_t order, pass; /* pass: 1 or 2 */
  uint64_t done, n_watches;
  char model[TNI_CALIB_HEX], graph[TNI_CALIB_HEX], text[TNI_CALIB_HEX], options[TNI_CALIB_HEX];
  uint64_t body_bytes, body_hash, head_hash; /* the last: of what stands before it */
} kept_head;

typedef struct kept_watch {
  int64_t K;
  uint64_t rows[2], count, n_bins;
  float absmax, p999;
} kept_watch;

typedef struct kept_bin {
  uint64_t bin, count;
} kept_bin;

/* --- writing --- */

typedef struct keeper {
  FILE *f;
  XXH3_state_t *hash;
  uint64_t bytes;
} keeper;

static bool put_bytes(keeper *k, const void *p, size_t n) {
  if (!n) return true;
  XXH3_64bits_update(k->hash, p, n);
  k->bytes += n;
  return fwrite(p, n, 1, k->f) == 1;
}

static bool put_bins(keeper *k, const uint64_t *bins) {
  for (uint64_t i = 0; bins && i < TNI_CALIB_BINS; i++) {
    const kept_bin b = {i, bins[i]};
    if (bins[i] && !put_bytes(k, &b, sizeof b)) return false;
  }
  return true;
}

static bool put_watch(keeper *k, const tni_calib_watch *w) {
  const size_t K = (size_t)w->K;
  kept_watch h = {.K = w->K, .rows = {w->rows[0], w->rows[1]}, .count = w->count, .absmax = w->absmax, .p999 = w->p999};
  for (uint32_t i = 0; w->bins && i < TNI_CALIB_BINS; i++) h.n_bins += w->bins[i] != 0;
  return put_bytes(k, &h, sizeof h) && put_bins(k, w->bins) && put_bytes(k, w->sum, K * sizeof *w->sum) &&
         put_bytes(k, w->sum2, K * sizeof *w->sum2) && (w->bins || put_bytes(k, w->over, K * sizeof *w->over));
}

/* The head comes last, so that a file that is cut short is none. false: errno says why. */
static bool put_all(keeper *k, const tni_recorder *r, const tni_calib_place *at) {
  kept_head h = {.order = ORDER, .pass = (uint32_t)r->pass + 1, .done = at->done, .n_watches = r->n};
  bool ok = fseek(k->f, sizeof h, SEEK_SET) == 0;
  for (uint32_t i = 0; ok && i < r->n; i++) ok = put_watch(k, &r->w[i]);
  memcpy(h.magic, MAGIC, sizeof h.magic);
  memcpy(h.model, at->model, sizeof h.model);
  memcpy(h.graph, r->graph, sizeof h.graph);
  memcpy(h.text, at->text, sizeof h.text);
  memcpy(h.options, at->options, sizeof h.options);
  h.body_bytes = k->bytes;
  h.body_hash = XXH3_64bits_digest(k->hash);
  h.head_hash = XXH3_64bits(&h, offsetof(kept_head, head_hash));
  return ok && fflush(k->f) == 0 && fseek(k->f, 0, SEEK_SET) == 0 && fwrite(&h, sizeof h, 1, k->f) == 1;
}

/* 0 or an errno; tmp is gone then. What lies there is left of a process that was killed. */
static int write_as(keeper *k, const tni_recorder *r, const tni_calib_place *at, const char *tmp, const char *path) {
  (void)unlink(tmp);
  const int fd = open(tmp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (fd < 0) return errno;
  errno = 0;
  k->f = fdopen(fd, "w");
  const bool ok = k->f && put_all(k, r, at) && fflush(k->f) == 0 && fsync(fd) == 0;
  int why = ok ? 0 : errno ? errno : EIO;
  const int closed = k->f ? tni_close_written(k->f) : close(fd) ? errno : 0;
  if (!why) why = closed;
  if (!why && rename(tmp, path) != 0) why = errno;
  if (why) (void)unlink(tmp);
  return why;
}

tn_status tni_recorder_keep(tni_recorder *r, const tni_calib_place *at, const char *path, tn_error *err) {
  keeper k = {.hash = XXH3_createState()};
  char *tmp = NULL;
  if (!k.hash || asprintf(&tmp, "%s.tmp", path) < 0) {
    XXH3_freeState(k.hash);
    return tni_fail_memory(err, path);
  }
  XXH3_64bits_reset(k.hash);
  pthread_mutex_lock(&r->lock);
  const int why = write_as(&k, r, at, tmp, path);
  pthread_mutex_unlock(&r->lock);
  XXH3_freeState(k.hash);
  free(tmp);
  if (!why) return TN_OK;
  return tni_fail(err, tni_errno_status(why, TN_E_IO), path, "cannot write '%s': %s", path, strerror(why));
}

/* --- reading --- */

typedef struct kept_reader {
  const char *path;
  const char *at, *end;
  kept_head head;
  tn_error *err;
} kept_reader;

static tn_status fail_damaged(const kept_reader *k, const char *what) {
  return tni_fail(k->err, TN_E_CORRUPT, k->path, "'%s' is damaged, or no calibration that was stopped: %s", k->path, what);
}

static tn_status fail_other(const kept_reader *k, const char *what) {
  return tni_fail(k->err, TN_E_INVALID, k->path, "'%s' is of %s", k->path, what);
}

/* n parts of `bytes` each, or NULL. */
static const char *take_parts(kept_reader *k, uint64_t n, size_t bytes) {
  if (n > (uint64_t)(k->end - k->at) / bytes) return NULL;
  const char *p = k->at;
  k->at += n * bytes;
  return p;
}

static tn_status check_head(kept_reader *k, const tni_recorder *r, const tni_calib_place *at, const tni_file *f) {
  kept_head *h = &k->head;
  if (f->bytes < sizeof *h) return fail_damaged(k, "it is too short");
  memcpy(h, f->data, sizeof *h);
  k->at = (const char *)f->data + sizeof *h;
  k->end = (const char *)f->data + f->bytes;
  if (memcmp(h->magic, MAGIC, sizeof h->magic) != 0) return fail_damaged(k, "it begins as something else");
  if (h->order != ORDER) return fail_damaged(k, "it was written by a machine of another byte order");
  if (h->head_hash != XXH3_64bits(h, offsetof(kept_head, head_hash)))
    return fail_damaged(k, "the checksum of its head is wrong");
  if (h->body_bytes != f->bytes - sizeof *h) return fail_damaged(k, "it was cut short, or is too long");
  if (h->body_hash != XXH3_64bits(k->at, h->body_bytes)) return fail_damaged(k, "its checksum is wrong");
  if (memcmp(h->model, at->model, sizeof h->model) != 0) return fail_other(k, "another model");
  if (memcmp(h->text, at->text, sizeof h->text) != 0) return fail_other(k, "another text");
  if (memcmp(h->graph, r->graph, sizeof h->graph) != 0) return fail_other(k, "this model with other passes");
  if (memcmp(h->options, at->options, sizeof h->options) != 0) return fail_other(k, "this text with other options");
  if ((h->pass != 1 && h->pass != 2) || h->n_watches != r->n) return fail_damaged(k, "it records something else");
  return TN_OK;
}

static bool are_sums(const char *p, int64_t n, bool square) {
  for (int64_t i = 0; i < n; i++) {
    double v;
    memcpy(&v, p + (size_t)i * sizeof v, sizeof v);
    if (!isfinite(v) || (square && v < 0)) return false;
  }
  return true;
}

/* count in all, in bins that rise. */
static bool are_bins(const char *p, uint64_t n, uint64_t count) {
  uint64_t all = 0, least = 0;
  for (uint64_t i = 0; i < n; i++) {
    kept_bin b;
    memcpy(&b, p + i * sizeof b, sizeof b);
    if (b.bin < least || b.bin >= TNI_CALIB_BINS || !b.count || __builtin_add_overflow(all, b.count, &all)) return false;
    least = b.bin + 1;
  }
  return all == count;
}

static bool are_counts(const char *p, int64_t n, uint64_t most) {
  for (int64_t i = 0; i < n; i++) {
    uint64_t v;
    memcpy(&v, p + (size_t)i * sizeof v, sizeof v);
    if (v > most) return false;
  }
  return true;
}

static bool fits_watch(const tni_calib_watch *w, const kept_watch *h, bool second) {
  uint64_t count;
  return h->K == w->K && !__builtin_mul_overflow(h->rows[0], (uint64_t)h->K, &count) && count == h->count &&
         isfinite(h->absmax) && h->absmax >= 0 && h->p999 >= 0 && h->p999 <= h->absmax &&
         (second ? !h->n_bins : !h->rows[1] && h->p999 == 0);
}

/* Found in the file by walk_watches, which has looked at it. */
static void set_watch(tni_calib_watch *w, const kept_watch *h, const char *bins, const char *sum, const char *sum2,
                      const char *over) {
  const size_t K = (size_t)w->K;
  w->rows[0] = h->rows[0];
  w->rows[1] = h->rows[1];
  w->count = h->count;
  w->absmax = h->absmax;
  memcpy(w->sum, sum, K * sizeof *w->sum);
  memcpy(w->sum2, sum2, K * sizeof *w->sum2);
  if (over) {
    memcpy(w->over, over, K * sizeof *w->over);
    tni_calib_watch_next(w, h->p999);
  }
  for (uint64_t i = 0; i < h->n_bins; i++) {
    kept_bin b;
    memcpy(&b, bins + i * sizeof b, sizeof b);
    w->bins[b.bin] = b.count;
  }
}

/* The activations one after the other: against what they must be (to false), or into the recorder. */
static tn_status walk_watches(kept_reader *k, tni_recorder *r, bool to) {
  const bool second = k->head.pass == 2;
  for (uint32_t i = 0; i < r->n; i++) {
    tni_calib_watch *w = &r->w[i];
    const uint64_t K = (uint64_t)w->K;
    kept_watch h;
    const char *p = take_parts(k, 1, sizeof h);
    if (p) memcpy(&h, p, sizeof h);
    if (!p || !fits_watch(w, &h, second)) return fail_damaged(k, "an activation is not as the model has it");
    const char *bins = take_parts(k, h.n_bins, sizeof(kept_bin)), *sum = take_parts(k, K, sizeof(double)),
               *sum2 = take_parts(k, K, sizeof(double)), *over = second ? take_parts(k, K, sizeof(uint64_t)) : NULL;
    if (!bins || !sum || !sum2 || (second && !over)) return fail_damaged(k, "an activation is missing");
    if ((!second && !are_bins(bins, h.n_bins, h.count)) || !are_sums(sum, w->K, false) || !are_sums(sum2, w->K, true) ||
        (over && !are_counts(over, w->K, h.rows[1])))
      return fail_damaged(k, "an activation has counts that do not fit together");
    if (to) set_watch(w, &h, bins, sum, sum2, over);
  }
  return k->at == k->end ? TN_OK : fail_damaged(k, "it is too long");
}

/* Bytes of the largest file of r, so that memory holds no more of one that is something else. */
static uint64_t most_bytes(const tni_recorder *r) {
  uint64_t n = sizeof(kept_head);
  for (uint32_t i = 0; i < r->n; i++)
    n += sizeof(kept_watch) + TNI_CALIB_BINS * sizeof(kept_bin) + 3 * (uint64_t)r->w[i].K * sizeof(uint64_t);
  return n;
}

static bool is_fresh(const tni_recorder *r) {
  for (uint32_t i = 0; i < r->n; i++)
    if (r->w[i].rows[0]) return false;
  return !r->pass;
}

static tn_status resume_from(tni_recorder *r, tni_calib_place *at, const tni_file *f, kept_reader *k) {
  tn_status st = check_head(k, r, at, f);
  const char *body = k->at;
  if (st == TN_OK) st = walk_watches(k, r, false);
  k->at = body;
  return st == TN_OK ? walk_watches(k, r, true) : st;
}

tn_status tni_recorder_resume(tni_recorder *r, tni_calib_place *at, const char *path, uint32_t *pass, tn_error *err) {
  kept_reader k = {.path = path, .err = err};
  tni_file f;
  struct stat info;
  if (stat(path, &info) == 0 && S_ISREG(info.st_mode) && (uint64_t)info.st_size > most_bytes(r))
    return fail_damaged(&k, "it is too long");
  tn_status st = tni_file_read(path, &f, err);
  if (st != TN_OK) return st;
  pthread_mutex_lock(&r->lock);
  st = is_fresh(r) ? resume_from(r, at, &f, &k)
                   : tni_fail(err, TN_E_INVALID, path, "'%s' comes before the first run that is recorded", path);
  if (st == TN_OK) r->pass = (int)k.head.pass - 1;
  pthread_mutex_unlock(&r->lock);
  tni_file_unmap(&f);
  if (st != TN_OK) return st;
  at->done = k.head.done;
  *pass = k.head.pass;
  return TN_OK;
}
