/* SPDX-License-Identifier: Apache-2.0
 *
 * Starting another program: spawned, never forked (a fork of a process with threads may hang in the child).
 */
#ifndef TENON_BASE_PROCESS_H
#define TENON_BASE_PROCESS_H

#include <sys/types.h>

enum { TNI_SPAWN_CHANNEL = 3 };

/* Starts argv[0] (a path, or a name that PATH finds) with 0 /dev/null, 1 and 2 `out`, 3 `channel` (TNI_SPAWN_CHANNEL), in a
 * process group of its own, with no signal blocked or handled. out and channel stay open here. argv and env end with NULL.
 * 0, or errno. */
int tni_spawn(pid_t *pid, const char *const *argv, char *const *env, int out, int channel);
/* The same with 1 `out`, 2 `err` and no channel. */
int tni_spawn_apart(pid_t *pid, const char *const *argv, char *const *env, int out, int err);

#endif
