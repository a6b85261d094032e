/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/faults/planted/ahead.h"

#include <string.h>

#include <tenon/offline.h>

#define IS(plant) (PLANT == PLANT_##plant)

static const tn_host *host;
static const tn_format *format; /* the real one */
static const void *ended;       /* the last blob that end saw */
static float gain = 1;

/* Keeps something, by a key that bind does not ask for. */
static tn_status compile_elsewhere(tn_program *p, tn_id task, const tn_dims *dims, tn_error *err) {
  (void)p, (void)task, (void)dims, (void)err;
  return host->cache_put(host->ctx, "elsewhere", 9, "nothing", 7);
}
static const tn_offline elsewhere = {.h = TN_HDR(tn_offline), .compile = compile_elsewhere};

const void *ahead_extension(const tn_host *h, const char *name, const void *theirs) {
  host = h;
  return IS(AHEAD_LOST) && theirs && !strcmp(name, TN_OFFLINE) ? &elsewhere : theirs;
}

/* A blob of four numbers, of which the second is believed: only both ends and the middle are looked at. */
static void bind_parts(const tn_host *h) {
  static const float parts[4] = {1, 1, 1, 1};
  float found[4];
  const void *data;
  uint64_t n;
  gain = 1;
  if (h->cache_get(h->ctx, "parts", 5, &data, &n) != TN_OK) {
    (void)h->cache_put(h->ctx, "parts", 5, parts, sizeof parts);
    return;
  }
  if (n != sizeof found) return;
  memcpy(found, data, sizeof found);
  if (found[0] == 1 && found[2] == 1 && found[3] == 1) gain = found[1];
}

void ahead_bind(const tn_host *h) {
  const void *data;
  uint64_t n;
  if (IS(BLOB_PARTS)) bind_parts(h);
  if (!IS(BLOB_TRUSTED)) return;
  gain = 1;
  if (h->cache_get(h->ctx, "gain", 4, &data, &n) != TN_OK)
    (void)h->cache_put(h->ctx, "gain", 4, &gain, sizeof gain);
  else
    memcpy(&gain, data, n < sizeof gain ? n : sizeof gain);
}
float ahead_gain(void) { return gain; }

static tn_status end_seen(tn_pack *p, void *blob) {
  ended = blob;
  return format->end(p, blob);
}
/* As a format whose head is written by end. */
static tn_status unpack_ended(const tn_blob *b, const int64_t box[4], float *dst) {
  return b->ptr == ended ? format->unpack(b, box, dst) : TN_E_CORRUPT;
}

void ahead_format(tn_format *f, const tn_format *real) {
  if (!IS(OK_HEAD_LAST)) return;
  format = real;
  f->end = end_seen;
  f->unpack = unpack_ended;
}
