/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory that one device makes and another one has too (tn_device.share, create): here the other is the same device of a
 * second host. The calls are those of the real host (runtime/memory/devmem.c), and so is their order: what was imported
 * ends before what it was imported from.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "runtime/conform/drive/drive.h"
#include "runtime/conform/life/life.h"

enum { BYTES = 5 * 4096, ROUNDS = 4 };

static const struct {
  uint32_t kind;
  const char *name;
  bool pointer;
} kinds[] = {{TN_MEM_FD, "FD", false},
             {TN_MEM_DMABUF, "DMABUF", false},
             {TN_MEM_AHB, "AHB", true},
             {TN_MEM_HOST_PTR, "HOST_PTR", true}};
enum { N_KINDS = sizeof kinds / sizeof *kinds };

/* --- one buffer --------------------------------------------------------------------------------------------------- */

static tn_buffer *make(tni_cf *cf, tni_cf_host *h, const char *what, tn_buffer_req req) {
  tn_buffer *b = NULL;
  req.h = (tn_hdr)TN_HDR(tn_buffer_req);
  req.bytes = BYTES;
  req.usage = 1u << TN_SLOT_INPUT | 1u << TN_SLOT_OUTPUT;
  req.flags = TN_BUF_HOST;
  req.align = h->caps->align ? h->caps->align : 1;
  tni_error_init(&h->err);
  const tn_status st = h->device->create(h->device, &req, &b, &h->err);
  if (st == TN_OK && b) return b;
  tni_cf_fail(cf, "create, %s: %s", what, h->err.message);
  return NULL;
}

static uint8_t *look(tni_cf *cf, tni_cf_host *h, tn_buffer *b, uint32_t access) {
  void *p = NULL;
  tni_error_init(&h->err);
  if (h->device->map(b, 0, BYTES, access, &p, &h->err) == TN_OK && p) return p;
  tni_cf_fail(cf, "map of shared memory: %s", h->err.message);
  return NULL;
}

static void look_away(tni_cf *cf, tni_cf_host *h, tn_buffer *b, uint8_t *p) {
  tni_error_init(&h->err);
  if (p && h->device->unmap(b, p, &h->err) != TN_OK) tni_cf_fail(cf, "unmap of shared memory: %s", h->err.message);
}

static uint8_t pattern(uint64_t i, unsigned seed) { return (uint8_t)(i * (2 * seed + 1) + i / 256 + seed); }

static void put(tni_cf *cf, tni_cf_host *h, tn_buffer *b, unsigned seed) {
  uint8_t *p = look(cf, h, b, TN_WRITE);
  for (uint64_t i = 0; p && i < BYTES; i++) p[i] = pattern(i, seed);
  look_away(cf, h, b, p);
}

static void is(tni_cf *cf, const uint8_t *p, unsigned seed, const char *kind, const char *what) {
  for (uint64_t i = 0; p && i < BYTES; i++)
    if (p[i] != pattern(i, seed)) {
      tni_cf_fail(cf, "memory shared as %s: byte %llu is not what was written: %s", kind, (unsigned long long)i, what);
      return;
    }
}

static void must_hold(tni_cf *cf, tni_cf_host *h, tn_buffer *b, unsigned seed, const char *kind, const char *what) {
  uint8_t *p = look(cf, h, b, TN_READ);
  is(cf, p, seed, kind, what);
  look_away(cf, h, b, p);
}

/* --- sharing ------------------------------------------------------------------------------------------------------ */

/* What share gives of b; false: a finding. */
static bool give(tni_cf *cf, tni_cf_host *h, tn_buffer *b, uint32_t k, tn_buffer_req *got) {
  *got = (tn_buffer_req){.h = TN_HDR(tn_buffer_req), .fd = -1};
  tni_error_init(&h->err);
  const tn_status st = h->device->share(b, kinds[k].kind, got, &h->err);
  if (st != TN_OK)
    tni_cf_fail(cf, "share as %s, which is among export_kinds: %s", kinds[k].name, h->err.message);
  else if (kinds[k].pointer ? !got->ptr : got->fd < 0)
    tni_cf_fail(cf, "share as %s says OK and gives %s", kinds[k].name, kinds[k].pointer ? "no pointer" : "no descriptor");
  else
    return true;
  return false;
}

/* The caller's descriptor is there after create, and is closed here. */
static void close_given(tni_cf *cf, const tn_buffer_req *got) {
  if (got->fd < 0) return;
  if (fcntl(got->fd, F_GETFD) < 0)
    tni_cf_fail(cf, "create closes the descriptor that it imports, which stays the caller's (plugin.h, create)");
  else
    close(got->fd);
}

static tn_buffer *take(tni_cf *cf, tni_cf_host *h, uint32_t k, const tn_buffer_req *got) {
  tn_buffer_req req = {.fd = -1, .kind = kinds[k].kind};
  if (kinds[k].pointer)
    req.ptr = got->ptr;
  else
    req.fd = got->fd;
  if (kinds[k].kind != TN_MEM_HOST_PTR) req.offset = got->offset;
  if (kinds[k].kind == TN_MEM_DMABUF) req.modifier = got->modifier;
  tn_buffer *b = make(cf, h, "of what the same device of another host shares", req);
  close_given(cf, got);
  return b;
}

/* One writes, the other reads, both ways; then one import ends, and another one and the owner go on. */
static void exchange(tni_cf *cf, tni_cf_host *h, uint32_t k, unsigned seed) {
  tn_buffer_req got;
  const char *name = kinds[k].name;
  tn_buffer *a = make(cf, &h[0], "to be shared", (tn_buffer_req){.fd = -1, .kind = TN_MEM_NEW}), *b = NULL, *c = NULL;
  if (!a) return;
  put(cf, &h[0], a, seed);
  if (give(cf, &h[0], a, k, &got)) b = take(cf, &h[1], k, &got);
  if (b) must_hold(cf, &h[1], b, seed, name, "what the owner had written before");
  if (b) put(cf, &h[0], a, seed + 1), must_hold(cf, &h[1], b, seed + 1, name, "the owner wrote, who imports it reads");
  if (b) put(cf, &h[1], b, seed + 2), must_hold(cf, &h[0], a, seed + 2, name, "who imports it wrote, the owner reads");
  if (b && give(cf, &h[0], a, k, &got)) c = take(cf, &h[1], k, &got);
  if (c) must_hold(cf, &h[1], c, seed + 2, name, "a second import");
  fprintf(stderr, "destroy of memory imported as %s\n", name);
  if (b) h[1].device->destroy(b);
  if (c) put(cf, &h[0], a, seed + 3), must_hold(cf, &h[1], c, seed + 3, name, "once one of two imports was destroyed");
  if (c) h[1].device->destroy(c);
  if (b) must_hold(cf, &h[0], a, c ? seed + 3 : seed + 2, name, "once all imports were destroyed, the owner reads");
  h[0].device->destroy(a);
}

/* A descriptor is mapped by the host too (FD), where somebody imports pointers alone. */
static void by_the_host(tni_cf *cf, tni_cf_host *h) {
  tn_buffer_req got;
  tn_buffer *a = make(cf, h, "to be shared", (tn_buffer_req){.fd = -1, .kind = TN_MEM_NEW});
  if (!a) return;
  put(cf, h, a, 11);
  if (give(cf, h, a, 0, &got)) {
    uint8_t *p = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, got.fd, (off_t)got.offset);
    if (p == MAP_FAILED) {
      tni_cf_fail(cf, "what share gives as FD cannot be mapped");
    } else {
      is(cf, p, 11, "FD", "the owner wrote, the host reads in a mapping of the descriptor");
      munmap(p, BYTES);
    }
    close(got.fd);
  }
  h->device->destroy(a);
}

/* A kind that is not among export_kinds. */
static void wrong_kind(tni_cf *cf, tni_cf_host *h) {
  tn_buffer_req got = {.h = TN_HDR(tn_buffer_req), .fd = -1};
  uint32_t k = 0;
  while (k < N_KINDS && h->caps->export_kinds >> kinds[k].kind & 1) k++;
  tn_buffer *a = k < N_KINDS ? make(cf, h, "to be shared", (tn_buffer_req){.fd = -1, .kind = TN_MEM_NEW}) : NULL;
  if (!a) return;
  tni_error_init(&h->err);
  const tn_status st = h->device->share(a, kinds[k].kind, &got, &h->err);
  if (st == TN_OK)
    tni_cf_fail(cf, "share as %s, which is not among export_kinds: it says OK", kinds[k].name);
  else if (!h->err.message[0])
    tni_cf_fail(cf, "share as %s is refused (%s) without a text", kinds[k].name, tni_status_name(st));
  h->device->destroy(a);
}

/* --- the case ----------------------------------------------------------------------------------------------------- */

static int descriptors(void) {
  DIR *d = opendir("/proc/self/fd");
  int n = 0;
  while (d && readdir(d)) n++;
  if (d) closedir(d);
  return n;
}

static void all_kinds(tni_cf *cf, tni_cf_host *h, char *asked, size_t room) {
  const uint32_t out = h[0].caps->export_kinds, both = out & h[1].caps->import_kinds;
  int before = 0;
  *asked = '\0';
  for (int round = 0; round < ROUNDS && cf->verdict == TNI_CF_PASS; round++) {
    for (uint32_t k = 0; k < N_KINDS; k++)
      if (both >> kinds[k].kind & 1) exchange(cf, h, k, (unsigned)(16 * round) + k);
    if (out >> TN_MEM_FD & 1) by_the_host(cf, &h[0]);
    if (round == 1) before = descriptors();
  }
  if (cf->verdict == TNI_CF_PASS && descriptors() > before)
    tni_cf_fail(cf, "descriptors are left behind by shared memory: %d after %d rounds", descriptors() - before, ROUNDS - 2);
  for (uint32_t k = 0; k < N_KINDS; k++)
    if (both >> kinds[k].kind & 1) {
      const size_t at = strlen(asked);
      snprintf(asked + at, room - at, "%s%s", at ? ", " : "", kinds[k].name);
    }
}

static void ask_shared(tni_cf *cf, const void *arg) {
  tni_cf_host *h = calloc(2, sizeof *h);
  char asked[64];
  (void)arg;
  const bool first = h && tni_cf_host_open(cf, &h[0], NULL), second = first && tni_cf_host_open(cf, &h[1], NULL);
  if (second && !h[0].device->create) {
    tni_cf_skip(cf, "its memory is the host's");
  } else if (second && (!h[0].device->share || !h[0].caps->export_kinds)) {
    tni_cf_skip(cf, "it shares no memory (export_kinds)");
  } else if (second) {
    all_kinds(cf, h, asked, sizeof asked);
    wrong_kind(cf, &h[0]);
    if (*asked)
      tni_cf_note(cf, "shared with itself as %s", asked);
    else if (cf->verdict == TNI_CF_PASS && !(h[0].caps->export_kinds >> TN_MEM_FD & 1))
      tni_cf_skip(cf, "it imports no memory of the kinds that it shares");
    else
      tni_cf_note(cf, "it imports no memory of the kinds that it shares: only the host looked at it");
  }
  if (second) tni_cf_host_close(cf, &h[1]);
  if (first) tni_cf_host_close(cf, &h[0]);
  free(h);
}

void tni_cf_memory_shared_cases(const tni_cf_listing *l, tni_cf_add add, void *ctx) {
  (void)l;
  add(ctx, &(tni_cf_case){"memory/shared", TNI_CF_LEVEL_ALL, 0, ask_shared, NULL, 0});
}
