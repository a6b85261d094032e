/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/conform/life/follow.h"

#include <dirent.h>
#include <dlfcn.h>
#include <link.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/conform/heap/heap.h"
#include "runtime/conform/run/run.h"

static bool lone;

typedef struct range {
  const char *path;
  uintptr_t from, to;
} range;

static int find_range(struct dl_phdr_info *info, size_t size, void *data) {
  range *r = data;
  char *real = info->dlpi_name && *info->dlpi_name ? realpath(info->dlpi_name, NULL) : NULL;
  const bool same = real && !strcmp(real, r->path);
  (void)size;
  free(real);
  for (int i = 0; same && i < info->dlpi_phnum; i++) {
    const uintptr_t at = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr, end = at + info->dlpi_phdr[i].p_memsz;
    if (info->dlpi_phdr[i].p_type != PT_LOAD) continue;
    if (!r->from || at < r->from) r->from = at;
    if (end > r->to) r->to = end;
  }
  return same;
}

/* Whether it needs nothing but the C library: what the heap keeps is nobody else's then. */
static bool needs_nothing(const char *path) {
  tni_cf_elf e;
  if (tni_cf_elf_open(path, &e)) return false;
  bool alone = true;
  for (uint32_t i = 0; i < e.n_needed && i < TNI_CF_ELF_NAMES; i++)
    alone = alone && (!strncmp(e.needed[i], "libc.so", 7) || !strncmp(e.needed[i], "libm.so", 7) ||
                      !strncmp(e.needed[i], "ld-linux", 8));
  tni_cf_elf_close(&e);
  return alone;
}

void tni_cf_follow_begin(const tni_cf *cf) {
  const char *path = cf->subject->path;
  range r = {.path = path};
  if (!strcmp(path, "host")) return;
  lone = needs_nothing(path);
  if (!dlopen(path, RTLD_NOW | RTLD_LOCAL)) return; /* the case that opens it says why */
  (void)dl_iterate_phdr(find_range, &r);
  tni_cf_heap_follow(r.from, r.to);
}

static long long entries_of(const char *path) {
  DIR *d = opendir(path);
  long long n = 0;
  while (d && readdir(d)) n++;
  if (d) closedir(d);
  return n;
}

static long long children(void) {
  FILE *f = fopen("/proc/thread-self/children", "r");
  long long n = 0;
  int pid;
  while (f && fscanf(f, "%d", &pid) == 1) n++;
  if (f) fclose(f);
  return n;
}

tni_cf_held tni_cf_hold(tni_cf_host *h) {
  long maps = 0;
  tni_cf_held k = {.lone = lone};
  k.n[TNI_CF_BLOCKS] = tni_cf_heap_followed(&maps);
  k.n[TNI_CF_MAPPINGS] = maps;
  k.n[TNI_CF_HEAP] = (long long)mallinfo2().uordblks;
  k.n[TNI_CF_FDS] = entries_of("/proc/self/fd");
  k.n[TNI_CF_TASKS] = entries_of("/proc/self/task");
  k.n[TNI_CF_CHILDREN] = children();
  k.n[TNI_CF_HOSTS] = atomic_load(&h->p.host.live);
  return k;
}
