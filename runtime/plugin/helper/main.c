/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "runtime/plugin/helper/helper.h"

enum { EXIT_USAGE = 2 };

static const struct {
  const char *name;
  int (*fn)(int argc, char **argv);
  const char *help;
} commands[] = {
    {"probe", helper_probe, "load a plugin once and say how it went"},
    {"serve", helper_serve, "load a plugin and do what the host says"},
};

/* What the host's application left open is nobody's business here. */
static void close_others(void) {
  DIR *d = opendir("/proc/self/fd");
  if (!d) return;
  for (struct dirent *e; (e = readdir(d));) {
    const int fd = atoi(e->d_name);
    if (fd > TNI_CHILD_CHANNEL && fd != dirfd(d)) close(fd);
  }
  closedir(d);
}

int main(int argc, char **argv) {
  for (size_t i = 0; argc >= 2 && i < sizeof commands / sizeof *commands; i++) {
    if (strcmp(argv[1], commands[i].name) != 0) continue;
    if (fcntl(TNI_CHILD_CHANNEL, F_GETFD) < 0) break;
    close_others();
    fcntl(TNI_CHILD_CHANNEL, F_SETFD, FD_CLOEXEC);
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    return commands[i].fn(argc - 1, argv + 1);
  }
  fprintf(stderr, "tenon-helper is started by Tenon, with a channel on descriptor %d:\n", TNI_CHILD_CHANNEL);
  for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
    fprintf(stderr, "  %-8s %s\n", commands[i].name, commands[i].help);
  return EXIT_USAGE;
}
