/* SPDX-License-Identifier: Apache-2.0
 *
 * Plugins of the corpus (tests/faults/corpus) that crash or hang in one of their calls: in a process of their own they
 * do that alone, and what they should have done the host does.
 */
#include "isolate_test.h"

static void test_corpus(void) {
  /* Where it ends; and whether that is seen while it is in use, so that it counts as lost. */
  static const struct {
    const char *name;
    bool in_use;
  } kinds[] = {
      {"constructor-crash", false}, {"entry-illegal", false},  {"enumerate-abort", false},   {"open-exit", false},
      {"claim-crash", true},        {"claim-hang", true},      {"lower-crash", true},        {"lower-hang", true},
      {"bind-crash", true},         {"bind-hang", true},       {"run-crash", true},          {"run-abort", true},
      {"run-exit", true},           {"run-illegal", true},     {"run-stack-overflow", true}, {"run-second-crash", true},
      {"run-hang", true},           {"run-far-overrun", true}, {"shutdown-crash", false}};
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    char profile[256];
    const char *line = NULL;
    bool right;
    int child;
    lab l;
    /* Only a hang is waited for. */
    snprintf(profile, sizeof profile,
             "isolation: process\ntimeout_ms: %d\nplugins:\n  - name: %s\n    optional: true\n  - host\n",
             strstr(kinds[i].name, "hang") ? 2000 : 30000, kinds[i].name);
    const tn_status st = small_try(&(small_case){.profile = profile, .plugin = kinds[i].name}, &l, &right, &child);
    const uint32_t lost = l.rt ? tn_runtime_losses(l.rt, &line) : 0;
    right = right && st == TN_OK && (lost != 0) == kinds[i].in_use && (!lost || strstr(line, kinds[i].name)) &&
            (!kinds[i].in_use || !child);
    if (!right) printf("\n    %s: %d %s; lost %u: %s", kinds[i].name, st, l.err.message, lost, line ? line : "");
    CU_ASSERT(right);
    lab_close(&l);
  }
}

/* One that behaves computes in its process. */
static void test_good(void) {
  lab l;
  bool right;
  int child;
  const small_case k = {.profile = "isolation: process\nplugins: [good, host]\nrequire: [good]\n", .plugin = "good"};
  CU_ASSERT_EQUAL(small_try(&k, &l, &right, &child), TN_OK);
  CU_ASSERT(right && child);
  lab_close(&l);
}

void suite_crash(void) {
  CU_pSuite s = CU_add_suite("isolate: crashes in calls", NULL, NULL);
  CU_add_test(s, "one that behaves", test_good);
  CU_add_test(s, "crashes and hangs", test_corpus);
}
