/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory past the first 4 GiB of a buffer: offsets and sizes have 64 bits.
 */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "runtime/conform/edges/parts.h"

static const uint64_t LOW = UINT64_C(1) << 32;
enum { ROWS = 5, PIECE = 4096, MOST_GRAPHS = 6 };

/* Why a device need not have a buffer so large; NULL: no reason is known. */
static const char *too_large(const tn_caps *c, uint64_t bytes) {
  if (c->max_buffer_bytes && c->max_buffer_bytes < bytes) return "caps->max_buffer_bytes is less than 4 GiB and a bit";
  if (c->memory_bytes && c->memory_bytes < bytes) return "caps->memory_bytes is less than 4 GiB and a bit";
  return NULL;
}

/* Every piece has a pattern of its own, so that two that are one memory show. */
static void mark(uint8_t *p, uint64_t n, unsigned times) {
  for (uint64_t i = 0; i < n; i++) p[i] = (uint8_t)(i * times + times);
}
static bool marked(const uint8_t *p, uint64_t n, unsigned times) {
  for (uint64_t i = 0; i < n; i++)
    if (p[i] != (uint8_t)(i * times + times)) return false;
  return true;
}

static uint8_t *map_at(tni_cf *cf, tni_cf_host *h, tn_buffer *b, uint64_t at, uint64_t n, uint32_t access) {
  void *p = NULL;
  tni_error_init(&h->err);
  if (h->device->map(b, at, n, access, &p, &h->err) == TN_OK && p) return p;
  tni_cf_fail(cf, "map of %llu bytes at %llu, in a buffer of %llu bytes: %s", (unsigned long long)n,
              (unsigned long long)at, (unsigned long long)b->bytes, h->err.message);
  return NULL;
}

static void wrong_range(tni_cf *cf, tni_cf_host *h, tn_buffer *b, uint64_t at, uint64_t n) {
  void *p = NULL;
  tni_error_init(&h->err);
  if (h->device->map(b, at, n, TN_READ, &p, &h->err) != TN_OK) return;
  tni_cf_fail(cf,
              "map of %llu bytes at %llu is not refused, and the buffer has %llu: ranges are compared in 64 bits "
              "(plugin.h, map)",
              (unsigned long long)n, (unsigned long long)at, (unsigned long long)b->bytes);
  if (p) (void)h->device->unmap(b, p, &h->err);
}

static void pieces(tni_cf *cf, tni_cf_host *h, tn_buffer *b) {
  const uint64_t at[] = {0, PIECE, LOW / 2, LOW - PIECE / 2, LOW + PIECE, b->bytes - PIECE};
  const size_t n = sizeof at / sizeof *at;
  for (size_t i = 0; i < n; i++) {
    uint8_t *p = map_at(cf, h, b, at[i], PIECE, TN_WRITE);
    if (!p) return;
    mark(p, PIECE, 2 * (unsigned)i + 3);
    if (h->device->unmap(b, p, &h->err) != TN_OK) tni_cf_fail(cf, "unmap: %s", h->err.message);
  }
  for (size_t i = 0; i < n; i++) {
    uint8_t *p = map_at(cf, h, b, at[i], PIECE, TN_READ);
    if (!p) return;
    if (!marked(p, PIECE, 2 * (unsigned)i + 3))
      tni_cf_fail(cf, "bytes %llu to %llu of a buffer of %llu do not hold what was written there: offsets have 64 bits",
                  (unsigned long long)at[i], (unsigned long long)(at[i] + PIECE), (unsigned long long)b->bytes);
    if (h->device->unmap(b, p, &h->err) != TN_OK) tni_cf_fail(cf, "unmap: %s", h->err.message);
  }
  wrong_range(cf, h, b, b->bytes - PIECE, 2 * PIECE);
  wrong_range(cf, h, b, PIECE, b->bytes);
  wrong_range(cf, h, b, b->bytes + LOW, PIECE);
  wrong_range(cf, h, b, 0, b->bytes + LOW);
}

/* The host's address space, of which a few pages are touched. */
static void import_pointer(tni_cf *cf, tni_cf_host *h) {
  const uint64_t bytes = LOW + (UINT64_C(1) << 20);
  if (!(h->caps->import_kinds & 1u << TN_MEM_HOST_PTR)) return;
  uint8_t *mine = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mine == MAP_FAILED) return;
  const tn_buffer_req req = {.h = TN_HDR(tn_buffer_req),
                             .bytes = bytes,
                             .fd = -1,
                             .kind = TN_MEM_HOST_PTR,
                             .ptr = mine,
                             .usage = 1u << TN_SLOT_WEIGHT,
                             .flags = TN_BUF_HOST,
                             .align = 4096};
  tn_buffer *b = NULL;
  mark(mine + LOW + PIECE, PIECE, 5);
  mark(mine + PIECE, PIECE, 7);
  tni_error_init(&h->err);
  if (h->device->create(h->device, &req, &b, &h->err) == TN_OK && b) {
    if (b->bytes < bytes)
      tni_cf_fail(cf, "%llu bytes of the host's are imported, and the buffer says %llu", (unsigned long long)bytes,
                  (unsigned long long)b->bytes);
    uint8_t *p = map_at(cf, h, b, LOW + PIECE, PIECE, TN_READ);
    if (p && !marked(p, PIECE, 5))
      tni_cf_fail(cf, "imported memory does not hold, past 4 GiB, what the host has there");
    if (p) (void)h->device->unmap(b, p, &h->err);
    h->device->destroy(b);
  } else {
    tni_cf_note(cf, "4 GiB of the host's are not imported: %s", h->err.message);
  }
  (void)munmap(mine, bytes);
}

/* A file that is longer than what was written of it. */
static void import_file(tni_cf *cf, tni_cf_host *h) {
  uint8_t bytes[2 * PIECE];
  if (!(h->caps->import_kinds & 1u << TN_MEM_FD)) return;
  const int fd = memfd_create("tenon-conform", MFD_CLOEXEC);
  if (fd < 0) return;
  tn_buffer *b = NULL;
  const tn_buffer_req req = {.h = TN_HDR(tn_buffer_req),
                             .bytes = sizeof bytes,
                             .offset = LOW + 16 * PIECE,
                             .fd = fd,
                             .kind = TN_MEM_FD,
                             .usage = 1u << TN_SLOT_INPUT,
                             .flags = TN_BUF_HOST,
                             .align = 64};
  mark(bytes, sizeof bytes, 11);
  const bool ok = ftruncate(fd, (off_t)(LOW + 32 * PIECE)) == 0 &&
                  pwrite(fd, bytes, sizeof bytes, (off_t)req.offset) == (ssize_t)sizeof bytes;
  tni_error_init(&h->err);
  if (ok && h->device->create(h->device, &req, &b, &h->err) == TN_OK && b) {
    uint8_t *p = map_at(cf, h, b, 0, sizeof bytes, TN_READ);
    if (p && !marked(p, sizeof bytes, 11))
      tni_cf_fail(cf, "a file imported from byte %llu on does not hold what stands there", (unsigned long long)req.offset);
    if (p) (void)h->device->unmap(b, p, &h->err);
    h->device->destroy(b);
  } else if (ok) {
    tni_cf_note(cf, "a file is not imported from byte %llu on: %s", (unsigned long long)req.offset, h->err.message);
  }
  close(fd);
}

static void ask_buffers(tni_cf *cf, const void *arg) {
  tni_cf_host h;
  (void)arg;
  if (!tni_cf_host_open(cf, &h, NULL)) return;
  if (!h.device->create) {
    tni_cf_skip(cf, "its memory is the host's");
  } else if (too_large(h.caps, LOW + (1 << 26))) {
    tni_cf_skip(cf, "%s", too_large(h.caps, LOW + (1 << 26)));
  } else if (!tni_cf_host_far(&h)) {
    if (!h.err.message[0]) tni_cf_fail(cf, "a buffer of 4 GiB and a bit is refused without a text");
    tni_cf_skip(cf, "no buffer of 4 GiB and a bit: %s", h.err.message);
  } else {
    if (h.far.buffer->bytes < h.far.end)
      tni_cf_fail(cf, "a buffer of %llu bytes was asked for, and it says %llu", (unsigned long long)h.far.end,
                  (unsigned long long)h.far.buffer->bytes);
    else
      pieces(cf, &h, h.far.buffer);
    import_pointer(cf, &h);
    import_file(cf, &h);
  }
  tni_cf_host_close(cf, &h);
}

/* --- views past 4 GiB ------------------------------------------------------------------------------------------ */

static void far_graph(tni_cf *cf, tni_cf_host *h, const tni_cf_claimed *c) {
  tni_cf_rig rig;
  void *want[TNI_CN_MAX_OUT] = {NULL};
  const tni_cf_far far = h->far;
  for (int pass = 0; pass < 2; pass++) {
    tni_cf_rng r = tni_cf_rng_of(cf, 1);
    h->far.buffer = pass ? far.buffer : NULL;
    const bool ok = tni_cf_rig_claim(&rig, h, tni_cf_graph_find(c->graph), c->phase, &r) &&
                    tni_cf_rig_prepare(&rig, ROWS, &r) && tni_cf_rig_run(&rig, 0x5b, TNI_CF_EVEN);
    if (!ok)
      tni_cf_fail(cf, "%s%s: %s", c->graph, pass ? ", with memory past 4 GiB of a buffer" : "", rig.why);
    else if (!pass && !tni_cf_rig_keep(&rig, cf->arena, want))
      tni_cf_fail(cf, "no memory");
    else if (pass && !tni_cf_rig_same(&rig, want))
      tni_cf_fail(cf,
                  "%s: other results where the memory of its slots lies past the first 4 GiB of a buffer: offsets "
                  "of views have 64 bits (plugin.h, tn_view)",
                  c->graph);
    tni_cf_rig_finish(&rig);
    if (!ok) break;
  }
  h->far = far;
}

static void ask_views(tni_cf *cf, const void *arg) {
  tni_cf_host h;
  const tni_cf_claimed *c;
  (void)arg;
  if (!tni_cf_edge_taken(cf->listing, 0)) {
    tni_cf_skip(cf, "none of the graphs was claimed");
    return;
  }
  if (!tni_cf_host_open(cf, &h, NULL)) return;
  if (!h.device->create)
    tni_cf_skip(cf, "its memory is the host's");
  else if (too_large(h.caps, LOW + (1 << 26)) || !tni_cf_host_far(&h))
    tni_cf_skip(cf, "no buffer of 4 GiB and a bit");
  for (uint32_t i = 0; h.far.buffer && i < MOST_GRAPHS && (c = tni_cf_edge_taken(cf->listing, i)); i++)
    if (cf->verdict == TNI_CF_PASS) far_graph(cf, &h, c);
  tni_cf_host_close(cf, &h);
}

void tni_cf_edge_far_cases(const tni_cf_listing *l, tni_cf_add add, void *ctx) {
  (void)l;
  add(ctx, &(tni_cf_case){"sizes/buffers", TNI_CF_LEVEL_ALL & ~TNI_CF_LEVEL_ABI, 0, ask_buffers, NULL, 0});
  add(ctx, &(tni_cf_case){"sizes/views", TNI_CF_LEVEL_ALL & ~TNI_CF_LEVEL_ABI, 0, ask_views, NULL, 60000});
}
