/* SPDX-License-Identifier: Apache-2.0
 *
 * Every format of every plugin of a build, through the ABI alone. argv[1]: folder whose folders hold plugins; argv[2]:
 * golden.txt; argv[3] `golden`: its bytes alone, where an emulator is slow.
 */
#include <CUnit/Basic.h>
#include <dirent.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "runtime/plugin/load/registry.h"

enum { GUARD = 256, MAX_FORMATS = 160, MAX_GOLDEN = 256, BOXES = 60, THREADS = 3 };

/* One format with params that it takes. */
typedef struct subject {
  const tn_format *f;
  const tn_host *host;
  const char *plugin;
  int64_t params[3];
  uint32_t n_params;
} subject;

static subject subjects[MAX_FORMATS];
static uint32_t n_subjects;
static const char *golden_path;
static uint64_t seed;

static uint32_t next(void) {
  seed = seed * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(seed >> 33);
}

/* "w4g 1 32": name, version, params. */
static void golden_key(const subject *s, char *buf, size_t n) {
  size_t at = (size_t)snprintf(buf, n, "%s %u %s", s->f->name, s->f->version, s->n_params ? "" : "-");
  for (uint32_t i = 0; i < s->n_params && at < n; i++)
    at += (size_t)snprintf(buf + at, n - at, "%s%lld", i ? "," : "", (long long)s->params[i]);
}

static const char *label(const subject *s) {
  static char text[160];
  char key[96];
  golden_key(s, key, sizeof key);
  snprintf(text, sizeof text, "%s: %s", s->plugin, key);
  return text;
}

/* --- weights ------------------------------------------------------------------------------------------------------ */

typedef struct matrix {
  tn_weight w;
  float *v, *turned; /* [N,K] and the same as [K,N] */
  tn_stats x;
  float *over, *mean;
} matrix;

static tn_status rows_of(const tn_weight *w, int64_t n0, int64_t n1, float *dst) {
  memcpy(dst, ((const matrix *)w->ctx)->v + n0 * w->K, (size_t)((n1 - n0) * w->K) * sizeof(float));
  return TN_OK;
}

/* Bell-shaped by whole numbers, so that every machine has the same bits; a row of zeros, one of one sign, an outlier.
 */
static float value(int64_t n, int64_t k, int64_t N) {
  int64_t sum = -6144;
  for (int i = 0; i < 12; i++) sum += next() & 1023;
  if (N > 4 && n == 2) return 0;
  if (N > 4 && n == 3) sum = sum < 0 ? -sum : sum;
  if (N > 4 && n == 4 && k == 1) sum = 40000;
  return (float)sum * 0x1p-14f;
}

static matrix make_matrix(int64_t N, int64_t K, uint64_t from) {
  matrix m = {.v = malloc((size_t)(N * K) * sizeof(float)),
              .turned = malloc((size_t)(N * K) * sizeof(float)),
              .over = calloc((size_t)K, sizeof(float)),
              .mean = calloc((size_t)K, sizeof(float))};
  seed = from;
  for (int64_t n = 0; n < N; n++)
    for (int64_t k = 0; k < K; k++) m.turned[k * N + n] = m.v[n * K + k] = value(n, k, N);
  for (int64_t k = 0; k < K; k += 7) m.over[k] = (float)(k % 5);
  m.x = (tn_stats){.h = TN_HDR(tn_stats),
                   .absmax = 6,
                   .p999 = 4,
                   .n = (uint32_t)K,
                   .ch_over = m.over,
                   .ch_mean = m.mean,
                   .ch_weight = m.mean,
                   .rows = 100};
  m.w = (tn_weight){.h = TN_HDR(tn_weight), .N = N, .K = K, .dtype = TN_DT_F32, .rows = rows_of};
  return m;
}

/* How the matrix lies: 0 not addressable, 1 as [N,K], 2 as [K,N]. */
static tn_weight *weight_of(matrix *m, int how, bool stats) {
  m->w.ctx = m;
  m->w.x = stats ? &m->x : NULL;
  m->w.raw = how == 0 ? NULL : how == 1 ? m->v : m->turned;
  m->w.flags = how == 2 ? TN_WEIGHT_TRANSPOSED : 0;
  return &m->w;
}

static void free_matrix(matrix *m) {
  free(m->v);
  free(m->turned);
  free(m->over);
  free(m->mean);
}

/* --- packing ------------------------------------------------------------------------------------------------------ */

typedef struct packed {
  uint8_t *memory; /* guards on both sides */
  tn_blob b;
} packed;

static tn_status read_blob(const tn_blob *b, uint64_t offset, uint64_t n, void *dst) {
  memcpy(dst, (const uint8_t *)b->ptr + offset, n);
  return TN_OK;
}

typedef struct job {
  const subject *s;
  tn_pack *p;
  void *blob;
  int64_t first, unit, end; /* rows of this thread, every THREADS-th unit */
  tn_status st;
} job;

static void *pack_units(void *arg) {
  job *j = arg;
  for (int64_t n = j->first; n < j->end && j->st == TN_OK; n += THREADS * j->unit)
    j->st = j->s->f->rows(j->p, n, n + j->unit < j->end ? n + j->unit : j->end, j->blob);
  return NULL;
}

/* Units from several threads at once, interleaved and from the end. */
static tn_status in_threads(const subject *s, tn_pack *p, const tn_pack_size *size, int64_t N, void *blob) {
  job j[THREADS];
  pthread_t t[THREADS];
  for (int i = 0; i < THREADS; i++) {
    j[i] = (job){.s = s,
                 .p = p,
                 .blob = blob,
                 .first = (THREADS - 1 - i) * (int64_t)size->row_unit,
                 .unit = size->row_unit,
                 .end = N};
    pthread_create(&t[i], NULL, pack_units, &j[i]);
  }
  for (int i = 0; i < THREADS; i++) pthread_join(t[i], NULL);
  for (int i = 0; i < THREADS; i++)
    if (j[i].st != TN_OK) return j[i].st;
  return TN_OK;
}

static tn_status in_pieces(const subject *s, tn_pack *p, const tn_pack_size *size, int64_t N, void *blob) {
  const int64_t units = (N + size->row_unit - 1) / size->row_unit;
  tn_status st = TN_OK;
  for (int64_t at = 0; st == TN_OK && at < units;) {
    const int64_t n = 1 + next() % 3, end = (at + n) * size->row_unit;
    st = s->f->rows(p, at * size->row_unit, end < N ? end : N, blob);
    at += n;
  }
  return st;
}

enum { WHOLE, PIECES, IN_THREADS };

static packed pack(const subject *s, const tn_weight *w, int how) {
  packed k = {0};
  tn_pack_size size = {0};
  tn_error err = {0};
  tn_pack *p = NULL;
  CU_ASSERT_EQUAL_FATAL(s->f->size(s->f, w->N, w->K, s->params, s->n_params, &size), TN_OK);
  CU_ASSERT_FATAL(size.bytes > 0 && size.row_unit > 0 && size.align <= 4096);
  k.memory = aligned_alloc(4096, (size.bytes + 4096 + 2 * GUARD + 4095) & ~(uint64_t)4095);
  CU_ASSERT_PTR_NOT_NULL_FATAL(k.memory);
  uint8_t *at = k.memory + 4096; /* the guard behind is GUARD bytes, the one in front a page */
  memset(k.memory, 0xA5, 4096);
  memset(at, 0, size.bytes);
  memset(at + size.bytes, 0xA5, GUARD);
  tn_status st = s->f->begin(s->host, s->f, w, s->params, s->n_params, &p, &err);
  if (st != TN_OK) printf("\n  %s: %s\n", label(s), err.message);
  CU_ASSERT_EQUAL_FATAL(st, TN_OK);
  st = how == WHOLE    ? s->f->rows(p, 0, w->N, at)
       : how == PIECES ? in_pieces(s, p, &size, w->N, at)
                       : in_threads(s, p, &size, w->N, at);
  CU_ASSERT_EQUAL_FATAL(st, TN_OK);
  CU_ASSERT_EQUAL_FATAL(s->f->end(p, at), TN_OK);
  k.b = (tn_blob){.h = TN_HDR(tn_blob),
                  .format = s->f,
                  .N = w->N,
                  .K = w->K,
                  .bytes = size.bytes,
                  .ptr = at,
                  .params = s->params,
                  .n_params = s->n_params,
                  .read = read_blob};
  for (int i = 0; i < GUARD; i++) {
    CU_ASSERT_EQUAL(at[size.bytes + (uint64_t)i], 0xA5);
    CU_ASSERT_EQUAL(at[-1 - i], 0xA5);
  }
  return k;
}

static bool same_bytes(const packed *a, const packed *b) {
  return a->b.bytes == b->b.bytes && memcmp(a->b.ptr, b->b.ptr, a->b.bytes) == 0;
}

static float *unpack(const packed *k, const int64_t box[4]) {
  const size_t n = (size_t)((box[1] - box[0]) * (box[3] - box[2]));
  float *u = malloc((n + 2) * sizeof *u);
  u[n] = u[n + 1] = 12345;
  CU_ASSERT_EQUAL_FATAL(k->b.format->unpack(&k->b, box, u), TN_OK);
  CU_ASSERT(u[n] == 12345 && u[n + 1] == 12345);
  return u;
}

/* --- tests -------------------------------------------------------------------------------------------------------- */

static const int64_t shapes[][2] = {{1, 1}, {5, 3}, {17, 33}, {33, 130}, {64, 256}, {130, 515}};
enum { N_SHAPES = sizeof shapes / sizeof *shapes };

static int64_t group_of(const subject *s, int64_t K) {
  return s->f->group ? s->f->group : s->n_params % 2 && s->params[0] > 1 ? s->params[0] : K;
}

/* Every weight within w_err of the largest of its group (of the whole matrix, where a format has no group). */
static void check_bound(const subject *s, const matrix *m, const float *u) {
  const int64_t N = m->w.N, K = m->w.K, g = group_of(s, K);
  const bool whole = !s->f->group && g == K;
  double all = 0, worst = 0;
  for (int64_t i = 0; i < N * K; i++) all = fmax(all, fabs((double)m->v[i]));
  for (int64_t n = 0; n < N; n++)
    for (int64_t k0 = 0; k0 < K; k0 += g) {
      double top = whole ? all : 0, error = 0;
      for (int64_t k = k0; k < K && k < k0 + g; k++) {
        top = fmax(top, fabs((double)m->v[n * K + k]));
        error = fmax(error, fabs((double)m->v[n * K + k] - (double)u[n * K + k]));
      }
      if (top == 0 ? error > 0 : top >= 0x1p-13) worst = fmax(worst, top == 0 ? INFINITY : error / top);
    }
  if (worst > (double)s->f->w_err * (1 + 0x1p-20)) printf("\n  %s: %g over %g\n", label(s), worst, (double)s->f->w_err);
  CU_ASSERT(worst <= (double)s->f->w_err * (1 + 0x1p-20));
}

static void test_round_trip(void) {
  for (uint32_t i = 0; i < n_subjects; i++)
    for (int k = 0; k < N_SHAPES; k++) {
      const subject *s = &subjects[i];
      matrix m = make_matrix(shapes[k][0], shapes[k][1], 77 + (uint64_t)k), again;
      packed a = pack(s, weight_of(&m, 1, true), WHOLE);
      const int64_t all[4] = {0, m.w.N, 0, m.w.K};
      float *u = unpack(&a, all);
      check_bound(s, &m, u);
      /* What was unpacked packs again within the same bound. */
      again = make_matrix(m.w.N, m.w.K, 1);
      for (int64_t n = 0; n < m.w.N; n++)
        for (int64_t c = 0; c < m.w.K; c++) again.v[n * m.w.K + c] = again.turned[c * m.w.N + n] = u[n * m.w.K + c];
      packed b = pack(s, weight_of(&again, 1, true), WHOLE);
      float *u2 = unpack(&b, all);
      check_bound(s, &again, u2);
      free(u);
      free(u2);
      free(a.memory);
      free(b.memory);
      free_matrix(&m);
      free_matrix(&again);
    }
}

/* The same bytes for every split, on threads, and however the matrix lies; statistics only where the format says so. */
static void test_splits(void) {
  for (uint32_t i = 0; i < n_subjects; i++)
    for (int k = 0; k < N_SHAPES; k++) {
      const subject *s = &subjects[i];
      matrix m = make_matrix(shapes[k][0], shapes[k][1], 99 + (uint64_t)k);
      packed a = pack(s, weight_of(&m, 1, true), WHOLE);
      const bool reads = s->f->flags & TN_FMT_READS_STATS;
      const struct {
        int lies, how;
        bool stats;
      } rows[] = {{1, PIECES, true}, {1, IN_THREADS, true}, {0, WHOLE, true}, {2, IN_THREADS, true}, {1, WHOLE, reads}};
      for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        packed b = pack(s, weight_of(&m, rows[r].lies, rows[r].stats), rows[r].how);
        if (!same_bytes(&a, &b)) printf("\n  %s: other bytes in way %zu\n", label(s), r);
        CU_ASSERT_TRUE(same_bytes(&a, &b));
        free(b.memory);
      }
      free(a.memory);
      free_matrix(&m);
    }
}

static void test_boxes(void) {
  for (uint32_t i = 0; i < n_subjects; i++)
    for (int k = 0; k < N_SHAPES; k++) {
      const subject *s = &subjects[i];
      const int64_t N = shapes[k][0], K = shapes[k][1], all[4] = {0, N, 0, K};
      matrix m = make_matrix(N, K, 11);
      packed a = pack(s, weight_of(&m, 0, true), WHOLE);
      float *u = unpack(&a, all);
      uint32_t wrong = 0;
      for (int b = 0; b < BOXES; b++) {
        int64_t box[4] = {next() % (N + 1), next() % (N + 1), next() % (K + 1), next() % (K + 1)};
        for (int e = 0; e < 4; e += 2)
          if (box[e] > box[e + 1]) {
            const int64_t t = box[e];
            box[e] = box[e + 1];
            box[e + 1] = t;
          }
        float *part = unpack(&a, box);
        const int64_t width = box[3] - box[2];
        for (int64_t n = box[0]; n < box[1]; n++)
          wrong += width && memcmp(part + (n - box[0]) * width, u + n * K + box[2], (size_t)width * sizeof *u) != 0;
        free(part);
      }
      if (wrong) printf("\n  %s [%lld,%lld]: %u rows of boxes differ\n", label(s), (long long)N, (long long)K, wrong);
      CU_ASSERT_EQUAL(wrong, 0);
      free(u);
      free(a.memory);
      free_matrix(&m);
    }
}

/* Abandoned packs leave nothing; sizes that no matrix has are refused. */
static void test_edges(void) {
  static const int64_t bad[][2] = {{-1, 8},       {8, -1}, {INT64_MAX, 8}, {8, INT64_MAX}, {INT64_MAX, INT64_MAX},
                                   {INT64_MIN, 1}};
  for (uint32_t i = 0; i < n_subjects; i++) {
    const subject *s = &subjects[i];
    tn_pack_size size;
    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++)
      CU_ASSERT_NOT_EQUAL(s->f->size(s->f, bad[k][0], bad[k][1], s->params, s->n_params, &size), TN_OK);
    matrix m = make_matrix(33, 70, 5);
    tn_pack *p = NULL;
    CU_ASSERT_EQUAL_FATAL(s->f->begin(s->host, s->f, weight_of(&m, 1, true), s->params, s->n_params, &p, NULL), TN_OK);
    CU_ASSERT_EQUAL(s->f->end(p, NULL), TN_OK);
    free_matrix(&m);
  }
}

/* What is declared: numerics, and bits per weight all in, on a matrix of whole groups. */
static void test_declared(void) {
  for (uint32_t i = 0; i < n_subjects; i++) {
    const subject *s = &subjects[i];
    const tn_format *f = s->f;
    const tn_numerics *n =
        TN_HAS(f, tn_format, numerics_of) && f->numerics_of ? f->numerics_of(f, s->params, s->n_params) : f->numerics;
    tn_pack_size size;
    CU_ASSERT_PTR_NOT_NULL_FATAL(n);
    CU_ASSERT(n->act_dtype == TN_DT_I8 || n->act_dtype == TN_DT_F16 || n->act_dtype == TN_DT_F32 ||
              n->act_dtype == TN_DT_I16 || n->act_dtype == TN_DT_I32);
    CU_ASSERT(n->finite_max > 0 && f->bits > 0 && f->version > 0 && f->w_err >= 0);
    CU_ASSERT(strlen(f->name) && !f->name[strspn(f->name, "abcdefghijklmnopqrstuvwxyz0123456789._-")]);
    CU_ASSERT_EQUAL_FATAL(f->size(f, 4096, 4096, s->params, s->n_params, &size), TN_OK);
    const double bits = (double)size.bytes * 8 / (4096.0 * 4096.0);
    /* Of three params the format states what one choice of them takes. */
    const bool other = s->n_params == 3 && (s->params[0] != 32 || s->params[1] != 16 || s->params[2] != 8);
    if (other) continue;
    if (bits > (double)f->bits_per_weight * 1.01)
      printf("\n  %s: %g bits, not %g\n", label(s), bits, (double)f->bits_per_weight);
    CU_ASSERT(bits <= (double)f->bits_per_weight * 1.01 && bits >= f->bits);
  }
}

/* --- golden bytes ------------------------------------------------------------------------------------------------- */

static bool find_golden(const char *key, char *hash, size_t n) {
  FILE *f = fopen(golden_path, "r");
  char line[256];
  bool found = false;
  while (f && !found && fgets(line, sizeof line, f)) {
    line[strcspn(line, "\n")] = '\0';
    const size_t m = strlen(key);
    found = strncmp(line, key, m) == 0 && line[m] == ' ';
    if (found) snprintf(hash, n, "%s", line + m + 1);
  }
  if (f) fclose(f);
  return found;
}

static void test_golden(void) {
  for (uint32_t i = 0; i < n_subjects; i++) {
    const subject *s = &subjects[i];
    char key[96], want[64] = "none", got[64];
    matrix m = make_matrix(80, 400, 2024);
    packed a = pack(s, weight_of(&m, 1, true), IN_THREADS);
    golden_key(s, key, sizeof key);
    const int64_t all[4] = {0, 80, 0, 400};
    float *u = unpack(&a, all);
    for (int k = 0; k < 80 * 400; k++) u[k] += 0.0f; /* one zero */
    snprintf(got, sizeof got, "%016llx %016llx", (unsigned long long)XXH3_64bits(a.b.ptr, a.b.bytes),
             (unsigned long long)XXH3_64bits(u, 80 * 400 * sizeof *u));
    free(u);
    const bool known = find_golden(key, want, sizeof want);
    if (!known || strcmp(got, want) != 0) printf("\n  golden.txt: %s %s (not %s), of %s\n", key, got, want, s->plugin);
    CU_ASSERT_TRUE(known);
    CU_ASSERT_STRING_EQUAL(got, want);
    free(a.memory);
    free_matrix(&m);
  }
}

/* --- what there is ------------------------------------------------------------------------------------------------ */

/* Every one of these params that the format takes; most take one kind: groups, switches, an activation scale (0.05). */
static void add_format(const tni_plugin_info *p, const tn_format *f) {
  static const struct {
    int64_t params[3];
    uint32_t n;
  } tries[] = {{{0}, 0},
               {{0}, 1},
               {{1}, 1},
               {{32}, 1},
               {{64}, 1},
               {{128}, 1},
               {{0x3d4ccccd, 0}, 2},
               {{0x3d4ccccd, 1}, 2},
               {{32, 16, 8}, 3},
               {{16, 32, 32}, 3},
               {{64, 32, 0}, 3},
               {{128, 16, 0}, 3}};
  tn_pack_size size;
  const uint32_t before = n_subjects;
  for (size_t i = 0; i < sizeof tries / sizeof *tries; i++) {
    subject s = {.f = f, .host = p->host, .plugin = p->name, .n_params = tries[i].n};
    memcpy(s.params, tries[i].params, sizeof s.params);
    if (f->size(f, 64, 256, s.params, s.n_params, &size) != TN_OK) continue;
    if (n_subjects == MAX_FORMATS) {
      printf("more than %d formats with params\n", MAX_FORMATS);
      exit(1);
    }
    subjects[n_subjects++] = s;
  }
  if (n_subjects == before) {
    printf("%s: '%s' takes no params that are tried here\n", p->name, f->name);
    exit(1);
  }
}

static uint32_t list_dirs(const char *root, char dirs[][512], const char **list, uint32_t cap) {
  DIR *d = opendir(root);
  uint32_t n = 0;
  for (struct dirent *e; d && n < cap && (e = readdir(d));) {
    if (e->d_name[0] == '.') continue;
    snprintf(dirs[n], 512, "%s/%s", root, e->d_name);
    list[n] = dirs[n];
    n++;
  }
  if (d) closedir(d);
  return n;
}

static tni_registry *load_all(const char *root) {
  static const char host_only[] = "plugins: [host]\n";
  static char dirs[32][512];
  static const char *list[32];
  tni_registry *r = NULL;
  tni_profile *host = NULL;
  tn_error err = {0};
  const tni_registry_opts o = {
      .dirs = list, .n_dirs = list_dirs(root, dirs, list, 32), .max_workers = 2, .allow_shared_writable = true};
  if (tni_profile_parse(host_only, strlen(host_only), "host.yaml", &host, &err) != TN_OK ||
      tni_registry_create(&o, host, &r, &err) != TN_OK || tni_registry_scan(r, &err) != TN_OK) {
    printf("cannot load plugins: %s\n", err.message);
    exit(1);
  }
  for (uint32_t i = 0; i < tni_registry_count(r); i++) {
    const tni_plugin_info *p = tni_registry_get(r, i);
    printf("%s: %s, %u formats\n", p->name, p->loaded ? "loaded" : p->why.message,
           p->plugin ? p->plugin->n_formats : 0);
    for (uint32_t k = 0; p->plugin && k < p->plugin->n_formats; k++) add_format(p, p->plugin->formats[k]);
  }
  tni_profile_destroy(host);
  return r;
}

int main(int argc, char **argv) {
  if (argc < 3 || CU_initialize_registry() != CUE_SUCCESS) return 1;
  golden_path = argv[2];
  tni_registry *r = load_all(argv[1]);
  if (!n_subjects) {
    printf("no plugin of this build has formats\n");
    return 77;
  }
  CU_pSuite s = CU_add_suite("formats", NULL, NULL);
  if (argc < 4 || strcmp(argv[3], "golden") != 0) {
    CU_add_test(s, "declared", test_declared);
    CU_add_test(s, "round trip", test_round_trip);
    CU_add_test(s, "splits, threads, storage", test_splits);
    CU_add_test(s, "boxes", test_boxes);
    CU_add_test(s, "edges", test_edges);
  }
  CU_add_test(s, "golden bytes", test_golden);
  CU_basic_set_mode(CU_BRM_VERBOSE);
  CU_basic_run_tests();
  const unsigned failures = CU_get_number_of_failures();
  CU_cleanup_registry();
  tni_registry_destroy(r);
  return failures != 0;
}
