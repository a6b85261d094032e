/* SPDX-License-Identifier: Apache-2.0
 *
 * Flipped, cut, doubled and spliced bytes of small models made here: thousands of imports, none may crash, and each
 * failure must say something. The same seed gives the same inputs; fuzz_import.c searches without an end.
 */
#include <stdlib.h>
#include <string.h>

#include "suite.h"

static uint64_t state;

static uint32_t rnd(uint32_t n) {
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return (uint32_t)(state >> 32) % n;
}

/* A bit of everything. */
static wbuf specimen(void) {
  static const float f[300];
  static const int64_t v[3] = {1, -1, 300};
  wbuf g = {0}, t = onnx_tensor("i", TN_DT_I64, "3"), n, then_g = {0}, else_g = {0}, fn = {0};
  wb_packed(&t, T_INT64, v, 3);
  wb_msg(&g, G_INIT, t);
  wb_msg(&g, G_INIT, onnx_tensor_raw("w", TN_DT_F32, "300", f, sizeof f));
  wb_msg(&g, G_INIT, onnx_external("e", TN_DT_F32, "2", "x.bin", "0", "8"));
  wb_msg(&g, G_INPUT, onnx_value("x", TN_DT_F32, "a,b+1,3,?"));
  wb_msg(&g, G_INPUT, onnx_value("c", TN_DT_BOOL, ""));
  wb_msg(&g, G_OUTPUT, onnx_value("y", TN_DT_F32, "a,b"));
  wb_msg(&g, G_INFO, onnx_value("s", TN_DT_F32, "a,b"));
  n = onnx_node("Squeeze", "sq", "x", "s");
  wb_msg(&n, 5, onnx_attr_ints("axes", v, 1));
  wb_msg(&g, G_NODE, n);
  n = onnx_node("Constant", "k", "", "kv");
  wb_msg(&n, 5, onnx_attr_ints("value_ints", v, 3));
  wb_msg(&g, G_NODE, n);
  wb_msg(&then_g, G_NODE, onnx_node("Add", "ta", "s,w", "t1"));
  wb_msg(&then_g, G_OUTPUT, onnx_value("t1", 1, NULL));
  wb_msg(&else_g, G_NODE, onnx_node("local:F", "call", "s", "t2"));
  wb_msg(&else_g, G_OUTPUT, onnx_value("t2", 1, NULL));
  n = onnx_node("If", "if", "c", "y");
  wb_msg(&n, 5, onnx_attr_msg("then_branch", 5, 6, then_g));
  wb_msg(&n, 5, onnx_attr_msg("else_branch", 5, 6, else_g));
  wb_msg(&g, G_NODE, n);
  n = onnx_node("LeakyRelu", "lr", "p", "q");
  wb_msg(&n, 5, onnx_attr_ref("alpha", 1, "slope"));
  wb_str(&fn, F_NAME, "F");
  wb_str(&fn, F_INPUT, "p");
  wb_str(&fn, F_OUTPUT, "q");
  wb_msg(&fn, F_NODE, n);
  wb_str(&fn, F_DOMAIN, "local");
  wb_msg(&fn, F_DEFAULT, onnx_attr_float("slope", 0.25f));
  wbuf m = onnx_model(g, 11);
  wb_msg(&m, M_FUNCTION, fn);
  return m;
}

static size_t mutate(uint8_t *p, size_t n, size_t cap) {
  for (uint32_t k = 1 + rnd(4); k; k--) {
    size_t at = rnd((uint32_t)n), len = 1 + rnd(16), to = rnd((uint32_t)n);
    switch (rnd(5)) {
      case 0:
        p[at] ^= (uint8_t)(1 << rnd(8));
        break;
      case 1:
        p[at] = (uint8_t)rnd(256);
        break;
      case 2:
        p[at] = (uint8_t[]){0, 0x7f, 0x80, 0xff}[rnd(4)];
        break;
      case 3: /* copy a piece over another */
        if (at + len <= n && to + len <= n) memmove(p + to, p + at, len);
        break;
      default: /* put a piece in */
        if (at + len > n || n + len > cap) break;
        memmove(p + to + len, p + to, n - to);
        memmove(p + to, p + at, len < to ? len : to);
        n += len;
    }
  }
  return n;
}

static void run(const uint8_t *base, size_t n, int rounds, uint32_t *ok) {
  tni_import_limits lim = {.max_nodes = 20000, .max_meta = 16 << 20};
  for (int i = 0; i < rounds; i++) {
    uint8_t *p = malloc(n + 128);
    memcpy(p, base, n);
    size_t len = mutate(p, n, n + 128);
    p = realloc(p, len);
    tni_model *m = NULL;
    tn_error e;
    tni_error_init(&e);
    tn_status st = tni_import_bytes(p, len, "/nonexistent", &lim, NULL, &m, &e);
    if (st == TN_OK) {
      ++*ok;
      tni_model_destroy(m);
    } else {
      CU_ASSERT(e.code == st && st != TN_E_INTERNAL && *e.message);
      if (st == TN_E_INTERNAL) printf("\n  round %d: %s\n", i, e.message);
    }
    free(p);
  }
}

static void test_flips(void) {
  uint32_t ok = 0;
  state = 88172645463325252u;
  wbuf m = specimen();
  run(m.p, m.n, 6000, &ok);
  wb_free(&m);
  /* Without the external tensor, so that most survive the first error. */
  wbuf g = {0};
  wb_msg(&g, G_NODE, onnx_node("Relu", "a", "x", "t"));
  wb_msg(&g, G_NODE, onnx_node("Add", "b", "t,x", "y"));
  wb_msg(&g, G_INPUT, onnx_value("x", TN_DT_F32, "a,b+1,3,?"));
  wb_msg(&g, G_OUTPUT, onnx_value("y", TN_DT_F32, "a,b"));
  m = onnx_model(g, 11);
  run(m.p, m.n, 4000, &ok);
  wb_free(&m);
  CU_ASSERT(ok > 100); /* some hit only a name or a number */
}

static void test_real_flips(void) {
  static const char *const names[] = {"onnx/cnn/mnist_8/model.onnx", "onnx/exports/genai-llama-int4/model.onnx",
                                      "exports/optimum-vit/model.onnx"};
  uint32_t ok = 0;
  state = 4101842887655102017u;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    size_t n;
    uint8_t *p = read_file(data_path(names[i]), &n);
    if (!p) continue;
    run(p, n, 400, &ok);
    free(p);
  }
}

int suite_fuzz(void) {
  CU_pSuite s = CU_add_suite("onnx damaged models", NULL, NULL);
  return !s || !CU_add_test(s, "made here", test_flips) || !CU_add_test(s, "real", test_real_flips);
}
