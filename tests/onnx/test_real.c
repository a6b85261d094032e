/* SPDX-License-Identifier: Apache-2.0
 *
 * Real models. The numbers were taken with PyPI's onnx 1.23 (see check_models.py beside this file).
 */
#include <stdlib.h>
#include <string.h>

#include "suite.h"

static const struct real {
  const char *name;
  int ir, opset;
  uint32_t nodes, constants, initializers, inputs, outputs;
  uint64_t bytes, sum; /* of all elements of initializers and Constant nodes: how many bytes, and their sum */
} reals[] = {
    {"exports/genai-qwen2-fp16/model.onnx", 10, 21, 35, 2, 21, 6, 5, 51792, 2772532},
    {"exports/optimum-bert/model.onnx", 8, 18, 167, 54, 37, 3, 1, 86976, 4230416},
    {"exports/optimum-distilbert/model.onnx", 8, 18, 179, 60, 40, 2, 1, 91256, 4433565},
    {"exports/optimum-t5-encoder/model.onnx", 8, 18, 267, 94, 21, 2, 1, 95992, 4662002},
    {"exports/optimum-vit/model.onnx", 8, 18, 177, 55, 40, 1, 1, 96288, 4718320},
    {"exports/ort-bert-fused/model.onnx", 8, 18, 18, 0, 29, 3, 1, 86272, 4213951},
    {"exports/ort-gpt2-fused/model.onnx", 8, 18, 320, 127, 29, 7, 5, 139872, 6675396},
    {"exports/ort-resnet-qdq/model.onnx", 8, 18, 52, 0, 64, 1, 1, 6386, 751069},
    {"exports/tf2onnx-transformer/model.onnx", 8, 17, 398, 0, 72, 1, 1, 118177, 5846340},
    {"lm/cappgpt-onnx/model.onnx", 7, 14, 1120, 412, 52, 11, 9, 948136, 118204716},
    {"lm/demo-lm/model.onnx", 8, 18, 1593, 577, 57, 15, 13, 26101020, 3276510155},
    {"lm/stories260k-onnx/model.onnx", 8, 17, 1339, 477, 48, 13, 11, 1174776, 146018377},
    {"onnx/cnn/magika_v3_3/model.onnx", 8, 15, 95, 0, 36, 1, 1, 3138152, 394818571},
    {"onnx/cnn/mnist_8/model.onnx", 3, 8, 12, 0, 8, 1, 1, 24008, 3020649},
    {"onnx/cnn/super_resolution_10/model.onnx", 4, 10, 12, 2, 8, 1, 1, 238708, 30934003},
    {"onnx/exports/gemma/model.onnx", 8, 17, 635, 225, 21, 6, 5, 543656, 68105772},
    {"onnx/exports/genai-llama-int4/model.onnx", 10, 21, 33, 2, 30, 6, 5, 147216, 18735924},
    {"onnx/exports/gpt2/model.onnx", 8, 18, 539, 204, 29, 7, 5, 598576, 74879540},
    {"onnx/exports/llama/model.onnx", 8, 17, 616, 216, 21, 7, 5, 478052, 59849508},
    {"onnx/exports/phi3/model.onnx", 8, 18, 548, 222, 15, 7, 5, 510868, 63905414},
    {"onnx/exports/qwen2/model.onnx", 8, 17, 622, 216, 27, 7, 5, 479076, 59898756},
    {"onnx/tashkeel/model_fp32.onnx", 8, 16, 763, 0, 115, 2, 2, 3778884, 474009206},
};
enum { N_REALS = sizeof reals / sizeof *reals };

static int absent;

/* Constants that upgrade.c makes are called after their node; those of the contrib rewrites NODE/constant, or %N, and weights
 * that stay quantized stand beside the file's own codes. */
static bool made_here(const tni_graph *g, const tni_value *v) {
  const char *slash = strrchr(v->pub.name, '/');
  if (v->tensor->quantized || *v->pub.name == '%' || (slash && strcmp(slash, "/constant") == 0)) return true;
  static const char *const ends[] = {".axes", ".split", ".starts", ".ends", ".min", ".max", ".pads", ".value", ".k"};
  char node[512];
  const char *dot = strrchr(v->pub.name, '.');
  if (!dot || v->origin.file || (size_t)(dot - v->pub.name) >= sizeof node) return false;
  bool end = false;
  for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) end |= strcmp(dot, ends[i]) == 0;
  if (!end) return false;
  memcpy(node, v->pub.name, (size_t)(dot - v->pub.name));
  node[dot - v->pub.name] = '\0';
  return node_named(g, node) != NULL;
}

static void test_counts(void) {
  for (size_t i = 0; i < N_REALS; i++) {
    tni_model *m;
    tn_error e;
    tni_error_init(&e);
    const char *path = data_path(reals[i].name);
    tn_status st = path ? tni_import_file(path, NULL, NULL, &m, &e) : TN_E_UNAVAILABLE;
    if (st == TN_E_UNAVAILABLE) {
      absent++;
      continue;
    }
    CU_ASSERT_EQUAL(st, TN_OK);
    if (st) {
      printf("\n  %s: %s\n", reals[i].name, e.message);
      continue;
    }
    uint32_t consts = 0;
    uint64_t bytes = 0, sum = 0;
    for (uint32_t k = 0; k < m->graph->n_values; k++) {
      const tni_value *v = m->graph->values[k];
      if (!v->tensor || made_here(m->graph, v)) continue;
      consts++;
      bytes += v->tensor->bytes;
      for (uint64_t b = 0; b < v->tensor->bytes; b++) sum += ((const uint8_t *)v->tensor->data)[b];
    }
    CU_ASSERT_EQUAL(m->ir_version, reals[i].ir);
    CU_ASSERT_EQUAL(m->n_nodes_file, reals[i].nodes);
    CU_ASSERT(m->graph->n_nodes >= reals[i].nodes - reals[i].constants);
    CU_ASSERT_EQUAL(consts, reals[i].constants + reals[i].initializers);
    CU_ASSERT_EQUAL(m->graph->n_inputs, reals[i].inputs);
    CU_ASSERT_EQUAL(m->graph->n_outputs, reals[i].outputs);
    CU_ASSERT_EQUAL(bytes, reals[i].bytes);
    CU_ASSERT_EQUAL(sum, reals[i].sum);
    if (consts != reals[i].constants + reals[i].initializers || sum != reals[i].sum)
      printf("\n  %s: %u constants, %llu bytes, sum %llu\n", reals[i].name, consts, (unsigned long long)bytes,
             (unsigned long long)sum);
    tni_model_destroy(m);
  }
}

/* Cuts at random lengths, in an allocation of exactly that size. */
static void test_truncated(void) {
  static const char *const names[] = {"lm/stories260k-onnx/model.onnx", "onnx/cnn/mnist_8/model.onnx",
                                      "exports/optimum-t5-encoder/model.onnx", "exports/optimum-vit/model.onnx"};
  uint32_t seed = 12345;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    size_t n;
    uint8_t *whole = read_file(data_path(names[i]), &n);
    if (!whole) {
      absent++;
      continue;
    }
    for (int k = 0; k < 100; k++) {
      seed = seed * 1664525 + 1013904223;
      size_t cut = k < 30 ? (size_t)k : (size_t)((double)seed / 4294967296.0 * (double)(n - 64));
      uint8_t *part = malloc(cut + 1);
      if (cut) memcpy(part, whole, cut);
      part = realloc(part, cut ? cut : 1);
      tni_model *m = NULL;
      tn_error e;
      tni_error_init(&e);
      tn_status st = tni_import_bytes(part, cut, NULL, NULL, NULL, &m, &e);
      CU_ASSERT(st == TN_E_CORRUPT || st == TN_E_INVALID);
      CU_ASSERT(*e.message && e.code == st);
      if (st == TN_OK) tni_model_destroy(m);
      free(part);
    }
    free(whole);
  }
}

static void test_missing_file(void) {
  tni_model *m = NULL;
  tn_error e;
  tni_error_init(&e);
  CU_ASSERT_EQUAL(tni_import_file("/nonexistent/model.onnx", NULL, NULL, &m, &e), TN_E_UNAVAILABLE);
  CU_ASSERT_PTR_NOT_NULL(strstr(e.message, "/nonexistent/model.onnx"));
  tni_error_init(&e);
  CU_ASSERT_EQUAL(tni_import_file("/tmp", NULL, NULL, &m, &e), TN_E_INVALID);
  CU_ASSERT_EQUAL(tni_import_file("/dev/null", NULL, NULL, &m, NULL), TN_E_INVALID);
}

static int report(void) {
  if (absent) printf("\n  skipped: %d models that TENON_TEST_DATA does not have", absent);
  return 0;
}

int suite_real(void) {
  CU_pSuite s = CU_add_suite("onnx real models", NULL, report);
  return !s || !CU_add_test(s, "counts and contents", test_counts) || !CU_add_test(s, "truncated", test_truncated) ||
         !CU_add_test(s, "missing files", test_missing_file);
}
