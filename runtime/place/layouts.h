/* SPDX-License-Identifier: Apache-2.0
 *
 * How the memory of caches lies: what devices ask for, and what all who touch a cache agree on.
 *
 * A layout is a dtype, an order of the dims of the cache's view, two alignments, and whether it may be a ring
 * (tn_layout). The host's kernels take float32, float16, bfloat16 and quantized int8 in any order that keeps the
 * elements of a head side by side, rings too, and rows of few bits where nobody else reads them; what other devices ask
 * for beyond that is a legal answer that is refused with a reason.
 */
#ifndef TENON_PLACE_LAYOUTS_H
#define TENON_PLACE_LAYOUTS_H

#include <stdbool.h>

#include "runtime/base/base.h"
#include "runtime/graph/graph.h"

/* What one device takes for one cache, best first. */
typedef struct tni_state_claim {
  uint32_t device; /* index into devs */
  tn_id value;     /* the first value of the cache */
  tn_layout *layouts;
  uint32_t n, reserved;
  const char *why; /* n 0: why none of what it takes can be given */
} tni_state_claim;

/* The layout of a cache that nobody asks anything of: the value's dtype as [batch, heads, rows, size], dense. */
tn_layout tni_state_layout(const tn_value *v);

/* Whether the host can keep cache v as that dtype, for float32 values: any of the floats, and int8 where the heads are
 * known. */
bool tni_state_takes(const tn_value *v, uint32_t dtype);
/* What the host keeps state k as where the profile wishes for `wish`: that, or for TN_DT_I4 one of kept_dtype.h: what
 * attention reads as values alone is kept as values, all else as keys. TN_DT_UNDEFINED: it has no kernels for it. */
uint32_t tni_state_kept(const tni_graph *g, uint32_t k, uint32_t wish);

/* Copies what a plugin gave: out[n] on the arena. A string that says what is wrong with it, or NULL. Layouts that the
 * host has no kernels for are left out; none left: why says so of the first. */
const char *tni_layouts_read(const tn_value *v, const tn_layout *const *in, uint32_t n, tni_arena *arena,
                             tni_state_claim *out, char *why, size_t n_why);

/* The first layout of by[0] that all others take too: equal in dtype and order; alignments meet in their least common
 * multiple, and it may be a ring where all say so. wish: only layouts of that dtype, TN_DT_UNDEFINED: any. by: [n], n >
 * 0. false: there is none. */
bool tni_layouts_agree(const tni_state_claim *const *by, uint32_t n, uint32_t wish, tn_layout *out);

/* "float16 [0 2 1 3]" */
void tni_layout_print(const tn_layout *l, char *text, size_t n);

#endif
