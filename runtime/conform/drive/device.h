/* SPDX-License-Identifier: Apache-2.0
 *
 * A host small enough to read, that drives any plugin's vtable: opens it, asks for one graph, lowers, packs, attaches
 * memory between guards, binds and runs. It shares the claims, clusters and checks of programs with the real host
 * (runtime/place), each call of the vtable with its locks and checks (calls.h), also what slots get of packed weights and
 * how much private memory there is, and nothing of its memory:
 * every slot is a block of its own, whose surroundings are looked at after each run, and whatever a run must not rely on
 * (scratch, temporaries, old outputs) is filled with a pattern before.
 *
 * Three objects. tni_cf_host: services and an open device. tni_cf_drive: one graph on it, claimed and lowered, with its
 * weights. tni_cf_inst: one set of dims of a drive, with memory, plans and args; several may live side by side, and
 * tni_cf_inst_run and tni_cf_inst_guards may be called for different ones at once. All but that is for one thread.
 *
 * Errors: false or a status, and what happened in `why` of the object.
 */
#ifndef TENON_CONFORM_DRIVE_DEVICE_H
#define TENON_CONFORM_DRIVE_DEVICE_H

#include <pthread.h>
#include <tenon/offline.h>

#include "runtime/conform/drive/load.h"
#include "runtime/conform/drive/pages.h"
#include "runtime/place/place.h"

/* How a lent tn_run cuts its work: all are legal, and results must not depend on it. INLINE: one piece. EVEN: as many
 * pieces as threads, TNI_CF_THREADS. GRAINS: pieces of one grain each, workers in turn, one after the other. BACKWARDS:
 * the same from the end, worker numbers going down. ENDS is no such way: only the first and the last piece of one grain
 * are done. */
enum { TNI_CF_INLINE = 0, TNI_CF_EVEN = 1, TNI_CF_GRAINS = 2, TNI_CF_BACKWARDS = 3, TNI_CF_SPLITS = 4, TNI_CF_ENDS = 5 };
enum { TNI_CF_WORKERS = 12, TNI_CF_THREADS = 4, TNI_CF_MAX_SYMBOLS = 8 };

/* Says yes to `cancelled` from poll number `after` on (1: the first). */
typedef struct tni_cf_brake {
  atomic_llong polls;
  long long after;
} tni_cf_brake;
/* The context of a lent tn_run; lives as long as it. brake NULL: it is never cancelled. */
typedef struct tni_cf_lent {
  uint32_t split;
  tni_cf_brake *brake;
} tni_cf_lent;

/* What a case wants of the plugin's options beside the command line's. format: one of the plugin's, chosen by whatever
 * option has its name among its choices; option: "key=value". Either may be NULL. */
typedef struct tni_cf_ask {
  const char *format, *option;
  /* The host's allocation of that number fails, or all from it on; 0: none. That opening fails then is no finding: h->p
   * says how. */
  long long fail_at, fail_from;
  bool may_fail; /* that opening fails is no finding */
  bool offline;  /* a device that cannot run will do */
  bool exact;   /* memory without a byte to spare: what fills whole pages lies between pages that may not be touched */
  bool huge;    /* large blocks of the host's memory are address space alone */
  bool closed;  /* what the plugin gives back to the host may not be touched any more: a fault */
  bool old;     /* a host of ABI 1.0 */
  uint32_t table;   /* bytes of the host's table; 0: all */
  uint32_t without; /* offset of a function in it that is NULL; 0: none */
} tni_cf_ask;

/* One large buffer that the memory of slots lies in, past the first 4 GiB. */
typedef struct tni_cf_far {
  tn_buffer *buffer; /* NULL: every slot has a buffer of its own */
  uint64_t next, end;
} tni_cf_far;

typedef struct tni_cf_host {
  tni_cf_plugin p;
  tni_cf_subject subject; /* with what was asked for */
  const tn_host *host;
  tn_device *device; /* the plugin's, p.device, under the layer that observes it */
  tni_dev dev;       /* the same as the real host has it: what calls it on both sides is runtime/place/calls.h */
  const tn_caps *caps;
  tni_devlock lock;
  pthread_mutex_t looking;       /* held by whoever maps what instances share: weights, private memory */
  int64_t run_allocs;            /* blocks that the host was asked for in runs; atomic */
  struct tni_cf_ticket *tickets; /* ticket.h */
  tni_waker waker;               /* theirs */
  uint32_t next_ticket, nap_us;  /* atomic; how long the host's `done` takes */
  uint32_t attached;             /* args that were made */
  tni_cf_far far;
  char answered_wrong[128];
  tn_error err; /* of the last call of the plugin that failed before a run; its code is that call's status */
} tni_cf_host;

/* Opens the subject's device to run on it. False: the case has failed, or is skipped where there is none that can run.
 */
bool tni_cf_host_open(tni_cf *cf, tni_cf_host *h, const tni_cf_ask *ask);
/* Opened by hand: device is h->p.device or a layer over it; subject and lock are set. */
void tni_cf_host_knows(tni_cf_host *h, tn_device *device);
/* From here on memory of slots on the device lies past the first 4 GiB of one buffer. False: the device gives no such
 * buffer; h->err has its text. */
bool tni_cf_host_far(tni_cf_host *h);
/* Bytes that the plugin has of the host now. */
uint64_t tni_cf_host_bytes(const tni_cf_host *h);
/* Closes; blocks that are left are a finding. */
void tni_cf_host_close(tni_cf *cf, tni_cf_host *h);
/* Key of the option that has `want` among its choices, or NULL. */
tn_run tni_cf_host_run(tni_cf_lent *l);

typedef struct tni_cf_drive {
  tni_cf_host *h;
  tni_arena *arena;
  tni_graph *g; /* the caller's */
  tn_graph view;
  tni_claims claims;
  tni_partition part;
  tni_program prog; /* of part.clusters[0] */
  const tn_program_info *info;
  struct tni_cf_memory *fixed; /* [n_slots]: weights and private memory */
  tn_blob *blob;               /* [n_slots]: of packed weights, as the host has them */
  tn_blob *given;              /* [n_slots]: as the device got them */
  uint8_t **packed;            /* [n_slots] */
  tn_section *section;         /* [n_slots]: of its blob what a slot of packed weights gets, with the alignment of that */
  int64_t chunk;               /* the most positions that the claim allows, where it fixes them; 0: any */
  tni_lengths lengths;         /* all that it allows */
  uint32_t refused;            /* first node that was not taken */
  const tni_claim *refusal;
  uint8_t *sparse; /* address space of the one packed weight, of which only the first and the last rows are packed */
  uint64_t sparse_bytes;
  bool is_sparse; /* asked for, before it is lowered */
  uint64_t flip; /* this bit of packed weights is flipped in what the device gets; UINT64_MAX: none */
  bool all_taken, reverse_rows; /* pack the rows' ranges from the end */
  bool aliased;                 /* outputs lie in the memory of the inputs that their slots name as alias */
  uint8_t guard; /* what lies beside the inputs of instances; 0: what always does */
  char why[400];
} tni_cf_drive;

/* Asks for the graph in a phase (TN_PHASE_*). d->all_taken: every node was claimed; otherwise `refused` and `refusal`
 * say which and why. false: the call itself failed. */
bool tni_cf_drive_claim(tni_cf_drive *d, tni_cf_host *h, tni_graph *g, uint32_t phase);
/* Lowers what was claimed (all of it, one cluster), packs and sets weights. */
bool tni_cf_drive_lower(tni_cf_drive *d);
/* Lowers it and compiles all tasks ahead of time for so many rows, as `tenon pack` does: nothing of it is bound or run. */
bool tni_cf_drive_ahead(tni_cf_drive *d, const tn_offline *o, int64_t rows);
void tni_cf_drive_finish(tni_cf_drive *d);
/* Whether measure says the same at v, the values of all symbols, and where that of one is another, or the task names
 * the symbol; else text says what differs. */
bool tni_cf_drive_named(const tni_cf_drive *d, tn_id task, const int64_t *v, uint32_t symbol, int64_t other, char *text,
                        size_t n);
/* The rows of a run of S, as a host would have it: the least that the claim allows and that has room for them; else the
 * most that it allows. */
int64_t tni_cf_drive_rows(const tni_cf_drive *d, int64_t S);
/* The slot (not a weight) that holds value v, or TN_NONE. */
uint32_t tni_cf_drive_slot(const tni_cf_drive *d, tn_id v);

/* Memory of one use. */
typedef struct tni_cf_memory {
  tni_cf_block host;             /* with a buffer: the same constant for tasks of the CPU, as the real host has it */
  tn_buffer *buffer;             /* NULL: host memory */
  uint64_t bytes, offset, strip; /* strip: of guards after it in its buffer */
  uint64_t base;                 /* where in the buffer its guards begin, and what is mapped of it */
  bool shared;                   /* the buffer is not its own */
  uint8_t fill;                  /* of the guards */
  bool filled;                   /* they stand */
  uint8_t *mapped;               /* byte `base` of the buffer while the CPU looks at it */
  tn_view view;
  int64_t dims[TN_MAX_RANK], strides[TN_MAX_RANK];
} tni_cf_memory;

/* How a cache lies: rows that it has room for (0: as many as the dims say), and space between heads and batches. */
typedef struct tni_cf_room {
  int64_t rows, gap;
} tni_cf_room;

typedef struct tni_cf_inst {
  tni_cf_drive *d;
  int64_t sym[TNI_CF_MAX_SYMBOLS];
  tn_dims dims;
  tni_cf_room room;
  tni_cf_memory *slot;    /* [n_slots]: by value; weights and private stay in the drive */
  tni_cf_memory *scratch; /* [n_tasks] */
  tn_plan **plan;         /* [n_tasks] */
  bool borrowed;          /* plans are another instance's */
  const uint32_t *order;  /* [n_tasks] in which tasks run; NULL: the program's */
  tni_cf_brake *brake;    /* of its runs; NULL: none */
  uint32_t wait_s;        /* how long an item may take; 0: what is common */
  tn_args **args;
  uint64_t *scratch_bytes, *scratch_align;
  uint64_t *stated_bytes, *taken_bytes; /* [n_tasks] measure's driver_bytes; what bind and args asked the host for */
  char why[400];
} tni_cf_inst;

/* sym: values of the graph's symbols by id, as many as its view has: room for TNI_CF_MAX_SYMBOLS is always enough. */
bool tni_cf_inst_make(tni_cf_inst *i, tni_cf_drive *d, const int64_t *sym, tni_cf_room room);
/* The same dims with memory of its own, on the plans of another, which must outlive it: a second session. */
bool tni_cf_inst_share(tni_cf_inst *i, const tni_cf_inst *of);
void tni_cf_inst_finish(tni_cf_inst *i);
/* Bytes of a value's slot: dense, in the slot's order. The value must have a slot; inputs that no slot names are passed
 * over by write (true). */
bool tni_cf_inst_write(tni_cf_inst *i, tn_id v, const void *data, uint64_t bytes);
bool tni_cf_inst_read(tni_cf_inst *i, tn_id v, void *data, uint64_t bytes);
/* The memory of a slot for the CPU: *at is its first byte. Give it back with tni_cf_inst_release. */
bool tni_cf_inst_look(tni_cf_inst *i, uint32_t slot, uint32_t access, uint8_t **at);
bool tni_cf_inst_release(tni_cf_inst *i, uint32_t slot);
/* One step. fill: what scratch, temporaries and outputs hold before it. split: TNI_CF_INLINE ... The status is the
 * plugin's, or TN_E_INTERNAL for what the driver found (why). */
tn_status tni_cf_inst_run(tni_cf_inst *i, uint8_t fill, uint32_t split);
/* False where something beside a slot, a weight or a scratch was written, or a weight changed. */
bool tni_cf_inst_guards(tni_cf_inst *i);

/* What scratch, temporaries and outputs hold. */
bool tni_cf_inst_fill(tni_cf_inst *i, uint8_t with);
/* One task of it; what scratch and outputs hold is not touched before. */
tn_status tni_cf_inst_task(tni_cf_inst *i, uint32_t task, uint32_t split);
/* One submission of n tasks, up to TNI_CF_MAX_ITEMS, of one engine. Each has its ticket
 * (drive_ticket.h), to be waited for where the status is OK. run: for engines that block. The items are gone when it
 * comes back. w[0].i has why. */
enum { TNI_CF_MAX_ITEMS = 64 };
typedef struct tni_cf_work {
  tni_cf_inst *i;
  uint32_t task;
} tni_cf_work;
tn_status tni_cf_inst_submit(const tni_cf_work *w, uint32_t n, tn_run *run, struct tni_cf_ticket **tickets);
/* What an item waits for, and what it tells when it is over (signal NULL: nothing). */
typedef struct tni_cf_fences {
  const tn_fence *const *waits; /* [n_waits] */
  uint32_t n_waits;
  const tn_fence *signal;
} tni_cf_fences;
/* The same with fences of each item; f NULL: none. */
tn_status tni_cf_inst_submit_fenced(const tni_cf_work *w, const tni_cf_fences *f, uint32_t n, tn_run *run,
                                    struct tni_cf_ticket **tickets);
/* The engine's submit comes back after done. */
bool tni_cf_blocking(const tni_cf_host *h, uint32_t engine);

#endif
