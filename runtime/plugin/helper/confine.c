/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/plugin/helper/confine.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* --- namespaces -------------------------------------------------------------------------------------------------- */

static bool write_text(const char *path, const char *text) {
  const int fd = open(path, O_WRONLY | O_CLOEXEC);
  const size_t n = strlen(text);
  const bool ok = fd >= 0 && write(fd, text, n) == (ssize_t)n;
  if (fd >= 0) close(fd);
  return ok;
}

/* User and group keep their numbers inside; others appear as "nobody". */
static bool enter_namespaces(void) {
  char uid[64], gid[64];
  snprintf(uid, sizeof uid, "%u %u 1", geteuid(), geteuid());
  snprintf(gid, sizeof gid, "%u %u 1", getegid(), getegid());
  if (unshare(CLONE_NEWUSER | CLONE_NEWNET | CLONE_NEWIPC) != 0) return false;
  (void)write_text("/proc/self/setgroups", "deny");
  return write_text("/proc/self/uid_map", uid) && write_text("/proc/self/gid_map", gid);
}

/* --- privileges -------------------------------------------------------------------------------------------------- */

static bool drop_caps(void) {
  struct __user_cap_header_struct h = {.version = _LINUX_CAPABILITY_VERSION_3};
  struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3];
  memset(none, 0, sizeof none);
  (void)prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
  return syscall(SYS_capset, &h, none) == 0;
}

/* --- all --------------------------------------------------------------------------------------------------------- */

static tni_walls confine_process(const helper_settling *s, const helper_places *p) {
  tni_walls w = {.level = s->level, .stand = TNI_WALL_SUPERVISED};
  (void)prctl(PR_SET_DUMPABLE, 1); /* what it inherits from its supervisor; its files in /proc are its own */
  if (s->level == TNI_CONFINE_STRICT && enter_namespaces()) w.stand |= TNI_WALL_NAMESPACES;
  if (drop_caps()) w.stand |= TNI_WALL_NO_CAPS;
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0) w.stand |= TNI_WALL_NO_NEW_PRIVS;
  if ((w.landlock = helper_wall_files(s->level, p))) w.stand |= TNI_WALL_FILES;
  if (helper_wall_calls(s->calls)) w.stand |= TNI_WALL_CALLS;
  return w;
}

bool helper_settle(const helper_settling *s, helper_places *p, int *pid, tni_walls *walls) {
  bool temporary = false;
  if (s->level == TNI_CONFINE_DRIVER) p->own = helper_own_folder(p, &temporary);
  if (!helper_supervise(s->channel, temporary ? p->own : NULL, pid)) return false;
  *walls = confine_process(s, p);
  return true;
}
