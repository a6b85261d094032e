/* SPDX-License-Identifier: Apache-2.0
 *
 * Zeroed pieces of host memory that are freed together. One thread.
 */
#ifndef TENON_COMMON_BASE_MEM_H
#define TENON_COMMON_BASE_MEM_H

#include <tenon/plugin.h>

typedef struct tni_cm_mem {
  const tn_host *host;
  void *blocks; /* chained */
} tni_cm_mem;

/* count * size zeroed bytes, 64-byte aligned; NULL without memory or on overflow. */
void *tni_cm_new(tni_cm_mem *m, size_t count, size_t size);
/* A copy of text, or "" for NULL; NULL without memory. */
char *tni_cm_text(tni_cm_mem *m, const char *prefix, const char *text);
void tni_cm_free(tni_cm_mem *m);

/* Sets an error, whatever it was: where and message by printf; returns st. err may be NULL. */
tn_status tni_cm_fail(tn_error *err, tn_status st, const char *where, const char *fmt, ...) TN_PRINTF(4, 5);

#endif
