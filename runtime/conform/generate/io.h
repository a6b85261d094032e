/* SPDX-License-Identifier: Apache-2.0
 *
 * What a run of a recipe's graph is given, and what it gave. Private to the room.
 */
#ifndef TENON_CONFORM_GENERATE_IO_H
#define TENON_CONFORM_GENERATE_IO_H

#include <tenon/tenon.h>

#include "runtime/conform/generate/recipe.h"

enum { MOST_OUT = TNI_CN_MAX_OUT };

typedef struct gen_case {
  const tni_gen_recipe *g;
  tni_cn_graph b;
  char folder[64];
  bool took; /* something of it */
  bool phases; /* the profile has some */
} gen_case;

/* Inputs of one length, between guards: nothing may be read beside them. */
typedef struct gen_inputs {
  tni_cf_block block[TNI_CN_MAX_IN];
  tn_tensor t[TNI_CN_MAX_IN];
  const tn_tensor *list[TNI_CN_MAX_IN];
  uint32_t n;
} gen_inputs;

/* What a run gave, copied. */
typedef struct gen_outputs {
  void *data[MOST_OUT];
  uint64_t bytes[MOST_OUT];
  uint32_t n;
} gen_outputs;

/* Inputs of S positions after T, from the recipe's stream of that number. False: a finding. */
bool tni_gen_inputs(tni_cf *cf, const gen_case *c, int64_t S, int64_t T, uint64_t stream, gen_inputs *in);
/* Bytes beside them that were written are a finding. */
void tni_gen_inputs_free(tni_cf *cf, gen_inputs *in);
/* Copies of t [n]; those without data are left out. */
bool tni_gen_outputs(tni_cf *cf, const tn_tensor *t, uint32_t n, gen_outputs *out);
void tni_gen_outputs_free(gen_outputs *o);
/* Other bits are a finding: "S = .., output ..: other bits HOW". */
bool tni_gen_same(tni_cf *cf, const gen_outputs *a, const gen_outputs *b, int64_t S, const char *how);

#endif
