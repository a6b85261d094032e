/* SPDX-License-Identifier: Apache-2.0
 *
 * A simulated NPU: int8 matrix products of fixed shapes, one queue in order, memory of its own view, a clock of its
 * own.
 *
 * It is a device that plays fair with nobody. It knows no pointer of the caller: memory is registered as a file
 * descriptor, an offset and a length, and the simulator maps it somewhere else. What is not registered it cannot reach.
 * All addresses are a handle and an offset, multiples of 128 bytes. What is registered at once is limited by the
 * window. A graph is products of constant weights with fixed shapes, prepared once; running it with any other shape is
 * refused.
 *
 * The function is exact: y[m,n] = sum over k of x[m,k] * w[n,k], int8 times int8 in int32. The clock is virtual: it
 * moves by what the profile says (profile.h), whatever the machine below does, so that times are equal on every
 * machine.
 *
 * Knows nothing of the plugin ABI. Any thread; executions run one after the other, the other calls beside them.
 */
#ifndef TENON_NPU_INT8_SIM_SIM_SIM_H
#define TENON_NPU_INT8_SIM_SIM_SIM_H

#include <stddef.h>

#include "plugins/npu-int8-sim/sim/profile.h"

enum {
  NPUSIM_OK = 0,
  NPUSIM_BAD = 1,          /* an argument that makes no sense */
  NPUSIM_SHAPE = 2,        /* a shape that the device or the graph does not have */
  NPUSIM_MEMORY = 3,       /* no memory, or the descriptor cannot be mapped */
  NPUSIM_WINDOW = 4,       /* the window is full */
  NPUSIM_UNREGISTERED = 5, /* a handle that is unknown or gone, or an address beyond it */
  NPUSIM_BUSY = 6,         /* memory that an execution uses, or a graph holds */
  NPUSIM_LOST = 7,         /* the device is gone; everything fails from here on */
  NPUSIM_HUNG = 8,         /* this execution will never complete */
  NPUSIM_STOPPED = 9,      /* the caller asked to stop */
  NPUSIM_STALE = 10        /* a saved graph of something else */
};

typedef struct npusim npusim;
typedef struct npusim_graph npusim_graph;

/* Which call goes wrong, counted from 1; 0: none. */
typedef struct npusim_faults {
  uint64_t alloc_at, register_at, graph_at, lost_at, hung_at; /* the last two count executions */
} npusim_faults;

typedef struct npusim_config {
  const npusim_profile *profile;
  uint64_t window_bytes; /* 0: the profile's */
  bool wake;             /* idle gaps cost wake_ns */
  uint32_t trace;        /* executions to remember, the last ones; 0: none */
  npusim_faults faults;
} npusim_config;

typedef struct npusim_counters {
  uint64_t allocations, registrations, graphs, submissions, copies; /* so far */
  uint64_t bytes_copied;                                            /* so far, by read and write */
  uint64_t registered_bytes, live_registrations, live_graphs;       /* now */
  int64_t prepare_ns, busy_ns, end_ns;                              /* so far; the queue's clock */
  uint64_t loaded;                                                  /* graphs from saved ones, so far */
} npusim_counters;

/* One execution, on the device's clock. */
typedef struct npusim_times {
  int64_t ready, start, end;
  uint64_t bytes; /* weights streamed, inputs and outputs */
  uint64_t graph, submission;
} npusim_times;

/* NULL without memory. */
npusim *npusim_open(const npusim_config *config);
/* Unmaps everything. Graphs must be gone. */
void npusim_close(npusim *s);
/* Stable text of a result. */
const char *npusim_text(int rc);

/* Memory that both sides can map: a descriptor, which the caller closes; zeroed. */
int npusim_alloc(npusim *s, uint64_t bytes, int *fd);
/* The device's view of `bytes` at `offset` (a multiple of 128) of fd, which it does not keep. Handles are never reused.
 */
int npusim_register(npusim *s, int fd, uint64_t offset, uint64_t bytes, uint32_t *handle);
int npusim_unregister(npusim *s, uint32_t handle);
/* The device's DMA to and from the caller's memory; any offset. Counted. */
int npusim_write(npusim *s, uint32_t handle, uint64_t offset, const void *src, uint64_t n);
int npusim_read(npusim *s, uint32_t handle, uint64_t offset, void *dst, uint64_t n);

/* Bytes of a weight matrix [N,K]: tiles of 32 columns n, each of tiles of 32 k, each [32 n][32 k]; what lies beyond N
 * or K is zero. Of an activation: [M][K rounded up to 32]; of a result: int32 [M][N rounded up to 32]. 0 where it
 * overflows. */
uint64_t npusim_weight_bytes(int64_t N, int64_t K);
uint64_t npusim_input_bytes(int64_t M, int64_t K);
uint64_t npusim_output_bytes(int64_t M, int64_t N);

/* A product of a graph and where its weights lie. */
typedef struct npusim_gemm {
  npusim_shape shape;
  uint32_t weights, reserved; /* handle */
  uint64_t weights_at;
} npusim_gemm;

enum { NPUSIM_MAX_GEMMS = 16, NPUSIM_MAX_K = 131072, NPUSIM_MAX_PARAMS = 4096 };

/* What stands between products [0, first) and the others of a graph: code of the caller's that the device's vector unit
 * runs, as operator packages are. It makes the codes [rows][K rounded up to 32] that the others read, from sums
 * [rows][N rounded up to 32] of the first, for some rows at a time; what lies beyond K it leaves. It sees the device's
 * own memory only. params are copied. Its time is in no cost model: hidden behind the products. */
typedef struct npusim_middle {
  const char *name; /* with a version in it */
  void (*fn)(const void *params, const int32_t *const *sums, int8_t *codes, int64_t rows);
  const void *params;
  uint32_t n_params, first;
} npusim_middle;

/* M must be a multiple of 32; N and K from 1, K to 131072 (so that int32 cannot overflow). The weights stay where they
 * are. mid may be NULL. */
int npusim_prepare(npusim *s, const npusim_gemm *g, uint32_t n, const npusim_middle *mid, npusim_graph **out);
void npusim_graph_free(npusim_graph *g);

/* A prepared graph as it is kept: what it was made for, and a sum over that. No pointers, no padding. */
typedef struct npusim_saved {
  char magic[8];
  uint32_t version, n, first, reserved;
  char profile[32], middle[32];
  uint64_t params; /* digest of the middle's */
  npusim_shape shape[NPUSIM_MAX_GEMMS];
  uint64_t weights[NPUSIM_MAX_GEMMS]; /* digests of the codes */
  uint64_t sum;
} npusim_saved;
/* What preparing these would give. */
int npusim_describe(npusim *s, const npusim_gemm *g, uint32_t n, const npusim_middle *mid, npusim_saved *out);
/* The graph without preparing it, which then costs no time. now: of npusim_describe. NPUSIM_STALE: what was saved is
 * another simulator's or profile's, of other shapes or weights, or damaged. */
int npusim_load(npusim *s, const npusim_gemm *g, uint32_t n, const npusim_middle *mid, const npusim_saved *now,
                const void *saved, uint64_t bytes, npusim_graph **out);

/* Float attention, where the profile has it: M queries (a multiple of 32), the last at position valid - 1, over the
 * first `valid` of T keys; causal: each over those up to its own. softmax(scale * q k) v in double, one rounding; rows
 * of a query that sees nothing are 0. Nothing to prepare, and it holds no weights. */
typedef struct npusim_attention {
  int64_t M, T, heads, kv_heads, size, v_size;
  float scale;
  bool causal;
} npusim_attention;
/* float32: where the first row, a row and a head begin, in elements; the first counts from `at`. */
typedef struct npusim_rows {
  uint32_t handle, reserved;
  uint64_t at;
  int64_t row, head, first;
} npusim_rows;
typedef struct npusim_attention_io {
  npusim_rows q, k, v, y;
  uint32_t valid, mask; /* handle of an int64; of bytes, one for each key that is 0 where nobody sees it, or 0 */
  uint64_t valid_at, mask_at;
  int64_t mask_row, mask_head; /* in bytes; 0: the same for all */
} npusim_attention_io;
int npusim_prepare_attention(npusim *s, const npusim_attention *a, npusim_graph **out);
int npusim_attend(npusim_graph *g, const npusim_attention_io *io, int64_t ready, int (*stop)(void *arg), void *arg,
                  npusim_times *times);

/* A tensor of an execution: rows and columns as the graph has them. */
typedef struct npusim_tensor {
  uint32_t handle, reserved;
  uint64_t at;
  int64_t rows, columns;
} npusim_tensor;

/* Runs the graph: x[i] and y[i] belong to product i (x may repeat); with a middle, x of those before it and y of the
 * others are read. ready: when the inputs were there, on the device's clock. stop may be NULL; a nonzero answer ends
 * it. Returns when it is done. */
int npusim_execute(npusim_graph *g, const npusim_tensor *x, const npusim_tensor *y, int64_t ready,
                   int (*stop)(void *arg), void *arg, npusim_times *times);

void npusim_count(npusim *s, npusim_counters *out);
/* Remembered executions, oldest first; returns how many there are, at most cap are written. */
uint32_t npusim_trace(npusim *s, npusim_times *out, uint32_t cap);

#endif
