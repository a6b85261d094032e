/* SPDX-License-Identifier: Apache-2.0
 *
 * Products with constant weights on an open device: graphs of several kinds, their reference under the numerics of
 * whatever format the plugin packs for them, and runs that are compared with it. Private to the room.
 */
#ifndef TENON_CONFORM_NUMBERS_PRODUCT_H
#define TENON_CONFORM_NUMBERS_PRODUCT_H

#include "runtime/conform/numbers/num.h"

enum {
  TNI_CN_MATMUL,
  TNI_CN_GEMM,
  TNI_CN_GEMM_KN,
  TNI_CN_FUSED_BIAS,
  TNI_CN_FUSED_GATE,
  TNI_CN_FUSED_QKV,
  TNI_CN_FUSED_RESIDUAL,
  TNI_CN_FUSED_CHAIN,
  TNI_CN_QKV,
  TNI_CN_GATE_UP,
  TNI_CN_KINDS
};

/* One operator after a product; with two operands the other is a second input, `turned`: the first of them. */
typedef struct tni_cn_link {
  int64_t op;
  float value;
  bool two, turned;
  const char *name;
} tni_cn_link;
extern const tni_cn_link tni_cn_links[];
extern const uint32_t tni_cn_n_links;

/* What is asked for. dtype: of activations. scale: of the weights, which are of `pattern`. */
typedef struct tni_cn_want {
  int kind, pattern;
  int64_t N, K;
  uint32_t dtype;
  const float *weights; /* kind MATMUL: [K,N] of the caller's instead of random ones */
  const tn_stats *stats;
  bool reverse_rows;
  uint64_t flip;
  uint32_t link; /* of kind FUSED_CHAIN: which of tni_cn_links */
  bool even;     /* all widths are multiples of 64; N is one of 128 where there are three weights */
} tni_cn_want;

typedef struct tni_cn_product {
  tni_cf *cf;
  tni_cf_host *h;
  tni_cn_want want;
  tni_cn_graph b;
  tni_cf_drive d;
  tni_arena *arena;
  tn_stats stats;
  tn_id x, full; /* inputs; full: a second one of the product's shape, or TN_NONE */
  uint32_t phase;
  bool open, compared; /* what was packed with the model's weights */
} tni_cn_product;

enum { TNI_CN_TAKEN, TNI_CN_REFUSED, TNI_CN_BROKEN };
/* Builds, asks in every phase until it is claimed, lowers. REFUSED: p->d.refusal says why; a refusal without a reason
 * and everything that breaks after a yes are findings. */
int tni_cn_product_open(tni_cf *cf, tni_cf_host *h, const tni_cn_want *want, tni_cn_product *p);
void tni_cn_product_close(tni_cn_product *p);
/* Rows that a run of M has (tni_cf_drive_rows). */
int64_t tni_cn_product_rows(const tni_cn_product *p, int64_t M);
/* Elements of all outputs together at M rows. */
int64_t tni_cn_product_elems(const tni_cn_product *p, int64_t M);
/* Numerics of the first product's weights, static scale filled in. */
tn_numerics tni_cn_product_numerics(const tni_cn_product *p);
/* Weights [N,K] of operand i as the reference has them (unpacked), on the product's arena; NULL: reported. */
const float *tni_cn_product_weight(tni_cn_product *p, tn_id v, bool kn, int64_t *N, int64_t *K, tn_numerics *num);

/* One run: x [M,K] and where there is one `full` [M,N] -> y, all outputs one after the other. */
bool tni_cn_product_run(tni_cn_product *p, tni_cf_inst *i, int64_t M, const float *x, const float *full, uint8_t fill,
                        uint32_t split, float *y);
/* What it should have been, and how far it may be off. */
bool tni_cn_product_reference(tni_cn_product *p, int64_t M, const float *x, const float *full, float *y, float *bound);
/* Values of pattern for x and `full`, rounded to the dtype. */
void tni_cn_product_values(tni_cn_product *p, int64_t M, int pattern, uint64_t stream, float *x, float *full);
/* "gemm M 3 N 17 K 129" */
const char *tni_cn_product_where(const tni_cn_product *p, int64_t M, const char *what);

/* --- one product, run and compared (product_check.c) --- */

typedef struct tni_cn_tally tni_cn_tally;
/* What a case asks of products of one kind. */
typedef struct tni_cn_question {
  const char *name;
  void (*ask)(tni_cf *cf, tni_cf_host *h, const struct tni_cn_question *q, tni_cn_tally *t);
  int kind;
  uint32_t dtype, flags, link;
} tni_cn_question;

struct tni_cn_tally {
  int64_t products, runs, elements, refused;
  double worst;
  char reason[128];
};

typedef struct tni_cn_buffers {
  float *x, *full, *y, *want, *bound;
  int64_t M, n;
} tni_cn_buffers;

tni_cn_want tni_cn_want_of(const tni_cn_question *q, int64_t N, int64_t K);
/* Opens; false where it is refused (counted) or breaks (reported). */
bool tni_cn_try(tni_cf *cf, tni_cf_host *h, const tni_cn_want *w, tni_cn_tally *t, tni_cn_product *p);
/* Where that is not taken, multiples of 64: many devices take no others, and what is asked has nothing to do with odd sizes. */
bool tni_cn_try_near(tni_cf *cf, tni_cf_host *h, const tni_cn_want *w, tni_cn_tally *t, tni_cn_product *p);
/* Where every shape may be a program to compile: fewer of them. */
bool tni_cn_few(const tni_cf *cf, const tni_cf_host *h);
bool tni_cn_buffers_make(tni_cn_buffers *b, const tni_cn_product *p, int64_t M);
void tni_cn_buffers_free(tni_cn_buffers *b);
bool tni_cn_instance(tni_cn_product *p, tni_cf_inst *i, int64_t M);
/* Row m has pattern (m + first) modulo their number, so that one run has many. */
void tni_cn_mixed(tni_cn_product *p, tni_cn_buffers *b, int first);
/* Runs x and compares. */
bool tni_cn_check(tni_cn_product *p, tni_cf_inst *i, tni_cn_buffers *b, uint32_t split, const char *what,
                  tni_cn_tally *t);
/* One-hot activations of all columns. */
void tni_cn_read_back(tni_cn_product *p, tni_cf_inst *i, tni_cn_buffers *b, tni_cn_tally *t);
void tni_cn_ask_repeat(tni_cf *cf, tni_cf_host *h, const tni_cn_question *q, tni_cn_tally *t);
void tni_cn_ask_together(tni_cf *cf, tni_cf_host *h, const tni_cn_question *q, tni_cn_tally *t);
void tni_cn_ask_flips(tni_cf *cf, tni_cf_host *h, const tni_cn_question *q, tni_cn_tally *t);

#endif
