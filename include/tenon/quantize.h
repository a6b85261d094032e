/* SPDX-License-Identifier: Apache-2.0
 *
 * tenon/quantize.h: a language model's products brought to few bits, as an ONNX model that needs the original no longer
 * (docs/quantize.md).
 *
 * Rules on errors, ownership and threads: tenon.h.
 */
#ifndef TENON_QUANTIZE_H
#define TENON_QUANTIZE_H

#include <tenon/tenon.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
  TN_QUANTIZE_ZEROS = 1, /* each block has a zero point of its own; else all have 2^(bits - 1) */
  TN_QUANTIZE_ROUND = 2, /* rounds to nearest with a search for scales; texts are not read */
  /* Constants are changed before, so that the model gives the same and few bits lose less (docs/quantize.md). A graph that
   * does not allow it stays as it is. quantize.json says how many places there were. */
  TN_QUANTIZE_SCALES = 4,   /* channels take scales, which norms and earlier products undo; needs texts */
  TN_QUANTIZE_ROTATE_VO = 8, /* the values of each head are turned, and turned back by the product after attention */
  /* For other runtimes; one of them. A weight format that has no such form is refused by name. */
  TN_QUANTIZE_ONNX = 16, /* MatMulNBits of com.microsoft, codes of 2, 4 or 8 bits: what onnxruntime takes */
  TN_QUANTIZE_QDQ = 32   /* DequantizeLinear and MatMul of opset 21, codes of 4 or 8 bits: ONNX's own operators alone */
};
typedef struct tn_quantize_opts {
  tn_hdr h;
  const char *model;        /* a folder or a .onnx file, as in tn_model_find */
  const char *model_file;   /* which file of `model`; NULL: the one that is meant without a name */
  const char *folder;       /* to be made; must not be there, or be empty. Work lies in FOLDER.partial until it is */
  uint32_t bits;            /* 2, 3, 4 or 8; not read under a budget */
  uint32_t block;           /* weights along K that share a scale: 16, 32, 64 or 128 */
  uint32_t flags;           /* TN_QUANTIZE_* */
  uint32_t threads;         /* 0: as many as the process may use processors. The result does not depend on it */
  const char *const *texts; /* [n_texts], UTF-8, for calibration */
  uint32_t n_texts;
  uint32_t piece;      /* tokens that run at once, longer texts are cut; 0: 512 */
  uint64_t max_tokens; /* of all texts together; 0: all */
  /* Called before each product with its name, how many are done and how many there are. Not TN_OK: stops with that. May
   * be NULL. */
  tn_status (*progress)(void *user, const char *product, uint32_t done, uint32_t count);
  void *user;
  /* A weight format of a plugin, "lev3" or "w4g:32"; bits, block and TN_QUANTIZE_ZEROS then count for nothing. NULL: as
   * they say. */
  const char *weights;
  tn_runtime *runtime; /* whose plugins state it, those of TN_RT_SCAN too; NULL: weights are NULL. Read only */
  /* A budget: each product takes one of several formats, by what it alone loses on the texts. `weights` then names them,
   * with "+" between them: "lev2+lev3+w4g:32"; "3:32" and "2:32z" are of bits, block and zero points. NULL: lev1 to lev4s
   * and "8:128" where plugins of runtime state them and nothing else may run the model; else those of MatMulNBits or QDQ.
   * bits, block, ZEROS and ROUND count for nothing. One of the two, or neither. */
  double mean_bits;   /* of all products' weights in the file: codes, scales and zero points; 0: no budget */
  uint64_t max_bytes; /* of model.onnx and model.onnx_data together; 0: no budget */
  uint64_t memory;    /* bytes of activations that are held in memory; more lie in a file in FOLDER.partial. 0: 256 MB.
                       * The result does not depend on it */
  /* The table of embeddings, of which a Gather takes the rows of input_ids: "8", "4:32", "4:32z" are 2, 4 or 8 bits,
   * weights that share a scale (32 without it), and z for zero points. "head": the codes of the product that has the
   * same elements. "none": floats. NULL: floats too, but max_bytes chooses for the table as it does for products.
   * TN_E_UNSUPPORTED: the model has no such table, or its rows cannot be looked up in that format. */
  const char *embeddings;
} tn_quantize_opts;

/* Walks the model in f32 over the texts, layer by layer, each product with the inputs that the quantized ones before it
 * give, and writes FOLDER: model.onnx with MatMulNBits of com.microsoft, or MatMulLevels of ai.tenon where the format
 * has levels of a table (docs/operators-contrib.md), in the place of products with constant matrices, model.onnx_data,
 * and what else the model's folder has for tokens and configuration. The folder appears whole or not at all; a call
 * that was killed goes on where it was. Equal options give equal bytes. A budget also leaves quantize.json: format,
 * errors and losses of each product. TN_E_INVALID: an option, with its name, a budget below the least or above the
 * most, which the message says, or a weight that is not finite; TN_E_UNSUPPORTED: a weight format that does not say its
 * grid; an input or node that the walk cannot run, with its name; TN_E_CANCELLED; TN_E_IO, with the file: a disk that
 * is full, say; else as tn_model_load. */
TN_API TN_MUST_CHECK tn_status tn_quantize(const tn_quantize_opts *o, tn_error *err);

#ifdef __cplusplus
}
#endif
#endif
