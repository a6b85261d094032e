/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/pack/fixture.h"

#include <dirent.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

fx_counts fx_count;

struct tn_pack {
  const tn_weight *w;
  int64_t param;
};

void fx_reset_counts(void) { memset((void *)&fx_count, 0, sizeof fx_count); }

static tn_status fx_size(const tn_format *f, int64_t N, int64_t K, const int64_t *params, uint32_t n,
                         tn_pack_size *out) {
  (void)f;
  if (n != 1 || params[0] < 0) return TN_E_INVALID;
  *out = (tn_pack_size){.bytes = 64 + (uint64_t)((N + 7) / 8 * 8 * K), .align = 64, .row_unit = 8};
  return TN_OK;
}

static tn_status fx_begin(const tn_host *host, const tn_format *f, const tn_weight *w, const int64_t *params,
                          uint32_t n, tn_pack **out, tn_error *err) {
  (void)host, (void)f, (void)n;
  fx_count.begins++;
  if (fx_count.fail_begin) return tni_fail(err, fx_count.fail_begin, "fake", "the format was told to fail");
  tn_pack *p = malloc(sizeof *p);
  if (!p) return TN_E_NO_MEMORY;
  *p = (tn_pack){w, params[0]};
  *out = p;
  return TN_OK;
}

static tn_status fx_rows(tn_pack *p, int64_t n0, int64_t n1, void *blob) {
  long call = ++fx_count.rows;
  if (fx_count.fail_rows) return fx_count.fail_rows;
  if (fx_count.cancel_after && call >= fx_count.cancel_after) *fx_count.cancel = 1;
  if (n0 % 8 || (n1 % 8 && n1 != p->w->N)) return TN_E_INTERNAL;
  int64_t K = p->w->K;
  float *row = malloc(sizeof *row * (size_t)K);
  uint8_t *out = (uint8_t *)blob + 64;
  tn_status st = row ? TN_OK : TN_E_NO_MEMORY;
  for (int64_t n = n0; n < n1 && st == TN_OK; n++) {
    st = p->w->rows(p->w, n, n + 1, row);
    for (int64_t k = 0; k < K; k++) out[n * K + k] = (uint8_t)((uint8_t)(int8_t)lrintf(row[k] * 16) ^ p->param);
  }
  free(row);
  return st;
}

static tn_status fx_end(tn_pack *p, void *blob) {
  fx_count.ends++;
  if (!blob) fx_count.abandons++;
  uint64_t sum = 0;
  for (int64_t i = 0; blob && i < p->w->N * p->w->K; i++) sum = sum * 31 + ((uint8_t *)blob)[64 + i];
  if (blob) memcpy(blob, &sum, sizeof sum);
  free(p);
  return TN_OK;
}

#define FORMAT(v)                                                                                        \
  {                                                                                                      \
    .h = TN_HDR(tn_format), .name = "fake", .version = v, .bits = 8, .size = fx_size, .begin = fx_begin, \
    .rows = fx_rows, .end = fx_end                                                                       \
  }
const tn_format fx_format = FORMAT(1), fx_format2 = FORMAT(2);
#undef FORMAT

void fx_temp_dir(char *buf, size_t n) {
  const char *tmp = getenv("TMPDIR");
  if (!tmp || !*tmp) tmp = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp"; /* hundreds of fsyncs */
  snprintf(buf, n, "%s/tenon-pack-XXXXXX", tmp);
  if (!mkdtemp(buf)) {
    perror(buf);
    exit(1);
  }
}

void fx_remove_dir(const char *dir) {
  DIR *d = opendir(dir);
  char path[1024];
  for (struct dirent *e; d && (e = readdir(d));) {
    if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..")) continue;
    snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
    if (unlink(path) != 0) fx_remove_dir(path);
  }
  if (d) closedir(d);
  (void)rmdir(dir);
}

/* One byte per element: an eighth of a signed byte. */
static tn_status weight_rows(const tn_weight *w, int64_t n0, int64_t n1, float *dst) {
  const int8_t *raw = w->ctx;
  fx_count.source_rows++;
  for (int64_t n = n0; n < n1; n++)
    for (int64_t k = 0; k < w->K; k++)
      *dst++ = 0.125f * raw[w->flags & TN_WEIGHT_TRANSPOSED ? k * w->N + n : n * w->K + k];
  return TN_OK;
}

static tn_status joined_rows(const tn_weight *w, int64_t n0, int64_t n1, float *dst) {
  const tn_weight *const *parts = w->ctx;
  for (int64_t n = n0; n < n1; n++, dst += w->K) {
    const tn_weight *p = n < parts[0]->N ? parts[0] : parts[1];
    int64_t at = n < parts[0]->N ? n : n - parts[0]->N;
    tn_status st = p->rows(p, at, at + 1, dst);
    if (st != TN_OK) return st;
  }
  return TN_OK;
}

/* Parts 0 .. 6; items 0 .. 4 are parts 0 .. 4 alone, item 5 joins parts 5 and 6. Part 3 has no raw bytes. */
static const struct {
  int64_t N, K;
  uint32_t flags;
} shapes[FX_PARTS] = {{37, 96, 0},  {1500, 1024, 0}, {8, 16, 0}, {64, 48, 0}, {130, 40, TN_WEIGHT_TRANSPOSED},
                      {100, 64, 0}, {61, 64, 0}};

static void write_weights(const char *path, uint64_t n) {
  uint8_t *p = malloc(n);
  uint64_t x = 88172645463325252u;
  for (uint64_t i = 0; i < n; i++) {
    x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    p[i] = (uint8_t)(x >> 32);
  }
  FILE *f = fopen(path, "wb");
  if (!f || fwrite(p, 1, n, f) != n || fclose(f) != 0) {
    perror(path);
    exit(1);
  }
  free(p);
  const struct timespec old[2] = {{.tv_sec = 1600000000}, {.tv_sec = 1600000000, .tv_nsec = 5}};
  utimensat(AT_FDCWD, path, old, 0);
}

void fx_model_stat(fx_model *m) {
  struct stat st;
  if (stat(m->file, &st) != 0) exit(1);
  for (int i = 0; i < FX_PARTS; i++) {
    m->sources[i].device = (uint64_t)st.st_dev;
    m->sources[i].inode = (uint64_t)st.st_ino;
    m->sources[i].size = (uint64_t)st.st_size;
    m->sources[i].mtime_ns = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
    m->sources[i].ctime_ns = m->ctime_ns;
  }
}

static void map_weights(fx_model *m) {
  int fd = open(m->file, O_RDWR);
  m->bytes = mmap(NULL, m->n_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  if (m->bytes == MAP_FAILED) exit(1);
}

static void fill_parts(fx_model *m) {
  uint64_t at = 0;
  for (int i = 0; i < FX_PARTS; i++) {
    uint64_t n = (uint64_t)(shapes[i].N * shapes[i].K);
    m->parts[i] = (tn_weight){.h = TN_HDR(tn_weight),
                              .ctx = m->bytes + at,
                              .N = shapes[i].N,
                              .K = shapes[i].K,
                              .dtype = TN_DT_I8,
                              .flags = shapes[i].flags,
                              .raw = i == 3 ? NULL : m->bytes + at,
                              .rows = weight_rows};
    m->part_list[i] = &m->parts[i];
    m->sources[i] = (tni_pack_source){.file = m->file, .offset = at, .bytes = n};
    at += n;
  }
}

void fx_model_init(fx_model *m, const char *dir) {
  static const char *const names[FX_ITEMS] = {"small", "big", "tiny", "rows", "turned", "joined"};
  memset(m, 0, sizeof *m);
  snprintf(m->dir, sizeof m->dir, "%s", dir);
  snprintf(m->cache, sizeof m->cache, "%s/cache", dir);
  snprintf(m->file, sizeof m->file, "%s/weights.bin", dir);
  for (int i = 0; i < FX_PARTS; i++) m->n_bytes += (uint64_t)(shapes[i].N * shapes[i].K);
  if (access(m->file, F_OK) != 0) write_weights(m->file, m->n_bytes);
  map_weights(m);
  fill_parts(m);
  fx_model_stat(m);
  m->joined = (tn_weight){.h = TN_HDR(tn_weight),
                          .ctx = (void *)&m->part_list[5],
                          .N = 161,
                          .K = 64,
                          .dtype = TN_DT_F32,
                          .rows = joined_rows};
  m->params[0] = 90;
  for (int i = 0; i < FX_ITEMS; i++) {
    m->whole[i] = i == 5 ? &m->joined : &m->parts[i];
    m->items[i] = (tni_pack_item){.format = &fx_format,
                                  .params = m->params,
                                  .n_params = 1,
                                  .weight = m->whole[i],
                                  .sources = &m->sources[i],
                                  .parts = &m->part_list[i],
                                  .n_parts = i == 5 ? 2 : 1,
                                  .name = names[i]};
    m->list[i] = &m->items[i];
  }
}

void fx_model_finish(fx_model *m) { munmap(m->bytes, m->n_bytes); }

void fx_model_param(fx_model *m, int64_t p) { m->params[0] = p; }

static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER;
static char log_text[1 << 16];

static void log_line(void *user, uint32_t level, const char *line) {
  (void)user, (void)level;
  pthread_mutex_lock(&log_lock);
  size_t n = strlen(log_text);
  snprintf(log_text + n, sizeof log_text - n, "%s\n", line);
  pthread_mutex_unlock(&log_lock);
}

void fx_log_clear(void) { log_text[0] = '\0'; }

int fx_logged(const char *text) {
  int n = 0;
  for (const char *p = log_text; (p = strstr(p, text)); p++) n++;
  return n;
}

static const tni_log test_log = {.fn = log_line, .level = TN_LOG_DEBUG};

tni_pack_opts fx_opts(const fx_model *m, tni_pool *pool) {
  return (tni_pack_opts){
      .dir = m->cache, .model_name = "my model/x", .device_name = "fake:0", .pool = pool, .log = &test_log};
}

tn_status fx_open(const fx_model *m, uint32_t n, tni_pool *pool, tni_pack_store **out) {
  tni_pack_opts o = fx_opts(m, pool);
  tn_error err;
  tni_error_init(&err);
  *out = NULL;
  tn_status st = tni_pack_store_open(&o, m->list, n, out, &err);
  if (st != TN_OK) printf("\n  open: %s: %s\n", tni_status_name(st), err.message);
  return st;
}

bool fx_right(const fx_model *m, uint32_t n, const tni_pack_store *s) {
  bool ok = true;
  for (uint32_t i = 0; i < n && ok; i++) {
    const tni_pack_item *it = &m->items[i];
    const tn_blob *b = tni_pack_store_blob(s, i);
    tn_pack_size size;
    tn_pack *p = NULL;
    long begins = fx_count.begins, rows = fx_count.rows, ends = fx_count.ends, source = fx_count.source_rows;
    if (fx_size(it->format, it->weight->N, it->weight->K, it->params, 1, &size) != TN_OK) return false;
    uint8_t *want = calloc(1, size.bytes);
    ok = want && fx_begin(NULL, it->format, it->weight, it->params, 1, &p, NULL) == TN_OK &&
         fx_rows(p, 0, it->weight->N, want) == TN_OK && fx_end(p, want) == TN_OK;
    ok = ok && b && b->bytes == size.bytes && b->ptr && memcmp(b->ptr, want, size.bytes) == 0;
    if (!ok) printf("\n  blob %u (%s) is wrong\n", i, it->name);
    free(want);
    fx_count.begins = begins;
    fx_count.rows = rows;
    fx_count.ends = ends;
    fx_count.source_rows = source;
  }
  return ok;
}

int fx_names(const char *dir, const char *part) {
  DIR *d = opendir(dir);
  int n = 0;
  for (struct dirent *e; d && (e = readdir(d));) n += strstr(e->d_name, part) != NULL;
  if (d) closedir(d);
  return n;
}

bool fx_pack_file(const char *dir, char *path, size_t n) {
  DIR *d = opendir(dir);
  int found = 0;
  for (struct dirent *e; d && (e = readdir(d));) {
    size_t len = strlen(e->d_name);
    if (len < 7 || strcmp(e->d_name + len - 7, ".tnpack") != 0) continue;
    snprintf(path, n, "%s/%s", dir, e->d_name);
    found++;
  }
  if (d) closedir(d);
  return found == 1;
}
