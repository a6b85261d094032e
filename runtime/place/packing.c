/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/place/packing.h"

#include <malloc.h>
#include <stdlib.h>
#include <string.h>

/* The item of an equal need made before, or TN_NONE. Constants are compared by value id. */
static uint32_t find_item(const tni_packed *p, const tni_need *const *needs, const tn_need *n) {
  for (uint32_t i = 0; i < p->n_items; i++) {
    const tn_need *o = needs[i]->need;
    if (o->format == n->format && o->flags == n->flags && o->n_values == n->n_values && o->n_params == n->n_params &&
        memcmp(o->values, n->values, n->n_values * sizeof *n->values) == 0 &&
        (n->n_params == 0 || memcmp(o->params, n->params, n->n_params * sizeof *n->params) == 0))
      return i;
  }
  return TN_NONE;
}

static tn_status make_item(tn_model *m, const tni_need *need, const tni_pack_item **out, tn_error *err) {
  const tn_need *n = need->need;
  tni_pack_item *it = TNI_NEW(m->arena, tni_pack_item);
  tni_pack_source *src = TNI_NEW_ARRAY(m->arena, tni_pack_source, n->n_values);
  if (!it || !src) return tni_fail_memory(err, m->path);
  for (uint32_t i = 0; i < n->n_values; i++) tni_packed_source(m, n->values[i], &src[i]);
  *it = (tni_pack_item){.format = n->format,
                        .params = n->params,
                        .n_params = n->n_params,
                        .weight = &need->joined,
                        .sources = src,
                        .parts = need->parts,
                        .n_parts = n->n_values,
                        .name = tni_graph_value(m->graph, n->values[0])->pub.name};
  *out = it;
  return TN_OK;
}

static tn_status collect_needs(tn_model *m, uint32_t dev, const tni_need **needs, tn_error *err) {
  tni_packed *p = &m->packed[dev];
  for (uint32_t x = 0; x < m->n_execs; x++) {
    for (uint32_t i = 0; i < m->execs[x].n_programs; i++) {
      tni_program *prog = &m->execs[x].programs[i];
      for (uint32_t k = 0; prog->cluster->device == dev && k < prog->info->n_needs; k++) {
        tni_need *n = &prog->needs[k];
        if (!n->need->format) continue;
        n->blob = find_item(p, needs, n->need);
        if (n->blob != TN_NONE) continue;
        tn_status st = make_item(m, n, &p->items[p->n_items], err);
        if (st != TN_OK) return st;
        needs[p->n_items] = n;
        n->blob = p->n_items++;
      }
    }
  }
  return TN_OK;
}

tn_status tni_packed_collect(tn_model *m, tn_error *err) {
  uint32_t total = 0;
  for (uint32_t x = 0; x < m->n_execs; x++)
    for (uint32_t i = 0; i < m->execs[x].n_programs; i++) total += m->execs[x].programs[i].info->n_needs;
  m->packed = TNI_NEW_ARRAY(m->arena, tni_packed, m->rt->n_devs);
  const tni_need **needs = TNI_NEW_ARRAY(m->arena, const tni_need *, total);
  if (!m->packed || !needs) return tni_fail_memory(err, m->path);
  for (uint32_t d = 0; d < m->rt->n_devs; d++) {
    m->packed[d] = (tni_packed){.dev = &m->rt->devs[d], .items = TNI_NEW_ARRAY(m->arena, const tni_pack_item *, total)};
    if (!m->packed[d].items) return tni_fail_memory(err, m->path);
    tn_status st = collect_needs(m, d, needs, err);
    if (st != TN_OK) return st;
  }
  return TN_OK;
}

bool tni_packed_on_disk(const tn_model *m, uint32_t dev, uint32_t item) {
  bool any = false;
  for (uint32_t x = 0; x < m->n_execs; x++)
    for (uint32_t p = 0; p < m->execs[x].n_programs; p++) {
      const tni_program *prog = &m->execs[x].programs[p];
      for (uint32_t k = 0; prog->cluster->device == dev && k < prog->info->n_needs; k++) {
        if (!prog->needs[k].need->format || prog->needs[k].blob != item) continue;
        if (prog->needs[k].need->residency != TN_RESIDENCY_DISK) return false;
        any = true;
      }
    }
  return any;
}

/* Where the model's file lies, whatever links lead to it: a hub's cache has the files of all revisions under names of
 * their contents, and links. Names in a bundle must not depend on where it was made. NULL: without memory. */
static const char *store_path(tn_model *m) {
  char *real = m->rt->portable || m->rt->sealed ? NULL : realpath(m->path, NULL);
  const char *path = real ? tni_arena_strdup(m->arena, real) : m->path;
  free(real);
  return path;
}

/* "FOLDER/model.onnx", for people: folders have equal names too. */
static const char *store_name(const char *path) {
  const char *start = strrchr(path, '/');
  while (start && start > path && start[-1] != '/') start--;
  return start && *start != '/' ? start : path;
}

static void log_store(const tn_model *m, const tni_packed *p) {
  const tni_pack_stats *s = tni_pack_store_stats(p->store);
  tni_log_line(&m->rt->log, TN_LOG_INFO, "%s: packed %llu matrices (%.1f MB) in %.2f s, mapped %llu (%.1f MB) of %s",
               p->dev->name, (unsigned long long)s->packed_segments, (double)s->packed_bytes / 1e6,
               (double)s->pack_ns / 1e9, (unsigned long long)s->mapped_segments, (double)s->mapped_bytes / 1e6,
               s->cached ? s->path : "memory");
}

static bool files_unchanged(void *user) { return tni_files_check(user, TNI_WATCH_ALL, NULL) == TN_OK; }

tn_status tni_packed_open(tn_model *m, tn_error *err) {
  tn_runtime *rt = m->rt;
  const char *path = store_path(m);
  for (uint32_t d = 0; path && d < rt->n_devs; d++) {
    tni_packed *p = &m->packed[d];
    if (!p->n_items) continue;
    tni_pack_opts o = {.dir = rt->cache_dir,
                       .model_name = store_name(path),
                       .model_path = rt->portable || rt->sealed ? NULL : path,
                       .device_name = p->dev->name,
                       .max_bytes = rt->profile->cache_max_bytes,
                       .host = p->dev->host,
                       .pool = rt->pool,
                       .log = &rt->log,
                       .portable = rt->portable,
                       .sealed = rt->sealed,
                       .progress = rt->progress,
                       .progress_user = rt->progress_user,
                       .cancel = &rt->cancel,
                       .copy = rt->profile->copy_files,
                       .unchanged = files_unchanged,
                       .unchanged_user = m};
    tn_status st = tni_pack_store_open(&o, p->items, p->n_items, &p->store, err);
    if (st != TN_OK) return st;
    log_store(m, p);
#ifdef __GLIBC__
    if (tni_pack_store_stats(p->store)->packed_segments)
      (void)malloc_trim(0); /* what packing had, the session may have */
#endif
  }
  return path ? TN_OK : tni_fail_memory(err, m->path);
}

tn_status tni_files_check(const tn_model *m, uint32_t what, tn_error *err) {
  tn_status st = TN_OK;
  for (uint32_t i = 0; st == TN_OK && m->import && i < m->import->n_files; i++)
    st = tni_file_check(&m->import->files[i], m->import->paths[i], what, err);
  for (uint32_t d = 0; st == TN_OK && m->packed && d < m->rt->n_devs; d++)
    if (m->packed[d].store) st = tni_pack_store_check(m->packed[d].store, err);
  return st;
}

void tni_packed_close(tn_model *m) {
  for (uint32_t d = 0; m->packed && d < m->rt->n_devs; d++)
    if (m->packed[d].store) tni_pack_store_close(m->packed[d].store);
}
