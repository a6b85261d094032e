/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/memory/devmem.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "runtime/base/base.h"
#include "runtime/place/place.h"
#include "runtime/plugin/process/process.h"

enum { PAGE = 4096, HUGE_PAGE = 1 << 21 };
enum {
  HOST_NONE,
  HOST_HEAP,
  HOST_MAPPED,
  HOST_DEVICE,
  HOST_SLAB,
  HOST_SHARED
}; /* what host[] is: DEVICE is a map() that stays */

#define KIND(k) (1u << (k))

static uint64_t round_up(uint64_t n, uint64_t to) { return (n + to - 1) / to * to; }

/* --- homes ------------------------------------------------------------------------------------------------------- */

static const tn_caps *caps_of(const tni_dev *devs, uint32_t d) { return devs[d].device->caps; }

/* What a home made by `owner` can be reached by. A descriptor can be mapped by the host, and then it is a pointer. */
static uint32_t exported_kinds(const tni_dev *devs, uint32_t owner) {
  if (owner == TN_NONE) return KIND(TN_MEM_FD) | KIND(TN_MEM_HOST_PTR);
  const uint32_t kinds = devs[owner].device->share ? caps_of(devs, owner)->export_kinds : 0;
  return kinds & KIND(TN_MEM_FD) ? kinds | KIND(TN_MEM_HOST_PTR) : kinds;
}

/* Told by a pointer, not by a descriptor. */
static bool is_pointer(uint32_t kind) { return kind == TN_MEM_HOST_PTR || kind == TN_MEM_AHB; }

/* How device d imports what owner made; TN_MEM_NEW: it cannot. */
static uint32_t import_kind(const tni_dev *devs, uint32_t d, uint32_t owner) {
  static const uint32_t order[] = {TN_MEM_FD, TN_MEM_DMABUF, TN_MEM_AHB, TN_MEM_HOST_PTR};
  const uint32_t both = exported_kinds(devs, owner) & caps_of(devs, d)->import_kinds;
  for (size_t i = 0; i < sizeof order / sizeof *order; i++)
    if (both & KIND(order[i])) return order[i];
  return TN_MEM_NEW;
}

static bool imports_anything(const tni_dev *devs, uint32_t d) {
  return caps_of(devs, d)->import_kinds &
         (KIND(TN_MEM_FD) | KIND(TN_MEM_DMABUF) | KIND(TN_MEM_AHB) | KIND(TN_MEM_HOST_PTR));
}

/* Those of `who` that can use what owner makes, itself included. */
static uint64_t reached_by(const tni_dev *devs, uint32_t owner, uint64_t who) {
  uint64_t can = 0;
  for (uint32_t d = 0; d < TNI_MEM_DEVICES; d++)
    if (who >> d & 1 && (d == owner || import_kind(devs, d, owner) != TN_MEM_NEW)) can |= 1ull << d;
  return can;
}

/* Who should make memory for `who`: that reaches most of them; devices that import nothing first, the host last. */
static tni_mem_home best_home(const tni_dev *devs, uint64_t who) {
  tni_mem_home best = {.owner = TN_NONE};
  for (int pass = 0; pass < 2; pass++)
    for (uint32_t d = 0; d < TNI_MEM_DEVICES; d++) {
      if (!(who >> d & 1) || imports_anything(devs, d) != (pass == 1)) continue;
      const uint64_t can = reached_by(devs, d, who);
      if (__builtin_popcountll(can) > __builtin_popcountll(best.devices)) best = (tni_mem_home){can, d, 0};
    }
  const uint64_t can = reached_by(devs, TN_NONE, who);
  if (__builtin_popcountll(can) > __builtin_popcountll(best.devices)) best = (tni_mem_home){can, TN_NONE, 0};
  return best;
}

tn_status tni_mem_place(const tni_dev *devs, tni_mem_users users, tni_mem_homes *out, tn_error *err) {
  uint64_t left = users.devices;
  *out = (tni_mem_homes){.n = 0};
  if (__builtin_popcountll(left) > TNI_MEM_PARTS)
    return tni_fail(err, TN_E_UNSUPPORTED, NULL, "engines of %d devices share one memory, at most %d can",
                    __builtin_popcountll(left), TNI_MEM_PARTS);
  if (!left) out->v[out->n++] = (tni_mem_home){.owner = TN_NONE};
  while (left) {
    const tni_mem_home h = best_home(devs, left);
    out->v[out->n++] = h;
    left &= ~h.devices;
  }
  return TN_OK;
}

/* --- life -------------------------------------------------------------------------------------------------------- */

static tn_status no_memory(const tni_dev *d, const tni_mem_spec *spec, tn_status st, tn_error *err) {
  return tni_fail(err, st, d ? d->name : "host", "cannot allocate %llu bytes for %s", (unsigned long long)spec->bytes,
                  spec->what);
}

/* What is large is read from end to end: fewer, larger pages. A wish, which takes no more memory. Zeroed by the system,
 * each page by the thread that first comes to it; NULL without memory. Freed by munmap(p, bytes). */
static void *large_pages(uint64_t align, uint64_t bytes) {
  const uint64_t unit = align < HUGE_PAGE ? HUGE_PAGE : align;
  if (bytes > SIZE_MAX - unit) return NULL;
  char *room = mmap(NULL, bytes + unit, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (room == MAP_FAILED) return NULL;
  char *at = (char *)round_up((uintptr_t)room, unit);
  char *end = at + round_up(bytes, (uint64_t)sysconf(_SC_PAGESIZE));
  if (at > room) (void)munmap(room, (size_t)(at - room));
  if (end < room + bytes + unit) (void)munmap(end, (size_t)(room + bytes + unit - end));
  (void)!madvise(at, bytes & ~(uint64_t)(HUGE_PAGE - 1), MADV_HUGEPAGE);
  return at;
}

uint64_t tni_slab_bytes(uint64_t bytes) { return round_up(bytes ? bytes : 1, PAGE); }

static void touch_pages(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  volatile char *base = arg;
  (void)worker;
  for (int64_t i = begin; i < end; i++) base[i * HUGE_PAGE] = 0;
}

tni_slab *tni_slab_create(uint64_t bytes, tni_pool *pool) {
  tni_slab *s = bytes >= HUGE_PAGE && bytes < INT64_MAX ? malloc(sizeof *s) : NULL;
  if (!s) return NULL;
  bytes = tni_slab_bytes(bytes);
  *s = (tni_slab){.base = large_pages(0, bytes), .bytes = bytes, .users = 1};
  if (!s->base) {
    free(s);
    return NULL;
  }
  /* Guards and the first step come to nearly all large pages, and one thread would clear most of them. */
  if (pool) tni_pool_for(pool, (int64_t)(bytes / HUGE_PAGE), 1, touch_pages, s->base);
  return s;
}

void tni_slab_drop(tni_slab *s) {
  if (!s || --s->users) return;
  (void)munmap(s->base, s->bytes);
  free(s);
}

/* NULL: no room. Nobody had it before: it is zeroed. */
static void *from_slab(tni_slab *s, uint64_t bytes) {
  if (!s || s->bytes - s->used < bytes) return NULL;
  void *p = s->base + s->used;
  s->used += bytes;
  s->users++;
  return p;
}

/* What plugins in processes of their own see too: zeroed as it comes, on a page. */
static tn_status shared_memory(tni_mem *m, uint32_t h, const tni_mem_spec *spec, uint64_t bytes, int *fd,
                               tn_error *err) {
  tni_shm_at at;
  m->shm = spec->shm;
  m->host[h] = tni_shm_alloc(m->shm, bytes);
  if (!m->host[h]) return no_memory(NULL, spec, TN_E_NO_MEMORY, err);
  m->host_bytes[h] = bytes;
  m->host_kind[h] = HOST_SHARED;
  if (spec->zero) memset(m->host[h], 0, bytes); /* and made */
  if (fd && tni_shm_find(m->shm, m->host[h], bytes, &at)) *fd = fcntl(at.fd, F_DUPFD_CLOEXEC, 0);
  return fd && *fd < 0 ? no_memory(NULL, spec, TN_E_NO_MEMORY, err) : TN_OK;
}

/* Memory of the host's own. shared: with a descriptor that others can map. */
static tn_status host_memory(tni_mem *m, uint32_t h, const tni_mem_spec *spec, uint64_t align, int *fd, tn_error *err) {
  uint64_t bytes = round_up(m->bytes, align);
  uint8_t kind = HOST_HEAP;
  void *p;
  if (spec->shm && align == PAGE) return shared_memory(m, h, spec, bytes, fd, err);
  if (fd) {
    *fd = memfd_create("tenon", MFD_CLOEXEC);
    if (*fd < 0 || ftruncate(*fd, (off_t)bytes) != 0) return no_memory(NULL, spec, TN_E_NO_MEMORY, err);
    p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
    if (p == MAP_FAILED) return no_memory(NULL, spec, TN_E_NO_MEMORY, err);
    kind = HOST_MAPPED;
  } else if (align == PAGE && !m->slab && (p = from_slab(spec->slab, bytes))) {
    m->slab = spec->slab;
    kind = HOST_SLAB;
  } else if (spec->zero && bytes >= HUGE_PAGE) {
    p = large_pages(align, bytes);
    kind = HOST_MAPPED;
  } else {
    p = aligned_alloc(align, bytes);
    if (p && spec->zero) memset(p, 0, bytes);
  }
  if (!p) return no_memory(NULL, spec, TN_E_NO_MEMORY, err);
  m->host[h] = p;
  m->host_bytes[h] = bytes;
  m->host_kind[h] = kind;
  return TN_OK;
}

static tn_status create_buffer(tni_mem *m, uint32_t h, uint32_t d, tn_buffer_req *req, const tni_mem_spec *spec,
                               tn_error *err) {
  const tni_dev *dev = &m->devs[d];
  tni_mem_part *p = &m->parts[m->n_parts];
  *p = (tni_mem_part){.dev = d, .home = h};
  req->h = (tn_hdr)TN_HDR(tn_buffer_req);
  req->bytes = m->bytes;
  req->usage = spec->usage;
  req->align = spec->align;
  const tn_status st = tni_dev_create(dev, req, &p->buffer, err);
  if (st != TN_OK) {
    no_memory(dev, spec, st, err);
    tni_error_prefix(err, "plugin '%s': %s", dev->name, spec->what);
    return st;
  }
  m->n_parts++;
  if (req->kind != TN_MEM_NEW) {
    m->counts->imports++;
    return TN_OK;
  }
  m->counts->buffers++;
  m->counts->bytes += m->bytes;
  return TN_OK;
}

/* What the owner of home h gives of its memory as `kind`. fd: to be closed, or -1. */
static tn_status share_buffer(tni_mem *m, uint32_t h, uint32_t kind, tn_buffer_req *out, tn_error *err) {
  uint32_t i = 0;
  while (m->parts[i].home != h) i++;
  const tni_mem_part *p = &m->parts[i];
  const tni_dev *dev = &m->devs[p->dev];
  *out = (tn_buffer_req){.h = TN_HDR(tn_buffer_req), .fd = -1};
  tn_status st = tni_dev_share(dev, p->buffer, kind, out, err);
  const bool empty = is_pointer(kind) ? !out->ptr : out->fd < 0;
  if (st == TN_OK && empty) st = tni_fail(err, TN_E_INTERNAL, dev->name, "it gave nothing");
  if (st == TN_OK) return TN_OK;
  tni_fail(err, st, dev->name, "no reason given");
  tni_error_prefix(err, "plugin '%s' does not share its memory", dev->name);
  return st;
}

/* The host's own mapping of what the owner gives as a descriptor. */
static tn_status map_shared(tni_mem *m, uint32_t h, tn_error *err) {
  tn_buffer_req got;
  tn_status st = share_buffer(m, h, TN_MEM_FD, &got, err);
  if (st != TN_OK) return st;
  void *p = mmap(NULL, m->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, got.fd, (off_t)got.offset);
  close(got.fd);
  if (p == MAP_FAILED)
    return tni_fail(err, TN_E_NO_MEMORY, NULL, "cannot map %llu shared bytes", (unsigned long long)m->bytes);
  m->host[h] = p;
  m->host_bytes[h] = m->bytes;
  m->host_kind[h] = HOST_MAPPED;
  return TN_OK;
}

static tn_status import_buffer(tni_mem *m, uint32_t h, uint32_t d, int fd, const tni_mem_spec *spec, tn_error *err) {
  const uint32_t owner = m->homes.v[h].owner, kind = import_kind(m->devs, d, owner);
  tn_buffer_req req = {.kind = kind, .fd = -1, .flags = TN_BUF_HOST};
  tn_status st = TN_OK;
  if (owner == TN_NONE) {
    req.fd = kind == TN_MEM_FD ? fd : -1;
    req.ptr = kind == TN_MEM_HOST_PTR ? m->host[h] : NULL;
    return create_buffer(m, h, d, &req, spec, err);
  }
  tn_buffer_req got = {.fd = -1};
  if (kind == TN_MEM_HOST_PTR && !(caps_of(m->devs, owner)->export_kinds & KIND(TN_MEM_HOST_PTR))) {
    if (!m->host[h]) st = map_shared(m, h, err);
    got.ptr = m->host[h];
  } else {
    st = share_buffer(m, h, kind, &got, err);
  }
  if (st != TN_OK) return st;
  req.fd = is_pointer(kind) ? -1 : got.fd;
  req.ptr = is_pointer(kind) ? got.ptr : NULL;
  req.offset = kind == TN_MEM_HOST_PTR ? 0 : got.offset;
  req.modifier = kind == TN_MEM_DMABUF ? got.modifier : 0;
  st = create_buffer(m, h, d, &req, spec, err);
  if (got.fd >= 0) close(got.fd);
  return st;
}

static tn_status make_home(tni_mem *m, uint32_t h, const tni_mem_spec *spec, tn_error *err) {
  const tni_mem_home *home = &m->homes.v[h];
  const bool others = home->devices != (home->owner == TN_NONE ? 0 : 1ull << home->owner);
  uint64_t align = spec->align > PAGE ? spec->align : PAGE;
  bool wants_fd = false;
  int fd = -1;
  tn_status st;
  for (uint32_t d = 0; d < TNI_MEM_DEVICES; d++) {
    if (!(home->devices >> d & 1) || d == home->owner) continue;
    wants_fd = wants_fd || import_kind(m->devs, d, home->owner) == TN_MEM_FD;
    if (caps_of(m->devs, d)->import_align > align) align = caps_of(m->devs, d)->import_align;
  }
  if (home->owner == TN_NONE) {
    st = host_memory(m, h, spec, align, wants_fd ? &fd : NULL, err);
  } else {
    /* The CPU carries what lies in several homes from one to the other. */
    const bool host = spec->users.cpu || others || m->homes.n > 1 || spec->watched;
    tn_buffer_req req = {.fd = -1, .flags = (spec->zero ? TN_BUF_ZERO : 0) | (host ? TN_BUF_HOST : 0)};
    st = create_buffer(m, h, home->owner, &req, spec, err);
  }
  for (uint32_t d = 0; st == TN_OK && d < TNI_MEM_DEVICES; d++)
    if (home->devices >> d & 1 && d != home->owner) st = import_buffer(m, h, d, fd, spec, err);
  if (fd >= 0) close(fd);
  return st;
}

/* The CPU may use a home at any time where no device has a part in it, or all parts are coherent. */
static tn_status open_home(tni_mem *m, uint32_t h, bool cpu, tn_error *err) {
  bool coherent = true;
  const tni_mem_part *owner = NULL;
  for (uint32_t i = 0; i < m->n_parts; i++) {
    if (m->parts[i].home != h) continue;
    coherent = coherent && m->parts[i].buffer->flags & TN_BUF_COHERENT;
    if (m->parts[i].dev == m->homes.v[h].owner) owner = &m->parts[i];
  }
  if (!coherent || (owner && !cpu)) return TN_OK;
  if (!m->host[h]) {
    tn_status st = tni_mem_map(m, owner, 0, m->bytes, TN_READ | TN_WRITE, &m->host[h], err);
    if (st != TN_OK) return st;
    m->host_kind[h] = HOST_DEVICE;
  }
  m->open[h] = true;
  return TN_OK;
}

tn_status tni_mem_create(const tni_dev *devs, const tni_mem_spec *spec, tni_mem_counts *counts, tni_mem *out,
                         tn_error *err) {
  *out = (tni_mem){.devs = devs, .counts = counts, .bytes = round_up(spec->bytes ? spec->bytes : 1, PAGE)};
  if (spec->bytes > INT64_MAX) return no_memory(NULL, spec, TN_E_LIMIT, err);
  tn_status st = tni_mem_place(devs, spec->users, &out->homes, err);
  for (uint32_t h = 0; st == TN_OK && h < out->homes.n; h++) st = make_home(out, h, spec, err);
  const bool cpu = spec->users.cpu || out->homes.n > 1;
  for (uint32_t h = 0; st == TN_OK && h < out->homes.n; h++) st = open_home(out, h, cpu, err);
  return st;
}

void tni_mem_destroy(tni_mem *m) {
  while (m->mapped) (void)!tni_span_release(m->mapped, NULL); /* of a lost device too: it is in the list no more */
  for (uint32_t h = 0; h < m->homes.n; h++)
    for (uint32_t i = 0; m->host_kind[h] == HOST_DEVICE && i < m->n_parts; i++)
      if (m->parts[i].home == h && m->parts[i].dev == m->homes.v[h].owner)
        (void)!tni_mem_unmap(m, &m->parts[i], m->host[h], NULL);
  for (uint32_t i = m->n_parts; i-- > 0;) {
    tni_dev_destroy(&m->devs[m->parts[i].dev], m->parts[i].buffer);
  }
  for (uint32_t h = 0; h < m->homes.n; h++) {
    if (m->host_kind[h] == HOST_HEAP) free(m->host[h]);
    if (m->host_kind[h] == HOST_SHARED) tni_shm_free(m->shm, m->host[h]);
    if (m->host_kind[h] == HOST_MAPPED) munmap(m->host[h], m->host_bytes[h]);
  }
  tni_slab_drop(m->slab);
  *m = (tni_mem){.n_parts = 0};
}
