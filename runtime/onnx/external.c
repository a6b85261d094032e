/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/base/base.h"
#include "runtime/onnx/context.h"
#include "runtime/onnx/left_out.h"

enum { MAX_LOCATION = 4096, MAX_LINKS = 8 };

/* A walk through the model's folder: `at` is the folder reached, `rest` what is left of the path. */
typedef struct path_walk {
  tni_import *c;
  const char *location;
  int at;
  char rest[MAX_LOCATION + 1];
  int links;
} path_walk;

TN_PRINTF(3, 4) static tn_status refuse(const path_walk *w, tn_status st, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  tni_vfail(w->c->err, st, w->c->file, fmt, ap);
  va_end(ap);
  tni_error_prefix(w->c->err, "external data '%.100s'", w->location);
  return st;
}

static tn_status refuse_errno(const path_walk *w, int e) {
  return refuse(w, tni_errno_status(e, e == ENOENT || e == ENOTDIR ? TN_E_UNAVAILABLE : TN_E_IO), "%s", strerror(e));
}

static tn_status refuse_link(const path_walk *w) {
  return refuse(w, TN_E_INVALID,
                "a link leads out of the model's folder; 'cp -rL' or 'hf download --local-dir' makes a folder of plain "
                "files");
}

/* Opens `data` in the folder of `model`; both are real paths, and their folders must be one. */
static tn_status open_stored(const path_walk *w, char *model, const char *data, int *fd) {
  char *end = strrchr(model, '/');
  const char *name = strrchr(data, '/');
  if (end - model != name - data || memcmp(model, data, (size_t)(name - data)) != 0) return refuse_link(w);
  end[end == model] = '\0';
  const int folder = open(model, O_PATH | O_DIRECTORY | O_CLOEXEC);
  *fd = folder >= 0 ? openat(folder, name + 1, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC) : -1;
  const int why = errno;
  if (folder >= 0) close(folder);
  return *fd >= 0 ? TN_OK : refuse_errno(w, why);
}

/* A link that leads out. Caches of hubs keep all files of a model in one folder, and another folder names them by
 * links, the model's own file too. So a plain file beside that one's target is taken, and nothing else outside. */
static tn_status follow_out(const path_walk *w, int *fd) {
  const char *own = w->c->origin;
  struct stat sb;
  if (!own || lstat(own, &sb) != 0 || !S_ISLNK(sb.st_mode)) return refuse_link(w);
  char *model = realpath(own, NULL), *link = tni_file_in(w->c->dir, w->location);
  char *data = model && link ? realpath(link, NULL) : NULL;
  const int why = model && !link ? ENOMEM : errno;
  const tn_status st = data ? open_stored(w, model, data, fd) : refuse_errno(w, why);
  free(model);
  free(link);
  free(data);
  return st;
}

/* Puts the target of link `name` before the rest of the path; one that leads out is opened, or refused. */
static tn_status follow_path(path_walk *w, const char *name, const char *rest, int *fd) {
  char target[MAX_LOCATION + 1];
  if (++w->links > MAX_LINKS) return refuse(w, TN_E_INVALID, "more than %d links", MAX_LINKS);
  ssize_t n = readlinkat(w->at, name, target, MAX_LOCATION);
  if (n < 0) return refuse_errno(w, errno);
  target[n] = '\0';
  if (!tni_stays_inside(target)) return follow_out(w, fd);
  size_t m = strlen(rest), total = (size_t)n + (m ? m + 1 : 0);
  if (total > MAX_LOCATION) return refuse(w, TN_E_INVALID, "the path is too long");
  if (m) {
    target[n] = '/';
    memcpy(target + n + 1, rest, m + 1);
  }
  memcpy(w->rest, target, total + 1);
  return TN_OK;
}

/* Takes one component; *fd >= 0 when the file itself was reached. Links are resolved here and never by the kernel, so
 * that no race lets one lead outside. */
static tn_status step_into(path_walk *w, int *fd) {
  char name[MAX_LOCATION + 1], rest[MAX_LOCATION + 1];
  size_t n = strcspn(w->rest, "/");
  memcpy(name, w->rest, n);
  name[n] = '\0';
  const char *p = w->rest + n;
  p += strspn(p, "/");
  memcpy(rest, p, strlen(p) + 1);
  if (strcmp(name, ".") == 0 && *rest) {
    memcpy(w->rest, rest, strlen(rest) + 1);
    return TN_OK;
  }
  int next = openat(w->at, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
  struct stat st;
  if (next < 0 || fstat(next, &st) != 0) {
    int why = errno;
    if (next >= 0) close(next);
    return refuse_errno(w, why);
  }
  if (S_ISLNK(st.st_mode)) {
    close(next);
    return follow_path(w, name, rest, fd);
  }
  if (*rest && S_ISDIR(st.st_mode)) {
    close(w->at);
    w->at = next;
    memcpy(w->rest, rest, strlen(rest) + 1);
    return TN_OK;
  }
  close(next);
  if (*rest) return refuse(w, TN_E_UNAVAILABLE, "'%.60s' is not a folder", name);
  if (!S_ISREG(st.st_mode)) return refuse(w, TN_E_INVALID, "not a regular file");
  *fd = openat(w->at, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  return *fd >= 0 ? TN_OK : refuse_errno(w, errno);
}

static tn_status open_inside(tni_import *c, const char *location, int *out) {
  path_walk w = {.c = c, .location = location, .at = -1};
  if (!c->dir) return refuse(&w, TN_E_INVALID, "a model in memory has no folder");
  if (strlen(location) > MAX_LOCATION) return refuse(&w, TN_E_INVALID, "the path is too long");
  if (!tni_stays_inside(location))
    return refuse(&w, TN_E_INVALID, "the path must be relative and stay in the model's folder");
  memcpy(w.rest, location, strlen(location) + 1);
  w.at = open(c->dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (w.at < 0)
    return refuse(&w, tni_errno_status(errno, TN_E_UNAVAILABLE), "folder '%.80s': %s", c->dir, strerror(errno));
  int fd = -1;
  tn_status st = TN_OK;
  while (!st && fd < 0) st = step_into(&w, &fd);
  close(w.at);
  if (!st) *out = fd;
  return st;
}

static tn_status reserve_file(tni_import *c) {
  tni_model *m = c->model;
  if (m->n_files < c->cap_files) return TN_OK;
  if (m->n_files > TNI_MAX_EXTERNAL)
    return tni_fail(c->err, TN_E_LIMIT, c->file, "more than %d external data files", TNI_MAX_EXTERNAL);
  uint32_t cap = c->cap_files ? 2 * c->cap_files : 4;
  tni_file *files = realloc(m->files, cap * sizeof *files);
  if (files) m->files = files;
  const char **paths = realloc(m->paths, cap * sizeof *paths);
  if (paths) m->paths = paths;
  if (!files || !paths) return tni_fail_memory(c->err, c->file);
  c->cap_files = cap;
  return TN_OK;
}

/* "DIR/LOCATION" on the arena. */
static const char *join_location(tni_import *c, const char *location) {
  size_t d = strlen(c->dir), n = strlen(location);
  char *s = tni_arena_alloc(c->arena, d + n + 2, 1);
  if (!s) return NULL;
  memcpy(s, c->dir, d);
  s[d] = '/';
  memcpy(s + d + 1, location, n + 1);
  return s;
}

/* Maps location once per model. */
static tn_status find_file(tni_import *c, const char *location, uint32_t *index) {
  uint64_t known;
  if (tni_map_get_str(c->external, location, &known)) {
    *index = (uint32_t)known;
    return TN_OK;
  }
  tn_status st = reserve_file(c);
  if (st) return st;
  int fd = -1;
  st = open_inside(c, location, &fd);
  if (st) return st;
  const char *path = join_location(c, location);
  tni_file f = {0};
  st = path ? tni_left_map(c->left, c->n_left, location, fd, path, c->lim.copy, &f, c->err)
            : tni_fail_memory(c->err, c->file);
  close(fd);
  if (st) return st;
  uint32_t i = c->model->n_files++;
  c->model->files[i] = f;
  c->model->paths[i] = path;
  if (!tni_map_put_str(c->external, location, i)) return tni_fail_memory(c->err, c->file);
  *index = i;
  return TN_OK;
}

/* Decimal digits only: no sign, no space, no overflow. */
static bool parse_u64(const char *s, uint64_t *out) {
  uint64_t v = 0;
  if (!*s) return false;
  for (; *s; s++) {
    if (*s < '0' || *s > '9') return false;
    if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, (uint64_t)(*s - '0'), &v)) return false;
  }
  *out = v;
  return true;
}

tn_status tni_external_data(tni_import *c, const Onnx__TensorProto *t, uint64_t bytes, const uint8_t **data,
                            tni_origin *origin) {
  const char *location = NULL;
  uint64_t offset = 0, length = bytes;
  for (size_t i = 0; i < t->n_external_data; i++) {
    const char *key = t->external_data[i]->key, *value = t->external_data[i]->value;
    if (!key || !value) continue;
    uint64_t *number = strcmp(key, "offset") == 0 ? &offset : strcmp(key, "length") == 0 ? &length : NULL;
    if (strcmp(key, "location") == 0) location = value;
    if (number && !parse_u64(value, number))
      return tni_fail(c->err, TN_E_INVALID, c->file, "external data: %s '%.40s' is not a number", key, value);
  }
  if (!location) return tni_fail(c->err, TN_E_INVALID, c->file, "external data without a location");
  if (!c->model) return tni_fail(c->err, TN_E_UNSUPPORTED, c->file, "external data in a lone tensor");
  if (length != bytes)
    return tni_fail(c->err, TN_E_INVALID, c->file,
                    "external data '%.100s' has length %" PRIu64 ", the shape needs %" PRIu64, location, length, bytes);
  uint32_t i = 0;
  tn_status st = find_file(c, location, &i);
  if (st) return st;
  const tni_file *f = &c->model->files[i];
  if (offset > f->bytes || bytes > f->bytes - offset)
    return tni_fail(c->err, TN_E_CORRUPT, c->file,
                    "external data '%.100s' has %" PRIu64 " bytes, the tensor needs %" PRIu64 " at offset %" PRIu64,
                    c->model->paths[i], f->bytes, bytes, offset);
  *data = f->data ? (const uint8_t *)f->data + offset : NULL;
  *origin = (tni_origin){c->model->paths[i], offset};
  return TN_OK;
}
