/* SPDX-License-Identifier: Apache-2.0
 *
 * Children of the host: the program tenon-helper, started as base/process.h says. 1 and 2 are one pipe to the host, for
 * what the plugin prints (`output`); 3 is one end of a stream socket, the other is `channel`; a child closes every
 * other descriptor itself. It sees of the environment what tni_child_env lets through. It is of one thread of the host:
 * nothing here locks.
 */
#ifndef TENON_PLUGIN_CHILD_H
#define TENON_PLUGIN_CHILD_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "runtime/base/base.h"

enum { TNI_CHILD_CHANNEL = TNI_SPAWN_CHANNEL, TNI_CHILD_TAIL = 512 };

typedef struct tni_child {
  pid_t pid;                 /* 0: there is none */
  int channel, output;       /* -1: closed */
  char tail[TNI_CHILD_TAIL]; /* the last of what it printed, terminated */
  size_t n_tail;
} tni_child;

/* How a child ended: by signal `signal` if that is not 0, else with exit status `status`; neither is known where the
 * application takes its children's ends away (SIGCHLD ignored): known is false then. */
typedef struct tni_child_end {
  bool known;
  int signal, status;
} tni_child_end;

/* helper: absolute path of tenon-helper, which must belong to root or the user and not be writable by others. args:
 * what follows its name, NULL at the end: {"probe", NULL}. TN_E_UNAVAILABLE names the helper where it is not there. */
TN_MUST_CHECK tn_status tni_child_spawn(const char *helper, const char *const *args, tni_child *out, tn_error *err);
/* Waits until the channel has something to read (1), it was closed (0), or ms passed (-1), and meanwhile takes what the
 * child prints; ms -1: no limit. `closed` means that every copy of the other end is. */
int tni_child_wait(tni_child *c, int ms);
/* Ends it: waits for at most ms (the channel should be closed or the child told to go), then kills its group, and takes
 * the rest of what it printed. Closes both descriptors. */
tni_child_end tni_child_finish(tni_child *c, int ms);
/* "SIGSEGV, invalid memory access", "exit status 3". */
void tni_child_end_text(const tni_child_end *e, char *buf, size_t size);
/* The last non-empty lines of the output, at most size - 1 bytes, joined by " / ", nothing below space. */
void tni_child_last_lines(const tni_child *c, char *buf, size_t size);
/* Whether a variable "NAME=VALUE" goes to children: what finds programs, drivers and their settings; no secrets. */
bool tni_child_env(const char *variable);

#endif
