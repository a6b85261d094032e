/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <unistd.h>

/* Descriptors that the file actions move must lie above those that they are moved to. */
static int copy_above(int fd) { return fcntl(fd, F_DUPFD_CLOEXEC, TNI_SPAWN_CHANNEL + 1); }

static int prepare_spawn(posix_spawn_file_actions_t *fa, posix_spawnattr_t *at, int out, int err, int channel) {
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  int e = posix_spawn_file_actions_addopen(fa, 0, "/dev/null", O_RDONLY, 0);
  if (!e) e = posix_spawn_file_actions_adddup2(fa, out, 1);
  if (!e) e = posix_spawn_file_actions_adddup2(fa, err, 2);
  if (!e && channel >= 0) e = posix_spawn_file_actions_adddup2(fa, channel, TNI_SPAWN_CHANNEL);
  if (!e) e = posix_spawnattr_setsigmask(at, &none);
  if (!e) e = posix_spawnattr_setsigdefault(at, &all);
  if (!e) e = posix_spawnattr_setpgroup(at, 0);
  if (!e) e = posix_spawnattr_setflags(at, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  return e;
}

/* channel -1: none. */
static int spawn_child(pid_t *pid, const char *const *argv, char *const *env, int out, int err, int channel) {
  posix_spawn_file_actions_t fa;
  posix_spawnattr_t at;
  int e = posix_spawn_file_actions_init(&fa);
  if (e) return e;
  e = posix_spawnattr_init(&at);
  if (!e) {
    e = prepare_spawn(&fa, &at, out, err, channel);
    /* It takes no const strings and writes to none. */
    if (!e) e = posix_spawnp(pid, argv[0], &fa, &at, (char *const *)(uintptr_t)argv, env);
    posix_spawnattr_destroy(&at);
  }
  posix_spawn_file_actions_destroy(&fa);
  return e;
}

int tni_spawn(pid_t *pid, const char *const *argv, char *const *env, int out, int channel) {
  const int o = copy_above(out), c = o < 0 ? -1 : copy_above(channel);
  const int e = c < 0 ? errno : spawn_child(pid, argv, env, o, o, c);
  if (o >= 0) close(o);
  if (c >= 0) close(c);
  return e;
}

int tni_spawn_apart(pid_t *pid, const char *const *argv, char *const *env, int out, int err) {
  const int o = copy_above(out), r = o < 0 ? -1 : copy_above(err);
  const int e = r < 0 ? errno : spawn_child(pid, argv, env, o, r, -1);
  if (o >= 0) close(o);
  if (r >= 0) close(r);
  return e;
}
