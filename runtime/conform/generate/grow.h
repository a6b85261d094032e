/* SPDX-License-Identifier: Apache-2.0
 *
 * A graph that grows step by step. Private to the room.
 */
#ifndef TENON_CONFORM_GENERATE_GROW_H
#define TENON_CONFORM_GENERATE_GROW_H

#include "runtime/conform/generate/recipe.h"

enum { MOST_VALUES = 32, MOST_RANK = 5, MOST_WIDTH = 640, SYMBOL = -1 };

typedef struct gen_value {
  tn_id id;
  uint32_t rank;
  int64_t dims[MOST_RANK]; /* SYMBOL: S; below it: another length that depends on S, each its own */
} gen_value;

typedef struct gen_work {
  const tni_gen_recipe *g;
  tni_cn_graph *b;
  tni_cf_rng r;
  gen_value v[MOST_VALUES];
  uint32_t n, n_constants, n_lengths, n_layers;
  uint64_t outputs; /* bit i: v[i] is one, whoever reads it */
} gen_work;

/* The newest values are taken most: chains grow. */
const gen_value *tni_gen_pick(const gen_work *w, uint32_t n);
int64_t tni_gen_width_of(const gen_value *v);
/* Rows of many sizes, down to rows of zeros. TN_NONE: no memory. */
tn_id tni_gen_constant(gen_work *w, uint32_t rank, int64_t rows, int64_t columns);
/* Of any rank and all dims known. */
tn_id tni_gen_constant_of(gen_work *w, uint32_t rank, const int64_t *dims, float scale);
/* An input of the graph; kind and limit as in tni_cn_operand. */
tn_id tni_gen_input(gen_work *w, char kind, const int64_t *dims, uint32_t rank, int64_t limit);
/* A value of the shape of `like` but for its last dim. */
bool tni_gen_add_value(gen_work *w, const gen_value *like, tn_id id, int64_t width);
tn_id tni_gen_apply(gen_work *w, const char *domain, const char *op, int64_t version, const tn_id *in, uint32_t n_in,
                    const tni_raw_attr *attr, uint32_t n_attr);
/* The same with a result that is not float32. */
tn_id tni_gen_apply_as(gen_work *w, uint32_t dtype, const char *domain, const char *op, int64_t version,
                       const tn_id *in, uint32_t n_in, const tni_raw_attr *attr, uint32_t n_attr);
tni_raw_attr tni_gen_int_attr(const char *name, int64_t v);
tni_raw_attr tni_gen_float_attr(const char *name, float v);
tni_raw_attr tni_gen_ints_attr(const char *name, const int64_t *v, uint64_t n);

tni_raw_attr tni_gen_text_attr(const char *name, const char *text);

/* Codes of 8 bits, of a value or a weight, with their scale and zero point. */
typedef struct gen_codes {
  tn_id id, scale, zero;
  uint32_t dtype;
  bool found; /* scale and zero are found while it runs */
} gen_codes;
/* bytes.c. word: of the step, which types there are. False: no memory. A weight has one scale or one for each of
 * `channels`. */
bool tni_gen_codes_of(gen_work *w, const gen_value *x, uint32_t word, gen_codes *out);
bool tni_gen_codes_weight(gen_work *w, uint32_t word, uint32_t rank, const int64_t *dims, int64_t channels,
                          gen_codes *out);
/* Scale and zero point of a sum of n products of codes; id is for the node that gives it. */
bool tni_gen_codes_result(gen_work *w, uint32_t word, int64_t n, gen_codes *out);
tn_id tni_gen_codes_back(gen_work *w, const gen_codes *c);
/* Whether a step's sums of codes stay integers (ConvInteger, MatMulInteger), and floats of such sums of n products of
 * x. */
bool tni_gen_is_integer(const tni_gen_step *s);
tn_id tni_gen_sums_back(gen_work *w, tn_id sums, const gen_codes *x, int64_t n);

/* Steps that are products (products.c), of images (images.c), of sequences (sequences.c), of codes (bytes.c). Each does
 * something else where the values so far have no place for it. */
bool tni_gen_add_matmul(gen_work *w, const tni_gen_step *s);
bool tni_gen_add_gemm(gen_work *w, const tni_gen_step *s);
bool tni_gen_add_siblings(gen_work *w, const tni_gen_step *s);
bool tni_gen_add_fused(gen_work *w, const tni_gen_step *s, bool chain);
bool tni_gen_add_product(gen_work *w, const tni_gen_step *s);
bool tni_gen_add_conv(gen_work *w, const tni_gen_step *s);
bool tni_gen_add_pool(gen_work *w, const tni_gen_step *s);
bool tni_gen_add_block(gen_work *w, const tni_gen_step *s);
bool tni_gen_add_between(gen_work *w, const tni_gen_step *s);
bool tni_gen_add_batchnorm(gen_work *w, const tni_gen_step *s);
bool tni_gen_add_attention(gen_work *w, const tni_gen_step *s);
bool tni_gen_add_rotary(gen_work *w, const tni_gen_step *s);
bool tni_gen_add_gather(gen_work *w, const tni_gen_step *s);
bool tni_gen_add_code_conv(gen_work *w, const tni_gen_step *s);
bool tni_gen_add_code_matmul(gen_work *w, const tni_gen_step *s);

#endif
