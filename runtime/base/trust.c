/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/trust.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { MAX_LINKS = 40 };

static bool others_write(const struct stat *s) {
  const bool own_group = s->st_gid != 0 && s->st_gid == geteuid() && s->st_gid == getegid();
  return s->st_mode & (own_group ? S_IWOTH : S_IWGRP | S_IWOTH);
}

static bool foreign(const struct stat *s, uint32_t allow) {
  return !(allow & TNI_TRUST_OWNER) && s->st_uid != 0 && s->st_uid != geteuid();
}

tn_status tni_trust_stat(const struct stat *s, const char *path, const char *what, uint32_t allow, tn_error *err) {
  if (foreign(s, allow))
    return tni_fail(err, TN_E_UNAVAILABLE, path, "refused: the %s belongs to user %u, not to root or the current user",
                    what, (unsigned)s->st_uid);
  if (!(allow & TNI_TRUST_SHARED) && others_write(s))
    return tni_fail(err, TN_E_UNAVAILABLE, path, "refused: the %s is writable by others (mode %04o)", what,
                    (unsigned)(s->st_mode & 07777));
  return TN_OK;
}

/* A walk from the root: `done` is resolved and checked, `left` is still to come. */
typedef struct trust_walk {
  const char *dir; /* as it was given, for messages */
  uint32_t allow;
  char done[PATH_MAX], left[PATH_MAX];
  int links;
  tn_error *err;
} trust_walk;

static tn_status too_long(const trust_walk *w) {
  return tni_fail(w->err, TN_E_UNAVAILABLE, w->dir, "cannot read the folder: %s", strerror(ENAMETOOLONG));
}

/* A link's target goes in front of what is left. Nobody changes a link but by writing its folder, or as its owner. */
static tn_status follow_link(trust_walk *w, const struct stat *s, size_t before) {
  char target[PATH_MAX], rest[PATH_MAX];
  if (foreign(s, w->allow))
    return tni_fail(w->err, TN_E_UNAVAILABLE, w->dir,
                    "refused: the link '%s', on the way to it, belongs to user %u, not to root or the current user",
                    w->done, (unsigned)s->st_uid);
  const ssize_t n = readlink(w->done, target, sizeof target - 1);
  if (n < 0 || ++w->links > MAX_LINKS)
    return tni_fail(w->err, TN_E_UNAVAILABLE, w->dir, "cannot read the folder: %s", strerror(n < 0 ? errno : ELOOP));
  target[n] = '\0';
  w->done[target[0] == '/' ? 0 : before] = '\0';
  memcpy(rest, w->left, strlen(w->left) + 1);
  return snprintf(w->left, sizeof w->left, "%s/%s", target, rest) < (int)sizeof w->left ? TN_OK : too_long(w);
}

/* A folder that leads to the last one. */
static tn_status check_above(const trust_walk *w, const struct stat *s) {
  const char *name = w->done[0] ? w->done : "/";
  if (foreign(s, w->allow))
    return tni_fail(w->err, TN_E_UNAVAILABLE, w->dir,
                    "refused: '%s', above it, belongs to user %u, not to root or the current user", name,
                    (unsigned)s->st_uid);
  if (!(w->allow & TNI_TRUST_SHARED) && others_write(s) && !(s->st_mode & S_ISVTX))
    return tni_fail(w->err, TN_E_UNAVAILABLE, w->dir,
                    "refused: '%s', above it, is writable by others (mode %04o, not sticky)", name,
                    (unsigned)(s->st_mode & 07777));
  return TN_OK;
}

/* Takes one name from `left` to `done`. false: there is none. */
static bool next_name(trust_walk *w, size_t *before, tn_status *st) {
  const char *p = w->left + strspn(w->left, "/");
  const size_t n = strcspn(p, "/"), have = strlen(w->done);
  *before = have;
  if (!n) return false;
  const bool up = n == 2 && memcmp(p, "..", 2) == 0, here = n == 1 && *p == '.';
  if (up && have) *strrchr(w->done, '/') = '\0';
  if (!up && !here) {
    if (have + n + 2 > sizeof w->done) {
      *st = too_long(w);
      return false;
    }
    w->done[have] = '/';
    memcpy(w->done + have + 1, p, n);
    w->done[have + 1 + n] = '\0';
  }
  memmove(w->left, p + n, strlen(p + n) + 1);
  return true;
}

/* What `done` names now. */
static tn_status check_name(trust_walk *w, size_t before, bool *missing) {
  struct stat s;
  if (lstat(w->done[0] ? w->done : "/", &s) != 0) {
    if (missing && errno == ENOENT) {
      *missing = true;
      return TN_OK;
    }
    return tni_fail(w->err, TN_E_UNAVAILABLE, w->dir, "cannot read the folder: %s", strerror(errno));
  }
  if (S_ISLNK(s.st_mode)) return follow_link(w, &s, before);
  if (!S_ISDIR(s.st_mode)) return tni_fail(w->err, TN_E_UNAVAILABLE, w->dir, "is not a folder");
  const bool last = !w->left[strspn(w->left, "/")];
  return last ? tni_trust_stat(&s, w->dir, "folder", w->allow, w->err) : check_above(w, &s);
}

tn_status tni_trust_folder(const char *dir, uint32_t allow, bool *missing, tn_error *err) {
  trust_walk w = {.dir = dir, .allow = allow, .err = err};
  char here[PATH_MAX] = "";
  bool gone = false;
  size_t before = 0;
  if (missing) *missing = false;
  if (dir[0] != '/' && !getcwd(here, sizeof here))
    return tni_fail(err, TN_E_UNAVAILABLE, dir, "cannot read the working folder: %s", strerror(errno));
  if (snprintf(w.left, sizeof w.left, "%s/%s", here, dir) >= (int)sizeof w.left) return too_long(&w);
  tn_status st = check_name(&w, 0, NULL);
  while (st == TN_OK && !gone && next_name(&w, &before, &st)) st = check_name(&w, before, missing ? &gone : NULL);
  if (missing) *missing = gone;
  return st;
}

tn_status tni_trust_open(const char *path, uint32_t allow, int *fd, tn_error *err) {
  /* O_NONBLOCK: a FIFO of that name must not hang the host; it is refused as not regular. */
  int f = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | (allow & TNI_TRUST_LINK ? 0 : O_NOFOLLOW));
  if (f < 0 && errno == ELOOP) return tni_fail(err, TN_E_UNAVAILABLE, path, "refused: is a symbolic link");
  if (f < 0)
    return tni_fail(err, tni_errno_status(errno, TN_E_UNAVAILABLE), path, "cannot be opened: %s", strerror(errno));
  struct stat s;
  tn_status st = TN_OK;
  if (fstat(f, &s) != 0)
    st = tni_fail(err, TN_E_IO, path, "cannot be read: %s", strerror(errno));
  else if (!S_ISREG(s.st_mode))
    st = tni_fail(err, TN_E_UNAVAILABLE, path, "refused: is not a regular file");
  if (st == TN_OK) st = tni_trust_stat(&s, path, "file", allow, err);
  if (st == TN_OK)
    *fd = f;
  else
    close(f);
  return st;
}

tn_status tni_trust_read(const char *path, uint32_t allow, uint64_t most, const char *what, tni_file *out,
                         tn_error *err) {
  struct stat s;
  int fd = -1;
  tn_status st = tni_trust_open(path, allow, &fd, err);
  if (st != TN_OK) return st;
  if (fstat(fd, &s) == 0 && (uint64_t)s.st_size > most)
    st = tni_fail(err, TN_E_LIMIT, path, "'%s' is too large for %s (%lld bytes, at most %llu)", path, what,
                  (long long)s.st_size, (unsigned long long)most);
  if (st == TN_OK) st = tni_file_map_cut(fd, path, NULL, 0, true, out, err);
  close(fd);
  return st;
}

tn_status tni_trust_map(const char *path, uint32_t allow, bool copy, tni_file *out, tn_error *err) {
  int fd = -1;
  tn_status st = tni_trust_open(path, allow, &fd, err);
  if (st != TN_OK) return st;
  st = tni_file_map_cut(fd, path, NULL, 0, copy, out, err);
  close(fd);
  return st;
}
