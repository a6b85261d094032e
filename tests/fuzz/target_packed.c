/* SPDX-License-Identifier: Apache-2.0
 *
 * A packed file that somebody edited: the input is flags and a list of edits of header, table, sums and stamps. Flags
 * say which checksums are made right afterwards, so that what comes after them is reached. The store may pack anew,
 * map what is there or refuse; each blob that it gives must have the size that its format says, and can be read.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "runtime/pack/layout.h"
#include "runtime/pack/pack.h"
#include "tests/fuzz/bytes.h"
#include "tests/fuzz/engine.h"
#include "tests/pack/fixture.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

enum { N_PARTS = 4, N_ITEMS = 3, K = 16 };
enum { SUMS = 1, SLOTS = 2, TABLE = 4, HEADER = 8, LENGTH = 16, CUT = 32, SEALED = 64, COPY = 128 };

static int8_t elements[64 * K];
static tn_weight parts[N_PARTS], joined;
static const tn_weight *part_list[N_PARTS];
static tni_pack_source sources[N_PARTS];
static tni_pack_item items[N_ITEMS];
static const tni_pack_item *list[N_ITEMS];
static char dir[512], path[1024];
static uint8_t *good, *bad;
static size_t n_good;
static tni_pool *pool;

static tn_status part_rows(const tn_weight *w, int64_t n0, int64_t n1, float *dst) {
  const int8_t *raw = w->ctx;
  for (int64_t i = n0 * w->K; i < n1 * w->K; i++) *dst++ = 0.125f * raw[i];
  return TN_OK;
}

static tn_status joined_rows(const tn_weight *w, int64_t n0, int64_t n1, float *dst) {
  (void)w;
  for (int64_t n = n0; n < n1; n++, dst += K) {
    const tn_weight *p = &parts[n < parts[2].N ? 2 : 3];
    const int64_t at = n < parts[2].N ? n : n - parts[2].N;
    if (part_rows(p, at, at + 1, dst) != TN_OK) return TN_E_INTERNAL;
  }
  return TN_OK;
}

static tn_status open_store(uint32_t flags, tni_pack_store **out) {
  tn_error err;
  tn_error_init(&err);
  *out = NULL;
  const tni_pack_opts o = {.dir = dir,
                           .model_name = "m",
                           .device_name = "d",
                           .pool = pool,
                           .sealed = (flags & SEALED) != 0,
                           .copy = (flags & COPY) != 0};
  const tn_status st = tni_pack_store_open(&o, list, N_ITEMS, out, &err);
  fz_failure(st, &err);
  return st;
}

static void make_items(void) {
  static const int64_t rows[N_PARTS] = {9, 24, 5, 11};
  static int64_t params[1] = {90};
  int64_t at = 0;
  for (size_t i = 0; i < sizeof elements; i++) elements[i] = (int8_t)(i * 37);
  for (int i = 0; i < N_PARTS; i++) {
    parts[i] = (tn_weight){.h = TN_HDR(tn_weight),
                           .ctx = elements + at,
                           .N = rows[i],
                           .K = K,
                           .dtype = TN_DT_I8,
                           .raw = elements + at,
                           .rows = part_rows};
    part_list[i] = &parts[i];
    sources[i] = (tni_pack_source){.bytes = (uint64_t)(rows[i] * K)};
    at += rows[i] * K;
  }
  joined = (tn_weight){.h = TN_HDR(tn_weight), .N = rows[2] + rows[3], .K = K, .dtype = TN_DT_F32, .rows = joined_rows};
  for (int i = 0; i < N_ITEMS; i++) {
    items[i] = (tni_pack_item){.format = &fx_format,
                               .params = params,
                               .n_params = 1,
                               .weight = i == 2 ? &joined : &parts[i],
                               .sources = &sources[i],
                               .parts = &part_list[i],
                               .n_parts = i == 2 ? 2 : 1,
                               .name = i == 2 ? "joined" : "single"};
    list[i] = &items[i];
  }
}

static void remove_dir(void) { fx_remove_dir(dir); }

/* The file as it is packed, once a process. */
static void start(void) {
  tni_pack_store *s;
  if (good) return;
  make_items();
  snprintf(dir, sizeof dir, "%s/packed", fz_folder());
  (void)atexit(remove_dir);
  pool = tni_pool_create(1);
  if (!pool || open_store(0, &s) != TN_OK) fz_finding("nothing can be packed in %s", dir);
  snprintf(path, sizeof path, "%s", tni_pack_store_stats(s)->path);
  tni_pack_store_close(s);
  const int fd = open(path, O_RDONLY);
  struct stat st;
  if (fd < 0 || fstat(fd, &st) != 0) fz_finding("there is no file %s", path);
  n_good = (size_t)st.st_size;
  good = malloc(n_good);
  bad = malloc(n_good);
  if (!good || !bad || pread(fd, good, n_good, 0) != (ssize_t)n_good) fz_finding("%s cannot be read", path);
  close(fd);
}

static bool inside(uint64_t at, uint64_t count, uint64_t each, size_t n) { return at <= n && count <= (n - at) / each; }

static void right_sums(const tni_pk_header *h, size_t n) {
  for (uint32_t i = 0; i < h->n_segments && inside(h->segments_at, i + UINT64_C(1), sizeof(tni_pk_segment), n); i++) {
    tni_pk_segment g;
    memcpy(&g, bad + h->segments_at + i * sizeof g, sizeof g);
    if (!inside(g.offset, g.bytes, 1, n) || !g.bytes || g.bytes > TNI_PK_PIECE) continue;
    const uint64_t sum = XXH3_64bits(bad + g.offset, g.bytes);
    if (g.first_sum < h->n_sums && inside(h->sums_at, g.first_sum + 1, sizeof sum, n))
      memcpy(bad + h->sums_at + g.first_sum * sizeof sum, &sum, sizeof sum);
  }
}

static void right_slots(const tni_pk_header *h, size_t n) {
  const uint64_t stamps = (uint64_t)h->n_stamps * sizeof(tni_pk_stamp);
  for (int i = 0; i < 2; i++) {
    if (!inside(h->stamps_at[i], sizeof(tni_pk_slot) + stamps, 1, n)) continue;
    uint8_t *at = bad + h->stamps_at[i], *copy = malloc(sizeof(uint64_t) + stamps);
    if (!copy) return;
    memcpy(copy, at, sizeof(uint64_t));
    memcpy(copy + sizeof(uint64_t), at + sizeof(tni_pk_slot), stamps);
    const uint64_t hash = XXH3_64bits(copy, sizeof(uint64_t) + stamps);
    memcpy(at + offsetof(tni_pk_slot, hash), &hash, sizeof hash);
    free(copy);
  }
}

/* From the inside out, as each is part of what the next one sums. */
static size_t right_head(uint32_t flags) {
  tni_pk_header h;
  memcpy(&h, bad, sizeof h);
  const size_t n = flags & CUT ? n_good - TNI_PK_ALIGN : n_good;
  if (flags & LENGTH) h.file_bytes = n;
  if (flags & SUMS) right_sums(&h, n);
  if (flags & SLOTS) right_slots(&h, n);
  if (flags & TABLE && h.segments_at <= h.stamps_at[0] && h.stamps_at[0] <= n)
    h.table_hash = XXH3_64bits(bad + h.segments_at, h.stamps_at[0] - h.segments_at);
  if (flags & HEADER) h.header_hash = XXH3_64bits(&h, offsetof(tni_pk_header, header_hash));
  memcpy(bad, &h, sizeof h);
  return n;
}

static void look_at(tni_pack_store *s) {
  tn_error err;
  uint64_t sum = 0;
  tn_error_init(&err);
  for (uint32_t i = 0; i < N_ITEMS; i++) {
    const tn_blob *b = tni_pack_store_blob(s, i);
    uint64_t bytes;
    if (tni_pack_bytes(&items[i], &bytes, &err) != TN_OK || b->bytes != bytes || !b->ptr)
      fz_finding("blob %u has %llu bytes", i, (unsigned long long)b->bytes);
    sum += XXH3_64bits(b->ptr, b->bytes);
  }
  fz_failure(tni_pack_store_check(s, &err), &err);
  __asm__ volatile("" : : "r"(sum)); /* the bytes were read */
}

/* One edit: where (in words of 4 bytes), what, and up to 8 bytes. Copies make equal keys and segments that overlap. */
static void edit_head(fz_bytes *in, size_t head) {
  const uint32_t words = (uint32_t)(head / 4);
  const size_t at = (size_t)fz_below(in, words) * 4;
  const uint8_t what = fz_u8(in);
  const size_t width = (size_t)1 << (what & 3);
  uint8_t value[8] = {0};
  if (at + width > head) return;
  if ((what >> 2 & 3) == 3) {
    const size_t from = (size_t)fz_below(in, words) * 4, n = (size_t)fz_u8(in);
    const size_t room = head - (from > at ? from : at);
    memmove(bad + at, bad + from, n < room ? n : room);
    return;
  }
  for (size_t i = 0; i < width; i++) value[i] = fz_u8(in);
  if ((what >> 2 & 3) == 0) {
    memcpy(bad + at, value, width);
    return;
  }
  uint64_t now = 0, by;
  memcpy(&now, bad + at, width);
  memcpy(&by, value, sizeof by);
  now = what >> 2 & 1 ? now + by : now ^ by;
  memcpy(bad + at, &now, width);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  fz_bytes in = {data, n};
  tni_pack_store *s;
  tni_pk_header h;
  start();
  const uint32_t flags = fz_u8(&in);
  memcpy(bad, good, n_good);
  memcpy(&h, good, sizeof h);
  const size_t head = h.stamps_at[1] + sizeof(tni_pk_slot) + h.n_stamps * sizeof(tni_pk_stamp);
  while (in.n) edit_head(&in, head);
  const size_t n_bad = right_head(flags);
  (void)unlink(path);
  const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  if (fd < 0 || write(fd, bad, n_bad) != (ssize_t)n_bad) fz_finding("%s cannot be written", path);
  close(fd);
  fz_clock_start(NULL, NULL);
  for (int k = 0; k < 2; k++) { /* what is made in place of a damaged file is there for the second */
    if (open_store(flags, &s) != TN_OK) continue;
    look_at(s);
    tni_pack_store_close(s);
  }
  fz_clock_stop();
  return 0;
}
