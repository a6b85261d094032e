/* SPDX-License-Identifier: Apache-2.0 */
#include "plugins/common/base/mem.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

typedef struct mem_block {
  struct mem_block *next;
  uint8_t pad[56]; /* what follows is 64-byte aligned */
} mem_block;
_Static_assert(sizeof(mem_block) == 64, "block header keeps alignment");

void *tni_cm_new(tni_cm_mem *m, size_t count, size_t size) {
  size_t bytes;
  if (__builtin_mul_overflow(count, size, &bytes) || __builtin_add_overflow(bytes, sizeof(mem_block), &bytes))
    return NULL;
  mem_block *b = m->host->alloc(m->host->ctx, bytes, 64, TN_TAG_PLUGIN);
  if (!b) return NULL;
  memset(b, 0, bytes);
  b->next = m->blocks;
  m->blocks = b;
  return b + 1;
}

char *tni_cm_text(tni_cm_mem *m, const char *prefix, const char *text) {
  size_t a = strlen(prefix), b = text ? strlen(text) : 0;
  char *s = tni_cm_new(m, 1, a + b + 1);
  if (!s) return NULL;
  memcpy(s, prefix, a);
  if (b) memcpy(s + a, text, b);
  return s;
}

void tni_cm_free(tni_cm_mem *m) {
  /* A block may hold *m itself. */
  const tn_host *host = m->host;
  mem_block *b = m->blocks;
  while (b) {
    mem_block *next = b->next;
    host->free(host->ctx, b);
    b = next;
  }
}

tn_status tni_cm_fail(tn_error *err, tn_status st, const char *where, const char *fmt, ...) {
  if (!err || !TN_HAS(err, tn_error, message)) return st;
  err->code = st;
  va_list ap;
  va_start(ap, fmt);
  const int n = vsnprintf(err->message, sizeof err->message, fmt, ap);
  va_end(ap);
  if (n >= (int)sizeof err->message) memcpy(err->message + sizeof err->message - 4, "...", 4); /* it was cut */
  if (TN_HAS(err, tn_error, where)) snprintf(err->where, sizeof err->where, "%s", where ? where : "");
  return st;
}
