/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/conform/generate/io.h"

#include <stdlib.h>
#include <string.h>

/* Numbers below the limit; where it is below 0, some count from the end. A mask's first column hides nothing. 'p': floats of
 * 0.5 to 2.5. */
static void fill(tni_cf_rng *r, const tni_cn_operand *o, const tn_tensor *t, void *to, int64_t count) {
  const int64_t limit = o->limit < 0 ? -o->limit : o->limit, last = t->rank ? t->dims[t->rank - 1] : 1;
  for (int64_t k = 0; k < count; k++) {
    const uint64_t bits = o->kind == 'x' ? 0 : tni_cf_rng_next(r);
    if (o->kind == 'i')
      ((int64_t *)to)[k] = (int64_t)(bits % (uint64_t)limit) - (o->limit < 0 && bits >> 40 & 1 ? limit : 0);
    else if (o->kind == 'b')
      ((uint8_t *)to)[k] = k % last == 0 || bits & 1;
    else if (o->kind == 'p')
      ((float *)to)[k] = 0.5f + (float)(bits >> 40) * 0x1p-23f;
    else
      ((float *)to)[k] = (float)tni_cf_rng_normal(r) * (k % 41 ? 1 : 6);
  }
}

bool tni_gen_inputs(tni_cf *cf, const gen_case *c, int64_t S, int64_t T, uint64_t stream, gen_inputs *in) {
  const int64_t sym[TNI_CF_MAX_SYMBOLS] = {S, T, 1, 1, 1, 1, 1, 1};
  memset(in, 0, sizeof *in);
  for (uint32_t i = 0; i < c->b.n_in; i++) {
    const tn_value *v = &tni_graph_value(c->b.g, c->b.in[i])->pub;
    tn_tensor *t = &in->t[i];
    int64_t count = 1;
    *t = (tn_tensor){.h = {sizeof *t, 1, 0}, .name = v->name, .dtype = (tn_dtype)v->dtype, .rank = v->rank};
    for (uint32_t k = 0; k < v->rank; k++) {
      if (tni_ex_eval(c->b.g->exprs, v->dims[k], sym, tni_ex_n_symbols(c->b.g->exprs), &t->dims[k]) != TN_OK)
        return tni_cf_fail(cf, "the kit's own graph: dims of '%s'", v->name), false;
      count *= t->dims[k];
    }
    tni_cn_operand o = c->b.operand[i];
    if (!o.kind) o.kind = 'x';
    t->bytes = (uint64_t)count * (o.kind == 'i' ? sizeof(int64_t) : o.kind == 'b' ? 1 : sizeof(float));
    if (!tni_cf_block_make(&in->block[i], t->bytes, 64, 0xff, true)) return tni_cf_fail(cf, "no memory"), false;
    t->data = in->block[i].p;
    tni_cf_rng r = tni_cf_rng_of(cf, c->g->values + stream * 16 + i);
    fill(&r, &o, t, in->block[i].p, count);
    in->list[in->n++] = t;
  }
  return true;
}

void tni_gen_inputs_free(tni_cf *cf, gen_inputs *in) {
  for (uint32_t i = 0; i < TNI_CN_MAX_IN; i++) {
    if (!tni_cf_block_holds(&in->block[i])) tni_cf_fail(cf, "bytes beside an input were written");
    tni_cf_block_finish(&in->block[i]);
  }
}

void tni_gen_outputs_free(gen_outputs *o) {
  for (uint32_t i = 0; i < o->n; i++) free(o->data[i]);
  o->n = 0;
}

bool tni_gen_outputs(tni_cf *cf, const tn_tensor *t, uint32_t n, gen_outputs *out) {
  for (out->n = 0; out->n < n; out->n++) {
    out->bytes[out->n] = t[out->n].bytes;
    if (!(out->data[out->n] = malloc(t[out->n].bytes + 1))) return tni_cf_fail(cf, "no memory"), false;
    if (t[out->n].bytes) memcpy(out->data[out->n], t[out->n].data, t[out->n].bytes);
  }
  return true;
}

bool tni_gen_same(tni_cf *cf, const gen_outputs *a, const gen_outputs *b, int64_t S, const char *how) {
  for (uint32_t i = 0; i < a->n; i++) {
    if (a->bytes[i] == b->bytes[i] && !memcmp(a->data[i], b->data[i], a->bytes[i])) continue;
    const float *x = a->data[i], *y = b->data[i];
    uint64_t at = 0;
    while (a->bytes[i] == b->bytes[i] && !memcmp(&x[at], &y[at], sizeof *x)) at++;
    tni_cf_fail(cf, "S = %lld, output %u: other bits %s, from element %llu on: %.9g, then %.9g", (long long)S, i, how,
                (unsigned long long)at, a->bytes[i] ? (double)x[at] : 0, b->bytes[i] ? (double)y[at] : 0);
    return false;
  }
  return true;
}
