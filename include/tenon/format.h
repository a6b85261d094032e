/* SPDX-License-Identifier: Apache-2.0
 *
 * tenon/format.h: weights and their formats, a part of the vendor ABI.
 *
 * A format says how a constant matrix is packed and how kernels compute with it. It needs no device. The host calls
 * size, begin, rows (from several threads) and end once per matrix, keeps the bytes and maps the file ever after. The
 * rules of structs and threads are those of tenon/plugin.h, which includes this file and has TN_HDR.
 */
#ifndef TENON_FORMAT_H
#define TENON_FORMAT_H

#include <tenon/types.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tn_host tn_host;
typedef struct tn_format tn_format;
typedef struct tn_pack tn_pack; /* the plugin's own: one packing under way */

/* How a format computes, declared: the contract that kernels are judged by (docs/numerics.md).
 * Activations: x is cut into groups of act_group along K (0: the whole row). TN_ACT_ABSMAX: s = absmax / act_max (f32
 * division), q = round(x * (1 / s)) where 1/s is the f32 quotient act_max / absmax; absmax 0 gives q = 0. So does, with
 * s = 0, a group that is so small that act_max / absmax overflows to infinity, and with TN_DENORM_FLUSH one whose s is
 * denormal. TN_ACT_NONE: x is used in act_dtype.
 * TN_ACT_RUNSUM, for lookup tables: as ABSMAX with, for absmax, the largest sum of |x| over the runs of act_run
 * elements that the group is cut into (the last may be short), f32, neighbours added first: (|x0| + |x1|) + (|x2| +
 * |x3|). A table of all partial sums of a run's q then spans at most act_max and the rounding of q: no entry of it is
 * rounded. TN_ACT_STATIC, for calibrated scales: one scale s for all of x, act_group 0. q = round(x / s), f32 division,
 * clamped to [-act_max - 1, act_max]; NaN gives 0. s is act_scale; where that is 0, the float whose bits are the low 32
 * of the format's params[0]. With acc_inner I64 and acc_outer F64 y is f32 of (f64) sum * (s * s_w), rounded to f64 and
 * then to f32: the sum is a wide integer, so kernels that split it in any way give the same bits (docs/numerics.md has
 * the domain). y[m,n] = sum over groups of sx * sum_k q * w; within a group the sum runs in acc_inner (of scaled
 * partial sums, where the weights' scale changes there), across groups in acc_outer. acc_group: only so many elements are
 * summed in acc_inner, and acc_outer adds what they give, times the weights' scale. avg_depth, with RUNSUM: entries of
 * tables may be added through avg_depth levels of rounding averages of bytes, (a + b + 1) >> 1, in trees of 2^avg_depth
 * runs, and what they add on average, avg_depth / 4 for each entry, is taken off. A level rounds by 0 or 1/2, so an
 * entry is off by avg_depth / 4 at most, and a group's sum over k by
 *   (act_group / act_run) * avg_depth / 4 * avg_unit * w0, w0: the smallest |w[n,k]| of the group that is not 0
 * on top of what the accumulators round. Exact sums obey it too. */
enum { TN_ACT_NONE = 0, TN_ACT_ABSMAX = 1, TN_ACT_RUNSUM = 2, TN_ACT_STATIC = 3 };
enum { TN_ROUND_HALF_EVEN = 0, TN_ROUND_HALF_AWAY = 1 };
enum { TN_DENORM_KEEP = 0, TN_DENORM_FLUSH = 1 };
enum { TN_NAN_PROPAGATE = 0, TN_NAN_UNDEFINED = 1 };
typedef struct tn_numerics {
  tn_hdr h;
  uint32_t act_dtype;   /* of q: TN_DT_I8, TN_DT_I16, TN_DT_I32, TN_DT_F16, TN_DT_BF16, TN_DT_F32 */
  uint32_t act_group;   /* elements along K that share a scale; 0 = K */
  uint32_t act_scheme;  /* TN_ACT_* */
  uint32_t act_round;   /* TN_ROUND_* */
  float act_max;        /* largest |q|; RUNSUM: of a run's sum of |q|, before rounding */
  uint32_t acc_inner;   /* dtype of sums within a group */
  uint32_t acc_outer;   /* dtype of sums across groups */
  uint32_t scale_dtype; /* dtype that weight scales are stored in */
  uint32_t denormals;   /* TN_DENORM_* of scales and outputs */
  uint32_t nan;         /* TN_NAN_* for inputs that are NaN or infinite */
  double finite_max;    /* |x| above this is outside the declared domain */
  uint32_t act_run;     /* RUNSUM: elements of a run, 2, 4 or 8; act_group is a multiple of it */
  float act_scale;      /* STATIC: s; 0: it stands in params[0] */
  uint32_t avg_depth;   /* levels of averages between entries of tables; 0: exact sums */
  float avg_unit;       /* avg_depth > 0: what one unit in the entries of all planes of a run weighs, in w0 */
  uint32_t acc_group;   /* 1.1: elements along K of a sum in acc_inner, act_group is a multiple; 0: act_group */
  uint32_t reserved;
} tn_numerics;

/* Weights that are quantized before they are packed: a model brought them so (MatMulNBits and the like), or a solver
 * chose codes and scales on the grid that a format states (tn_format.grid). AFFINE: w[n,k] = (code - zero) * scale in
 * f32, with scale and zero of row n and group k / group; codes are unsigned. LEVELS (1.1): w[n,k] = levels[code] *
 * scale, or with vec above 1 w[n,k] = levels[code of k / vec][k % vec] * scale. How they are stored is up to the host:
 * grid() gives them. */
enum { TN_QUANT_AFFINE = 0, TN_QUANT_LEVELS = 1 };
/* 1.1. KEEP: all codes, scales and zeros lie on the grid of the format that gets them, in groups of its length. It
 * takes them bit for bit, and refuses (TN_E_INVALID, from begin or rows) what its grid does not hold. The host looks at
 * every quantized weight and says KEEP of each that lies so, whoever chose its codes. Without KEEP it may round. */
enum { TN_QUANT_KEEP = 1 };
/* Zero points. HALF: one number everywhere, which of a tn_quant is 2^(bits-1) and of a tn_grid stands in `zero`. CODES:
 * codes, 0 .. 2^bits - 1 of a tn_quant, 0 .. n_codes - 1 of a tn_grid. VALUES: any f32 up to 256 in magnitude. UNKNOWN,
 * of a tn_quant alone: nobody looked, or beyond that. tn_quant.grid gives the zeros themselves, of each kind. */
enum { TN_ZERO_UNKNOWN = 0, TN_ZERO_HALF = 1, TN_ZERO_CODES = 2, TN_ZERO_VALUES = 3 };
typedef struct tn_quant {
  tn_hdr h;
  uint32_t bits;        /* of a code */
  uint32_t group;       /* elements along K that share a scale */
  uint32_t scheme;      /* TN_QUANT_* */
  uint32_t scale_dtype; /* what every scale fits: TN_DT_F16 (as a normal number or 0) or TN_DT_F32 */
  const void *codes;    /* NULL */
  const void *scales;   /* NULL */
  const void *zeros;    /* NULL */
  const void *ctx;      /* the host's */
  /* Rows [n0, n1): codes[(n1-n0) * K], one a byte; scales and zeros [(n1-n0) * ceil(K / group)]. Any may be NULL: not
   * wanted. Any thread. */
  tn_status (*grid)(const struct tn_quant *q, int64_t n0, int64_t n1, uint8_t *codes, float *scales, float *zeros);
  uint32_t zero_kind; /* TN_ZERO_* */
  uint32_t reserved;
  uint32_t flags;      /* 1.1: TN_QUANT_KEEP */
  uint32_t n_levels;   /* 1.1: LEVELS: how many there are, 256 at most */
  const float *levels; /* 1.1: LEVELS: [n_levels, vec], those of the whole matrix */
  uint32_t vec;        /* 1.1: LEVELS: as in tn_grid; codes are [(n1-n0) * ceil(K / vec)] */
  uint32_t n_steps;    /* 1.1: as in tn_grid; 0: scales are free */
  const float *steps;  /* 1.1: [n_steps], ascending or descending as the format or the model has them */
  /* 1.1. Where n_steps: what grid() gives as products. Rows [n0, n1): index[(n1-n0) * ceil(K / group)] into steps, and
   * parents[n1-n0], with scale = parent * steps[index] in f32. Either may be NULL: not wanted. Any thread. */
  tn_status (*stepped)(const struct tn_quant *q, int64_t n0, int64_t n1, uint8_t *index, float *parents);
} tn_quant;

/* 1.1. The grid of a format: the weights that it holds exactly. A solver that knows nothing else of the format
 * chooses codes, scales, zeros on it and hands them to begin as a tn_quant with TN_QUANT_KEEP, groups of the same
 * length; unpack then gives back w bit for bit.
 * AFFINE: w = (code - zero) * scale, codes 0 .. n_codes - 1. A scale is scale_unit times a normal number of
 * scale_dtype of 2^-100 or more, or 0; below 0 only with TN_GRID_SIGNED. So an f16 scale of it is never denormal: its
 * size is 0, or 2^-14 and more, times scale_unit. LEVELS: w = levels[code] * scale, a quant of scheme LEVELS. Where
 * levels is NULL the solver chooses them too, once for the matrix: n_codes ascending numbers that are values of
 * level_dtype. Else they are the format's, [n_codes, vec], and a quant that is to be kept has the same numbers in the
 * same order: one code gives the vec weights of k = vec * i .. vec * i + vec - 1, of which those at K and beyond
 * count for nothing. Steps: where n_steps is not 0, scales are not free. A row has one parent, scale_unit times a
 * number of scale_dtype as above, and each group a step: scale = parent * steps[index] in f32. A quant that is to be
 * kept has the same steps in the same order, and `stepped`. */
enum { TN_GRID_AFFINE = 0, TN_GRID_LEVELS = 1 };
enum { TN_GRID_SIGNED = 1 };
typedef struct tn_grid {
  tn_hdr h;
  uint32_t kind;        /* TN_GRID_* */
  uint32_t flags;       /* TN_GRID_SIGNED */
  uint32_t n_codes;     /* 256 at most */
  uint32_t group;       /* elements along K that share scale and zero; 0: the whole row */
  uint32_t scale_dtype; /* TN_DT_F16 or TN_DT_F32 */
  float scale_unit;
  uint32_t zero_kind;   /* TN_ZERO_* of AFFINE */
  float zero;           /* of TN_ZERO_HALF */
  uint32_t level_dtype; /* LEVELS: TN_DT_I8 or TN_DT_F32 */
  uint32_t reserved;
  uint32_t vec;        /* LEVELS: weights along K that one code gives; 0: 1. group is a multiple of it */
  uint32_t n_steps;    /* 0: scales are free; 256 at most */
  const float *levels; /* LEVELS: [n_codes, vec], the format's own; NULL: the solver chooses. As long as the plugin */
  const float *steps;  /* [n_steps], not below 0. As long as the plugin */
} tn_grid;

/* 1.1. Leaf. A part of a packed matrix that a program may have attached alone (tn_need.section): codes here, scales
 * there. In any order, inside of it; they do not meet. offset is a multiple of align, a power of two; no slot asks more. */
typedef struct tn_section {
  uint64_t offset;
  uint64_t bytes;
  uint32_t align;
  uint32_t reserved;
} tn_section;

/* What an activation was like on the calibration text (docs/calibration.md). The channels are its last dim. */
typedef struct tn_stats {
  tn_hdr h;
  float absmax; /* largest |x| */
  float p999;   /* what 99.9 % of all |x| are not above, rounded up by less than 2^-8 of itself */
  uint32_t n;   /* channels */
  uint32_t reserved;
  const float *ch_over;   /* [n] or NULL: in how many rows |x / s| > 127.5, s = p999 / 127 */
  const float *ch_mean;   /* [n] or NULL: mean of x over the rows */
  const float *ch_weight; /* [n] or NULL: mean of x^2 over the rows */
  uint64_t rows;          /* of the text; 0: unknown */
} tn_stats;

/* A constant matrix [N,K] to be packed; siblings are joined along N by the host before the plugin sees them. */
enum { TN_WEIGHT_TRANSPOSED = 1 }; /* raw is stored [K,N] */
typedef struct tn_weight {
  tn_hdr h;
  void *ctx;             /* the host's */
  int64_t N;             /* rows: outputs */
  int64_t K;             /* columns: inputs */
  uint32_t dtype;        /* of raw */
  uint32_t flags;        /* TN_WEIGHT_* */
  const void *raw;       /* the stored bytes, or NULL (joined, or not addressable): then rows() */
  const tn_quant *quant; /* NULL where the model brings floats */
  const tn_stats *x;     /* of the activation that meets this weight, or NULL */
  /* Rows [n0, n1) as float, dst[(n1-n0) * K], row-major in K whatever the storage. Any thread. */
  tn_status (*rows)(const struct tn_weight *w, int64_t n0, int64_t n1, float *dst);
  uint8_t hash[32]; /* of the content; the host fills it when it packs */
} tn_weight;

/* Packed bytes, owned by the host. What set() gets of them lives until release of the program. */
typedef struct tn_blob {
  tn_hdr h;
  void *ctx;               /* the host's */
  const tn_format *format; /* that packed it */
  int64_t N;
  int64_t K;
  uint64_t bytes;
  const void *ptr;       /* the bytes, read only; NULL: on disk only, then read() */
  const int64_t *params; /* [n_params] of the format */
  uint32_t n_params;
  uint32_t reserved;
  /* n bytes at offset. Any thread, in run too. */
  tn_status (*read)(const struct tn_blob *b, uint64_t offset, uint64_t n, void *dst);
} tn_blob;

/* Leaf. What a packed matrix takes. */
typedef struct tn_pack_size {
  uint64_t bytes;
  uint32_t align;    /* of the first byte, a power of two */
  uint32_t row_unit; /* rows are packed in multiples of it */
} tn_pack_size;

/* A weight format. Identity = name, version, params: whoever states it promises equal bytes on every machine and for
 * every split of rows over threads. Needs no device.
 * READS_STATS: bytes depend on tn_weight.x; then packed files are kept apart by it. READS_QUANT: of every tn_quant the
 * format keeps what it can hold, with KEEP or without, so that a weight on its grid gives the same bytes either way. It
 * changes no call of the host's: `tenon plugins --formats` shows it, and packed files that were made before hosts said
 * KEEP stay in use. A format that looks at a tn_quant only where it says KEEP leaves it out. */
enum { TN_FMT_READS_STATS = 1, TN_FMT_READS_QUANT = 2 };
struct tn_format {
  tn_hdr h;
  const char *name;      /* "w4g" ... ; [a-z0-9._-] */
  uint32_t version;      /* another one is another format */
  uint32_t bits;         /* of a weight: of a code that gives vec of them (tn_grid.vec) its vec-th part, rounded down */
  uint32_t group;        /* elements along K that share a scale; 0: by params, or the whole row */
  uint32_t flags;        /* TN_FMT_* */
  float bits_per_weight; /* all in: codes, scales, zeros */
  /* Bound of |w - unpack(pack(w))| relative to the group's absmax. Where scale_dtype (or the grid's) is F16 and an absmax is
   * under 2^-10, weights may be off by 2^-14 more, as a number: scales that are denormal halves may be flushed or replaced. */
  float w_err;
  float x_err;           /* bound of |x - dequantized x| relative to the activation group's absmax */
  uint32_t reserved;
  const tn_numerics *numerics;
  /* Numerics for given params (may differ by group); NULL: always `numerics`. */
  const tn_numerics *(*numerics_of)(const tn_format *f, const int64_t *params, uint32_t n);
  /* Pure. An N or K that is no multiple of the format's tiles may be refused; claim refuses such a weight then. */
  tn_status (*size)(const tn_format *f, int64_t N, int64_t K, const int64_t *params, uint32_t n, tn_pack_size *out);
  /* Begins: may read the whole tensor once. Memory from host->alloc. w lives until end. */
  tn_status (*begin)(const tn_host *host, const tn_format *f, const tn_weight *w, const int64_t *params, uint32_t n,
                     tn_pack **out, tn_error *err);
  /* Packs rows [n0, n1) (n0 a multiple of row_unit, n1 too or N) into their place in blob, which holds anything: padding
   * is written too. Disjoint ranges from any threads at once. */
  tn_status (*rows)(tn_pack *p, int64_t n0, int64_t n1, void *blob);
  /* Writes what is left (header) and frees p. blob NULL: abandon. */
  tn_status (*end)(tn_pack *p, void *blob);
  /* box = n0,n1,k0,k1: dst[(n1-n0) * (k1-k0)] floats; reads no other bytes than those rows need. */
  tn_status (*unpack)(const tn_blob *b, const int64_t box[4], float *dst);
  /* 1.1. Pure. The grid for these params; TN_E_UNSUPPORTED: it cannot be said. NULL: the format takes floats, and
   * models' grids as far as it likes. */
  tn_status (*grid)(const tn_format *f, const int64_t *params, uint32_t n, tn_grid *out);
  /* 1.1. Pure. Sections of a packed matrix, cap of out at most; *count is how many there are, 64 at most. NULL: none. */
  tn_status (*sections)(const tn_format *f, int64_t N, int64_t K, const int64_t *params, uint32_t n, uint32_t cap,
                        tn_section *out, uint32_t *count);
};

#ifdef __cplusplus
}
#endif
#endif
