/* SPDX-License-Identifier: Apache-2.0 */
#include "plugdir.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../faults/plugins/base.h"

bool plugdir_create(plugdir *d) {
  snprintf(d->path, sizeof d->path, "/tmp/tenon-plugins-XXXXXX");
  return mkdtemp(d->path) && chmod(d->path, 0755) == 0;
}

void plugdir_remove(plugdir *d) {
  DIR *dir = opendir(d->path);
  for (struct dirent *e; dir && (e = readdir(dir));) {
    char path[600];
    snprintf(path, sizeof path, "%s/%s", d->path, e->d_name);
    if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0) unlink(path);
  }
  if (dir) closedir(dir);
  rmdir(d->path);
}

bool plugdir_write(const plugdir *d, const char *file, const void *data, size_t n, unsigned mode) {
  char path[600];
  snprintf(path, sizeof path, "%s/%s", d->path, file);
  unlink(path); /* a new inode: one that is loaded must not be written over */
  FILE *f = fopen(path, "wb");
  bool ok = f && fwrite(data, 1, n, f) == n;
  if (f) ok = fclose(f) == 0 && ok;
  return ok && chmod(path, mode) == 0;
}

void *plugdir_read(const char *path, size_t *n) {
  FILE *f = fopen(path, "rb");
  if (!f) return NULL;
  char *data = NULL;
  if (fseek(f, 0, SEEK_END) == 0) {
    long size = ftell(f);
    rewind(f);
    data = size >= 0 ? malloc((size_t)size + 1) : NULL;
    *n = data ? fread(data, 1, (size_t)size, f) : 0;
  }
  fclose(f);
  return data;
}

bool plugdir_copy(const plugdir *d, const char *from, const char *file) {
  size_t n;
  void *data = plugdir_read(from, &n);
  bool ok = data && plugdir_write(d, file, data, n, 0755);
  free(data);
  return ok;
}

bool plugdir_manifest(const plugdir *d, const char *name, const char *extra) {
#if defined(__aarch64__)
  const char *arch = "aarch64";
#else
  const char *arch = "x86-64";
#endif
  char text[2048], file[128];
  int n = snprintf(text, sizeof text,
                   "name: %s\nversion: 0.0.1\nabi: {min: \"1.0\", max: \"1.0\"}\narch: %s\nlicense: Apache-2.0\n%s",
                   name, arch, extra ? extra : "");
  snprintf(file, sizeof file, "%s.yaml", name);
  return plugdir_write(d, file, text, (size_t)n, 0644);
}

tn_status plugdir_host_entry(const tn_host *host, tn_negotiate *neg, tn_plugin **out) {
  return base_entry(host, neg, out, "host");
}
