/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/report/statement.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/graph/graph.h"
#include "runtime/memory/memory.h"
#include "runtime/place/place.h"
#include "runtime/session/session.h"

/* What sessions and a tokenizer add to what loading left in memory: views, plans and arguments mirror tasks and
 * operands of the graph; code that loading did not run (measured: docs/memory.md). */
enum { ANONYMOUS_FACTOR = 3, FILE_FACTOR = 2, HASH_CHUNK = 16 << 20 };

/* --- the process ------------------------------------------------------------------------------------------------- */

/* First number after "Key:" in /proc/self/status, in bytes; 0 where there is none. */
static uint64_t status_bytes(const char *text, const char *key) {
  const char *at = strstr(text, key);
  return at ? strtoull(at + strlen(key), NULL, 10) * 1024 : 0;
}

/* Constants in memory of ours: folded, or moved for their alignment when they were imported. */
static uint64_t copied_bytes(const tn_model *m) {
  uint64_t n = 0;
  for (uint32_t i = 0; i < m->graph->n_values; i++) {
    const tni_value *v = tni_graph_value(m->graph, i);
    const bool floats = v->tensor && (v->tensor->data || !v->tensor->quantized);
    if (floats && !tni_is_mapped(m, v->tensor)) n += v->tensor->bytes;
  }
  return n;
}

static void add_process(const tn_model *m, tni_statement *s) {
  char text[4096];
  FILE *f = fopen("/proc/self/status", "re");
  size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;
  if (f) fclose(f);
  text[n] = '\0';
  const uint64_t anonymous = status_bytes(text, "RssAnon:"), copied = copied_bytes(m);
  s->base_anonymous = copied + ANONYMOUS_FACTOR * (anonymous > copied ? anonymous - copied : 0);
  s->base_file = FILE_FACTOR * (status_bytes(text, "RssFile:") + status_bytes(text, "RssShmem:"));
  s->loading = status_bytes(text, "VmHWM:");
}

/* --- weights ----------------------------------------------------------------------------------------------------- */

static void add_packed(const tn_model *m, tni_statement *s) {
  uint64_t most = (uint64_t)tni_pool_workers(m->rt->pool) * HASH_CHUNK;
  for (uint32_t d = 0; m->packed && d < m->rt->n_devs; d++)
    for (uint32_t i = 0; i < m->packed[d].n_items; i++) {
      const tni_pack_item *it = m->packed[d].items[i];
      uint64_t bytes = 0, raw = 0;
      if (tni_pack_bytes(it, &bytes, NULL) != TN_OK) continue;
      for (uint32_t k = 0; k < it->n_parts; k++) raw += it->sources[k].bytes;
      s->packed += bytes;
      if (tni_packed_on_disk(m, d, i)) s->on_disk += bytes;
      if (raw + bytes > most) most = raw + bytes;
    }
  s->packing = most;
}

/* What a program of a plugin cannot read as it lies is copied (attach.c). */
static bool is_moved(const tni_program *p, const tn_need *n, const tni_tensor *t) {
  if (n->residency == TN_RESIDENCY_DEVICE && p->dev->device->create) return !tni_devconst_imports(p->dev, t->data);
  bool moved = false;
  for (uint32_t i = 0; !p->dev->is_host && t->bytes && i < p->info->n_slots; i++) {
    const tn_slot *s = p->info->slots[i];
    moved = moved || (s->kind == TN_SLOT_WEIGHT && p->info->needs[s->need] == n && (uintptr_t)t->data % tni_constant_align(s));
  }
  return moved;
}

/* Codes of v are counted already: a table and its transpose are the same halves. */
static bool is_counted(const tn_model *m, tn_id v, const uint8_t *seen) {
  const uint8_t *codes = tni_graph_value(m->graph, v)->tensor->quantized->codes;
  for (uint32_t i = 0; i < m->graph->n_values; i++) {
    const tni_tensor *t = tni_graph_value(m->graph, i)->tensor;
    if (seen[i] && i != v && t && t->quantized && t->quantized->codes == codes) return true;
  }
  return false;
}

static void add_constants(const tn_model *m, const int64_t *context, const int64_t *step, tni_statement *s) {
  uint8_t *seen = calloc((size_t)m->graph->n_values + 1, 1);
  if (!seen) tni_json_lacked(); /* the report ends with it */
  for (uint32_t e = 0; seen && e < m->n_execs; e++)
    for (uint32_t p = 0; p < m->execs[e].n_programs; p++)
      for (uint32_t k = 0; k < m->execs[e].programs[p].info->n_needs; k++) {
        const tn_need *n = m->execs[e].programs[p].info->needs[k];
        const tn_id v = n->values[0];
        if (n->format || (m->execs[e].programs[p].dev->is_host && tni_embedding_is_packed(m, v))) continue;
        const tni_tensor *t = tni_graph_value(m->graph, v)->tensor;
        if (is_moved(&m->execs[e].programs[p], n, t)) s->buffers += t->bytes;
        if (!seen[v] && t->quantized && !t->data && !is_counted(m, v, seen))
          s->weights += tni_is_table(m, v) ? tni_table_bytes(m, v, context, step) : tni_quantized_bytes(t->quantized);
        if (!seen[v] && tni_is_mapped(m, t))
          s->weights += tni_is_table(m, v) ? tni_table_bytes(m, v, context, step) : t->bytes;
        seen[v] = 1;
      }
  free(seen);
}

/* --- what a session holds ---------------------------------------------------------------------------------------- */

/* Inputs that are no past, at dims. */
static uint64_t input_bytes(const tn_model *m, const int64_t *dims, uint32_t n) {
  uint64_t total = 0;
  for (uint32_t i = 0; i < m->graph->n_inputs; i++) {
    const tni_value *v = tni_graph_value(m->graph, m->graph->inputs[i]);
    int64_t d[TN_MAX_RANK], count;
    uint64_t bytes;
    const bool kept = m->roles.kinds[i] == TNI_IN_CACHED || m->roles.kinds[i] == TNI_IN_STATE;
    bool ok = !kept && v->pub.rank <= TN_MAX_RANK;
    for (uint32_t a = 0; ok && a < v->pub.rank; a++)
      ok = tni_ex_eval(m->graph->exprs, v->pub.dims[a], dims, n, &d[a]) == TN_OK;
    if (ok && tni_dims_count(d, v->pub.rank, &count) == TN_OK && tni_dtype_bytes(v->pub.dtype, count, &bytes) == TN_OK)
      total += bytes;
  }
  return total;
}

/* What the caller of a model without kept caches holds: past inputs, old and new. */
static uint64_t user_kv(const tn_model *m, const int64_t *dims, uint32_t n) {
  uint64_t total = 0;
  for (uint32_t i = 0; i < m->graph->n_inputs; i++) {
    const tni_value *v = tni_graph_value(m->graph, m->graph->inputs[i]);
    int64_t d[TN_MAX_RANK], count;
    uint64_t bytes;
    bool ok = strstr(v->pub.name, "past") && v->pub.rank <= TN_MAX_RANK;
    for (uint32_t a = 0; ok && a < v->pub.rank; a++)
      ok = tni_ex_eval(m->graph->exprs, v->pub.dims[a], dims, n, &d[a]) == TN_OK;
    if (ok && tni_dims_count(d, v->pub.rank, &count) == TN_OK && tni_dtype_bytes(v->pub.dtype, count, &bytes) == TN_OK)
      total += 2 * bytes;
  }
  return total;
}

static tn_status kv_bytes(const tn_model *m, const int64_t *dims, uint32_t n, tni_statement *s, tn_error *err) {
  if (!m->roles.why_not) {
    const tn_status st = tni_states_bytes(m, dims, tni_limit_capacity(m), tni_limit_step(m), &s->kv, err);
    s->kv += tni_fixed_bytes(m, dims, n);
    return st;
  }
  uint64_t bytes = user_kv(m, dims, n);
  if (bytes > s->kv) s->kv = bytes;
  return TN_OK;
}

/* One placement: room for the largest step and for one position, as far as it runs them. */
static tn_status add_exec(tn_model *m, tni_exec *x, const int64_t *const both[2], tni_statement *s, tn_error *err) {
  uint64_t arena = 0, outputs = 0, scratch = 0, bound[2] = {0};
  const int64_t *dims[2];
  const bool one = tni_exec_takes(m, x, 1);
  uint32_t n = 0;
  if (x->phase != TN_PHASE_DECODE || m->roles.why_not) dims[n++] = both[0];
  if (one || !n) dims[n++] = both[1];
  tn_status st = tni_memory_measure(m, x, dims, n, &arena, &outputs, &scratch, err);
  for (uint32_t i = 0; st == TN_OK && i < n; i++) st = tni_exec_bound(m, x, dims[i], &bound[i], err);
  const uint32_t pieces = tni_pieces_most(m, x, tni_limit_longest(m), arena + outputs);
  s->arena += pieces * arena;
  s->outputs += pieces * outputs;
  s->bound += pieces * bound[bound[1] > bound[0]];
  if (scratch > s->scratch) s->scratch = scratch;
  return st;
}

static void add_up(const tn_model *m, tni_statement *s) {
  const bool mapped = m->rt->cache_dir && *m->rt->cache_dir;
  add_process(m, s);
  s->anonymous = s->kv + s->arena + s->outputs + s->buffers + s->base_anonymous + (mapped ? 0 : s->packed);
  s->file = s->weights + s->base_file + (mapped ? s->packed - s->on_disk : 0);
  s->packing += s->base_anonymous + s->base_file;
  s->total = s->anonymous + s->file;
  if (s->packing > s->total) s->total = s->packing;
  if (s->loading > s->total) s->total = s->loading;
}

tn_status tni_statement_make(tn_model *m, tni_statement *out, tn_error *err) {
  const uint32_t n = tni_ex_n_symbols(m->graph->exprs);
  tni_statement s = {.n_dims = n, .dims = calloc((size_t)n + 1, sizeof(int64_t))};
  int64_t *one = calloc((size_t)n + 1, sizeof *one), *all = calloc((size_t)n + 1, sizeof *all);
  tn_status st = s.dims && one && all ? TN_OK : tni_fail_memory(err, m->path);
  for (uint32_t e = 0; st == TN_OK && e < m->n_execs; e++)
    if (!m->execs[e].tasks && m->execs[e].view.n_nodes)
      st = tni_fail(err, TN_E_UNSUPPORTED, m->path, "some nodes have no device");
  if (st == TN_OK) st = tni_limit_dims(m, false, s.dims, err);
  if (st == TN_OK) st = tni_limit_dims(m, true, one, err);
  if (st == TN_OK) st = tni_limit_context(m, all, err);
  if (st == TN_OK) st = kv_bytes(m, s.dims, n, &s, err);
  if (st == TN_OK) st = kv_bytes(m, one, n, &s, err);
  for (uint32_t e = 0; st == TN_OK && e < m->n_execs; e++)
    st = add_exec(m, &m->execs[e], (const int64_t *const[]){s.dims, one}, &s, err);
  if (st == TN_OK) {
    s.buffers += input_bytes(m, s.dims, n);
    add_constants(m, all, s.dims, &s);
    add_packed(m, &s);
    add_up(m, &s);
  }
  free(one);
  free(all);
  if (st == TN_OK)
    *out = s;
  else
    free(s.dims);
  return st;
}
