/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "fake.h"

static const tn_host *host_of(const fake_buffer *b) { return ((const fake_device *)b->pub.device)->host; }

tn_status fake_create(tn_device *pub, const tn_buffer_req *req, tn_buffer **out, tn_error *err) {
  fake_device *d = (fake_device *)pub;
  const tn_host *h = d->host;
  if (req->kind != TN_MEM_NEW) return fake_fail(err, TN_E_UNSUPPORTED, "fake-engine imports no memory");
  fake_buffer *b = h->alloc(h->ctx, sizeof *b, 16, TN_TAG_PLUGIN);
  unsigned char *bytes = b ? h->alloc(h->ctx, req->bytes ? req->bytes : 1, 64, TN_TAG_PLUGIN) : NULL;
  if (!bytes) {
    h->free(h->ctx, b);
    return fake_fail(err, TN_E_NO_MEMORY, "no device memory for %llu bytes", (unsigned long long)req->bytes);
  }
  memset(bytes, (req->flags & TN_BUF_ZERO) ? FAKE_KEY : 0xee, req->bytes);
  *b = (fake_buffer){.pub = {.h = TN_HDR(tn_buffer), .device = pub, .bytes = req->bytes},
                     .bytes = bytes,
                     .host = req->flags & TN_BUF_HOST};
  *out = &b->pub;
  return TN_OK;
}

/* Kept for the next map: who still reads it finds no numbers, and steps allocate nothing. */
static void put_aside(fake_buffer *b, fake_mapping *m) {
  memset(m->shadow, 0xdd, m->room);
  m->next = b->spare;
  b->spare = m;
}

static fake_mapping *take_mapping(fake_buffer *b, uint64_t n) {
  const tn_host *h = host_of(b);
  fake_mapping **at = &b->spare;
  while (*at && (*at)->room < n) at = &(*at)->next;
  fake_mapping *m = *at;
  if (m) {
    *at = m->next;
    return m;
  }
  m = h->alloc(h->ctx, sizeof *m, 16, TN_TAG_PLUGIN);
  unsigned char *shadow = m ? h->alloc(h->ctx, n ? n : 1, 64, TN_TAG_PLUGIN) : NULL;
  if (shadow) {
    *m = (fake_mapping){.shadow = shadow, .room = n};
    return m;
  }
  h->free(h->ctx, m);
  return NULL;
}

void fake_destroy(tn_buffer *pub) {
  if (!pub) return;
  fake_buffer *b = (fake_buffer *)pub;
  const tn_host *h = host_of(b);
  while (b->mapped) {
    fake_mapping *m = b->mapped;
    b->mapped = m->next;
    put_aside(b, m);
  }
  while (b->spare) {
    fake_mapping *m = b->spare;
    b->spare = m->next;
    h->free(h->ctx, m->shadow);
    h->free(h->ctx, m);
  }
  h->free(h->ctx, b->bytes);
  h->free(h->ctx, b);
}

bool fake_is_mapped(const fake_buffer *b, uint64_t offset, uint64_t n) {
  for (const fake_mapping *m = b->mapped; m; m = m->next)
    if (m->offset < offset + n && offset < m->offset + m->bytes) return true;
  return false;
}

tn_status fake_map(tn_buffer *pub, uint64_t offset, uint64_t n, uint32_t access, void **ptr, tn_error *err) {
  fake_buffer *b = (fake_buffer *)pub;
  fake_engine_drain((fake_device *)pub->device);
  if (!b->host) return fake_fail(err, TN_E_INVALID, "the buffer was made without TN_BUF_HOST");
  if (offset > pub->bytes || n > pub->bytes - offset)
    return fake_fail(err, TN_E_INVALID, "map of %llu bytes at %llu in a buffer of %llu", (unsigned long long)n,
                     (unsigned long long)offset, (unsigned long long)pub->bytes);
  fake_device *d = (fake_device *)pub->device;
  pthread_mutex_lock(&d->memory);
  const bool taken = fake_is_mapped(b, offset, n);
  fake_mapping *m = taken ? NULL : take_mapping(b, n);
  pthread_mutex_unlock(&d->memory);
  if (taken) return fake_fail(err, TN_E_INVALID, "the range is mapped already");
  if (!m) return fake_fail(err, TN_E_NO_MEMORY, "no memory to map %llu bytes", (unsigned long long)n);
  unsigned char *shadow = m->shadow;
  /* What only will be written is not read: its old content is not promised. */
  for (uint64_t i = 0; i < n; i++) shadow[i] = (access & TN_READ) ? b->bytes[offset + i] ^ FAKE_KEY : 0xdd;
  pthread_mutex_lock(&d->memory);
  m->next = b->mapped;
  m->offset = offset;
  m->bytes = n;
  m->access = access;
  b->mapped = m;
  pthread_mutex_unlock(&d->memory);
  *ptr = shadow;
  return TN_OK;
}

tn_status fake_unmap(tn_buffer *pub, void *ptr, tn_error *err) {
  fake_buffer *b = (fake_buffer *)pub;
  fake_device *d = (fake_device *)pub->device;
  fake_mapping **at = &b->mapped;
  pthread_mutex_lock(&d->memory);
  while (*at && (*at)->shadow != ptr) at = &(*at)->next;
  fake_mapping *m = *at;
  if (m && (m->access & (TN_WRITE | TN_APPEND)))
    for (uint64_t i = 0; i < m->bytes; i++) b->bytes[m->offset + i] = m->shadow[i] ^ FAKE_KEY;
  if (m) {
    *at = m->next;
    put_aside(b, m);
  }
  pthread_mutex_unlock(&d->memory);
  return m ? TN_OK : fake_fail(err, TN_E_INVALID, "unmap of a pointer that map did not give");
}
