/* SPDX-License-Identifier: Apache-2.0
 *
 * A plugin whose device is an OpenCL driver's.
 */
#include "isolate_test.h"
#include "runtime/place/model_data.h"
#include "runtime/plugin/load/registry.h"
#include "runtime/plugin/plugin.h"

enum { PROMPT = 6 };

static void prompt(int32_t ids[PROMPT]) {
  for (int i = 0; i < PROMPT; i++) ids[i] = 11 + i * 173 % 3900;
}

/* What confines a driver, as far as this system has it. */
static void check_walls(const lab *l, const char *plugin) {
  const tni_plugin_info *i = tni_registry_find(l->rt->registry, plugin);
  const tni_walls w = i->process ? i->walls : i->probe_walls;
  char text[256];
  CU_ASSERT_EQUAL(w.level, TNI_CONFINE_DRIVER);
  CU_ASSERT(w.stand & TNI_WALL_NO_NEW_PRIVS && w.stand & TNI_WALL_SUPERVISED);
  tni_walls_text(&w, text, sizeof text);
  printf("%s ... ", text);
}

/* A driver in the child: memory that only it has, engines that answer by callbacks. The confined process is the first,
 * so that it is the one that compiles kernels; logits are the bits that the same driver gives in our process, into
 * which it comes by way of the probe, which is confined too. */
static void test_opencl(void) {
  const char *dir = getenv("TENON_TEST_OPENCL"), *plugin = getenv("TENON_TEST_OPENCL_PLUGIN");
  float *logits[2] = {NULL, NULL};
  size_t n[2] = {0, 0};
  int32_t ids[PROMPT];
  if (!dir || !*dir || !plugin) {
    printf("skipped: no OpenCL plugin or no driver here ... ");
    return;
  }
  prompt(ids);
  for (int i = 0; i < 2; i++) {
    char text[256];
    const float *v = NULL;
    size_t rows = 0, vocab = 0;
    lab l;
    snprintf(text, sizeof text,
             "%splugins:\n  - name: %s\n    probe: isolated\n    options: {device_type: any}\n  - host\n"
             "require: [%s]\n",
             i ? "" : "isolation: process\n", plugin, plugin);
    tn_status st = lab_open(&l, text, NULL, NULL);
    if (st == TN_OK) st = lab_load(&l);
    if (st == TN_OK) CU_ASSERT_EQUAL(lab_child(&l, plugin) != 0, i == 0);
    if (st == TN_OK) check_walls(&l, plugin);
    if (st == TN_OK) st = tn_chat_score(l.chat, ids, PROMPT, &v, &rows, &vocab, &l.err);
    CU_ASSERT_EQUAL(st, TN_OK);
    if (st != TN_OK) printf("\n    %s: %s\n", l.err.where, l.err.message);
    if (st == TN_OK && (logits[i] = malloc(rows * vocab * sizeof(float)))) {
      n[i] = rows * vocab;
      memcpy(logits[i], v, n[i] * sizeof(float));
    }
    CU_ASSERT_EQUAL(tn_runtime_losses(l.rt, NULL), 0);
    lab_close(&l);
  }
  CU_ASSERT(n[0] && n[0] == n[1] && memcmp(logits[0], logits[1], n[0] * sizeof(float)) == 0);
  free(logits[0]);
  free(logits[1]);
}

void suite_device(void) {
  CU_pSuite s = CU_add_suite("isolate: devices", NULL, NULL);
  CU_add_test(s, "an OpenCL driver", test_opencl);
}
