/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/place/layouts.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "runtime/base/base.h"
#include "runtime/graph/graph.h"
#include "runtime/graph/kept_dtype.h"

enum { MAX_LAYOUTS = 64, MAX_ALIGN = 65536 };

tn_layout tni_state_layout(const tn_value *v) {
  tn_layout l = {.h = TN_HDR(tn_layout), .dtype = v->dtype, .rank = 4, .inner_align = 1, .pitch_align = 1};
  const uint8_t flat[4] = {0, 2, 1, 3}; /* a 3-D value is seen as [batch, rows, heads, size] */
  for (uint8_t i = 0; i < 4; i++) l.order[i] = v->rank == 3 ? flat[i] : i;
  return l;
}

void tni_layout_print(const tn_layout *l, char *text, size_t n) {
  snprintf(text, n, "%s [%u %u %u %u]%s", tni_dtype_name(l->dtype), l->order[0], l->order[1], l->order[2], l->order[3],
           l->flags & TN_LAYOUT_CIRCULAR ? " ring" : "");
}

static bool is_order(const uint8_t *order) {
  uint32_t seen = 0;
  for (int i = 0; i < 4; i++) seen |= order[i] < 4 ? 1u << order[i] : 0;
  return seen == 15;
}

/* What is wrong with it, or NULL. Who does not know `flags` yet says no ring. */
static const char *read_one(const tn_layout *in, tn_layout *out) {
  if (!in || in->h.size < offsetof(tn_layout, flags) || tni_take(out, sizeof *out, in, "tn_layout", NULL) != TN_OK)
    return "a layout of a size that is not one";
  out->h = (tn_hdr)TN_HDR(tn_layout);
  if (out->flags & ~(uint32_t)TN_LAYOUT_CIRCULAR) return "a layout with flags that are none";
  if (in->rank != 4) return "a layout whose rank is not that of a cache's view, 4";
  if (!is_order(in->order)) return "a layout whose order is none";
  if (in->inner_align > MAX_ALIGN || in->pitch_align > MAX_ALIGN) return "a layout with an absurd alignment";
  if (!out->inner_align) out->inner_align = 1;
  if (!out->pitch_align) out->pitch_align = 1;
  return NULL;
}

bool tni_state_takes(const tn_value *v, uint32_t dtype) {
  if (v->dtype != TN_DT_F32) return dtype == v->dtype;
  if (dtype == TN_DT_I8) return v->rank == 4 || (v->rank == 3 && v->state && v->state->heads > 0);
  return dtype == TN_DT_F32 || dtype == TN_DT_F16 || dtype == TN_DT_BF16;
}

static bool is_read_as(const tni_graph *g, tn_id v, uint32_t input) {
  const tn_value *x = &tni_graph_value(g, v)->pub;
  for (uint32_t u = 0; u < x->n_uses; u++) {
    const tn_node *n = &tni_graph_node(g, x->uses[u])->pub;
    if (tni_is_attention(n->op) && n->n_in > input && n->in[input] == v) return true;
  }
  return false;
}

/* Rows of few bits are whole units of 16 elements. */
static bool takes_few_bits(const tni_graph *g, const tn_value *v) {
  enum { UNIT = 16 };
  int64_t size;
  if (!tni_state_takes(v, TN_DT_I8) || !tni_ex_is_const(g->exprs, v->dims[v->rank - 1], &size)) return false;
  if (v->rank == 3) size /= v->state->heads;
  return size > 0 && size % UNIT == 0;
}

uint32_t tni_state_kept(const tni_graph *g, uint32_t k, uint32_t wish) {
  const tn_value *v = &tni_graph_value(g, g->states[k].in)->pub;
  const tn_id out = g->states[k].out;
  if (wish != TN_DT_I4) return wish != TN_DT_UNDEFINED && tni_state_takes(v, wish) ? wish : TN_DT_UNDEFINED;
  if (!takes_few_bits(g, v)) return TN_DT_UNDEFINED;
  return is_read_as(g, out, 2) && !is_read_as(g, out, 1) ? TNI_DT_VALUES : TNI_DT_KEYS;
}

static bool has_kernels(const tn_layout *l, const tn_value *v, char *why, size_t n) {
  char text[64];
  tni_layout_print(l, text, sizeof text);
  if (!tni_state_takes(v, l->dtype))
    snprintf(why, n, "cache '%s' as %s: the host has no kernels for such caches of %s", v->name, text,
             tni_dtype_name(v->dtype));
  else if (l->order[3] != 3)
    snprintf(why, n, "cache '%s' as %s: the elements of a head are not side by side", v->name, text);
  else
    return true;
  return false;
}

const char *tni_layouts_read(const tn_value *v, const tn_layout *const *in, uint32_t n, tni_arena *arena,
                             tni_state_claim *out, char *why, size_t n_why) {
  if (n > MAX_LAYOUTS || (n && !in)) return "absurd layouts";
  out->layouts = TNI_NEW_ARRAY(arena, tn_layout, n ? n : 1);
  out->n = 0;
  *why = '\0';
  if (!out->layouts) return "more layouts than there is memory for";
  for (uint32_t i = 0; i < n; i++) {
    char text[160];
    const char *wrong = read_one(in[i], &out->layouts[out->n]);
    if (wrong) return wrong;
    if (has_kernels(&out->layouts[out->n], v, text, sizeof text))
      out->n++;
    else if (!*why)
      snprintf(why, n_why, "%s", text);
  }
  if (out->n) *why = '\0';
  return NULL;
}

static uint32_t common_align(uint32_t a, uint32_t b) { return (uint32_t)(a / tni_gcd(a, b) * b); }

static bool meet_layouts(tn_layout *l, const tni_state_claim *c) {
  for (uint32_t i = 0; i < c->n; i++) {
    const tn_layout *o = &c->layouts[i];
    if (o->dtype != l->dtype || memcmp(o->order, l->order, 4) != 0) continue;
    l->inner_align = common_align(l->inner_align, o->inner_align);
    l->pitch_align = common_align(l->pitch_align, o->pitch_align);
    l->flags &= o->flags;
    return true;
  }
  return false;
}

bool tni_layouts_agree(const tni_state_claim *const *by, uint32_t n, uint32_t wish, tn_layout *out) {
  for (uint32_t i = 0; i < by[0]->n; i++) {
    tn_layout l = by[0]->layouts[i];
    uint32_t k = 1;
    if (wish != TN_DT_UNDEFINED && l.dtype != wish) continue;
    while (k < n && meet_layouts(&l, by[k])) k++;
    if (k < n) continue;
    *out = l;
    return true;
  }
  return false;
}
