/* SPDX-License-Identifier: Apache-2.0
 *
 * What the host and the process of an isolated plugin say to each other. Both are of one build.
 *
 *   channel   the child's descriptor 3. First the host's START; then the child's events (LOG, DONE, and questions ROWS,
 * GRID, READ that the host answers), in any order with calls. control   one call at a time: the host asks, the child
 * answers with the same sequence number. engines   one socket per engine, one submission at a time. page tni_iso_page,
 * shared: a run of a CPU task is a number in it and a futex, no message. window    shared: where the answers to the
 * child's questions are written. Memory is named by (piece, offset), after MAP has sent the piece's descriptor. Objects
 * of the child (programs, plans, args, packs, buffers) are numbers that the child gives; the host never uses one for
 * anything but to say it back.
 *
 * Every answer begins with a status, an error and how many events the child had sent: the host goes on when it has seen
 * as many, so that what was said before an answer is known before it. That number only ever makes the host wait: what
 * it lent is free when the host itself has finished with it (turns.h, which also says what may come when).
 */
#ifndef TENON_PLUGIN_PROCESS_PROTO_H
#define TENON_PLUGIN_PROCESS_PROTO_H

#include <stdatomic.h>
#include <stdint.h>

#include <tenon/plugin.h>

enum {
  TNI_ISO_START = 1,
  TNI_ISO_STOP,
  TNI_ISO_MAP,
  TNI_ISO_UNMAP,
  TNI_ISO_SIZE,
  TNI_ISO_NUMERICS,
  TNI_ISO_PACK,
  TNI_ISO_PACK_ROWS,
  TNI_ISO_PACK_END,
  TNI_ISO_UNPACK,
  TNI_ISO_GRAPH,
  TNI_ISO_CLAIM,
  TNI_ISO_LOWER,
  TNI_ISO_MEASURE,
  TNI_ISO_SET,
  TNI_ISO_RELEASE,
  TNI_ISO_BIND,
  TNI_ISO_UNBIND,
  TNI_ISO_ARGS,
  TNI_ISO_ARGS_SET,
  TNI_ISO_ARGS_FREE,
  TNI_ISO_ENGINE,
  TNI_ISO_SUBMIT,
  TNI_ISO_CREATE,
  TNI_ISO_DESTROY,
  TNI_ISO_BUF_MAP,
  TNI_ISO_BUF_UNMAP,
  TNI_ISO_RESOURCES,
  TNI_ISO_CALLS,
  /* events */
  TNI_ISO_LOG = 64,
  TNI_ISO_DONE,
  TNI_ISO_ROWS,
  TNI_ISO_GRID,
  TNI_ISO_READ,
  TNI_ISO_WALLS, /* first of all, before any of the plugin's code: the process's number, and what confines it */
  TNI_ISO_EVENTS
};

enum {
  TNI_ISO_WINDOW = 8 << 20, /* bytes of the window */
  TNI_ISO_MAX_OBJECTS = 1 << 22,
  TNI_ISO_MAX_TEXT = 1 << 16,
  TNI_ISO_MAX_SETS = 64, /* of a claim, and values in one */
  TNI_ISO_ENGINES = 8,   /* of a process */
  TNI_ISO_MAX_NAMES = 4096, /* of resources */
  TNI_ISO_VALUE = 1 << 30 /* beside a value's id: the constant of the graph that is being looked at */
};

/* How a view's memory is told. */
enum { TNI_ISO_NOWHERE = 0, TNI_ISO_PIECE = 1, TNI_ISO_BUFFER = 2, TNI_ISO_AS_SET = 4 };

/* Optional functions of a device. */
enum { TNI_ISO_HAS_BUFFERS = 1 };

/* One run at a time: the host writes args and step, counts asked up and wakes; the child runs, writes the answer and
 * sets answered to the same number. sleeping: who waits in the futex. */
typedef struct tni_iso_page {
  _Atomic uint32_t asked, answered;
  _Atomic uint32_t child_sleeps, host_sleeps;
  /* What is under way is to stop. They are of several sessions: each has a word of its own. */
  _Atomic int32_t stop_call, stop_run, stop_submit[TNI_ISO_ENGINES];
  uint32_t args, step, reserved;
  int32_t status;
  uint32_t reserved2;
  uint64_t events;
  tn_error error;
} tni_iso_page;

#endif
