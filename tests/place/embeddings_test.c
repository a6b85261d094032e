/* SPDX-License-Identifier: Apache-2.0
 *
 * `embeddings: packed`: a Gather reads rows of the weight that a plugin packs with the same table.
 */
#include <dirent.h>
#include <fcntl.h>
#include <math.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "place_test.h"
#include "runtime/place/embeddings.h"

enum { V = 4096, D = 128, N_IDS = 5, FIRST = 96 };
typedef enum { AS_IT_LIES, TRANSPOSED, TWICE, JOINED, ANOTHER } kind;

static float table[V * D], turned[D * V], first[D * FIRST];
static const int64_t ids[N_IDS] = {0, V - 1, 17, -1, -V};

static void fill(void) {
  uint32_t s = 1;
  for (int i = 0; i < V * D; i++) {
    s = s * 1664525u + 1013904223u;
    table[i] = ((float)(s >> 8) / 0x1p24f - 0.5f) * (1 + (float)(i / D % 7));
    turned[i % D * V + i / D] = table[i];
  }
  for (int i = 0; i < D * FIRST; i++) first[i] = (float)(i % 13) - 6;
}

static void add(wbuf *g, const char *name, const char *dims, const float *data, size_t n) {
  wb_msg(g, G_INIT, onnx_tensor_raw(name, TN_DT_F32, dims, data, n * sizeof *data));
}

/* x = table[ids], y = x table^T. */
static wbuf tied(kind k) {
  wbuf g = {0}, gemm = onnx_node("Gemm", "head", "x,table", "y");
  wb_str(&g, G_NAME, "tied");
  wb_msg(&g, G_NODE, onnx_node("Gather", "embed", "table,ids", "x"));
  add(&g, "table", "4096,128", table, V * D);
  if (k == JOINED) wb_msg(&g, G_NODE, onnx_node("MatMul", "before", "x,first", "z"));
  if (k == JOINED) add(&g, "first", "128,96", first, D * FIRST);
  if (k == AS_IT_LIES) {
    wb_msg(&gemm, 5, onnx_attr_int("transB", 1));
    wb_msg(&g, G_NODE, gemm);
  } else {
    wb_free(&gemm);
    if (k == TRANSPOSED) wb_msg(&g, G_NODE, onnx_node("Transpose", "turn", "table", "t"));
    if (k != TRANSPOSED) add(&g, "t", "128,4096", turned, V * D);
    wb_msg(&g, G_NODE, onnx_node("MatMul", "head", "x,t", "y"));
  }
  wb_msg(&g, G_INPUT, onnx_value("ids", TN_DT_I64, "n"));
  wb_msg(&g, G_OUTPUT, onnx_value("x", TN_DT_F32, "n,128"));
  wb_msg(&g, G_OUTPUT, onnx_value("y", TN_DT_F32, "n,4096"));
  if (k == JOINED) wb_msg(&g, G_OUTPUT, onnx_value("z", TN_DT_F32, "n,96"));
  return onnx_model(g, 17);
}

static const char *profile(const char *plugin, const char *options, const char *embeddings) {
  static char text[400];
  snprintf(text, sizeof text, "plugins:\n  - name: %s\n    options: {%s}\n  - name: host\nembeddings: %s\n", plugin,
           options, embeddings);
  return text;
}

static void open_rig(rig *r, const char *plugin, const char *options, const char *embeddings, kind k, uint32_t flags) {
  CU_ASSERT_EQUAL_FATAL(rig_init(r, profile(plugin, options, embeddings)), TN_OK);
  const tn_status st = rig_load(r, tied(k), flags);
  if (st != TN_OK) printf("\n  %s\n", r->err.message);
  CU_ASSERT_EQUAL_FATAL(st, TN_OK);
}

static tn_status look_up(rig *r, const int64_t *of, int64_t n, tn_tensor out[3]) {
  const tn_tensor in = i64_tensor("ids", of, 1, n, 0);
  return rig_run(r, 0, &in, NULL, NULL, out, r->m->graph->n_outputs);
}

static const tni_embedding *embedding(const rig *r) {
  CU_ASSERT_EQUAL_FATAL(r->m->n_embeddings, 1);
  return r->m->embeddings;
}

/* unpack(pack(table)), from the blob as a whole. */
static float *unpacked(const rig *r) {
  const tni_embedding *e = embedding(r);
  CU_ASSERT_PTR_NULL_FATAL(e->why);
  const tn_blob *b = tni_pack_store_blob(r->m->packed[e->dev].store, e->item);
  const int64_t box[4] = {e->rows.first, e->rows.first + V, 0, D};
  float *w = malloc(V * D * sizeof *w);
  CU_ASSERT_EQUAL_FATAL(b->format->unpack(b, box, w), TN_OK);
  return w;
}

static const float *row_of(const float *w, int64_t id) { return w + (id < 0 ? id + V : id) * D; }

static bool has_avx2(void) {
  const char *dir = getenv("TENON_TEST_AVX2");
#if defined __x86_64__
  return dir && *dir && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
  return dir && *dir && false;
#endif
}

/* Bits of every row, near the table's own; the same alone and in a batch. */
static void check_rows(rig *r) {
  tn_tensor out[3];
  float *w = unpacked(r), all[N_IDS * D];
  double err = 0, size = 0;
  CU_ASSERT_EQUAL_FATAL(look_up(r, ids, N_IDS, out), TN_OK);
  memcpy(all, out[0].data, sizeof all);
  for (int i = 0; i < N_IDS; i++) {
    CU_ASSERT_EQUAL(memcmp(all + i * D, row_of(w, ids[i]), D * sizeof(float)), 0);
    for (int k = 0; k < D; k++) {
      err += fabs((double)(all[i * D + k] - row_of(table, ids[i])[k]));
      size += fabs((double)row_of(table, ids[i])[k]);
    }
    CU_ASSERT_EQUAL_FATAL(look_up(r, &ids[i], 1, out), TN_OK);
    CU_ASSERT_EQUAL(memcmp(out[0].data, all + i * D, D * sizeof(float)), 0);
  }
  CU_ASSERT(err < 0.5 * size); /* a wrong row is off by more than its size */
  free(w);
}

static void test_formats(void) {
  static const char *const formats[] = {"w4g", "w8g", "w3g", "lut4", "lut2", "tern20", "tern17", "pal16"};
  for (size_t f = 0; has_avx2() && f < sizeof formats / sizeof *formats; f++)
    for (kind k = AS_IT_LIES; k <= JOINED; k++) {
      rig r;
      char options[32];
      if (f > 1 && k != (kind)(f % 4)) continue;
      snprintf(options, sizeof options, "format: %s", formats[f]);
      open_rig(&r, "cpu-avx2-lut", options, "packed", k, 0);
      CU_ASSERT_STRING_EQUAL(r.m->packed[embedding(&r)->dev].items[embedding(&r)->item]->format->name, formats[f]);
      CU_ASSERT_EQUAL(embedding(&r)->rows.first != 0, k == JOINED);
      check_rows(&r);
      rig_finish(&r);
    }
}

/* What another Gather gives comes from the blob, whatever the table holds. */
static void test_reads_the_blob(void) {
  rig r;
  tn_tensor out[3];
  open_rig(&r, "sched-packed", "residency: host", "packed", TWICE, 0);
  check_rows(&r);
  const tni_embedding *e = embedding(&r);
  float *blob = (float *)(uintptr_t)e->rows.blob->ptr; /* in memory: there is no cache folder */
  blob[16 + 17 * D + 3] = 4711;
  CU_ASSERT_EQUAL_FATAL(look_up(&r, ids, N_IDS, out), TN_OK);
  CU_ASSERT_EQUAL(((const float *)out[0].data)[2 * D + 3], 4711);
  rig_finish(&r);
}

static double memory_of(const char *embeddings, double *packed) {
  rig r;
  char *json = NULL;
  open_rig(&r, "sched-packed", "residency: host", embeddings, TWICE, TN_MODEL_INSPECT);
  CU_ASSERT_EQUAL_FATAL(tn_model_report(r.m, TN_REPORT_INSPECT, &json, &r.err), TN_OK);
  const double weights = json_number(json, "weights_bytes");
  *packed = json_number(json, "packed_bytes");
  CU_ASSERT_PTR_NOT_NULL(
      strstr(json, strcmp(embeddings, "packed") == 0 ? "\"rows\": \"packed\"" : "the profile does not ask for it"));
  tn_free(json);
  rig_finish(&r);
  return weights;
}

static void test_statement(void) {
  double with, without;
  CU_ASSERT(memory_of("source", &without) > 0);
  CU_ASSERT_EQUAL(memory_of("packed", &with), 0);
  CU_ASSERT_EQUAL(with, without);
}

/* A table that differs in one element is another one. */
static void test_not_tied(void) {
  rig r;
  char *json = NULL;
  tn_tensor out[3];
  turned[5 * V + V - 1] += 1;
  open_rig(&r, "sched-packed", "residency: host", "packed", ANOTHER, 0);
  CU_ASSERT_EQUAL_FATAL(tn_model_report(r.m, TN_REPORT_CHECK, &json, &r.err), TN_OK);
  CU_ASSERT_PTR_NOT_NULL(strstr(json, "no plugin packs a product with the same weights"));
  CU_ASSERT_PTR_NOT_NULL(strstr(r.log, "they are read as they lie"));
  tn_free(json);
  CU_ASSERT_EQUAL_FATAL(look_up(&r, ids, N_IDS, out), TN_OK);
  for (int i = 0; i < N_IDS; i++)
    CU_ASSERT_EQUAL(memcmp((const float *)out[0].data + i * D, row_of(table, ids[i]), D * sizeof(float)), 0);
  rig_finish(&r);
  turned[5 * V + V - 1] -= 1;
}

static void set_time(const char *path, int64_t ago) {
  const struct timespec t = {.tv_sec = time(NULL) - ago};
  CU_ASSERT_EQUAL(utimensat(AT_FDCWD, path, (const struct timespec[]){t, t}, 0), 0);
}

/* Whether the model is tied, as it is loaded now. */
static bool is_tied(rig *r, const char *path) {
  tn_model_destroy(r->m);
  r->m = NULL;
  CU_ASSERT_EQUAL_FATAL(rig_open(r, path, 0), TN_OK);
  return !embedding(r)->why;
}

/* Answers of comparisons that are kept. */
static uint32_t count_kept(const rig *r) {
  char path[128];
  uint32_t n = 0;
  snprintf(path, sizeof path, "%s/plugins/host", r->dir);
  DIR *d = opendir(path);
  for (struct dirent *e; d && (e = readdir(d));) n += strstr(e->d_name, ".blob") != NULL;
  if (d) closedir(d);
  return n;
}

/* Two constants are compared once, and again when their file was changed, whatever its time says. What was changed a moment
 * ago is compared each time. */
static void test_compared_once(void) {
  rig r;
  char path[96];
  struct stat st;
  CU_ASSERT_EQUAL_FATAL(rig_init(&r, "plugins: [sched-packed, host]\nembeddings: packed\ncache: {dir: .}\n"), TN_OK);
  CU_ASSERT_EQUAL_FATAL(rig_load(&r, tied(TWICE), 0), TN_OK);
  tn_session_destroy(r.s);
  r.s = NULL;
  snprintf(path, sizeof path, "%s/model.onnx", r.dir);
  set_time(path, 100);
  CU_ASSERT_TRUE(is_tied(&r, path));
  CU_ASSERT_EQUAL(count_kept(&r), 0);
  nanosleep(&(struct timespec){.tv_sec = 2, .tv_nsec = 100000000}, NULL);
  CU_ASSERT_TRUE(is_tied(&r, path));
  CU_ASSERT_EQUAL(count_kept(&r), 1);
  CU_ASSERT_TRUE(is_tied(&r, path));
  CU_ASSERT_EQUAL(count_kept(&r), 1);
  const tni_value *t = tni_graph_value(r.m->graph, embedding(&r)->weight);
  const uint64_t last = t->origin.offset + t->tensor->bytes - sizeof(float);
  CU_ASSERT_EQUAL(stat(path, &st), 0);
  const int fd = open(path, O_WRONLY);
  CU_ASSERT_EQUAL(pwrite(fd, &(float){4711}, sizeof(float), (off_t)last), sizeof(float));
  close(fd);
  CU_ASSERT_EQUAL(utimensat(AT_FDCWD, path, (const struct timespec[]){st.st_mtim, st.st_mtim}, 0), 0);
  CU_ASSERT_FALSE(is_tied(&r, path));
  CU_ASSERT_FALSE(is_tied(&r, path));
  rig_finish(&r);
}

static void test_ids(void) {
  static const int64_t bad[] = {V, -V - 1, INT64_MAX};
  static const char *const values[] = {"source", "packed"};
  char said[2][3][256];
  for (int p = 0; p < 2; p++) {
    rig r;
    tn_tensor out[3];
    open_rig(&r, "sched-packed", "residency: host", values[p], TWICE, 0);
    for (int i = 0; i < 3; i++) {
      CU_ASSERT_EQUAL(look_up(&r, &bad[i], 1, out), TN_E_INVALID);
      snprintf(said[p][i], sizeof said[p][i], "%s", r.err.message);
    }
    CU_ASSERT_EQUAL(look_up(&r, ids, 0, out), TN_OK);
    rig_finish(&r);
  }
  for (int i = 0; i < 3; i++) CU_ASSERT_STRING_EQUAL(said[0][i], said[1][i]);
}

static void test_reference(void) {
  rig r;
  tn_tensor out[3];
  char *json = NULL;
  if (!has_avx2()) return;
  open_rig(&r, "cpu-avx2-lut", "format: w4g", "packed", TRANSPOSED, TN_MODEL_REFERENCE);
  check_rows(&r);
  rig_finish(&r);
  open_rig(&r, "cpu-avx2-lut", "format: w4g", "packed", TRANSPOSED, TN_MODEL_CAPTURE);
  CU_ASSERT_EQUAL_FATAL(look_up(&r, ids, N_IDS, out), TN_OK);
  CU_ASSERT_EQUAL_FATAL(tn_session_capture_report(r.s, &json, &r.err), TN_OK);
  CU_ASSERT(json_number(json, "worst_ratio") <= 1);
  tn_free(json);
  rig_finish(&r);
}

/* left_out.json beside a model: damage, and a table that somebody reads. */
static void test_left_out(void) {
#define LIST(offset, bytes, content)                                                                          \
  "{\"tenon_left_out\": 1, \"tensors\": [{\"name\": \"table\", \"file\": \"model.onnx\", \"offset\": " offset \
  ", \"bytes\": " bytes ", \"content\": \"" content "\"}]}"
#define HASH "0123456789abcdef0123456789abcdef"
  static const struct {
    const char *text;
    tn_status st;
  } rows[] = {{"", TN_E_CORRUPT},
              {"[]", TN_E_CORRUPT},
              {"{\"tenon_left_out\": 2, \"tensors\": []}", TN_E_CORRUPT},
              {LIST("65536", "1048576", "12"), TN_E_CORRUPT},
              {LIST("-65536", "1048576", HASH), TN_E_CORRUPT},
              {LIST("65536", "100", HASH), TN_E_CORRUPT},
              {LIST("65536", "9223372036854775807", HASH), TN_E_CORRUPT},
              {LIST("655360000", "1048576", HASH), TN_E_CORRUPT}, /* behind the file's end */
              {"{\"tenon_left_out\": 1, \"tensors\": []}", TN_OK}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    rig r;
    char path[96];
    CU_ASSERT_EQUAL_FATAL(rig_init(&r, profile("sched-packed", "residency: host", "packed")), TN_OK);
    snprintf(path, sizeof path, "%s/left_out.json", r.dir);
    FILE *f = fopen(path, "w");
    CU_ASSERT_PTR_NOT_NULL_FATAL(f);
    fputs(rows[i].text, f);
    fclose(f);
    const tn_status st = rig_load(&r, tied(TWICE), 0);
    if (st != rows[i].st) printf("\n  row %zu: %s\n", i, r.err.message);
    CU_ASSERT_EQUAL(st, rows[i].st);
    rig_finish(&r);
  }
#undef HASH
#undef LIST
}

void suite_embeddings(void) {
  CU_pSuite s = CU_add_suite("embeddings", NULL, NULL);
  fill();
  CU_add_test(s, "rows of several formats, alone, in a batch, joined", test_formats);
  CU_add_test(s, "they come from the packed weight", test_reads_the_blob);
  CU_add_test(s, "the statement lacks the table", test_statement);
  CU_add_test(s, "a table that is not tied stays and is told of", test_not_tied);
  CU_add_test(s, "two constants are compared once", test_compared_once);
  CU_add_test(s, "ids out of range", test_ids);
  CU_add_test(s, "the reference reads the same", test_reference);
  CU_add_test(s, "lists of what was left out", test_left_out);
}
