/* SPDX-License-Identifier: Apache-2.0
 *
 * Before/after tests of one pass: a graph in, what is left of it as text, and the same numbers from both.
 *
 * before: statements "out,!out=Op in in {attr=1&attr=2};". The first value of the last one is an output of the graph,
 *   and so are those with '!'. Operands are "-" (absent), inputs
 *   x, z  f32[b,s,8]    q  f32[b,2,s,8]    h  f16[b,s,8]    i  i32[b,s]    l  i64[b,s]    o  f32[1,s,8]
 *   a  f32[b,s,1]    kk, vv  f32[b,2,t,8]    k1, v1  f32[b,1,t,8]    kl  f32[b,t,2,8]    mm  f32[b,1,s,t]
 *   mq  f32[b,1,s,1]    bm  bool[b,1,s,t]    kq  f32[b,2,s,8]    q8  f32[b,2,8,t]    w4  f32[b,2,s,12]
 *   fr, fs  f32[b,s,4]    f1  f32[1,s,4]    z3  f32[t,b,8]    v3  f32[b,t,8]    m2  f32[s,s]    m3  f32[1,s,s]
 *   pk, pv, px, py  f32[b,2,past,4]    pl  f32[b,past,2,4]    pt  f32[b,2,4,past]    ps  f32[past,b,2,4]
 *   po, p2  f32[b,2,o,4]    mp  f32[b,1,s,past+s]    mb  bool[b,1,1,past+s]
 *   aq, ak, av  f32[b,2,s,4]    af  f32[1,2,1,past+s]; mostly 1: ao (none above)  i64[b,past+s]  am  i64[b,past+s] ai
 * i32    ab  bool    as i64[b,s] constants w, v  f32[8]    k  f32[1,1,8]    hw  f16[8]    u  f32[1]    e  f32[1,1,1,1]
 *   w8, x8, y8  f32[8,8]    w12, x12  f32[8,12]    w24  f32[8,24]    t12  f32[12,8]    sk  f32[2]    sk4  f32[1,2,1,1]
 * wi  i8[8,12]    wt  u8[12,8]    wk  i8[4,2,3,1]    bi  i32[4]    zs  i8[4]    cs (small, > 0)  f32[4]
 * cw  f32[4,2,3,1]    cg  f32[4,1,1,3]    ct  f32[2,2,2,2]    c1, c2, c3, cv (> 0)  f32[4]    c4  f32[1,4,1,1]
 * cx  f32[4,1,1]    b12  f32[12]    b24  f32[24] h8 f16[8,8] sq_t, sq_b, sq_n bool[1,1,16,16] al_t, al_n f32[1,2,1,16]
 * pp_i, pp_t, pp_n i64[8,2] or literals: 0.5 (f32 scalar), 0.5h (f16), 0.5r (f32[1,1,1,1]), 128b (u8), -3c (i8), %5
 * (i64 scalar), #1,2 (i64 vector). after: "Op in in {attr=value};" of the live nodes in order. A value made by a node
 * is called by its name in `before`, constants that the pass made "ones" or "const", values between nodes that it made
 * "?"; attributes listed: epsilon, approximate, alpha, perm, to, those of attention, heads=q/kv, and of fused nodes
 * (print_chain). Caches are "cache", with this run's rows "cache'"; the lengths "pos" and "valid".
 *   "" stands for `before` unchanged: the pass fires 0 times.
 */
#ifndef TENON_TESTS_PASSES_FORMS_H
#define TENON_TESTS_PASSES_FORMS_H

#include <CUnit/CUnit.h>

#include "runtime/passes/build/build.h"

typedef struct form {
  const char *before, *after;
} form;

typedef tn_status (*pass_fn)(tni_graph *g, uint32_t *n, tn_error *err);

/* The graph of `before`, finished and inferred. */
tni_graph *form_graph(const char *before, tn_error *err);
/* Its outputs on arena a, at most FORM_OUTPUTS, for random inputs of these sizes (past is also o). */
enum { FORM_OUTPUTS = 6 };
typedef struct form_sizes {
  int64_t b, s, past; /* e is 1, other symbols are s */
  uint32_t seed;
  int64_t rows; /* of logits; 0: s */
} form_sizes;
void form_run(const tni_graph *g, const form_sizes *z, tni_arena *a, tni_tensor *outputs);
/* What a session does before a run and behind it: past into the caches, the two lengths; present out of the caches.
 * t: values of the graph. f32 of four axes. */
void form_load_caches(const tni_graph *g, const form_sizes *z, const int64_t *sizes, tni_arena *a, tni_tensor *t);
void form_give_present(const tni_graph *g, const int64_t *sizes, tni_arena *a, tni_tensor *t);
bool form_same(const tni_tensor *a, const tni_tensor *b, double tolerance);

/* tolerance: of |after - before| against the largest |before|; halves get 2e-3. */
void run_forms(const form *f, size_t n, pass_fn pass, double tolerance);
/* The same with inputs of other sizes, for graphs that not all sizes fit. */
void run_forms_at(const form *f, size_t n, pass_fn pass, double tolerance, const form_sizes *sizes);

CU_pSuite suite_branch(void);
CU_pSuite suite_norm(void);
CU_pSuite suite_conv(void);
CU_pSuite suite_qdq(void);
CU_pSuite suite_gelu(void);
CU_pSuite suite_reshape(void);
CU_pSuite suite_attention(void);
CU_pSuite suite_heads(void);
CU_pSuite suite_lanes(void);
CU_pSuite suite_mask(void);
CU_pSuite suite_siblings(void);
CU_pSuite suite_chain(void);
CU_pSuite suite_unfuse(void);
CU_pSuite suite_cache(void);
CU_pSuite suite_last_rows(void);

#endif
