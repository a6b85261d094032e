/* SPDX-License-Identifier: Apache-2.0
 *
 * tenon/plugin.h: the vendor ABI, version 1 (release candidate).
 *
 * A backend is one shared object with one exported symbol, tenon_plugin_entry_v1. The host gives it a table of services
 * (tn_host) and gets a table of functions back (tn_plugin); devices, programs, plans and memory hang on that. The walk
 * of five devices through these calls is docs/plugin-abi.md. This is the header to include; it brings
 *   tenon/format.h   weights and their formats
 *   tenon/graph.h    the graph that a plugin sees, claims
 *   tenon/ops.h      operators
 *   tenon/types.h    what the application API (tenon/tenon.h) shares with it
 * Four are included by none of these. tenon/attrs.h: the order of all operators' attributes (TN_AT_*) and the words of
 * those that are texts (TN_WORD_*). tenon/manifest.h: a manifest inside the plugin. Extensions: offline.h and power.h.
 * Pages that the headers name as docs/NAME.md are installed as share/doc/tenon/NAME.md.
 * The version here, TN_ABI_*, is that of these headers but types.h; the application API has one of its own, TN_API_*.
 *
 * Rules of the headers
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
 *  7. No exit, abort, signal handler or exception crosses. FP mode, affinity and signal mask come back unchanged. A
 *     thread that a plugin starts should block all signals but those of faults (SIGSEGV, SIGBUS, SIGFPE, SIGILL): the
 *     others are the application's. It inherits the mask of who starts it: block, pthread_create, put the mask back.
 *  8. Enum values born in minor m are used only when the negotiated minor >= m. "1.1" at a field, a struct or a value says
 *     when it was born; the rest is 1.0.
 */
#ifndef TENON_PLUGIN_H
#define TENON_PLUGIN_H

#include <tenon/format.h>
#include <tenon/graph.h>
#include <tenon/ops.h>
#include <tenon/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TN_ABI_MAJOR 1
#define TN_ABI_MINOR 1
#define TN_ENTRY_SYMBOL "tenon_plugin_entry_v1"

/* The header of a struct of this ABI, as an initializer: {.h = TN_HDR(tn_need), ...}. */
#define TN_HDR(type) { (uint32_t)sizeof(type), TN_ABI_MAJOR, TN_ABI_MINOR }
/* Fills the header of a struct variable: TN_INIT(&need). The rest stays as it is. */
#define TN_INIT(p) \
  ((void)((p)->h.size = (uint32_t)sizeof *(p), (p)->h.major = TN_ABI_MAJOR, (p)->h.minor = TN_ABI_MINOR))

/* The host's own (opaque). */
typedef struct tn_host_ctx tn_host_ctx;
typedef struct tn_ticket tn_ticket;
/* The plugin's own (opaque). */
typedef struct tn_program tn_program; /* a lowered subgraph: needs, slots, tasks; compiles nothing */
typedef struct tn_plan tn_plan;       /* one task bound to concrete dims; immutable, shared by sessions */
typedef struct tn_args tn_args;       /* memory attached to one plan */

typedef struct tn_device tn_device;
typedef struct tn_plugin tn_plugin;

/* Times of one completed item, ns on `clock`. */
typedef struct tn_times {
  tn_hdr h;
  int64_t queued;
  int64_t start;
  int64_t end;
  uint64_t bytes; /* that it moved */
  uint32_t clock; /* 0: the host's monotonic clock, 1: caps->clock */
  uint32_t reserved;
} tn_times;

/* Leaf. One region to place. */
typedef struct tn_interval {
  int64_t first;   /* alive from this step */
  int64_t last;    /* to this one */
  uint64_t bytes;
  uint64_t align;  /* a power of two */
  uint64_t offset; /* the answer */
} tn_interval;

/* ------------------------------------------------------------------------------------------------ host services */

/* Part of a parallel_for: indices [begin, end), worker < tn_run.n_workers. */
typedef void (*tn_body)(void *arg, int64_t begin, int64_t end, uint32_t worker);

/* The host's thread pool, lent for one call to the calling thread only. */
typedef struct tn_run {
  tn_hdr h;
  void *ctx;          /* the host's */
  uint32_t n_workers; /* upper bound of worker + 1 */
  uint32_t step;      /* counts the session's steps, for traces */
  /* Runs body over [0, n) in pieces of at least grain; returns when all is done. Nested calls run inline. */
  void (*parallel_for)(struct tn_run *run, int64_t n, int64_t grain, tn_body body, void *arg);
  /* Nonzero once the step is to stop; poll between tiles and return TN_E_CANCELLED. */
  int32_t (*cancelled)(const struct tn_run *run);
} tn_run;
/* CHECKED: task by task, results are compared: who fuses steps makes each of them a task then, with dense values between. */
enum { TN_HOST_CHECKED = 1, TN_HOST_PROFILE = 2, TN_HOST_PRIVILEGED = 4 };
enum { TN_TAG_PLUGIN = 0, TN_TAG_SCRATCH = 1, TN_TAG_PACK = 2 };
enum { TN_OPT_BOOL = 1, TN_OPT_INT = 2, TN_OPT_FLOAT = 3, TN_OPT_STRING = 4 };
/* PROFILE: spans are kept. PRIVILEGED: the process has rights that its caller lacks: take nothing from the environment. */
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

/* ----------------------------------------------------------------------------------------------------- lowering */

/* Constants that a program wants: packed (format) or raw (format NULL, one value). */
enum { TN_RESIDENCY_DEVICE = 1, TN_RESIDENCY_HOST = 2, TN_RESIDENCY_DISK = 3 };
enum { TN_NEED_KN = 1 }; /* the values are stored [K,N] (MatMul's B); otherwise [N,K] */
typedef struct tn_need {
  tn_hdr h;
  const tn_format *format; /* NULL: raw */
  const tn_id *values;     /* [n_values] joined along N */
  const int64_t *params;   /* [n_params] of the format */
  uint32_t n_values;
  uint32_t n_params;
  uint32_t residency; /* TN_RESIDENCY_*. DEVICE: in a buffer, where the device has create; else in the host's memory */
  uint32_t flags;     /* TN_NEED_* */
  uint32_t section;   /* 1.1: 1 + index of the section that its slots get of the packed matrix; 0: all of it */
  uint32_t reserved;
} tn_need;

enum {
  TN_SLOT_INPUT = 1, TN_SLOT_OUTPUT = 2, TN_SLOT_STATE = 3, TN_SLOT_STEP = 4, TN_SLOT_WEIGHT = 5, TN_SLOT_TEMP = 6,
  TN_SLOT_PRIVATE = 7
};
/* One argument of a program. A TEMP slot that names a value holds it, dense and whole. */
typedef struct tn_slot {
  tn_hdr h;
  const char *name;
  uint32_t kind;    /* TN_SLOT_* */
  uint32_t engines; /* bit e = engine e touches it */
  uint32_t align;   /* of its memory, a power of two; 0: any */
  uint32_t reserved;
  tn_id value; /* that it holds, or TN_NONE; of a WEIGHT its constant or TN_NONE, as you like */
  tn_id need;  /* of a WEIGHT, else TN_NONE */
  tn_id alias; /* the INPUT slot that an OUTPUT may overwrite, or TN_NONE */
  tn_id reserved2;
} tn_slot;

enum { TN_READ = 1, TN_WRITE = 2, TN_APPEND = 4 };
/* Leaf. */
typedef struct tn_use {
  tn_id slot;
  uint32_t access; /* TN_READ, TN_WRITE, TN_APPEND */
} tn_use;

/* One step of a program on one engine. */
typedef struct tn_task {
  tn_hdr h;
  const char *name;
  uint32_t engine;    /* 0 is the host's CPU for every plugin */
  uint32_t flags;     /* 0 */
  uint64_t symbols;   /* bit i = the task depends on symbol i (bit 63 also stands for all symbols above) */
  const tn_use *uses; /* [n_uses] a slot stands once, with all that the task does to it */
  const tn_id *deps;  /* [n_deps] tasks of this program that come before */
  const tn_id *nodes; /* [n_nodes] what it computes; `uses` has all their inputs but constants: the reference reads them */
  uint32_t n_uses;
  uint32_t n_deps;
  uint32_t n_nodes;
  uint32_t reserved;
} tn_task;

typedef struct tn_program_info {
  tn_hdr h;
  const tn_need *const *needs;
  const tn_slot *const *slots;
  const tn_task *const *tasks; /* topological order */
  uint32_t n_needs;
  uint32_t n_slots;
  uint32_t n_tasks;
  uint32_t reserved;
} tn_program_info;

/* What a task takes at given dims. */
typedef struct tn_measure {
  tn_hdr h;
  uint64_t scratch_bytes; /* the last of its args */
  uint64_t driver_bytes;  /* that its plan and args take of the device besides */
  /* [n_slots] The caller's array, or NULL: not wanted. Of each TEMP and PRIVATE slot that this task uses, the bytes at
   * these dims (PRIVATE: the same at all); the other elements are not written. A slot gets the most that a task states. */
  uint64_t *slot_bytes;
  double cost_ns;         /* 0 = unknown */
  double macs;
  double moved_bytes;
  uint32_t scratch_align; /* 0: 64 */
  uint32_t reserved;
} tn_measure;

/* ----------------------------------------------------------------------------------------- memory and execution */

enum { TN_BUF_COHERENT = 1 };
typedef struct tn_buffer {
  tn_hdr h;
  tn_device *device;
  uint64_t bytes;
  uint32_t flags; /* TN_BUF_COHERENT */
  uint32_t reserved;
} tn_buffer;

/* AHB (1.1): ptr is an AHardwareBuffer*, of format BLOB; who keeps it takes a reference of its own. */
enum { TN_MEM_NEW = 0, TN_MEM_HOST_PTR = 1, TN_MEM_DMABUF = 2, TN_MEM_FD = 3, TN_MEM_AHB = 4 };
enum { TN_BUF_ZERO = 1, TN_BUF_HOST = 2 }; /* zeroed; the CPU will map it */
typedef struct tn_buffer_req {
  tn_hdr h;
  uint64_t bytes;
  uint64_t offset; /* in fd */
  void *ptr;       /* HOST_PTR, AHB */
  int32_t fd;      /* DMABUF, FD */
  uint32_t kind;   /* TN_MEM_* */
  uint32_t usage;  /* bit k: slots of kind TN_SLOT_k will lie there */
  uint32_t flags;  /* TN_BUF_ZERO, TN_BUF_HOST */
  uint32_t align;  /* of its first byte, a power of two */
  uint32_t reserved;
  uint64_t modifier; /* 1.1: DMABUF: the DRM format modifier of its bytes; 0 (linear) is all that the host can use itself */
} tn_buffer_req;

/* Memory of one use. What engines read of INPUT and STEP values lies in one buffer of the device, which the host writes
 * once per step.
 * Values of INPUT, OUTPUT and STEP slots, and constants that set() gets without a blob, are dense, row-major: the last
 * stride is 1, each other one is the product of the dims after it. So is the value of a TEMP slot, of which eval gives the
 * dims: TEMP, packed weights and scratch have rank 0, and only bytes count. A STATE has strides of its own (tn_layout). */
typedef struct tn_view {
  tn_hdr h;
  tn_buffer *buffer;      /* the root that engines find it in; NULL: host memory */
  void *ptr;              /* its first byte where the CPU may reach it (CPU tasks always have it), else NULL */
  uint64_t offset;        /* in buffer, a multiple of caps->sub_align */
  uint64_t bytes;
  const int64_t *dims;    /* [rank] */
  const int64_t *strides; /* [rank] in elements */
  uint32_t dtype;         /* TN_DT_* */
  uint32_t rank;
} tn_view;

/* 1.1. When one item is over, told from device to device without the CPU's scheduler between them. WORD: a 64-bit number
 * in host memory. The item is over once *word >= value (acquire); who signals stores value (release), after the item's
 * writes can be seen by every device that shares the memory, and before done; also where the item failed or was
 * cancelled: who waits must not hang. Other kinds (a sync_file, a driver's timeline) will get numbers of their own. */
enum { TN_FENCE_WORD = 1 };
typedef struct tn_fence {
  tn_hdr h;
  uint32_t kind; /* TN_FENCE_* */
  uint32_t reserved;
  uint64_t *word; /* aligned to 64; lives until the items that name it are done, or the devices of given up ones closed */
  uint64_t value; /* never 0; later items of the same word have larger ones */
} tn_fence;

enum { TN_PRIORITY_NORMAL = 0, TN_PRIORITY_LOW = 1, TN_PRIORITY_HIGH = 2 };
/* One submission: a bound plan, or (plan NULL) a copy src -> dst.
 * Once a device is lost, every item that it still has is completed all the same, exactly once: with TN_OK where its
 * results are there, else with TN_E_DEVICE_LOST. What is called later says DEVICE_LOST too, or works: a submit that says
 * so takes nothing, one that takes items completes each of them with one of the two. Nothing waits for what is lost. */
typedef struct tn_item {
  tn_hdr h;
  const tn_plan *plan;
  tn_args *args;      /* of the plan */
  const tn_view *src; /* of a copy */
  const tn_view *dst;
  tn_ticket *ticket; /* for host->done */
  int64_t ready;     /* when its inputs were ready, on caps->clock */
  /* 1.1: on clock 0: when the host gives up the item and the device; 0: never. A driver that can gives up a little earlier, by
   * done and a text: with TN_E_DEVICE_LOST, or with TN_E_INTERNAL where the device goes on and that run alone has failed. */
  int64_t deadline;
  uint32_t priority; /* 1.1: TN_PRIORITY_*, a wish: against other work of the hardware */
  uint32_t n_waits;
  const tn_fence *const *waits; /* 1.1: [n_waits] it begins after these; kinds of caps->wait_fences */
  const tn_fence *signal;       /* 1.1: told when it is over, or NULL; a kind of caps->signal_fences */
} tn_item;

/* ---------------------------------------------------------------------------------------- what the plugin gives */

typedef struct tn_option {
  tn_hdr h;
  const char *key; /* [A-Za-z0-9._-], 63 at most */
  const char *help;
  const char *dflt; /* the default, in YAML spelling: "true", "32", "0.5"; of a STRING the text itself, such as
                     * "blocking", without quotes of its own ("" is the empty one). NULL: false, 0, "" */
  double lo;        /* least, for INT and FLOAT, when lo < hi */
  double hi;        /* largest */
  uint32_t type;    /* TN_OPT_* */
  uint32_t reserved;
  const char *choices; /* "32|128" or NULL */
} tn_option;

enum { TN_CLOCK_DEVICE = 1, TN_CLOCK_VIRTUAL = 2 };
typedef struct tn_clock {
  tn_hdr h;
  const char *name;
  uint32_t kind; /* TN_CLOCK_* */
  uint32_t reserved;
  double cpu_ns_per_mac; /* VIRTUAL: what CPU tasks cost on it */
  double cpu_ns_per_byte;
} tn_clock;

enum { TN_ENGINE_BLOCKING = 1 }; /* submit returns after done: the host gives the engine a thread */
typedef struct tn_engine {
  tn_hdr h;
  const char *name; /* [A-Za-z0-9._-], 31 at most */
  uint32_t flags; /* TN_ENGINE_* */
  /* Items that it takes in flight, from submit to done, of all sessions of a runtime together; 0: any number. Several
   * runtimes may have more in flight together. submit queues those, it does not refuse them. */
  uint32_t depth;
} tn_engine;

enum { TN_CAPS_OFFLINE = 1 }; /* claims, lowers and packs for hardware that is not here; cannot run */
/* Plain data, 0 = not supported. */
typedef struct tn_caps {
  tn_hdr h;
  const char *name; /* any text, 127 at most */
  const char *driver;
  uint8_t key[32];                 /* of the driver and hardware: compiled kernels depend on it */
  const tn_engine *const *engines; /* [n_engines] engines[0] is engine 1 */
  const tn_clock *clock;           /* of tn_times and tn_item.ready, or NULL */
  uint32_t n_engines;
  uint32_t flags;            /* TN_CAPS_* */
  uint32_t import_kinds;     /* of create: bit k = TN_MEM_k. The host does not look at bit 0 (NEW) */
  uint32_t export_kinds;     /* of share */
  uint32_t align;            /* of buffers */
  uint32_t sub_align;        /* of views in them */
  uint32_t import_align;     /* of what is imported as HOST_PTR */
  uint32_t image_pitch_px;   /* rows of images start at multiples of it */
  uint32_t image_base_px;    /* and images in buffers */
  uint32_t image_max_px;     /* of a side */
  uint64_t dtypes;           /* that it computes with: bit TN_DT_* */
  uint64_t memory_bytes;     /* of its own */
  uint64_t max_buffer_bytes; /* of one create */
  uint64_t window_bytes;     /* that its address space holds of packed weights at once */
  uint32_t wait_fences;      /* 1.1: that items may wait for: bit k = TN_FENCE_k */
  uint32_t signal_fences;    /* 1.1: that items may signal */
} tn_caps;

/* A device. Freed in the order args, plans, programs, buffers, device; also after DEVICE_LOST. An item that the host gave
 * up (nothing came back until its deadline) may still be in flight then: args_free takes it out of the queue, or waits for
 * it, but a second at most; then all that it may still touch (plan, program, buffers) stays for good. The host takes a
 * `done` until close, also one of an earlier step. Of an item given up neither `done` nor fence need ever come. Buffer
 * functions are NULL where memory is the host's; submit is NULL where there are no engines. */
struct tn_device {
  tn_hdr h;
  const tn_caps *caps; /* those of enumerate */
  /* Pure: every node answered once. at: dims at which cost is wanted, or NULL. */
  tn_status (*claim)(tn_device *d, const tn_graph *g, const tn_dims *at, const tn_claim_sink *sink, tn_error *err);
  tn_status (*lower)(tn_device *d, const tn_subgraph *s, tn_program **out, tn_error *err);
  const tn_program_info *(*info)(const tn_program *p);
  /* Pure, no device work, asked for every bucket before anything is allocated. */
  tn_status (*measure)(const tn_program *p, tn_id task, const tn_dims *dims, tn_measure *out);
  /* Attaches WEIGHT (with its blob, all of it; format NULL: blob NULL and the view is the constant) and PRIVATE memory.
   * view NULL: residency DISK, the blob has read() and no ptr, whatever section. The memory lives until release. */
  tn_status (*set)(tn_program *p, tn_id slot, const tn_view *view, const tn_blob *blob, tn_error *err);
  void (*release)(tn_program *p);
  /* Picks and compiles kernels for these dims. */
  tn_status (*bind)(tn_program *p, tn_id task, const tn_dims *dims, tn_plan **out, tn_error *err);
  void (*unbind)(tn_plan *plan);
  /* Attaches memory: uses[i] belongs to task->uses[i]; one more entry, the last, is the scratch (bytes may be 0).
   * WEIGHT and PRIVATE uses come with what set() got. Views are copied. The same args are in one run or one item at a
   * time, from run to its return or from submit to done; other args of the plan may be in flight beside them. */
  tn_status (*args)(tn_plan *plan, const tn_view *const *uses, uint32_t n, tn_args **out, tn_error *err);
  tn_status (*args_set)(tn_args *a, uint32_t use, const tn_view *view, tn_error *err); /* allocates nothing */
  void (*args_free)(tn_args *a);
  /* Engine 0: computes on the calling thread and run's pool; the return is the completion. No allocation. */
  tn_status (*run)(const tn_plan *plan, tn_args *a, tn_run *run, tn_error *err);
  /* Other engines: takes all items or none; each completes through host->done. run is lent to BLOCKING engines only.
   * submit may allocate, other than run: a driver does. What it gets is given back by the item's end or kept for the
   * next one, so that steps do not add up; where there is nothing to get it takes none, and says TN_E_NO_MEMORY. */
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
   * may use what is not mapped. Buffers flagged COHERENT stay mapped while items use them. Both may allocate, as submit. */
  tn_status (*map)(tn_buffer *b, uint64_t offset, uint64_t n, uint32_t access, void **ptr, tn_error *err);
  tn_status (*unmap)(tn_buffer *b, void *ptr, tn_error *err);
  /* 1.1. Asks that an item end soon, or (ticket NULL) all that the engine has. Each is completed all the same, with
   * TN_E_CANCELLED or with what had become of it, in the order of the engine. Returns at once; any thread, also beside
   * submit. NULL: items run to their end. */
  void (*cancel)(tn_device *d, uint32_t engine, tn_ticket *ticket);
  /* 1.1. The host has given the device up. Only args_free, unbind, release, destroy and close follow; from here on none
   * of them waits for the hardware, a thread or a lock that an item may hold. What items may still touch stays where it
   * is for good, and close joins no thread that hangs. Any thread, at most once; NULL: the host leaves all of it alone. */
  void (*abandon)(tn_device *d);
};

/* RESIDENT: something of it outlives shutdown, such as the threads of a driver: its code must stay loaded, and threads
 * and descriptors that are there after shutdown are no fault of it (docs/security.md). They may not grow from life to
 * life. The host's memory is given back all the same, and a second entry call after shutdown works as the first did. */
enum { TN_PLUGIN_RESIDENT = 1 };
struct tn_plugin {
  tn_hdr h;
  const char *name;    /* as its file: [a-z0-9-], 63 at most */
  const char *version; /* [A-Za-z0-9._-], 63 at most */
  const char *build_id; /* a part of the key of what cache_put keeps */
  const tn_option *const *options;
  const tn_format *const *formats;
  uint32_t n_options;
  uint32_t n_formats;
  /* Zero devices is a normal answer; err then says why. */
  tn_status (*enumerate)(tn_plugin *p, uint32_t cap, const tn_caps **out, uint32_t *n, tn_error *err);
  tn_status (*open)(tn_plugin *p, uint32_t index, tn_device **out, tn_error *err);
  void (*close)(tn_device *d); /* joins its threads */
  void (*shutdown)(tn_plugin *p);
  const void *(*get_extension)(tn_plugin *p, const char *name, uint32_t version);
  uint32_t flags; /* TN_PLUGIN_* */
  uint32_t reserved;
  const tn_custom_op *const *ops; /* 1.1: [n_ops] operators of its own */
  uint32_t n_ops;
  uint32_t reserved2;
};

/* Both ranges are filled even on failure, so that the message shows both. */
typedef struct tn_negotiate {
  tn_hdr h;
  uint16_t host_min; /* minors that the host knows */
  uint16_t host_max;
  uint16_t plugin_min; /* oldest minor whose fields are enough for the plugin */
  uint16_t plugin_max; /* the one that it was built with */
  uint16_t minor;      /* agreed: min(host_max, plugin_max) */
  uint16_t reserved[3];
  char name[32];     /* of the plugin; the first 31 characters of a longer one */
  char version[32];  /* as name */
  char message[128]; /* why not */
} tn_negotiate;

/* The one exported symbol. TN_E_INCOMPATIBLE where the ranges do not meet. */
typedef tn_status (*tn_entry_v1)(const tn_host *host, tn_negotiate *neg, tn_plugin **out);

typedef struct tn_static_plugin {
  tn_hdr h;
  const char *name;
  const char *manifest; /* its text */
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
