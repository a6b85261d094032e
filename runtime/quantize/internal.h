/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside tn_quantize. It goes: options, folders and tokens (make.c); the model is walked over all sequences, from one
 * product to the next (walk.c); where a product is reached, it is brought to its format (format.c) and the result kept
 * in the work folder (solved.c); what was solved is written as a model (write.c, product.c). So whoever chooses formats
 * sets tni_qz_product.format before the walk, and nothing else. Under a budget that is mixed.c, by what each product
 * alone loses (sense.c, loss.c).
 */
#ifndef TENON_QUANTIZE_INTERNAL_H
#define TENON_QUANTIZE_INTERNAL_H

#include <tenon/quantize.h>

#include "runtime/base/base.h"
#include "runtime/base/json.h"
#include "runtime/calib/calib.h"
#include "runtime/onnx/onnx.h"
#include "runtime/quant/quant.h"
#include "runtime/quantize/fold/fold.h"
#include "runtime/quantize/spill/spill.h"

enum { TNI_QZ_PATH = 4096, TNI_QZ_FORMATS = 64, TNI_QZ_INDEX_BITS = 4 };

/* What a product may be brought to: a grid, and how the file has it. */
typedef struct tni_qz_format {
  char name[64]; /* "lev3", "w4g:32" of a plugin; "4:32", "4:32z" of bits and block */
  tni_quant_grid grid;
  uint32_t bits; /* of a code in the file */
} tni_qz_format;

/* One product: node `node` of the walked graph, whose output names it in the file too. */
typedef struct tni_qz_product {
  tn_id node, x, weight;
  bool kn; /* stored [K,N] */
  int64_t N, K;
  const char *name, *output;
  bool done;
  uint32_t format; /* of tni_qz.formats; TNI_QZ_FLOAT: stays as it is */
} tni_qz_product;
#define TNI_QZ_FLOAT UINT32_MAX

typedef struct tni_qz_tokens {
  int64_t *ids;
  int64_t n;
} tni_qz_tokens;

typedef struct tni_qz {
  tn_quantize_opts o;
  tn_error *err;
  char *path, *work; /* the model file, FOLDER.partial */
  char *folded;      /* the path of the model that folding wrote, which is then path; else NULL */
  const tni_fold *fold; /* while that is written */
  uint32_t n_folded;    /* constants that were written so */
  json_t *fold_notes;   /* how many places changed; NULL: nothing was asked for */
  tni_model *import; /* the graph that is walked */
  tni_model *floats; /* the same, whose weights stay; NULL where nothing is walked */
  tni_pool *pool;
  tni_pool_run run;
  tni_qz_format formats[TNI_QZ_FORMATS];
  uint32_t n_formats;
  uint64_t limit; /* under a budget: of all products' bytes (mixed.c) */
  char *notes;    /* under a budget: quantize.json */
  tni_qz_tokens *seqs;
  uint32_t n_seqs;
  uint64_t tokens;
  tni_spill spill; /* what later nodes read of sequences */
  tni_qz_product *products; /* [n_items] */
  uint32_t n_products, n_done;
  uint32_t n_items; /* products, and after them the table of embeddings where it does not stay as it is (table.c) */
  uint32_t n_open;  /* under a budget: of formats, those that products may take */
  uint32_t lender;  /* the product whose codes the table reads, or under max_bytes may read; else TNI_QZ_FLOAT */
  bool table_open;  /* the table is an item of the budget */
} tni_qz;

/* --- format.c --- */
/* bits 2, 3, 4 or 8. The same format twice is one. TN_E_LIMIT: more than TNI_QZ_FORMATS. */
TN_MUST_CHECK tn_status tni_qz_format_uniform(tni_qz *z, uint32_t bits, uint32_t block, bool zeros, uint32_t *out);
/* "NAME" or "NAME:1,2" of any plugin of o.runtime. TN_E_INVALID: none has it, or it does not take the numbers;
 * TN_E_UNSUPPORTED: it does not say its grid, or its levels are chosen for each matrix. */
TN_MUST_CHECK tn_status tni_qz_format_named(tni_qz *z, const char *name, uint32_t *out);
/* "3:32" or "2:32z": bits, block, zero points. */
bool tni_qz_is_uniform(const char *name, uint32_t *bits, uint32_t *block, bool *zeros);
/* Weights along K that share a scale, where rows are K long. */
int64_t tni_qz_block(const tni_qz_format *f, int64_t K);
/* Codes, scales, zeros and indices of a matrix, as the file has them. */
uint64_t tni_qz_bytes(const tni_qz *z, const tni_qz_format *f, int64_t N, int64_t K);

/* Scales of uniform grids, and zeros of them that are no codes, have the model's type in the file: float16. */
bool tni_qz_writes_halves(const tni_qz *z, const tni_qz_product *p);

bool tni_qz_has_format(const tni_qz *z, const char *name);
/* Weights that other runtimes take, where flags ask for such: else TN_E_UNSUPPORTED with the format's name. */
TN_MUST_CHECK tn_status tni_qz_check_portable(const tni_qz *z);

/* --- folded.c --- */
enum { TNI_QZ_FOLDS = TN_QUANTIZE_SCALES | TN_QUANTIZE_ROTATE_VO, TNI_QZ_FORMS = TN_QUANTIZE_ONNX | TN_QUANTIZE_QDQ };
/* Where flags ask for it: writes the folded model of floats into the work folder, unless it is there, and goes on with
 * that: import, floats and products are of it. Needs the work folder, texts and threads. */
TN_MUST_CHECK tn_status tni_qz_fold(tni_qz *z);

/* --- import.c --- */
TN_MUST_CHECK tn_status tni_qz_import(tni_qz *z, tni_model **out);

/* --- mixed.c --- */
static inline bool tni_qz_is_mixed(const tn_quantize_opts *o) { return o->mean_bits > 0 || o->max_bytes; }
/* The formats among which a budget chooses, and its limit. TN_E_INVALID: below the least or above the most. */
TN_MUST_CHECK tn_status tni_qz_mix_begin(tni_qz *z);
/* The format whose bits are nearest to 3.5: losses are measured there. */
uint32_t tni_qz_mix_reference(const tni_qz *z);
/* The format of each product, by what it loses; needs the work folder, texts and threads. */
TN_MUST_CHECK tn_status tni_qz_mix(tni_qz *z);

/* --- solved.c --- */
typedef struct tni_qz_part {
  void *p;
  size_t n;
} tni_qz_part;
/* WORK/NUMBER and `end`: a file of product i. */
void tni_qz_file_name(const tni_qz *z, uint32_t i, const char *end, char out[TNI_QZ_PATH]);
/* Writes it from n parts under another name first, so that what is there is whole. */
TN_MUST_CHECK tn_status tni_qz_keep(const tni_qz *z, uint32_t i, const char *end, const tni_qz_part *parts, uint32_t n);
/* W [N,K] in f32, stored either way. */
TN_MUST_CHECK tn_status tni_qz_read_weight(const tni_qz *z, const tni_qz_product *p, float *w);

/* What was solved, as it lies in WORK/NUMBER. */
typedef struct tni_qz_solved {
  int64_t N, K, blocks, per_row;
  uint8_t *codes;  /* [N, per_row] */
  float *scales;   /* [N, blocks] */
  float *zeros;    /* [N, blocks] of a uniform grid, else NULL */
  uint8_t *steps;  /* [N, blocks] where scales are steps below a row's parent, else NULL */
  float *parents;  /* [N], with steps */
  float *q;        /* [N,K] */
} tni_qz_solved;
void tni_qz_solved_finish(tni_qz_solved *s);
/* What the texts say of a product, as tni_quant_task has it. */
typedef struct tni_qz_seen {
  uint32_t n_groups;
  const uint32_t *group; /* [N]: of a row; NULL: one for all */
  float *h, *drift;      /* [n_groups,K,K], are overwritten */
  float *added;          /* [N,K] or NULL, is overwritten */
} tni_qz_seen;
/* Solves product i with what was seen (NULL: rounds), or finds it in the work folder. */
TN_MUST_CHECK tn_status tni_qz_solve(tni_qz *z, uint32_t i, const tni_qz_seen *seen, tni_qz_solved *out);
/* *found false: it is not there, or not whole. */
TN_MUST_CHECK tn_status tni_qz_solved_read(tni_qz *z, uint32_t i, tni_qz_solved *out, bool *found);
/* The product whose codes i has: the first one of its constant where all are rounded alike, else i itself. */
uint32_t tni_qz_codes_of(const tni_qz *z, uint32_t i);

/* --- table.c --- */
TN_MUST_CHECK tn_status tni_qz_check_embeddings(const tni_qz *z);
/* After the products. TN_E_UNSUPPORTED: the options want a table, and there is none that is one. */
TN_MUST_CHECK tn_status tni_qz_find_table(tni_qz *z);
/* Whether GatherBlockQuantized can state rows of the table in a format. */
bool tni_qz_can_gather(const tni_qz *z, uint32_t format);
/* The table's format as the options name it, after that of products. */
TN_MUST_CHECK tn_status tni_qz_choose_table(tni_qz *z);
/* Under a budget: n_open, then the formats that the table alone may take. */
TN_MUST_CHECK tn_status tni_qz_open_table(tni_qz *z);
/* Its format, or that of whose codes it reads; TNI_QZ_FLOAT: it stays as it is. */
uint32_t tni_qz_table_format(const tni_qz *z);

TN_MUST_CHECK tn_status tni_qz_find_products(tni_qz *z);
TN_MUST_CHECK tn_status tni_qz_walk(tni_qz *z);
/* --- write.c --- */
/* STAGE/model.onnx and STAGE/model.onnx_data. */
TN_MUST_CHECK tn_status tni_qz_write(tni_qz *z, const char *stage);

#endif
