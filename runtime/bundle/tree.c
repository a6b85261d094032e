/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sha1.h>
#include <sha2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "runtime/bundle/internal.h"

enum { PIECE = 1 << 20, EPOCH_1980 = 315532800 };

char *tni_bd_text(tni_bd *b, const char *fmt, ...) {
  va_list ap;
  char *text = NULL;
  va_start(ap, fmt);
  const int n = vasprintf(&text, fmt, ap);
  va_end(ap);
  char *copy = n < 0 ? NULL : tni_arena_strdup(b->arena, text);
  if (n >= 0) free(text);
  if (!copy) tni_bd_missed(b, ENOMEM);
  return copy;
}

void tni_bd_missed(tni_bd *b, int e) {
  if (e && e != ENOENT && e != ENOTDIR && e != EACCES && e != ELOOP && !b->missed) b->missed = e;
}

tn_status tni_bd_whole(const tni_bd *b) {
  if (!b->missed) return TN_OK;
  return tni_fail(b->err, tni_errno_status(b->missed, TN_E_IO), b->o.folder, "cannot find out what belongs into '%s': %s",
                  b->o.folder, strerror(b->missed));
}

bool tni_bd_real(tni_bd *b, const char *path, char *to) {
  const bool there = realpath(path, to) != NULL;
  if (!there) tni_bd_missed(b, errno);
  return there;
}

void tni_bd_leave(tni_bd *b, const char *what, const char *why) {
  json_array_append_new(b->left_out, json_pack("{s:s, s:s}", "what", what, "why", why));
}

/* POSIX cksum: CRC-32 of 0x04C11DB7, high bit first, the length after the data. */
static void crc_table(uint32_t t[256]) {
  for (uint32_t i = 0; i < 256; i++) {
    uint32_t c = i << 24;
    for (int k = 0; k < 8; k++) c = c & 0x80000000u ? c << 1 ^ 0x04C11DB7u : c << 1;
    t[i] = c;
  }
}

static uint32_t crc_update(const uint32_t t[256], uint32_t c, const uint8_t *p, size_t n) {
  for (size_t i = 0; i < n; i++) c = c << 8 ^ t[(c >> 24 ^ p[i]) & 0xff];
  return c;
}

tn_status tni_bd_sum(const char *path, tni_bd_sums *out, tn_error *err) {
  uint32_t t[256], crc = 0;
  SHA2_CTX sha256;
  SHA1_CTX sha1;
  tni_file f;
  tn_status st = tni_file_map(path, &f, err);
  if (st != TN_OK) return st;
  XXH3_state_t *xxh = XXH3_createState();
  if (!xxh) {
    tni_file_unmap(&f);
    return tni_fail_memory(err, path);
  }
  crc_table(t);
  SHA256Init(&sha256);
  SHA1Init(&sha1);
  XXH3_128bits_reset(xxh);
  for (uint64_t at = 0; at < f.bytes; at += PIECE) {
    const uint8_t *p = (const uint8_t *)f.data + at;
    const size_t n = f.bytes - at < PIECE ? (size_t)(f.bytes - at) : PIECE;
    SHA256Update(&sha256, p, n);
    SHA1Update(&sha1, p, n);
    XXH3_128bits_update(xxh, p, n);
    crc = crc_update(t, crc, p, n);
    tni_file_drop(p, n);
  }
  for (uint64_t n = f.bytes; n; n >>= 8) {
    const uint8_t byte = (uint8_t)n;
    crc = crc_update(t, crc, &byte, 1);
  }
  const XXH128_hash_t h = XXH3_128bits_digest(xxh);
  *out = (tni_bd_sums){.bytes = f.bytes, .xxh = {h.low64, h.high64}, .crc = ~crc};
  SHA256Final(out->sha256, &sha256);
  SHA1Final(out->sha1, &sha1);
  XXH3_freeState(xxh);
  tni_file_unmap(&f);
  return TN_OK;
}

/* --- files -------------------------------------------------------------------------------------------------------- */

const tni_bd_file *tni_bd_find(const tni_bd *b, const char *path) {
  for (uint32_t i = 0; i < b->n_files; i++)
    if (strcmp(b->files[i].path, path) == 0) return &b->files[i];
  return NULL;
}

bool tni_bd_find_in(const tni_bd *b, const char *folder) {
  const size_t n = strlen(folder);
  for (uint32_t i = 0; i < b->n_files; i++)
    if (strncmp(b->files[i].path, folder, n) == 0 && b->files[i].path[n] == '/') return true;
  return false;
}

static int by_path(const void *a, const void *b) {
  return strcmp(((const tni_bd_file *)a)->path, ((const tni_bd_file *)b)->path);
}

void tni_bd_sort(tni_bd *b) { qsort(b->files, b->n_files, sizeof *b->files, by_path); }

uint64_t tni_bd_total(const tni_bd *b) {
  uint64_t n = 0;
  for (uint32_t i = 0; i < b->n_files; i++) n += b->files[i].sums.bytes;
  return n;
}

static char *staged_path(const tni_bd *b, const char *to) { return tni_file_in(b->stage, to); }

static tn_status make_parents(tni_bd *b, const char *path) {
  char *copy = strdup(path), *slash = copy ? strrchr(copy, '/') : NULL;
  if (!slash) {
    free(copy);
    return tni_fail_memory(b->err, path);
  }
  *slash = '\0';
  const int e = tni_make_folder(copy);
  tn_status st = TN_OK;
  if (e)
    st = tni_fail(b->err, tni_errno_status(e, TN_E_IO), copy, "cannot make the folder '%s': %s", copy, strerror(e));
  free(copy);
  return st;
}

static tn_status write_all(tni_bd *b, int fd, const char *path, const uint8_t *p, uint64_t n) {
  while (n) {
    const ssize_t w = write(fd, p, n > PIECE ? PIECE : n);
    if (w < 0 && errno == EINTR) continue;
    if (w <= 0)
      return tni_fail(b->err, tni_errno_status(errno, TN_E_IO), path, "cannot write '%s': %s", path, strerror(errno));
    p += w;
    n -= (uint64_t)w;
  }
  return TN_OK;
}

static tn_status record_file(tni_bd *b, const char *path, const char *to, const char *role) {
  if (b->n_files == TNI_BD_FILES)
    return tni_fail(b->err, TN_E_LIMIT, to, "a bundle has at most %d files", TNI_BD_FILES);
  json_t *name = json_string(to); /* the lists are JSON */
  if (!name && tni_json_short()) return tni_fail_memory(b->err, path);
  if (!name) return tni_fail(b->err, TN_E_INVALID, path, "the name of a file of the bundle is not UTF-8");
  json_decref(name);
  tni_bd_file *f = &b->files[b->n_files];
  *f = (tni_bd_file){.path = tni_arena_strdup(b->arena, to), .role = role};
  if (!f->path) return tni_fail_memory(b->err, to);
  tn_status st = tni_bd_sum(path, &f->sums, b->err);
  if (st == TN_OK) b->n_files++;
  return st;
}

tn_status tni_bd_write(tni_bd *b, const char *to, const void *data, size_t n, const char *role, bool executable) {
  if (tni_bd_find(b, to)) return tni_fail(b->err, TN_E_INVALID, to, "two files of the bundle are called '%s'", to);
  char *path = staged_path(b, to);
  if (!path) return tni_fail_memory(b->err, to);
  tn_status st = make_parents(b, path);
  const int fd = st == TN_OK ? open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600) : -1;
  if (st == TN_OK && fd < 0)
    st = tni_fail(b->err, tni_errno_status(errno, TN_E_IO), path, "cannot write '%s': %s", path, strerror(errno));
  if (st == TN_OK) st = write_all(b, fd, path, data, n);
  if (st == TN_OK && fchmod(fd, executable ? 0755 : 0644) != 0)
    st = tni_fail(b->err, TN_E_IO, path, "cannot set the mode of '%s': %s", path, strerror(errno));
  if (fd >= 0 && close(fd) != 0 && st == TN_OK)
    st = tni_fail(b->err, tni_errno_status(errno, TN_E_IO), path, "cannot write '%s': %s", path, strerror(errno));
  if (st == TN_OK) st = record_file(b, path, to, role);
  free(path);
  return st;
}

tn_status tni_bd_copy(tni_bd *b, const char *from, const char *to, const char *role, bool executable) {
  tni_file f;
  tn_status st = tni_file_map(from, &f, b->err);
  if (st != TN_OK) return st;
  st = tni_bd_write(b, to, f.data, f.bytes, role, executable);
  if (st == TN_OK) st = tni_file_check(&f, from, TNI_WATCH_CONTENT, b->err);
  tni_file_unmap(&f);
  return st;
}

tn_status tni_bd_adopt(tni_bd *b, const char *to, const char *role) {
  char *path = staged_path(b, to);
  if (!path) return tni_fail_memory(b->err, to);
  tn_status st = chmod(path, 0644) == 0 ? record_file(b, path, to, role)
                                        : tni_fail(b->err, TN_E_IO, path, "cannot set the mode of '%s'", path);
  free(path);
  return st;
}

tn_status tni_bd_cut(tni_bd *b, const char *to, const tni_cut *cuts, uint32_t n) {
  tni_bd_file *entry = (tni_bd_file *)(uintptr_t)tni_bd_find(b, to);
  char *path = staged_path(b, to), *cut = tni_bd_text(b, "%s/%s.cut", b->stage, to);
  tni_file f = {0};
  tn_status st = entry && path && cut ? tni_file_map(path, &f, b->err) : tni_fail_memory(b->err, to);
  const int fd = st == TN_OK ? open(cut, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600) : -1;
  if (st == TN_OK && fd < 0)
    st = tni_fail(b->err, tni_errno_status(errno, TN_E_IO), cut, "cannot write '%s': %s", cut, strerror(errno));
  uint64_t from = 0;
  for (uint32_t i = 0; st == TN_OK && i <= n; i++) {
    const uint64_t end = i < n ? cuts[i].at : f.bytes;
    st = write_all(b, fd, cut, (const uint8_t *)f.data + from, end - from);
    if (i < n) from = end + cuts[i].bytes;
  }
  tni_file_unmap(&f);
  const bool moded = fd < 0 || fchmod(fd, 0644) == 0;
  if (fd >= 0 && (close(fd) != 0 || !moded) && st == TN_OK)
    st = tni_fail(b->err, tni_errno_status(errno, TN_E_IO), cut, "cannot write '%s': %s", cut, strerror(errno));
  if (st == TN_OK && rename(cut, path) != 0)
    st = tni_fail(b->err, TN_E_IO, path, "cannot replace '%s': %s", path, strerror(errno));
  if (st == TN_OK) st = tni_bd_sum(path, &entry->sums, b->err);
  free(path);
  return st;
}

/* --- folders ------------------------------------------------------------------------------------------------------ */

typedef bool (*visit_fn)(const tni_bd *b, const char *path, bool folder);

/* Entries first, then the folder itself. false: one visit failed. */
static bool walk_tree(const tni_bd *b, const char *path, visit_fn visit) {
  DIR *d = opendir(path);
  bool ok = d != NULL;
  for (struct dirent *e; d && (e = readdir(d));) {
    struct stat st;
    if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) continue;
    char *child = tni_file_in(path, e->d_name);
    if (child && lstat(child, &st) == 0 && S_ISDIR(st.st_mode))
      ok = walk_tree(b, child, visit) && ok;
    else
      ok = child && visit(b, child, false) && ok;
    free(child);
  }
  if (d) closedir(d);
  return visit(b, path, true) && ok;
}

static bool finish_entry(const tni_bd *b, const char *path, bool folder) {
  const time_t when = b->o.created ? (time_t)b->o.created : EPOCH_1980;
  const struct timespec times[2] = {{.tv_sec = when}, {.tv_sec = when}};
  const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  const bool ok = fd >= 0 && fsync(fd) == 0 && (!folder || fchmod(fd, 0755) == 0) && futimens(fd, times) == 0;
  if (fd >= 0) close(fd);
  return ok;
}

static bool remove_entry(const tni_bd *b, const char *path, bool folder) {
  (void)b;
  return folder ? rmdir(path) == 0 : unlink(path) == 0;
}

/* The bundle's own name must be free; the stage stands beside it, so that a rename is all that is left to do. */
tn_status tni_bd_stage(tni_bd *b) {
  struct stat st;
  const char *folder = b->o.folder;
  if (lstat(folder, &st) == 0 && !S_ISDIR(st.st_mode))
    return tni_fail(b->err, TN_E_INVALID, folder, "'%s' is there and is no folder", folder);
  if (lstat(folder, &st) == 0 && rmdir(folder) != 0)
    return tni_fail(b->err, TN_E_INVALID, folder, "'%s' is there and is not empty: %s", folder, strerror(errno));
  size_t n = strlen(folder);
  while (n > 1 && folder[n - 1] == '/') n--;
  for (int i = 0; i < 100; i++) {
    char *path = tni_bd_text(b, "%.*s.tmp.%ld.%d", (int)n, folder, (long)getpid(), i);
    if (!path) return tni_fail_memory(b->err, folder);
    if (mkdir(path, 0700) == 0) {
      b->stage = path;
      return TN_OK;
    }
    if (errno != EEXIST) break;
  }
  return tni_fail(b->err, tni_errno_status(errno, TN_E_IO), folder, "cannot make a folder beside '%s': %s", folder,
                  strerror(errno));
}

tn_status tni_bd_publish(tni_bd *b) {
  if (!walk_tree(b, b->stage, finish_entry))
    return tni_fail(b->err, tni_errno_status(errno, TN_E_IO), b->stage, "cannot finish '%s': %s", b->stage,
                    strerror(errno));
  if (rename(b->stage, b->o.folder) != 0)
    return tni_fail(b->err, TN_E_IO, b->o.folder, "cannot give the bundle its name '%s': %s", b->o.folder,
                    strerror(errno));
  b->stage = NULL;
  return TN_OK;
}

void tni_bd_discard(tni_bd *b) {
  if (b->stage) (void)walk_tree(b, b->stage, remove_entry);
  b->stage = NULL;
}
