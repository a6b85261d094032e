/* SPDX-License-Identifier: Apache-2.0
 *
 * tenon/plugin.h: the vendor ABI, version 1 (release candidate).
 *
 * A backend is one shared object with one exported symbol, tenon_plugin_entry_v1. The host gives it a table of services
 * (tn_host) and gets a table of functions back (tn_plugin); devices, programs, plans and memory hang on that. The walk
 * of five devices through these calls is docs/plugin-abi.md.
 *
 * Rules of the header
 *  1. Growing structs start with tn_hdr and grow at the end; a field exists if it lies wholly inside h.size, a function
 *     must be non-NULL too; zero in a new field means the old behaviour. Leaf structs (marked) never change.
 *  2. No hidden padding: explicit `reserved` fields, written 0, ignored when read.
 *  3. Arrays cross as arrays of pointers, of leaves or of scalars.
 *  4. Out-structs: the caller allocates, zeroes and sets h.size; the callee fills what fits. Nothing is freed across the
 *     boundary. What hangs on a returned object lives as long as the object; what is passed into a call lives for the
 *     call unless said otherwise.
 *  5. No host service calls the plugin, except parallel_for its body. `done` may come from any thread at any moment,
 *     also inside submit or map: it takes no lock that is held across a plugin call.
 *  6. Threads. Host services: any. enumerate/open/close: one at a time per plugin. claim .. args_free and buffers: one
 *     at a time per device, but beside run and submit. run: at once for different args, also of one plan. submit: one at
 *     a time per engine. Formats: any thread.
 *  7. No exit, abort, signal handler or exception crosses. FP mode, affinity and signal mask come back unchanged.
 *  8. Enum values born in minor m are used only when the negotiated minor >= m.
 */
#ifndef TENON_PLUGIN_H
#define TENON_PLUGIN_H

#include <tenon/ops.h>
#include <tenon/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TN_ABI_MAJOR 1
#define TN_ABI_MINOR 0
#define TN_ENTRY_SYMBOL "tenon_plugin_entry_v1"

/* Fills the header of a struct variable: TN_INIT(&x). Does not zero the rest. */
#define TN_HDR(type) { (uint32_t)sizeof(type), TN_ABI_MAJOR, TN_ABI_MINOR }

/* The host's own (opaque). */
typedef struct tn_host_ctx tn_host_ctx;
typedef struct tn_graph_ctx tn_graph_ctx;
typedef struct tn_ticket tn_ticket;
/* The plugin's own (opaque). */
typedef struct tn_program tn_program; /* a lowered subgraph: needs, slots, tasks; compiles nothing */
typedef struct tn_plan tn_plan;       /* one task bound to concrete dims; immutable, shared by sessions */
typedef struct tn_args tn_args;       /* memory attached to one plan */
typedef struct tn_pack tn_pack;       /* one packing under way */

typedef struct tn_graph tn_graph;
typedef struct tn_device tn_device;
typedef struct tn_format tn_format;
typedef struct tn_plugin tn_plugin;

/* Concrete values of a graph's symbols: v[symbol id] for n symbols. */
typedef struct tn_dims {
  tn_hdr h;
  const int64_t *v;
  uint32_t n, reserved;
} tn_dims;

/* Times of one completed item, ns on `clock` (0: the host's monotonic clock, 1: caps->clock); bytes it moved. */
typedef struct tn_times {
  tn_hdr h;
  int64_t queued, start, end;
  uint64_t bytes;
  uint32_t clock, reserved;
} tn_times;

/* Leaf. One region to place: alive in steps [first, last], bytes, align (power of two); offset is the answer. */
typedef struct tn_interval {
  int64_t first, last;
  uint64_t bytes, align, offset;
} tn_interval;

/* ------------------------------------------------------------------------------------------------ host services */

/* Part of a parallel_for: indices [begin, end), worker < tn_run.n_workers. */
typedef void (*tn_body)(void *arg, int64_t begin, int64_t end, uint32_t worker);

/* The host's thread pool, lent for one call to the calling thread only. */
typedef struct tn_run {
  tn_hdr h;
  void *ctx;
  uint32_t n_workers; /* upper bound of worker + 1 */
  uint32_t step;      /* counts the session's steps, for traces */
  /* Runs body over [0, n) in pieces of at least grain; returns when all is done. Nested calls run inline. */
  void (*parallel_for)(struct tn_run *run, int64_t n, int64_t grain, tn_body body, void *arg);
  /* Nonzero once the step is to stop; poll between tiles and return TN_E_CANCELLED. */
  int32_t (*cancelled)(const struct tn_run *run);
} tn_run;

enum { TN_HOST_CHECKED = 1, TN_HOST_PROFILE = 2, TN_HOST_PRIVILEGED = 4 };
enum { TN_TAG_PLUGIN = 0, TN_TAG_SCRATCH = 1, TN_TAG_PACK = 2 };
enum { TN_OPT_BOOL = 1, TN_OPT_INT = 2, TN_OPT_FLOAT = 3, TN_OPT_STRING = 4 };

/* What the host gives. Outlives the plugin. Two hosts in one process are two ctx; a plugin keeps no globals of its own. */
typedef struct tn_host {
  tn_hdr h;
  tn_host_ctx *ctx;
  uint32_t max_workers; /* of any tn_run this host will lend: sizes scratch */
  uint32_t flags;       /* TN_HOST_* */
  /* Aligned (power of two), counted, uninitialised memory; NULL when over budget. */
  void *(*alloc)(tn_host_ctx *ctx, size_t bytes, size_t align, uint32_t tag);
  void (*free)(tn_host_ctx *ctx, void *p); /* NULL is fine */
  void (*log)(tn_host_ctx *ctx, uint32_t level, const char *line);
  int64_t (*now)(tn_host_ctx *ctx); /* ns, monotonic: clock 0 */
  /* Interns a span name, once; then span() costs no string. clock 1 is caps->clock. */
  uint32_t (*name_id)(tn_host_ctx *ctx, const char *name);
  void (*span)(tn_host_ctx *ctx, uint32_t name, uint32_t clock, int64_t start, int64_t end);
  /* Value of a declared option, checked against the plugin's table, default filled in. out: int64_t* (BOOL, INT),
   * double*, or const char** (lives until shutdown). TN_E_INVALID for a key that was not declared with that type. */
  tn_status (*option)(tn_host_ctx *ctx, const char *key, uint32_t type, void *out);
  /* A file of the plugin's own folder, mapped read-only until shutdown. rel has no separators and no "..". */
  tn_status (*resource)(tn_host_ctx *ctx, const char *rel, const void **data, uint64_t *n);
  /* Blob cache for compiled kernels and the like; the host adds the plugin's build id and caps->key. get: memory lives
   * until shutdown; TN_E_UNAVAILABLE when absent. put may quietly keep nothing. */
  tn_status (*cache_get)(tn_host_ctx *ctx, const void *key, uint64_t nkey, const void **data, uint64_t *n);
  tn_status (*cache_put)(tn_host_ctx *ctx, const void *key, uint64_t nkey, const void *data, uint64_t n);
  /* Symbolic dims: value under dims; sound bounds; divisibility (1 yes, 0 no, -1 unknown); order (-1, 0, 1; 2 unknown). */
  tn_status (*eval)(const tn_graph *g, tn_expr e, const tn_dims *dims, int64_t *out);
  tn_status (*range)(const tn_graph *g, tn_expr e, int64_t *lo, int64_t *hi);
  int32_t (*divides)(const tn_graph *g, tn_expr e, int64_t c);
  int32_t (*order)(const tn_graph *g, tn_expr a, tn_expr b);
  /* The core's memory planner, lent: places n intervals, total is the arena's size. */
  tn_status (*offsets)(tn_host_ctx *ctx, uint32_t n, tn_interval *iv, uint64_t *total);
  /* Completion of a submitted item, exactly once per ticket; times and err may be NULL. */
  void (*done)(tn_ticket *t, tn_status st, const tn_times *times, const tn_error *err);
  const void *(*get_extension)(tn_host_ctx *ctx, const char *name, uint32_t version);
  /* Symbols that e depends on, as tn_task.symbols wants them: bit i is symbol i, bit 63 all from 63 on. */
  uint64_t (*symbols)(const tn_graph *g, tn_expr e);
  /* Nonzero once what the host is doing with this plugin is to stop: poll it in long lower, bind, set and tn_format
   * calls, and return TN_E_CANCELLED. Runs have tn_run.cancelled. Any thread. */
  int32_t (*cancelled)(tn_host_ctx *ctx);
} tn_host;

/* ---------------------------------------------------------------------------------------------- weights, formats */

/* How a format computes, declared: the contract that kernels are judged by (docs/numerics.md).
 * Activations: x is cut into groups of act_group along K (0: the whole row). TN_ACT_ABSMAX: s = absmax / act_max (f32
 * division), q = round(x * (1 / s)) where 1/s is the f32 quotient act_max / absmax; absmax 0 gives q = 0. TN_ACT_NONE: x is used in act_dtype.
 * TN_ACT_RUNSUM, for lookup tables: as ABSMAX with, for absmax, the largest sum of |x| over the runs of act_run elements
 * that the group is cut into (the last may be short), f32, neighbours added first: (|x0| + |x1|) + (|x2| + |x3|). A
 * table of all partial sums of a run's q then spans at most act_max and the rounding of q: no entry of it is rounded.
 * TN_ACT_STATIC, for calibrated scales: one scale s for all of x, act_group 0. q = round(x / s), f32 division, clamped to
 * [-act_max - 1, act_max]; NaN gives 0. s is act_scale; where that is 0, the float whose bits are the low 32 of the format's
 * params[0]. With acc_inner I64 and acc_outer F64 y is f32 of (f64) sum * (s * s_w), rounded to f64 and then to f32: the
 * sum is a wide integer, so kernels that split it in any way give the same bits (docs/numerics.md has the domain).
 * y[m,n] = sum over groups of sx * sum_k q * w; within a group the sum runs in acc_inner, across groups in acc_outer.
 * avg_depth, with RUNSUM: entries of tables may be added through avg_depth levels of rounding averages of bytes,
 * (a + b + 1) >> 1, in trees of 2^avg_depth runs, and what they add on average, avg_depth / 4 for each entry, is taken off.
 * A level rounds by 0 or 1/2, so an entry is off by avg_depth / 4 at most, and a group's sum over k by
 *   (act_group / act_run) * avg_depth / 4 * avg_unit * w0, w0: the smallest |w[n,k]| of the group that is not 0
 * on top of what the accumulators round. Exact sums obey it too. */
enum { TN_ACT_NONE = 0, TN_ACT_ABSMAX = 1, TN_ACT_RUNSUM = 2, TN_ACT_STATIC = 3 };
enum { TN_ROUND_HALF_EVEN = 0, TN_ROUND_HALF_AWAY = 1 };
enum { TN_DENORM_KEEP = 0, TN_DENORM_FLUSH = 1 };
enum { TN_NAN_PROPAGATE = 0, TN_NAN_UNDEFINED = 1 };
typedef struct tn_numerics {
  tn_hdr h;
  uint32_t act_dtype;  /* of q: TN_DT_I8, TN_DT_I16, TN_DT_I32, TN_DT_F16, TN_DT_F32 */
  uint32_t act_group;  /* elements along K that share a scale; 0 = K */
  uint32_t act_scheme; /* TN_ACT_* */
  uint32_t act_round;  /* TN_ROUND_* */
  float act_max;       /* largest |q|; RUNSUM: of a run's sum of |q|, before rounding */
  uint32_t acc_inner;  /* dtype of sums within a group */
  uint32_t acc_outer;  /* dtype of sums across groups */
  uint32_t scale_dtype; /* dtype that weight scales are stored in */
  uint32_t denormals;  /* TN_DENORM_* of scales and outputs */
  uint32_t nan;        /* TN_NAN_* for inputs that are NaN or infinite */
  double finite_max;   /* |x| above this is outside the declared domain */
  uint32_t act_run;    /* RUNSUM: elements of a run, 2, 4 or 8; act_group is a multiple of it */
  float act_scale;     /* STATIC: s; 0: it stands in params[0] */
  uint32_t avg_depth;  /* levels of averages between entries of tables; 0: exact sums */
  float avg_unit;      /* avg_depth > 0: what one unit in the entries of all planes of a run weighs, in w0 */
} tn_numerics;

/* Weights that a model brings already quantized (MatMulNBits and the like); NULL where it brings floats. AFFINE:
 * w[n,k] = (code - zero) * scale in f32, with scale and zero of row n and group k / group; codes are unsigned. codes, scales
 * and zeros are NULL: how they are stored is the host's affair, grid() tells. scale_dtype: what every scale fits, TN_DT_F16
 * (as a normal number or 0) or TN_DT_F32. zero_kind: HALF: 2^(bits-1) everywhere; CODES: integers in 0..2^bits - 1; VALUES:
 * any f32 up to 256 in magnitude; UNKNOWN: nobody looked, or beyond that. */
enum { TN_QUANT_AFFINE = 0 };
enum { TN_ZERO_UNKNOWN = 0, TN_ZERO_HALF = 1, TN_ZERO_CODES = 2, TN_ZERO_VALUES = 3 };
typedef struct tn_quant {
  tn_hdr h;
  uint32_t bits, group, scheme, scale_dtype;
  const void *codes, *scales, *zeros;
  const void *ctx;
  /* Rows [n0, n1): codes[(n1-n0) * K], one a byte; scales and zeros [(n1-n0) * ceil(K / group)]. Any may be NULL: not
   * wanted. Any thread. */
  tn_status (*grid)(const struct tn_quant *q, int64_t n0, int64_t n1, uint8_t *codes, float *scales, float *zeros);
  uint32_t zero_kind, reserved; /* TN_ZERO_* */
} tn_quant;

/* What an activation was like on the calibration text (docs/calibration.md). absmax: largest |x|. p999: what 99.9 % of
 * all |x| are not above, rounded up by less than 2^-8 of itself. n: channels, the last dim. ch_*: [n] or NULL, over the
 * rows of the text: in how many |x / s| > 127.5 at s = p999 / 127; the mean of x; the mean of x^2. */
typedef struct tn_stats {
  tn_hdr h;
  float absmax, p999;
  uint32_t n, reserved;
  const float *ch_over, *ch_mean, *ch_weight;
  uint64_t rows; /* how many there were; 0: unknown */
} tn_stats;

/* A constant matrix [N,K] to be packed; siblings are joined along N by the host before the plugin sees them. */
enum { TN_WEIGHT_TRANSPOSED = 1 }; /* raw is stored [K,N] */
typedef struct tn_weight {
  tn_hdr h;
  void *ctx;
  int64_t N, K;
  uint32_t dtype, flags; /* of raw; TN_WEIGHT_* */
  const void *raw;       /* the stored bytes, or NULL (joined, or not addressable): then rows() */
  const tn_quant *quant;
  const tn_stats *x; /* of the activation that meets this weight, or NULL */
  /* Rows [n0, n1) as float, dst[(n1-n0) * K], row-major in K whatever the storage. Any thread. */
  tn_status (*rows)(const struct tn_weight *w, int64_t n0, int64_t n1, float *dst);
  uint8_t hash[32]; /* of the content; the host fills it when it packs */
} tn_weight;

/* Packed bytes, owned by the host. */
typedef struct tn_blob {
  tn_hdr h;
  void *ctx;
  const tn_format *format;
  int64_t N, K;
  uint64_t bytes;
  const void *ptr; /* NULL: on disk only, then read() */
  const int64_t *params;
  uint32_t n_params, reserved;
  tn_status (*read)(const struct tn_blob *b, uint64_t offset, uint64_t n, void *dst); /* any thread, in run too */
} tn_blob;

/* Leaf. Bytes and alignment of a packed matrix; rows are packed in multiples of row_unit. */
typedef struct tn_pack_size {
  uint64_t bytes;
  uint32_t align, row_unit;
} tn_pack_size;

/* A weight format. Identity = name, version, params: whoever states it promises equal bytes on every machine and for
 * every split of rows over threads. Needs no device. */
enum { TN_FMT_READS_STATS = 1, TN_FMT_READS_QUANT = 2 };
struct tn_format {
  tn_hdr h;
  const char *name; /* "w4g" ... ; [a-z0-9._-] */
  uint32_t version, bits, group, flags; /* group 0: by params */
  float bits_per_weight;  /* all in: codes, scales, zeros */
  float w_err;            /* bound of |w - unpack(pack(w))| relative to the group's absmax */
  float x_err;            /* bound of |x - dequantized x| relative to the activation group's absmax */
  uint32_t reserved;
  const tn_numerics *numerics;
  /* Numerics for given params (may differ by group); NULL: always `numerics`. */
  const tn_numerics *(*numerics_of)(const tn_format *f, const int64_t *params, uint32_t n);
  /* Pure. */
  tn_status (*size)(const tn_format *f, int64_t N, int64_t K, const int64_t *params, uint32_t n, tn_pack_size *out);
  /* Begins: may read the whole tensor once. Memory from host->alloc. */
  tn_status (*begin)(const tn_host *host, const tn_format *f, const tn_weight *w, const int64_t *params, uint32_t n,
                     tn_pack **out, tn_error *err);
  /* Packs rows [n0, n1) (n0 a multiple of row_unit, n1 too or N) into their place in blob. Disjoint ranges from any
   * threads at once. */
  tn_status (*rows)(tn_pack *p, int64_t n0, int64_t n1, void *blob);
  /* Writes what is left (header) and frees p. blob NULL: abandon. */
  tn_status (*end)(tn_pack *p, void *blob);
  /* box = n0,n1,k0,k1: dst[(n1-n0) * (k1-k0)] floats; reads no other bytes than those rows need. */
  tn_status (*unpack)(const tn_blob *b, const int64_t box[4], float *dst);
};

/* ------------------------------------------------------------------------------- the graph that a plugin sees */
/* Read only, valid for the call. A program may keep ids and expressions, and tn_graph.ctx, which outlives it: a shallow
 * copy of the tn_graph is what host->eval and its like need in measure and bind. Names are for messages. */

enum { TN_SYM_PADDABLE = 1, TN_SYM_DATA = 2 };
typedef struct tn_symbol {
  tn_hdr h;
  const char *name;
  int64_t lo, hi;
  uint32_t flags, reserved;
} tn_symbol;

enum {
  TN_ATTR_NONE = 0, TN_ATTR_INT = 1, TN_ATTR_FLOAT = 2, TN_ATTR_STRING = 3, TN_ATTR_INTS = 4, TN_ATTR_FLOATS = 5,
  TN_ATTR_TENSOR = 6, TN_ATTR_GRAPH = 7, TN_ATTR_STRINGS = 8
};
/* word: what a STRING says where its operator lists the values, by the numbers of attrs.h (TN_WORD_*); of STRINGS, value i
 * of the first six is (word >> 5 * i) & 31. 0: absent, any text may stand there, or the host did not fill it in. */
typedef struct tn_attr {
  tn_hdr h;
  uint32_t type, word;
  uint64_t n; /* count of ints, floats, strings, bytes of s; 0: absent */
  union {
    int64_t i;
    double f;
    const int64_t *ints;
    const float *floats;
    const char *s; /* terminated */
    const char *const *strings;
    const void *p;
  } u;
} tn_attr;

/* A KV cache owned by the host, updated in place. A cache is two values of kind STATE that are one memory: the first, as
 * the run finds it, has no producer; the second is written by a TensorScatter, which appends this run's rows to it
 * (TN_APPEND) and nothing else. A STATE slot may name either. Both have the dims of the whole context, rows of this run
 * included; on a session that keeps its caches, dims[axis] may be rounded up to a bucket, and rows from `valid` on are
 * finite but arbitrary. The view of a 3-D value [batch, rows, heads * size] has rank 4, [batch, rows, heads, size]; that of a
 * 4-D one has the value's dims. How the memory lies is in its strides, never in dims: there is room for more rows.
 * axis: the sequence. pos, valid: STEP values int64 [batch]: rows before this run, and with it. capacity 0: not known
 * before the view is.
 * TN_STATE_CIRCULAR (from lower on, where the agreed layout has TN_LAYOUT_CIRCULAR): the memory is a ring of fewer rows
 * than there are positions. Its view has R = dims[axis] rows, the value's dims are still those of the whole context, and
 * pos, valid and all keys are counted by position: position p lies in row p % R. An append of n rows writes rows pos % R,
 * (pos + 1) % R, ...; of more than R rows the last R stay. Position p can be read while p >= valid - R. The host sees to
 * it that no query of a run looks back further than that: every reader is an Attention with left_window_size w, and R >= w + n.
 * What has been written over is finite. */
enum { TN_STATE_CIRCULAR = 1 };
typedef struct tn_state {
  tn_hdr h;
  uint32_t axis, flags;
  int64_t capacity;
  tn_id pos, valid;
  int64_t heads; /* of a 3-D value: heads that its last dim holds; 0: one */
} tn_state;

/* STEP: small tensors that the host writes before a step (positions, lengths, values of shape arithmetic). */
enum {
  TN_VALUE_INPUT = 1, TN_VALUE_CONST = 2, TN_VALUE_ACT = 3, TN_VALUE_OUTPUT = 4, TN_VALUE_STATE = 5, TN_VALUE_STEP = 6
};
typedef struct tn_value {
  tn_hdr h;
  uint32_t kind, dtype, rank, n_uses;
  const tn_expr *dims; /* [rank] */
  const tn_id *uses;   /* [n_uses] nodes; a node that reads it twice stands twice */
  tn_id producer;      /* node, or TN_NONE */
  tn_id origin;        /* value id in the imported graph, or TN_NONE */
  const tn_state *state;
  const tn_weight *data; /* CONST of rank 2: as [N,K] = [dims[0], dims[1]] */
  const tn_stats *stats;
  const char *name;
} tn_value;

typedef struct tn_node {
  tn_hdr h;
  uint32_t op; /* TN_OP_* */
  uint16_t n_in, n_out;
  uint32_t n_attr, reserved;
  const tn_id *in, *out; /* absent: TN_NONE */
  const tn_attr *const *attr; /* in the order of attrs.h, defaults filled in */
  const char *name, *domain;
} tn_node;

struct tn_graph {
  tn_hdr h;
  tn_graph_ctx *ctx;
  uint32_t phase, n_nodes, n_values, n_symbols; /* nodes in topological order */
  const tn_node *const *nodes;
  const tn_value *const *values;
  const tn_symbol *const *symbols;
  uint8_t hash[32];
};

/* ------------------------------------------------------------------------------------------------------- claims */

enum { TN_YES = 1, TN_NO = 2, TN_GROUP_ONLY = 3 };
enum {
  TN_WHY_NONE = 0, TN_WHY_OP = 1, TN_WHY_DTYPE = 2, TN_WHY_SHAPE = 3, TN_WHY_ATTR = 4, TN_WHY_NOT_CONST = 5,
  TN_WHY_NO_STATS = 6, TN_WHY_FLOAT = 7, TN_WHY_DRIVER = 8, TN_WHY_OPTION = 9, TN_WHY_TOO_BIG = 10, TN_WHY_CPU = 11
};
enum { TN_REL_EQ = 1, TN_REL_LE = 2, TN_REL_GE = 3, TN_REL_MOD = 4 };
/* Leaf. lhs rel rhs must hold at run time (MOD: lhs % rhs == 0). */
typedef struct tn_constraint {
  tn_expr lhs;
  uint32_t rel;
  int64_t rhs;
} tn_constraint;

/* A layout that a plugin accepts for a STATE: order of its view's dimensions, outermost first. Between neighbours along
 * order[2] lies a multiple of inner_align elements, along order[1] one of pitch_align (0 or 1: dense).
 * dtype TN_DT_I8 is a quantized cache of floats: what one head has at one position, `size` elements, is `size` codes,
 * zeros up to a multiple of 4 bytes, and a float32 scale after them; an element is code * scale in float32. Who appends
 * rounds so, a being the largest |x| of the row: scale = a / 127, code = x * (127 / a) in float32, half to even, a below
 * 2^-120 counting as 0 (codes and scale 0); a row with an inf or NaN gets scale NaN. Strides count bytes then, and the
 * last dim of the order must be the size.
 * Who attends over rows of TN_DT_BF16 may round queries, times their scale, and probabilities to that type too.
 * flags TN_LAYOUT_CIRCULAR: it may be a ring (TN_STATE_CIRCULAR); the host makes it one where all who touch it agree and
 * every reader has a window. */
enum { TN_LAYOUT_CIRCULAR = 1 };
typedef struct tn_layout {
  tn_hdr h;
  uint32_t dtype, rank;
  uint8_t order[8];
  uint32_t inner_align, pitch_align;
  uint32_t flags, reserved; /* TN_LAYOUT_* */
} tn_layout;

typedef struct tn_claim {
  tn_hdr h;
  uint32_t verdict, reason, n_constraints, reserved; /* TN_YES ..., TN_WHY_* */
  const tn_constraint *constraints;
  const tn_format *format; /* the weight format it would use, or NULL */
  const int64_t *params;   /* the format's params */
  double cost_ns, macs;    /* at the dims given to claim; cost 0 = unknown */
  uint64_t weight_bytes;
  uint32_t n_params, reserved2;
  char text[120]; /* why not; empty for yes */
} tn_claim;

/* Copies what it is given. */
typedef struct tn_claim_sink {
  tn_hdr h;
  void *ctx;
  tn_status (*node)(void *ctx, tn_id node, const tn_claim *c);                       /* every node, exactly once */
  tn_status (*group)(void *ctx, const tn_id *nodes, uint32_t n, const tn_claim *c);  /* all or nothing; may overlap */
  tn_status (*state)(void *ctx, tn_id value, const tn_layout *const *accepted, uint32_t n); /* best first */
} tn_claim_sink;

/* ----------------------------------------------------------------------------------------------------- lowering */

/* What the host took of the claims. group_of[i]: index of the group that nodes[i] was taken with, or TN_NONE. Inputs
 * are values from outside (INPUT, ACT, STEP; constants are not listed), outputs those read outside. */
typedef struct tn_subgraph {
  tn_hdr h;
  const tn_graph *graph;
  const tn_id *nodes, *group_of, *inputs, *outputs, *states;
  const tn_layout *const *layouts; /* of states[], as agreed */
  uint32_t n_nodes, n_inputs, n_outputs, n_states;
  uint8_t hash[32];
} tn_subgraph;

/* Constants that a program wants: packed (format) or raw (format NULL, one value). */
enum { TN_RESIDENCY_DEVICE = 1, TN_RESIDENCY_HOST = 2, TN_RESIDENCY_DISK = 3 };
enum { TN_NEED_KN = 1 }; /* the values are stored [K,N] (MatMul's B); otherwise [N,K] */
typedef struct tn_need {
  tn_hdr h;
  const tn_format *format;
  const tn_id *values; /* joined along N */
  const int64_t *params;
  uint32_t n_values, n_params, residency, flags;
} tn_need;

enum {
  TN_SLOT_INPUT = 1, TN_SLOT_OUTPUT = 2, TN_SLOT_STATE = 3, TN_SLOT_STEP = 4, TN_SLOT_WEIGHT = 5, TN_SLOT_TEMP = 6,
  TN_SLOT_PRIVATE = 7
};
/* One argument of a program. engines: bit e = engine e touches it. alias: the INPUT slot that an OUTPUT may overwrite. A
 * TEMP slot that names a value holds it, dense and whole. */
typedef struct tn_slot {
  tn_hdr h;
  const char *name;
  uint32_t kind, engines, align, reserved;
  tn_id value, need, alias, reserved2;
} tn_slot;

enum { TN_READ = 1, TN_WRITE = 2, TN_APPEND = 4 };
/* Leaf. */
typedef struct tn_use {
  tn_id slot;
  uint32_t access;
} tn_use;

/* One step of a program on one engine. engine 0 is the host's CPU for every plugin. symbols: bit i = the task depends
 * on symbol i (bit 63 also stands for all symbols above). deps: tasks of this program. nodes: what it computes. */
typedef struct tn_task {
  tn_hdr h;
  const char *name;
  uint32_t engine, flags;
  uint64_t symbols;
  const tn_use *uses;
  const tn_id *deps, *nodes;
  uint32_t n_uses, n_deps, n_nodes, reserved;
} tn_task;

typedef struct tn_program_info {
  tn_hdr h;
  const tn_need *const *needs;
  const tn_slot *const *slots;
  const tn_task *const *tasks; /* topological order */
  uint32_t n_needs, n_slots, n_tasks, reserved;
} tn_program_info;

/* What a task takes at given dims. slot_bytes[n_slots] is the caller's array: bytes of TEMP and PRIVATE slots that the
 * task uses (others are left alone). */
typedef struct tn_measure {
  tn_hdr h;
  uint64_t scratch_bytes, driver_bytes;
  uint64_t *slot_bytes;
  double cost_ns, macs, moved_bytes;
  uint32_t scratch_align, reserved;
} tn_measure;

/* ----------------------------------------------------------------------------------------- memory and execution */

enum { TN_BUF_COHERENT = 1 };
typedef struct tn_buffer {
  tn_hdr h;
  tn_device *device;
  uint64_t bytes;
  uint32_t flags, reserved;
} tn_buffer;

enum { TN_MEM_NEW = 0, TN_MEM_HOST_PTR = 1, TN_MEM_DMABUF = 2, TN_MEM_FD = 3 };
enum { TN_BUF_ZERO = 1, TN_BUF_HOST = 2 }; /* zeroed; the CPU will map it */
typedef struct tn_buffer_req {
  tn_hdr h;
  uint64_t bytes, offset;
  void *ptr;
  int32_t fd;
  uint32_t kind, usage, flags, align, reserved; /* TN_MEM_*, bits of TN_SLOT_* kinds, TN_BUF_* */
} tn_buffer_req;

/* Memory of one use. Engines find it at the root buffer + offset, a multiple of caps->sub_align; ptr is its first byte
 * where the CPU may reach it (CPU tasks always have it), else NULL. strides in elements. What engines read of INPUT and
 * STEP values lies in one buffer of the device, which the host writes once per step. */
typedef struct tn_view {
  tn_hdr h;
  tn_buffer *buffer;
  void *ptr;
  uint64_t offset, bytes;
  const int64_t *dims, *strides;
  uint32_t dtype, rank;
} tn_view;

/* One submission: a bound plan, or (plan NULL) a copy src -> dst. ready: when its inputs were ready, on caps->clock. */
typedef struct tn_item {
  tn_hdr h;
  const tn_plan *plan;
  tn_args *args;
  const tn_view *src, *dst;
  tn_ticket *ticket;
  int64_t ready;
} tn_item;

/* ---------------------------------------------------------------------------------------- what the plugin gives */

typedef struct tn_option {
  tn_hdr h;
  const char *key, *help, *dflt; /* dflt in YAML spelling */
  double lo, hi;                 /* for INT and FLOAT, when lo < hi */
  uint32_t type, reserved;       /* TN_OPT_* */
  const char *choices;           /* "32|128" or NULL */
} tn_option;

enum { TN_CLOCK_DEVICE = 1, TN_CLOCK_VIRTUAL = 2 };
typedef struct tn_clock {
  tn_hdr h;
  const char *name;
  uint32_t kind, reserved;
  double cpu_ns_per_mac, cpu_ns_per_byte; /* VIRTUAL: what CPU tasks cost on it */
} tn_clock;

enum { TN_ENGINE_BLOCKING = 1 }; /* submit returns after done: the host gives the engine a thread */
typedef struct tn_engine {
  tn_hdr h;
  const char *name;
  uint32_t flags, depth; /* items it takes in flight */
} tn_engine;

enum { TN_CAPS_OFFLINE = 1 }; /* claims, lowers and packs for hardware that is not here; cannot run */
/* Plain data, 0 = not supported. engines[0] is engine 1. */
typedef struct tn_caps {
  tn_hdr h;
  const char *name, *driver;
  uint8_t key[32]; /* of the driver and hardware: compiled kernels depend on it */
  const tn_engine *const *engines;
  const tn_clock *clock;
  uint32_t n_engines, flags, import_kinds, export_kinds; /* TN_CAPS_*; bit k = TN_MEM_k */
  uint32_t align, sub_align, import_align, image_pitch_px, image_base_px, image_max_px;
  uint64_t dtypes; /* bit TN_DT_* */
  uint64_t memory_bytes, max_buffer_bytes, window_bytes;
} tn_caps;

/* A device. Freed in the order args, plans, programs, buffers, device; also after DEVICE_LOST. An item that the host has
 * given up (nothing came back for timeout_ms) may still be in flight then: args_free waits for it, or takes it out of the
 * queue. Its `done`, and one for any item of an earlier step or session, may come until close. Buffer functions are
 * NULL where memory is the host's; submit is NULL where there are no engines. */
struct tn_device {
  tn_hdr h;
  const tn_caps *caps;
  /* Pure: every node answered once. at: dims at which cost is wanted, or NULL. */
  tn_status (*claim)(tn_device *d, const tn_graph *g, const tn_dims *at, const tn_claim_sink *sink, tn_error *err);
  tn_status (*lower)(tn_device *d, const tn_subgraph *s, tn_program **out, tn_error *err);
  const tn_program_info *(*info)(const tn_program *p);
  /* Pure, no device work, asked for every bucket before anything is allocated. */
  tn_status (*measure)(const tn_program *p, tn_id task, const tn_dims *dims, tn_measure *out);
  /* Attaches WEIGHT (with its blob; format NULL: blob NULL and the view is the constant) and PRIVATE memory. view NULL:
   * residency DISK. The memory lives until release. */
  tn_status (*set)(tn_program *p, tn_id slot, const tn_view *view, const tn_blob *blob, tn_error *err);
  void (*release)(tn_program *p);
  /* Picks and compiles kernels for these dims. */
  tn_status (*bind)(tn_program *p, tn_id task, const tn_dims *dims, tn_plan **out, tn_error *err);
  void (*unbind)(tn_plan *plan);
  /* Attaches memory: uses[i] belongs to task->uses[i]; one more entry, the last, is the scratch (bytes may be 0).
   * WEIGHT and PRIVATE uses come with what set() got. Views are copied. */
  tn_status (*args)(tn_plan *plan, const tn_view *const *uses, uint32_t n, tn_args **out, tn_error *err);
  tn_status (*args_set)(tn_args *a, uint32_t use, const tn_view *view, tn_error *err); /* allocates nothing */
  void (*args_free)(tn_args *a);
  /* Engine 0: computes on the calling thread and run's pool; the return is the completion. No allocation. */
  tn_status (*run)(const tn_plan *plan, tn_args *a, tn_run *run, tn_error *err);
  /* Other engines: takes all items or none; each completes through host->done. run is lent to BLOCKING engines only. */
  tn_status (*submit)(tn_device *d, uint32_t engine, const tn_item *const *items, uint32_t n, tn_run *run, tn_error *err);
  /* kind NEW makes memory; the others import what the host or another device's share() has: ptr, or fd + offset, which
   * stays the caller's (keep a dup of it, or a mapping). Without TN_BUF_HOST it is never mapped. */
  tn_status (*create)(tn_device *d, const tn_buffer_req *req, tn_buffer **out, tn_error *err);
  /* Memory of b for another device, as one of caps->export_kinds: out->ptr, or out->fd (the caller closes it) and
   * out->offset. Valid while b lives. */
  tn_status (*share)(tn_buffer *b, uint32_t kind, tn_buffer_req *out, tn_error *err);
  void (*destroy)(tn_buffer *b);
  /* Range [offset, offset + n) for the CPU; *ptr is its first byte. access: TN_READ, TN_WRITE; only WRITE: all of it will
   * be written, its content need not come. Several ranges of a buffer that do not meet may be mapped at once, and items
   * may use what is not mapped. Buffers flagged TN_BUF_COHERENT stay mapped while items use them. */
  tn_status (*map)(tn_buffer *b, uint64_t offset, uint64_t n, uint32_t access, void **ptr, tn_error *err);
  tn_status (*unmap)(tn_buffer *b, void *ptr, tn_error *err);
};

/* RESIDENT: something of it outlives shutdown (a driver's threads): the code must stay loaded. A second entry call after
 * shutdown works all the same. */
enum { TN_PLUGIN_RESIDENT = 1 };
struct tn_plugin {
  tn_hdr h;
  const char *name, *version, *build_id;
  const tn_option *const *options;
  const tn_format *const *formats;
  uint32_t n_options, n_formats;
  /* Zero devices is a normal answer; err then says why. */
  tn_status (*enumerate)(tn_plugin *p, uint32_t cap, const tn_caps **out, uint32_t *n, tn_error *err);
  tn_status (*open)(tn_plugin *p, uint32_t index, tn_device **out, tn_error *err);
  void (*close)(tn_device *d); /* joins its threads */
  void (*shutdown)(tn_plugin *p);
  const void *(*get_extension)(tn_plugin *p, const char *name, uint32_t version);
  uint32_t flags, reserved; /* TN_PLUGIN_* */
};

/* Both ranges are filled even on failure, so that the message shows both. minor: min(host_max, plugin_max). */
typedef struct tn_negotiate {
  tn_hdr h;
  uint16_t host_min, host_max, plugin_min, plugin_max, minor, reserved[3];
  char name[32], version[32], message[128];
} tn_negotiate;

/* The one exported symbol. TN_E_INCOMPATIBLE where the ranges do not meet. */
typedef tn_status (*tn_entry_v1)(const tn_host *host, tn_negotiate *neg, tn_plugin **out);

typedef struct tn_static_plugin {
  tn_hdr h;
  const char *name, *manifest;
  tn_entry_v1 entry;
} tn_static_plugin;

/* Exports the entry of a plugin: TN_PLUGIN(cpu_avx2_lut, my_entry). With -DTN_STATIC it gets a name of its own, for a
 * generated table of static plugins. */
#if defined(__cplusplus)
#define TN_EXTERN_C extern "C"
#else
#define TN_EXTERN_C
#endif
#ifdef TN_STATIC
#define TN_PLUGIN(ident, fn)                                                                                          \
  TN_EXTERN_C tn_status tn_static_entry_##ident(const tn_host *host, tn_negotiate *neg, tn_plugin **out);             \
  TN_EXTERN_C tn_status tn_static_entry_##ident(const tn_host *host, tn_negotiate *neg, tn_plugin **out) {            \
    return fn(host, neg, out);                                                                                        \
  }
#else
#define TN_PLUGIN(ident, fn)                                                                                          \
  TN_EXTERN_C __attribute__((visibility("default"))) tn_status tenon_plugin_entry_v1(                                 \
      const tn_host *host, tn_negotiate *neg, tn_plugin **out);                                                       \
  TN_EXTERN_C __attribute__((visibility("default"))) tn_status tenon_plugin_entry_v1(                                 \
      const tn_host *host, tn_negotiate *neg, tn_plugin **out) {                                                      \
    return fn(host, neg, out);                                                                                        \
  }
#endif

#ifdef __cplusplus
}
#endif
#endif
