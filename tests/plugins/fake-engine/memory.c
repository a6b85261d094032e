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
  *b = (fake_buffer){.pub = {.h = TN_HDR(tn_buffer), .device = pub, .bytes = req->bytes}, .bytes = bytes};
  *out = &b->pub;
  return TN_OK;
}

void fake_destroy(tn_buffer *pub) {
  if (!pub) return;
  fake_buffer *b = (fake_buffer *)pub;
  const tn_host *h = host_of(b);
  h->free(h->ctx, b->mapped);
  h->free(h->ctx, b->bytes);
  h->free(h->ctx, b);
}

tn_status fake_map(tn_buffer *pub, uint64_t offset, uint64_t n, uint32_t access, void **ptr, tn_error *err) {
  fake_buffer *b = (fake_buffer *)pub;
  const tn_host *h = host_of(b);
  fake_engine_drain((fake_device *)pub->device);
  if (b->mapped) return fake_fail(err, TN_E_INVALID, "the buffer is mapped already");
  if (offset > pub->bytes || n > pub->bytes - offset)
    return fake_fail(err, TN_E_INVALID, "map of %llu bytes at %llu in a buffer of %llu", (unsigned long long)n,
                     (unsigned long long)offset, (unsigned long long)pub->bytes);
  unsigned char *m = h->alloc(h->ctx, n ? n : 1, 64, TN_TAG_PLUGIN);
  if (!m) return fake_fail(err, TN_E_NO_MEMORY, "no memory to map %llu bytes", (unsigned long long)n);
  /* What only will be written is not read: its old content is not promised. */
  for (uint64_t i = 0; i < n; i++) m[i] = (access & TN_READ) ? b->bytes[offset + i] ^ FAKE_KEY : 0xdd;
  b->mapped = m;
  b->map_offset = offset;
  b->map_bytes = n;
  b->map_access = access;
  *ptr = m;
  return TN_OK;
}

tn_status fake_unmap(tn_buffer *pub, void *ptr, tn_error *err) {
  fake_buffer *b = (fake_buffer *)pub;
  const tn_host *h = host_of(b);
  if (!b->mapped || ptr != b->mapped) return fake_fail(err, TN_E_INVALID, "unmap of a pointer that map did not give");
  if (b->map_access & (TN_WRITE | TN_APPEND))
    for (uint64_t i = 0; i < b->map_bytes; i++) b->bytes[b->map_offset + i] = b->mapped[i] ^ FAKE_KEY;
  h->free(h->ctx, b->mapped);
  b->mapped = NULL;
  return TN_OK;
}
