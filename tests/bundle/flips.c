/* SPDX-License-Identifier: Apache-2.0
 *
 * bundle-flips bundle|cache|plugin FOLDER MODEL PROFILE N SEED [PLUGINS]: turns N single bytes of the files under
 * FOLDER, one at a time, each tried in a child of its own that loads and runs MODEL. It must end with an error that has
 * a message, or with the same output, bit for bit; never by a signal. Half of the bytes are drawn from all bytes, half
 * from all files, so that small files get their share.
 *
 * - bundle: FOLDER is a bundle: its list is compared first, then its plugins and packed weights are used, sealed. A
 * byte outside of packed/ must be an error.
 * - cache: FOLDER is the cache; what is damaged in it is packed again, so files are put back whole.
 * - plugin: FOLDER holds a plugin and its manifest.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tenon/bundle.h>

enum { FILES = 512, SAME = 0, ERROR = 10, DIFFERENT = 20, SILENT = 21, OUT_BYTES = 1 << 16, SECONDS = 60 };

typedef struct entry {
  char path[1024];
  uint8_t *whole;
  size_t n;
} entry;

typedef struct test {
  const char *mode, *folder, *model, *profile, *plugins;
  entry files[FILES];
  int n_files;
  size_t total;
  uint8_t *out; /* shared with the children: size, output of the untouched run, then of this one */
} test;

static uint64_t next(uint64_t *s) { /* splitmix64 */
  uint64_t z = *s += 0x9E3779B97F4A7C15u;
  z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
  z = (z ^ z >> 27) * 0x94D049BB133111EBu;
  return z ^ z >> 31;
}

static int fail(const tn_error *err) { return err->message[0] ? ERROR : SILENT; }

/* Runs the model on a fixed input and writes all outputs to `to`. */
static int run_model(const test *t, tn_runtime *rt, uint8_t *to) {
  tn_error err;
  tn_error_init(&err);
  tn_model *m = NULL;
  tn_session *s = NULL;
  static float x[4096];
  for (int i = 0; i < 4096; i++) x[i] = (float)(i % 37 - 18) / 8;
  const tn_model_opts mo = {.h = {sizeof mo, 1, 0}};
  if (tn_model_load(rt, t->model, &mo, &m, &err) != TN_OK || tn_session_create(m, &s, &err) != TN_OK) return fail(&err);
  const tn_io_info *io = tn_model_input(m, 0);
  tn_tensor in = {.h = {sizeof in, 1, 0}, .name = io->name, .dtype = io->dtype, .rank = 2, .data = x};
  in.dims[0] = 3;
  in.dims[1] = io->dims[1] > 0 && io->dims[1] <= 1024 ? io->dims[1] : 1;
  in.bytes = (uint64_t)(in.dims[0] * in.dims[1]) * sizeof *x;
  const tn_tensor *ins[] = {&in};
  tn_tensor out = {.h = {sizeof out, 1, 0}, .name = tn_model_output(m, 0)->name};
  if (tn_session_run(s, TN_PHASE_ANY, ins, 1, &out, 1, &err) != TN_OK) return fail(&err);
  if (out.bytes + 8 > OUT_BYTES) return DIFFERENT;
  memcpy(to, &out.bytes, 8);
  memcpy(to + 8, out.data, out.bytes);
  tn_session_destroy(s);
  tn_model_destroy(m);
  return SAME;
}

static int child(const test *t, uint8_t *to) {
  const bool bundle = strcmp(t->mode, "bundle") == 0;
  tn_error err;
  tn_error_init(&err);
  const char *dirs[] = {t->plugins};
  char cache[1024];
  snprintf(cache, sizeof cache, "%s%s", t->folder, bundle ? "/packed" : "");
  tn_runtime_opts o = {.h = {sizeof o, 1, 0},
                       .profile = t->profile,
                       .plugin_dirs = dirs,
                       .n_plugin_dirs = 1,
                       .threads = 1,
                       .cache_dir = strcmp(t->mode, "plugin") == 0 ? "" : cache,
                       .flags = TN_RT_NO_PROBE | (bundle ? TN_RT_SEALED : 0)};
  tn_runtime *rt = NULL;
  if (bundle && tn_bundle_check(t->folder, 0, NULL, &err) != TN_OK) return fail(&err);
  if (tn_runtime_create(&o, &rt, &err) != TN_OK) return fail(&err);
  const int rc = run_model(t, rt, to);
  tn_runtime_destroy(rt);
  return rc;
}

/* Exit code of the child, or minus its signal. */
static int try_it(const test *t, uint8_t *to) {
  fflush(NULL);
  const pid_t pid = fork();
  if (pid == 0) {
    alarm(SECONDS);
    _exit(child(t, to));
  }
  int status = 0;
  if (pid < 0 || waitpid(pid, &status, 0) != pid) return DIFFERENT;
  return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

/* --- files -------------------------------------------------------------------------------------------------------- */

static bool add_file(test *t, const char *path, const struct stat *st) {
  if (st->st_size == 0) return true;
  if (t->n_files == FILES) return false;
  entry *e = &t->files[t->n_files++];
  snprintf(e->path, sizeof e->path, "%s", path);
  e->n = (size_t)st->st_size;
  e->whole = malloc(e->n);
  FILE *f = fopen(path, "rb");
  const bool ok = f && e->whole && fread(e->whole, 1, e->n, f) == e->n;
  if (f) fclose(f);
  t->total += e->n;
  return ok;
}

static bool add_folder(test *t, const char *folder) {
  DIR *d = opendir(folder);
  bool ok = d != NULL;
  for (struct dirent *e; ok && (e = readdir(d));) {
    char path[1024];
    struct stat st;
    if (e->d_name[0] == '.' || snprintf(path, sizeof path, "%s/%s", folder, e->d_name) >= (int)sizeof path) continue;
    if (lstat(path, &st) != 0) continue;
    ok = S_ISDIR(st.st_mode) ? add_folder(t, path) : add_file(t, path, &st);
  }
  if (d) closedir(d);
  return ok;
}

static int by_path(const void *a, const void *b) { return strcmp(((const entry *)a)->path, ((const entry *)b)->path); }

static bool put_byte(const entry *e, size_t at, uint8_t v) {
  const int fd = open(e->path, O_WRONLY | O_CLOEXEC);
  const bool ok = fd >= 0 && pwrite(fd, &v, 1, (off_t)at) == 1;
  if (fd >= 0) close(fd);
  return ok;
}

/* As it was: the byte, or where the file was replaced or removed meanwhile, the whole of it. */
static bool put_back(const entry *e, size_t at, ino_t inode) {
  struct stat st;
  if (stat(e->path, &st) == 0 && st.st_ino == inode && (size_t)st.st_size == e->n) return put_byte(e, at, e->whole[at]);
  FILE *f = fopen(e->path, "wb");
  const bool ok = f && fwrite(e->whole, 1, e->n, f) == e->n;
  return f && fclose(f) == 0 && ok;
}

/* --- the test ----------------------------------------------------------------------------------------------------- */

static void draw(const test *t, uint64_t *seed, int i, int *file, size_t *at) {
  uint64_t r = next(seed);
  if (i % 2) {
    *file = (int)(r % (uint64_t)t->n_files);
    *at = next(seed) % t->files[*file].n;
    return;
  }
  r %= t->total;
  for (*file = 0; r >= t->files[*file].n; (*file)++) r -= t->files[*file].n;
  *at = (size_t)r;
}

static int flip(test *t, uint64_t *seed, int i, int counts[2]) {
  int file;
  size_t at;
  struct stat st;
  draw(t, seed, i, &file, &at);
  const entry *e = &t->files[file];
  const uint8_t bad = (uint8_t)(e->whole[at] ^ (1 + next(seed) % 255));
  uint8_t *want = t->out, *got = t->out + OUT_BYTES;
  memset(got, 0, OUT_BYTES);
  if (stat(e->path, &st) != 0 || !put_byte(e, at, bad)) return printf("cannot write %s\n", e->path), 1;
  const int rc = try_it(t, got);
  if (!put_back(e, at, st.st_ino)) return printf("cannot restore %s\n", e->path), 1;
  counts[rc == SAME]++;
  /* All but the gaps in packed files is compared with the list, used by this program or not. */
  const bool listed = strcmp(t->mode, "bundle") == 0 && !strstr(e->path, "/packed/");
  if (rc == ERROR || (rc == SAME && !listed && memcmp(want, got, OUT_BYTES) == 0)) return 0;
  printf("FAILED: flip %d: %s, byte %zu, 0x%02x -> 0x%02x: %s %d\n", i, e->path, at, e->whole[at], bad,
         rc < 0                 ? "signal"
         : rc == SILENT         ? "an error without a message"
         : listed && rc == SAME ? "not noticed"
                                : "another output",
         rc < 0 ? -rc : rc);
  return 1;
}

int main(int argc, char **argv) {
  if (argc < 7) return 2;
  static test t;
  t = (test){
      .mode = argv[1], .folder = argv[2], .model = argv[3], .profile = argv[4], .plugins = argc > 7 ? argv[7] : NULL};
  const int n = atoi(argv[5]);
  uint64_t seed = strtoull(argv[6], NULL, 10);
  t.out = mmap(NULL, 2 * OUT_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (t.out == MAP_FAILED) return 2;
  int bad = 0, counts[2] = {0, 0}, rc = try_it(&t, t.out);
  if (rc == SAME && strcmp(t.mode, "cache") == 0) rc = try_it(&t, t.out); /* the first run fills it */
  if (rc != SAME) return printf("FAILED: untouched it ends with %d\n", rc), 1;
  if (!add_folder(&t, t.folder) || !t.n_files) return printf("FAILED: cannot read %s\n", t.folder), 1;
  qsort(t.files, (size_t)t.n_files, sizeof *t.files, by_path);
  for (int i = 0; i < n && bad < 5; i++) bad += flip(&t, &seed, i, counts);
  rc = try_it(&t, t.out + OUT_BYTES);
  if (rc != SAME || memcmp(t.out, t.out + OUT_BYTES, OUT_BYTES) != 0)
    bad += printf("FAILED: restored it ends with %d\n", rc) > 0;
  printf("%s: %d flips in %d files (%zu bytes), seed %s: %d errors, %d with the same output, %d wrong\n", t.mode, n,
         t.n_files, t.total, argv[6], counts[0], counts[1], bad);
  return bad != 0;
}
