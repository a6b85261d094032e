/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/plugin/process/shm.h"

#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

enum { PAGE = 4096, HUGE_PAGE = 1 << 21 };

typedef struct shm_piece {
  char *p;
  uint64_t bytes;
  int fd;
  uint32_t id;
} shm_piece;

struct tni_shm {
  pthread_mutex_t lock;
  shm_piece *v;
  uint32_t n, cap, next;
};

tni_shm *tni_shm_create(void) {
  tni_shm *s = calloc(1, sizeof *s);
  if (s && pthread_mutex_init(&s->lock, NULL) != 0) {
    free(s);
    return NULL;
  }
  if (s) s->next = 1;
  return s;
}

static void drop_piece(const shm_piece *q) {
  munmap(q->p, q->bytes);
  close(q->fd);
}

void tni_shm_destroy(tni_shm *s) {
  if (!s) return;
  for (uint32_t i = 0; i < s->n; i++) drop_piece(&s->v[i]);
  pthread_mutex_destroy(&s->lock);
  free(s->v);
  free(s);
}

int tni_shm_map(uint64_t bytes, void **p) {
  int fd = memfd_create("tenon", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0) return -1;
  void *at = MAP_FAILED;
  if (bytes <= INT64_MAX - PAGE && ftruncate(fd, (off_t)bytes) == 0 &&
      fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0)
    at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (at == MAP_FAILED) {
    close(fd);
    return -1;
  }
  if (bytes >= HUGE_PAGE) (void)!madvise(at, bytes, MADV_HUGEPAGE);
  *p = at;
  return fd;
}

static bool room_in_shm(tni_shm *s) {
  if (s->n < s->cap) return true;
  const uint32_t cap = s->cap ? s->cap * 2 : 32;
  shm_piece *grown = realloc(s->v, cap * sizeof *grown);
  if (!grown) return false;
  s->v = grown;
  s->cap = cap;
  return true;
}

void *tni_shm_alloc(tni_shm *s, uint64_t bytes) {
  if (bytes > INT64_MAX - PAGE) return NULL;
  shm_piece q = {.bytes = (bytes + PAGE - 1) / PAGE * PAGE};
  void *p;
  if (!q.bytes) q.bytes = PAGE;
  if ((q.fd = tni_shm_map(q.bytes, &p)) < 0) return NULL;
  q.p = p;
  pthread_mutex_lock(&s->lock);
  const bool ok = room_in_shm(s);
  if (ok) {
    q.id = s->next++;
    s->v[s->n++] = q;
  }
  pthread_mutex_unlock(&s->lock);
  if (ok) return p;
  drop_piece(&q);
  return NULL;
}

void tni_shm_free(tni_shm *s, void *p) {
  shm_piece q = {.fd = -1};
  if (!p) return;
  pthread_mutex_lock(&s->lock);
  for (uint32_t i = 0; i < s->n; i++)
    if (s->v[i].p == p) {
      q = s->v[i];
      s->v[i] = s->v[--s->n];
      break;
    }
  pthread_mutex_unlock(&s->lock);
  if (q.fd >= 0) drop_piece(&q);
}

bool tni_shm_find(tni_shm *s, const void *p, uint64_t bytes, tni_shm_at *out) {
  const uintptr_t at = (uintptr_t)p;
  bool found = false;
  pthread_mutex_lock(&s->lock);
  for (uint32_t i = 0; !found && i < s->n; i++) {
    const shm_piece *q = &s->v[i];
    const uintptr_t base = (uintptr_t)q->p;
    found = at >= base && at - base <= q->bytes && bytes <= q->bytes - (at - base);
    if (found) *out = (tni_shm_at){.id = q->id, .offset = at - base, .bytes = q->bytes, .fd = q->fd};
  }
  pthread_mutex_unlock(&s->lock);
  return found;
}

bool tni_shm_alive(tni_shm *s, uint32_t id) {
  bool found = false;
  pthread_mutex_lock(&s->lock);
  for (uint32_t i = 0; !found && i < s->n; i++) found = s->v[i].id == id;
  pthread_mutex_unlock(&s->lock);
  return found;
}

uint32_t tni_shm_id(tni_shm *s) {
  pthread_mutex_lock(&s->lock);
  const uint32_t id = s->next++;
  pthread_mutex_unlock(&s->lock);
  return id;
}

/* What the system says of an address of this process. */
typedef struct mapped_file {
  uint64_t inode, offset; /* offset: of the address in the file */
  unsigned major, minor;
  char *path; /* malloc'd */
} mapped_file;

/* One line of maps: "from-to perms offset major:minor inode path". */
static bool read_line(const char *line, uintptr_t at, uint64_t bytes, mapped_file *out, const char **path) {
  uint64_t from, to;
  char perms[5];
  int end = 0;
  if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %x:%x %" SCNu64 " %n", &from, &to, perms, &out->offset,
             &out->major, &out->minor, &out->inode, &end) < 7 ||
      !end || !out->inode || at < from || at >= to || bytes > to - at || perms[0] != 'r' || perms[1] != '-')
    return false;
  out->offset += at - from;
  *path = line + end;
  return **path == '/';
}

/* False: [p, p + bytes) is no read-only mapping of a file. */
static bool find_mapping(const void *p, uint64_t bytes, mapped_file *out) {
  FILE *f = fopen("/proc/self/maps", "re");
  char *line = NULL;
  size_t cap = 0;
  out->path = NULL;
  for (ssize_t n; f && !out->path && (n = getline(&line, &cap, f)) > 0;) {
    const char *path;
    if (line[n - 1] == '\n') line[n - 1] = '\0';
    if (!read_line(line, (uintptr_t)p, bytes, out, &path)) continue;
    out->path = strdup(path);
    break;
  }
  free(line);
  if (f) fclose(f);
  return out->path != NULL;
}

/* Where a file has one number in stat and another in maps (btrfs, overlayfs), its mappings are compared. */
static bool maps_alike(int fd, const mapped_file *m) {
  mapped_file is;
  void *p = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, 0);
  if (p == MAP_FAILED) return false;
  const bool found = find_mapping(p, 1, &is);
  munmap(p, PAGE);
  const bool same = found && is.inode == m->inode && is.major == m->major && is.minor == m->minor;
  free(is.path);
  return same;
}

static bool is_file_of(int fd, const mapped_file *m, uint64_t bytes) {
  struct stat is;
  if (fstat(fd, &is) != 0 || !S_ISREG(is.st_mode) || (uint64_t)is.st_size < m->offset + bytes) return false;
  return (is.st_ino == m->inode && is.st_dev == makedev(m->major, m->minor)) || maps_alike(fd, m);
}

int tni_shm_file(const void *p, uint64_t bytes, uint64_t *offset) {
  mapped_file m;
  if (!find_mapping(p, bytes, &m)) return -1;
  int fd = open(m.path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  if (fd >= 0 && !is_file_of(fd, &m, bytes)) {
    close(fd);
    fd = -1;
  }
  free(m.path);
  *offset = m.offset;
  return fd;
}
