/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "tests/passes/forms.h"

static tni_tensor zeros(const tni_graph *g, tn_id id, const int64_t *sizes, tni_arena *a) {
  const tni_value *v = g->values[id];
  tni_tensor t = {.dtype = v->pub.dtype, .rank = v->pub.rank};
  int64_t count = 0;
  for (uint32_t d = 0; d < t.rank; d++)
    CU_ASSERT_EQUAL(tni_ex_eval(g->exprs, v->pub.dims[d], sizes, tni_ex_n_symbols(g->exprs), &t.dims[d]), TN_OK);
  CU_ASSERT_EQUAL(tni_dims_count(t.dims, t.rank, &count), TN_OK);
  CU_ASSERT_EQUAL(tni_dtype_bytes(t.dtype, count, &t.bytes), TN_OK);
  t.data = memset(tni_arena_alloc(a, t.bytes + 1, 16), 0, t.bytes);
  return t;
}

/* f32 elements of the user's tensor (4 axes) and of cache s, one into the other. */
static void exchange(const tni_gstate *s, const tni_tensor *cache, const tni_tensor *user, bool to_cache) {
  int64_t n = 0, stride = 1, st[4], at[4];
  const int64_t length = cache->dims[cache->rank == 3 ? 1 : 2];
  for (uint32_t i = s->rank; i-- > 0;) {
    st[s->perm[i]] = stride;
    stride *= s->perm[i] == s->axis ? length : user->dims[s->perm[i]];
  }
  CU_ASSERT_EQUAL((uint64_t)stride * sizeof(float), cache->bytes);
  CU_ASSERT_EQUAL(tni_dims_count(user->dims, user->rank, &n), TN_OK);
  for (int64_t i = 0; i < n; i++) {
    int64_t rest = i, k = 0;
    for (uint32_t d = 4; d-- > 0; rest /= user->dims[d]) at[d] = rest % user->dims[d];
    for (uint32_t d = 0; d < 4; d++) k += at[d] * st[d];
    float *c = (float *)cache->data + k, *u = (float *)user->data + i;
    *(to_cache ? c : u) = *(to_cache ? u : c);
  }
}

void form_load_caches(const tni_graph *g, const form_sizes *z, const int64_t *sizes, tni_arena *a, tni_tensor *t) {
  for (uint32_t i = 0; i < g->n_states; i++) {
    t[g->states[i].in] = zeros(g, g->states[i].in, sizes, a);
    exchange(&g->states[i], &t[g->states[i].in], &t[g->states[i].past], true);
  }
  for (uint32_t k = 0; g->n_states && k < 2; k++) {
    const tn_id id = k ? g->step_valid : g->step_pos;
    t[id] = zeros(g, id, sizes, a);
    for (int64_t b = 0; b < t[id].dims[0]; b++) ((int64_t *)t[id].data)[b] = z->past + (k ? z->s : 0);
  }
}

void form_give_present(const tni_graph *g, const int64_t *sizes, tni_arena *a, tni_tensor *t) {
  for (uint32_t i = 0; i < g->n_states; i++) {
    t[g->states[i].present] = zeros(g, g->states[i].present, sizes, a);
    exchange(&g->states[i], &t[g->states[i].out], &t[g->states[i].present], false);
  }
}
