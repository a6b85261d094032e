/* SPDX-License-Identifier: Apache-2.0 */
#include "proc_tasks.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static bool read_text(int pid, const char *task, const char *file, char *buf, size_t size) {
  char path[96];
  snprintf(path, sizeof path, "/proc/%d/task/%.20s/%s", pid, task, file);
  FILE *f = fopen(path, "r");
  const size_t n = f ? fread(buf, 1, size - 1, f) : 0;
  buf[n] = '\0';
  if (f) fclose(f);
  return n > 0;
}

static const char *line_of(const char *text, const char *key) {
  const char *at = strstr(text, key);
  return at ? at + strlen(key) : "";
}

static bool is_line(const char *at, const char *text) {
  return strncmp(at, text, strlen(text)) == 0 && at[strlen(text)] == '\n';
}

static void add(int pid, const char *task, const char *name, const char *cpus, proc_tasks *t) {
  char status[8192], stat[1024];
  if (!read_text(pid, task, "status", status, sizeof status) || !read_text(pid, task, "stat", stat, sizeof stat))
    return;
  const char *list = line_of(status, "\nCpus_allowed_list:\t"), *fields = strrchr(stat, ')');
  if (name && !is_line(line_of(status, "Name:\t"), name)) return;
  unsigned long user = 0, system = 0;
  if (fields) (void)!sscanf(fields, ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &system);
  t->n++;
  t->bound += is_line(list, cpus);
  t->ticks += user + system;
  t->switches += strtoull(line_of(status, "\nvoluntary_ctxt_switches:\t"), NULL, 10);
}

proc_tasks proc_tasks_read(int pid, const char *name, const char *cpus) {
  char path[32];
  proc_tasks t = {.n = 0};
  snprintf(path, sizeof path, "/proc/%d/task", pid);
  DIR *d = opendir(path);
  const long self = syscall(SYS_gettid);
  for (struct dirent *e; d && (e = readdir(d));)
    if (e->d_name[0] != '.' && strtol(e->d_name, NULL, 10) != self) add(pid, e->d_name, name, cpus, &t);
  if (d) closedir(d);
  return t;
}

bool proc_tasks_idle(int pid, const char *name) {
  proc_tasks a = proc_tasks_read(pid, name, ""), b = a;
  for (int i = 0; i < 10; i++) {
    a = b;
    usleep(300000);
    b = proc_tasks_read(pid, name, "");
    if (b.n && b.n == a.n && b.ticks - a.ticks <= 1 && b.switches == a.switches) return true;
  }
  printf("\n    %u threads used %" PRIu64 " ticks and slept %" PRIu64 " times in 300 ms\n", b.n, b.ticks - a.ticks,
         b.switches - a.switches);
  return false;
}
