/* SPDX-License-Identifier: Apache-2.0
 *
 * An OpenCL layer for tests (CL/cl_layer.h; the ICD loader reads OPENCL_LAYERS). It stands between a program and the
 * real driver, makes one device look and behave like another, breaks it on purpose, and counts what passes.
 *
 * The layer interface has no context argument, so there is one state per process: `L`. Its counters are atomic, its
 * table of memory objects is behind one mutex; any thread may call. Handles are the driver's own.
 *
 * Settings come from the environment variable TENON_CL_LAYER: words "key=value" or "key", apart by space or ';'. An
 * unknown word ends the process with a message: a test that asks for what is not there must not pass.
 *   as=adreno|mali|plain     names, strings, extensions, alignments of such a device (profiles.c)
 *   discrete                 memory of its own: maps give shadow copies, poisoned at unmap; host pointers are copied
 * once hide=A,B                 extensions that go from the strings; also fp16, subgroups, images, priority: with their
 * queries max_alloc=N              bytes of the largest memory object align=N                  base alignment, bytes;
 * sub-buffers off it are refused pitch=N                  pixels that an image row over a buffer must be a multiple of
 *   max_group=N              items of the largest work-group
 *   fail_alloc=N             the N-th memory object (from 1) fails; fail_alloc_from=N: it and all after it
 *   fail_build=N             the N-th build fails; fail_build=NAME: every build of a program with a kernel of that name
 *   crash_build=N|NAME       ends the process inside that build, as a driver's compiler does
 *   wrong=NAME               kernels with this in their name leave out their last work-group, or do nothing where there is
 *                            one; wrong_optimized=NAME: where their build was not told -cl-opt-disable
 *   lose=N                   from the N-th kernel on (from 1) every call fails with CL_OUT_OF_RESOURCES
 *   lose_event=N             the N-th kernel is taken, then its queue's next completion is an error, and all is lost
 *   lost=late                what a lost device was given to do is done as late as can be, and wrong: when the loss is first
 *                            seen all memory that it may write is filled with 0xFF, and memory lent to it (imported, host
 *                            pointers) again when its object is released; if that is no longer there by then, the process
 *                            ends with 98
 *   callback=slow|drop       event callbacks come 5 ms late, or never
 *   no_devices               the platform has none
 *   report=FILE              counters are written there when the process ends ("name value" lines)
 *   log=FILE                 one line of counters per wait of the host
 */
#ifndef TENON_CL_LAYER_H
#define TENON_CL_LAYER_H

#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl_layer.h>

#include <CL/cl_ext.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* Counters, in the order of reports.
 * objects = buffers + sub_buffers + images + imports. bytes_in: given at creation (COPY_HOST_PTR) or by WriteBuffer;
 * bytes_out: ReadBuffer; bytes_between: CopyBuffer and its like; bytes_shadow: maps of discrete mode, and host pointers
 * that a device of its own memory, or a Mali without import, copies; bytes_map_write: of
 * maps for writing, whatever the device; bytes_imported: host memory taken over where that is free. reads: ReadBuffer
 * and maps for reading.
 * waits: times that the host was told that commands are done, or waited for it: callbacks asked for, WaitForEvents,
 * Finish, blocking transfers and maps (of a queue that has had commands since the last one). polls: GetEventInfo. */
#define TN_LAYER_COUNTERS(X)                                                                                          \
  X(buffers)                                                                                                          \
  X(sub_buffers)                                                                                                      \
  X(images) X(imports) X(objects) X(live_objects) X(bytes_in) X(bytes_out) X(bytes_between) X(bytes_shadow)           \
      X(bytes_map_write) X(bytes_imported) X(reads) X(writes) X(copies) X(fills) X(maps) X(unmaps) X(map_reads)       \
          X(map_writes) X(programs) X(source_builds) X(binary_builds) X(builds_failed) X(kernels) X(kernels_run)      \
              X(flushes) X(finishes) X(waits) X(polls) X(contexts) X(priority_hints) X(priority_errors) X(calls_lost) \
                  X(args_set) X(longest_batch)

typedef struct layer_counters {
#define FIELD(name) _Atomic(uint64_t) name;
  TN_LAYER_COUNTERS(FIELD)
#undef FIELD
} layer_counters;

/* What a device says of itself; NULL and 0 leave the driver's answer. */
typedef struct layer_profile {
  const char *name; /* of this table */
  const char *device, *vendor, *version, *driver, *c_version, *extensions;
  const char *platform, *platform_vendor, *platform_version;
  uint32_t vendor_id;
  uint64_t align, pitch, max_alloc, max_group;
  bool local_is_global, import_arm, host_ptr_copies;
} layer_profile;

extern const layer_profile layer_profiles[];

/* Which of something: the N-th (number), or each whose text contains `name`. */
typedef struct layer_which {
  uint64_t number;
  char name[64];
} layer_which;

typedef struct layer_settings {
  layer_profile as;
  bool discrete, slow_callback, drop_callback, no_devices, late;
  bool no_fp16, no_subgroups, no_images, no_priority;
  char hide[512];
  uint64_t fail_alloc, fail_alloc_from, lose, lose_event;
  layer_which fail_build, crash_build;
  char wrong[64], wrong_optimized[64];
  char report[512], log[512];
} layer_settings;

/* A mapping given out. A shadow stays where it is after unmap, poisoned, until its object dies. */
typedef struct layer_map {
  struct layer_map *next;
  char *ptr;
  size_t offset, bytes;
  cl_map_flags flags;
  bool live, shadow; /* shadow: our memory, not the program's */
} layer_map;

typedef struct layer_object {
  struct layer_object *next;
  cl_mem mem;
  cl_mem_flags flags;
  size_t bytes;
  char *host_ptr;
  bool imported; /* memory of the program's */
  char *lent;    /* that, where the device may write it, or NULL */
  layer_map *maps;
} layer_object;

typedef struct layer_state {
  cl_icd_dispatch next, mine; /* the driver's functions, and ours */
  layer_settings set;
  layer_counters count;
  pthread_mutex_t lock; /* objects, log */
  layer_object *objects;
  _Atomic(uint64_t) builds, since_wait, since_flush;
  atomic_bool lost, spoilt; /* spoilt: lost=late has filled what there was */
  _Atomic(cl_command_queue) queue; /* the last that was used */
  FILE *log;
} layer_state;

extern layer_state L;

#define COUNT(name, n) atomic_fetch_add(&L.count.name, (uint64_t)(n))

/* config.c: ends the process where the text is wrong. */
void layer_configure(const char *text);
bool layer_is(const layer_which *w, uint64_t number, const char *text);

/* report.c */
/* For writing; ends the process if it cannot. NULL where a plugin's walls forbid the file: the host probes a plugin in such a
 * process before it opens it in its own, and only the latter is counted. A test that wants a file takes the old one away first. */
FILE *layer_open(const char *path);
void layer_report(FILE *f);
void layer_at_exit(void);
/* The host waited: commands since the last wait, if there are any, are one submission. */
void layer_waited(void);

/* Each puts its functions into t. */
void layer_hook_info(cl_icd_dispatch *t);
void layer_hook_memory(cl_icd_dispatch *t);
void layer_hook_map(cl_icd_dispatch *t);
void layer_hook_program(cl_icd_dispatch *t);
void layer_hook_queue(cl_icd_dispatch *t);

/* memory.c: the object of a handle, with L.lock held; NULL for one that is not ours. */
layer_object *layer_find(cl_mem m);
void layer_free_maps(layer_object *o);
/* lost=late: fills all memory that a device may write. Not from a callback of the driver's. */
void layer_spoil(void);
/* The same for what is lent of one object, which is about to go. */
void layer_spoil_lent(cl_mem m);
cl_mem CL_API_CALL layer_import(cl_context ctx, cl_mem_flags flags, const cl_import_properties_arm *props, void *memory,
                                size_t size, cl_int *err);

/* True once the device is lost; counts the call. */
bool layer_lost(void);
#define LAYER_LOST CL_OUT_OF_RESOURCES

#endif
