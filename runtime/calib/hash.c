/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

#include "runtime/calib/calib.h"
#include "runtime/graph/graph.h"

enum { WHOLE_BYTES = 64 * 1024, PAGE_BYTES = 4096, PAGES = 16 };

static void to_hex(XXH128_hash_t h, char hex[TNI_CALIB_HEX + 1]) {
  snprintf(hex, TNI_CALIB_HEX + 1, "%016llx%016llx", (unsigned long long)h.high64, (unsigned long long)h.low64);
}

void tni_calib_text_hash(const void *p, size_t n, char hex[TNI_CALIB_HEX + 1]) {
  to_hex(XXH3_128bits(n ? p : "", n), hex);
}

static void feed_u64(XXH3_state_t *h, uint64_t v) { XXH3_128bits_update(h, &v, sizeof v); }

static void feed_text(XXH3_state_t *h, const char *s) {
  feed_u64(h, strlen(s));
  if (*s) XXH3_128bits_update(h, s, strlen(s));
}

static void feed_content(XXH3_state_t *h, const tni_tensor *t) {
  const tni_quantized *q = t->quantized;
  const uint8_t *p = q ? q->codes : t->data;
  const uint64_t bytes = q ? (uint64_t)q->N * (uint64_t)q->row_bytes : t->bytes;
  feed_u64(h, bytes);
  if (t->dtype == TN_DT_STRING || !bytes) return; /* the graph's own hash has dtype and dims */
  if (bytes <= WHOLE_BYTES) {
    XXH3_128bits_update(h, p, bytes);
    return;
  }
  const uint64_t last = bytes - PAGE_BYTES;
  for (uint64_t i = 0; i < PAGES; i++)
    XXH3_128bits_update(h, p + last / (PAGES - 1) * i + last % (PAGES - 1) * i / (PAGES - 1), PAGE_BYTES);
}

tn_status tni_calib_model_hash(const tni_graph *g, char hex[TNI_CALIB_HEX + 1], tn_error *err) {
  uint8_t graph[32];
  XXH3_state_t *h = XXH3_createState();
  tn_status st = h ? tni_graph_hash(g, TN_PHASE_ANY, graph) : TN_E_NO_MEMORY;
  if (st != TN_OK) {
    XXH3_freeState(h);
    return tni_fail_memory(err, g->name);
  }
  XXH3_128bits_reset(h);
  XXH3_128bits_update(h, graph, sizeof graph);
  for (tn_id i = 0; i < g->n_values; i++) {
    const tni_value *v = tni_graph_value(g, i);
    if (!v->tensor) continue;
    feed_text(h, v->pub.name);
    feed_content(h, v->tensor);
  }
  to_hex(XXH3_128bits_digest(h), hex);
  XXH3_freeState(h);
  return TN_OK;
}
