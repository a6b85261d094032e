/* SPDX-License-Identifier: Apache-2.0
 *
 * `inspect`: how caches lie and whose memory they are, and what is carried between devices that share none.
 */
#include <stdio.h>

#include "runtime/report/report_caches.h"

#include "runtime/memory/memory.h"

static void cache_owners(const tn_model *m, const tni_mem_homes *h, char *text, size_t n) {
  size_t at = 0;
  for (uint32_t i = 0; i < h->n && at < n; i++)
    at += (size_t)snprintf(text + at, n - at, "%s%s", i ? ", " : "",
                           h->v[i].owner == TN_NONE ? "host" : m->rt->devs[h->v[i].owner].name);
}

/* Consecutive caches that lie alike are one entry. */
static void add_cache(json_t *list, const char *layout, const char *homes, bool carried) {
  json_t *last = json_array_get(list, json_array_size(list) ? json_array_size(list) - 1 : 0);
  if (last && strcmp(json_string_value(json_object_get(last, "layout")), layout) == 0 &&
      strcmp(json_string_value(json_object_get(last, "memory_of")), homes) == 0) {
    json_object_set_new(last, "caches", json_integer(json_integer_value(json_object_get(last, "caches")) + 1));
    return;
  }
  json_array_append_new(list, json_pack("{s:s, s:s, s:i, s:b}", "layout", layout, "memory_of", homes, "caches", 1,
                                        "copied_when_handed_over", carried));
}

json_t *tni_caches_json(const tn_model *m) {
  json_t *list = json_array();
  for (uint32_t k = 0; m->state_layouts && m->state_users && k < m->graph->n_states; k++) {
    char layout[96], homes[160] = "";
    const tn_layout *l = &m->state_layouts[k];
    tni_mem_homes h;
    if (tni_mem_place(m->rt->devs, m->state_users[k], &h, NULL) != TN_OK) continue;
    tni_layout_print(l, layout, sizeof layout);
    cache_owners(m, &h, homes, sizeof homes);
    add_cache(list, layout, homes, h.n > 1);
  }
  return list;
}

json_t *tni_carried_json(const tn_model *m) {
  json_t *list = json_array();
  for (uint32_t e = 0; e < m->n_execs; e++)
    for (uint32_t i = 0; m->execs[e].blocks && i < m->execs[e].n_regions; i++) {
      const tni_region *r = &m->execs[e].regions[i];
      if (r->block == TN_NONE || m->execs[e].blocks[r->block].n_homes < 2) continue;
      json_array_append_new(
          list, json_string(r->value == TN_NONE ? "temporary" : tni_graph_value(m->graph, r->value)->pub.name));
    }
  return list;
}
