/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the threads of a runtime and of a plugin's process run, and that they do not between two requests.
 */
#include <sched.h>
#include <unistd.h>

#include "isolate_test.h"
#include "runtime/base/cpus.h"
#include "tests/base/proc_tasks.h"

/* One run of the demo model; false: it failed. */
static bool run(lab *l, const char *plugin, bool isolated, const char *keys) {
  char text[512];
  int32_t ids[8] = {7, 300, 21, 1000, 5, 6, 7, 8}, out[MAX_TOKENS];
  snprintf(text, sizeof text, "%s%splugins: [%s]\n", isolated ? "isolation: process\n" : "", keys, plugin);
  tn_status st = lab_open(l, text, NULL, NULL);
  if (st == TN_OK) st = lab_load(l);
  if (st == TN_OK) st = lab_generate(l, ids, 8, 4, -1, NULL, NULL, out);
  if (st == TN_OK) return true;
  printf("\n    %s: %s %s\n", text, l->err.where, l->err.message);
  return false;
}

/* The last processor of those that are there. */
static void last_cpu(char text[TNI_CPUS_TEXT]) {
  cpu_set_t set, one;
  CU_ASSERT_EQUAL_FATAL(tni_cpus_usable(&set), TN_OK);
  size_t last = CPU_SETSIZE - 1;
  while (last && !CPU_ISSET(last, &set)) last--;
  CPU_ZERO(&one);
  CPU_SET(last, &one);
  tni_cpus_text(&one, text);
}

static void bound(const char *plugin, bool isolated) {
  char cpus[TNI_CPUS_TEXT], keys[256];
  lab l;
  last_cpu(cpus);
  snprintf(keys, sizeof keys, "cpus: %s\nthreads: 3\n", cpus);
  const bool ok = run(&l, plugin, isolated, keys);
  CU_ASSERT(ok);
  if (ok) {
    const proc_tasks own = proc_tasks_read(getpid(), POOL_THREAD, cpus);
    CU_ASSERT_EQUAL(own.n, 2);
    CU_ASSERT_EQUAL(own.bound, 2);
  }
  if (ok && isolated) { /* and the two threads that call and run, of which one came with the process */
    const proc_tasks child = proc_tasks_read(lab_child(&l, plugin), POOL_THREAD, cpus);
    CU_ASSERT_EQUAL(child.n, 2);
    CU_ASSERT_EQUAL(child.bound, 2);
    CU_ASSERT(proc_tasks_read(lab_child(&l, plugin), NULL, cpus).bound >= 4);
  }
  lab_close(&l);
}

static void test_bound(void) {
  bound("host", false);
  if (has_avx2()) bound("cpu-avx2-lut", true);
}

/* Without a number of threads there are as many as processors; the thread that asks is bound when it says so. */
static void test_count(void) {
  char cpus[TNI_CPUS_TEXT], keys[256];
  cpu_set_t before, now;
  tn_error err;
  lab l;
  last_cpu(cpus);
  snprintf(keys, sizeof keys, "cpus: ['%s']\nthreads: 0\nplugins: [host]\n", cpus);
  CU_ASSERT_EQUAL_FATAL(lab_open(&l, keys, NULL, NULL), TN_OK);
  CU_ASSERT_EQUAL(proc_tasks_read(getpid(), POOL_THREAD, cpus).n, 0);
  CU_ASSERT_EQUAL(sched_getaffinity(0, sizeof before, &before), 0);
  tn_error_init(&err);
  CU_ASSERT_EQUAL(tn_runtime_bind_thread(l.rt, &err), TN_OK);
  CU_ASSERT_EQUAL(sched_getaffinity(0, sizeof now, &now), 0);
  CU_ASSERT_EQUAL(CPU_COUNT(&now), 1);
  CU_ASSERT(CPU_ISSET((size_t)atoi(cpus), &now));
  lab_close(&l);
  CU_ASSERT_EQUAL(sched_setaffinity(0, sizeof before, &before), 0);

  CU_ASSERT_EQUAL_FATAL(lab_open(&l, "plugins: [host]\n", NULL, NULL), TN_OK);
  CU_ASSERT_EQUAL(tn_runtime_bind_thread(l.rt, &err), TN_OK);
  CU_ASSERT_EQUAL(sched_getaffinity(0, sizeof now, &now), 0);
  CU_ASSERT(CPU_EQUAL(&now, &before));
  lab_close(&l);
}

static void test_missing(void) {
  lab l;
  CU_ASSERT_EQUAL(lab_open(&l, "plugins: [host]\ncpus: [0, 1021-1022]\n", NULL, NULL), TN_E_INVALID);
  CU_ASSERT_PTR_NOT_NULL(strstr(l.err.where, "profile.yaml:2:7"));
  CU_ASSERT_PTR_NOT_NULL(strstr(l.err.message, "'cpus' names 1021-1022: there are "));
  lab_close(&l);
}

static void idle(const char *plugin, bool isolated, const char *keys) {
  lab l;
  const bool ok = run(&l, plugin, isolated, keys);
  CU_ASSERT(ok);
  if (ok) CU_ASSERT(proc_tasks_idle(getpid(), NULL));
  if (ok && isolated) CU_ASSERT(proc_tasks_idle(lab_child(&l, plugin), NULL));
  lab_close(&l);
}

static void test_idle(void) {
  idle("host", false, "threads: 2\n");
  idle("host", false, "threads: 4\n");
  if (has_avx2()) idle("cpu-avx2-lut", true, "threads: 2\n");
  if (has_avx2()) idle("cpu-avx2-lut", true, "threads: 4\n");
}

void suite_threads(void) {
  CU_pSuite s = CU_add_suite("isolate: threads", NULL, NULL);
  CU_add_test(s, "run where the profile says", test_bound);
  CU_add_test(s, "as many as processors", test_count);
  CU_add_test(s, "processors that are not there", test_missing);
  CU_add_test(s, "idle between requests", test_idle);
}
