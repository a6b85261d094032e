/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "suite.h"

/* A folder with  model/  data.bin (64 bytes), sub/deep.bin, in -> data.bin, dirlink -> sub, out -> ../secret.bin,
 * abs -> /…/secret.bin, updir -> .., loop -> loop, fifo;  and secret.bin beside model/. */
static char root[] = "/tmp/tenon-external-XXXXXX";
static char dir[64];

static int put(const char *path, size_t n) {
  int fd = open(path, O_CREAT | O_WRONLY | O_TRUNC, 0600);
  uint8_t b[64];
  for (int i = 0; i < 64; i++) b[i] = (uint8_t)i;
  bool ok = fd >= 0 && write(fd, b, n) == (ssize_t)n;
  if (fd >= 0) close(fd);
  return ok ? 0 : 1;
}

static int set_up(void) {
  char secret[64];
  if (!mkdtemp(root)) return 1;
  snprintf(dir, sizeof dir, "%s/model", root);
  snprintf(secret, sizeof secret, "%s/secret.bin", root);
  int old = open(".", O_RDONLY | O_DIRECTORY);
  if (old < 0 || mkdir(dir, 0700) || put(secret, 64) || chdir(dir)) return 1;
  int bad = put("data.bin", 64) | mkdir("sub", 0700) | put("sub/deep.bin", 64) | symlink("data.bin", "in") |
            symlink("sub", "dirlink") | symlink("../secret.bin", "out") | symlink(secret, "abs") |
            symlink("..", "updir") | symlink("loop", "loop") | mkfifo("fifo", 0600) |
            symlink("sub/../../secret.bin", "sneaky");
  bad |= fchdir(old);
  close(old);
  return bad;
}

static int tear_down(void) {
  static const char *const names[] = {"data.bin", "sub/deep.bin",  "sub",  "in",   "dirlink", "out",
                                      "abs",      "updir",         "loop", "fifo", "sneaky",  "model.onnx",
                                      "",         "../secret.bin", ".."};
  char path[160];
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    snprintf(path, sizeof path, "%s/%s", dir, names[i]);
    if (strcmp(names[i], "..") == 0) snprintf(path, sizeof path, "%s", root);
    if (strcmp(names[i], "../secret.bin") == 0) snprintf(path, sizeof path, "%s/secret.bin", root);
    if (remove(path) != 0 && strcmp(names[i], "model.onnx") != 0) printf("cannot remove %s\n", path);
  }
  return 0;
}

/* Writes a model with initializer t to `file` and imports it from `path`. */
static tn_status import_from(const char *file, const char *path, wbuf t, tni_model **m, tn_error *e) {
  wbuf g = {0};
  wb_msg(&g, G_INIT, t);
  wb_msg(&g, G_NODE, onnx_node("Identity", "id", "w", "y"));
  wb_msg(&g, G_OUTPUT, onnx_value("y", 1, NULL));
  wbuf b = onnx_model(g, 21);
  FILE *f = fopen(file, "wb");
  CU_ASSERT_PTR_NOT_NULL_FATAL(f);
  CU_ASSERT_EQUAL(fwrite(b.p, 1, b.n, f), b.n);
  fclose(f);
  wb_free(&b);
  tni_error_init(e);
  return tni_import_file(path, NULL, NULL, m, e);
}

static tn_status import_with(wbuf t, tni_model **m, tn_error *e) {
  char path[160];
  snprintf(path, sizeof path, "%s/model.onnx", dir);
  return import_from(path, path, t, m, e);
}

static void test_good(void) {
  static const struct {
    const char *location, *offset, *length, *dims;
    int first;
  } rows[] = {
      {"data.bin", NULL, NULL, "64", 0},  {"data.bin", "16", "48", "48", 16},
      {"data.bin", "64", "0", "0", -1},   {"sub/deep.bin", "1", NULL, "63", 1},
      {"./data.bin", NULL, NULL, "2", 0}, {".//sub//deep.bin", "3", NULL, "1", 3},
      {"in", "5", NULL, "1", 5},          {"dirlink/deep.bin", "6", "2", "2", 6},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    tni_model *m = NULL;
    tn_error e;
    tn_status st = import_with(
        onnx_external("w", TN_DT_U8, rows[i].dims, rows[i].location, rows[i].offset, rows[i].length), &m, &e);
    CU_ASSERT_EQUAL(st, TN_OK);
    if (st) {
      printf("\n  %s: %s\n", rows[i].location, e.message);
      continue;
    }
    const tni_value *w = value_named(m->graph, "w");
    CU_ASSERT_EQUAL(m->n_files, 2);
    if (rows[i].first >= 0) {
      CU_ASSERT_EQUAL(((const uint8_t *)w->tensor->data)[0], rows[i].first);
      CU_ASSERT_PTR_EQUAL(w->tensor->data, (const uint8_t *)m->files[1].data + rows[i].first);
      CU_ASSERT_PTR_NOT_NULL_FATAL(w->origin.file);
      CU_ASSERT_PTR_NOT_NULL(strstr(w->origin.file, rows[i].location));
      CU_ASSERT_EQUAL(w->origin.offset, (uint64_t)rows[i].first);
    }
    tni_model_destroy(m);
  }
}

static void test_bad(void) {
  static char name[6000];
  memset(name, 'a', sizeof name - 1);
  static char absolute[80];
  snprintf(absolute, sizeof absolute, "%s/data.bin", dir);
  const struct {
    const char *location, *offset, *length, *dims;
    tn_status st;
    const char *part;
  } rows[] = {
      {absolute, NULL, NULL, "64", TN_E_INVALID, "must be relative"},
      {"/etc/passwd", NULL, NULL, "1", TN_E_INVALID, "must be relative"},
      {"../secret.bin", NULL, NULL, "64", TN_E_INVALID, "must be relative"},
      {"sub/../../secret.bin", NULL, NULL, "64", TN_E_INVALID, "must be relative"},
      {"..", NULL, NULL, "64", TN_E_INVALID, "must be relative"},
      {"sub/..", NULL, NULL, "64", TN_E_INVALID, "must be relative"},
      {"", NULL, NULL, "64", TN_E_INVALID, "must be relative"},
      {"out", NULL, NULL, "64", TN_E_INVALID, "leads out"},
      {"abs", NULL, NULL, "64", TN_E_INVALID, "leads out"},
      {"sneaky", NULL, NULL, "64", TN_E_INVALID, "leads out"},
      {"updir/secret.bin", NULL, NULL, "64", TN_E_INVALID, "leads out"},
      {"loop", NULL, NULL, "64", TN_E_INVALID, "links"},
      {"fifo", NULL, NULL, "64", TN_E_INVALID, "regular"},
      {"sub", NULL, NULL, "64", TN_E_INVALID, "regular"},
      {".", NULL, NULL, "64", TN_E_INVALID, "regular"},
      {name, NULL, NULL, "64", TN_E_INVALID, "too long"},
      {"missing.bin", NULL, NULL, "64", TN_E_UNAVAILABLE, "initializer 'w': external data 'missing.bin'"},
      {"sub/missing.bin", NULL, NULL, "64", TN_E_UNAVAILABLE, "sub/missing.bin"},
      {"data.bin/x", NULL, NULL, "64", TN_E_UNAVAILABLE, "not a folder"},
      {"data.bin", NULL, NULL, "65", TN_E_CORRUPT, "has 64 bytes, the tensor needs 65"},
      {"data.bin", "1", NULL, "64", TN_E_CORRUPT, "data.bin"},
      {"data.bin", "18446744073709551615", NULL, "2", TN_E_CORRUPT, "offset 18446744073709551615"},
      {"data.bin", "18446744073709551616", NULL, "2", TN_E_INVALID, "not a number"},
      {"data.bin", "-1", NULL, "2", TN_E_INVALID, "not a number"},
      {"data.bin", "1x", NULL, "2", TN_E_INVALID, "not a number"},
      {"data.bin", "", NULL, "2", TN_E_INVALID, "not a number"},
      {"data.bin", NULL, "63", "64", TN_E_INVALID, "length 63"},
      {NULL, NULL, "64", "64", TN_E_INVALID, "without a location"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    tni_model *m = NULL;
    tn_error e;
    tn_status st = import_with(
        onnx_external("w", TN_DT_U8, rows[i].dims, rows[i].location, rows[i].offset, rows[i].length), &m, &e);
    bool said = st == rows[i].st && strstr(e.message, rows[i].part);
    CU_ASSERT(said);
    if (!said) printf("\n  %.40s: %s: %s\n", rows[i].location, tni_status_name(st), e.message);
    if (st == TN_OK) tni_model_destroy(m);
  }
}

/* A cache of a hub: files are kept in blobs/, a snapshot names them by links. The model's own file is one of them. */
static void test_stored(void) {
  static const struct {
    const char *link, *target;
    tn_status st;
  } rows[] = {
      {"data", "../../blobs/d1", TN_OK},
      {"again", "data", TN_OK},
      {"round", "../rev/data", TN_OK},
      {"secret", "../../secret.bin", TN_E_INVALID},
      {"deep", "../../blobs/sub/d2", TN_E_INVALID},
      {"folder", "../../blobs/sub", TN_E_INVALID},
      {"gone", "../../blobs/d3", TN_E_UNAVAILABLE},
      {"model.onnx", "../../blobs/m1", TN_E_CORRUPT}, /* which is shorter */
  };
  const int old = open(".", O_RDONLY | O_DIRECTORY);
  CU_ASSERT_FATAL(old >= 0 && chdir(root) == 0);
  static const char *const folders[] = {"blobs", "blobs/sub", "snap", "snap/rev"};
  for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) CU_ASSERT_EQUAL_FATAL(mkdir(folders[i], 0700), 0);
  CU_ASSERT_FATAL(!put("blobs/d1", 64) && !put("blobs/sub/d2", 64));
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    char path[64];
    snprintf(path, sizeof path, "snap/rev/%s", rows[i].link);
    CU_ASSERT_EQUAL_FATAL(symlink(rows[i].target, path), 0);
  }
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    tni_model *m = NULL;
    tn_error e;
    const char *dims = rows[i].st == TN_E_CORRUPT ? "6400" : "64";
    const tn_status st = import_from("blobs/m1", "snap/rev/model.onnx",
                                     onnx_external("w", TN_DT_U8, dims, rows[i].link, NULL, NULL), &m, &e);
    if (st != rows[i].st) printf("\n  %s: %s: %s\n", rows[i].link, tni_status_name(st), st ? e.message : "");
    CU_ASSERT_EQUAL(st, rows[i].st);
    if (st) continue;
    CU_ASSERT_EQUAL(((const uint8_t *)value_named(m->graph, "w")->tensor->data)[63], 63);
    tni_model_destroy(m);
  }
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    char path[64];
    snprintf(path, sizeof path, "snap/rev/%s", rows[i].link);
    (void)remove(path);
  }
  static const char *const made[] = {"snap/rev", "snap", "blobs/sub/d2", "blobs/sub", "blobs/d1", "blobs/m1", "blobs"};
  for (size_t i = 0; i < sizeof made / sizeof *made; i++) CU_ASSERT_EQUAL(remove(made[i]), 0);
  CU_ASSERT_EQUAL(fchdir(old), 0);
  close(old);
}

/* One mapping for all tensors of one file. */
static void test_shared(void) {
  wbuf g = {0};
  for (int i = 0; i < 8; i++) {
    char name[4] = {'w', (char)('0' + i)}, offset[4] = {(char)('0' + i)};
    wb_msg(&g, G_INIT, onnx_external(name, TN_DT_U8, "4", i % 2 ? "data.bin" : "sub/deep.bin", offset, NULL));
    wb_msg(&g, G_NODE, onnx_node("Identity", name, name, i ? (char[]){'z', (char)('0' + i), 0} : "y"));
  }
  wb_msg(&g, G_OUTPUT, onnx_value("y", 1, NULL));
  wbuf b = onnx_model(g, 21);
  tni_model *m;
  CU_ASSERT_EQUAL_FATAL(tni_import_bytes(b.p, b.n, dir, NULL, NULL, &m, NULL), TN_OK);
  CU_ASSERT_EQUAL(m->n_files, 3);
  tni_model_destroy(m);
  wb_free(&b);
}

int suite_external(void) {
  CU_pSuite s = CU_add_suite("onnx external data", set_up, tear_down);
  return !s || !CU_add_test(s, "found", test_good) || !CU_add_test(s, "refused", test_bad) ||
         !CU_add_test(s, "stored elsewhere", test_stored) || !CU_add_test(s, "mapped once", test_shared);
}
