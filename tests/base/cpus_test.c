/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base_test.h"
#include "runtime/base/cpus.h"

static void test_lists(void) {
  static const struct {
    const char *in, *out; /* out NULL: refused */
    const char *why;
  } t[] = {{"0", "0", NULL},
           {"0,2-3", "0,2-3", NULL},
           {" 7 , 1-2 ", "1-2,7", NULL},
           {"3,2,1,0", "0-3", NULL},
           {"5-5", "5", NULL},
           {"007", "7", NULL},
           {"1023", "1023", NULL},
           {"", NULL, "not ''"},
           {" ", NULL, "such as 0,2-3, or big, not"},
           {"a", NULL, "not 'a'"},
           {"-1", NULL, "not '-1'"},
           {"1-", NULL, "not '1-'"},
           {"1-2-3", NULL, "not '1-2-3'"},
           {"1,", NULL, "not '1,'"},
           {",1", NULL, "not ',1'"},
           {"1 2", NULL, "not '1 2'"},
           {"1.5", NULL, "not '1.5'"},
           {"0x1", NULL, "not '0x1'"},
           {"3-2", NULL, "ends before it begins: 3-2"},
           {"1024", NULL, "above 1023"},
           {"0-99999999999999999999", NULL, "above 1023"},
           {"18446744073709551616", NULL, "above 1023"},
           {"1,0-2", NULL, "processor 1 twice"}};
  for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
    char why[TNI_CPUS_TEXT] = "", text[TNI_CPUS_TEXT];
    cpu_set_t set;
    CPU_ZERO(&set);
    const bool ok = tni_cpus_add(&set, t[i].in, why);
    tni_cpus_text(&set, text);
    const bool right = ok ? t[i].out && strcmp(text, t[i].out) == 0 : !t[i].out && strstr(why, t[i].why);
    if (!right) printf("\n    '%s': %d '%s' '%s'\n", t[i].in, ok, text, why);
    CU_ASSERT(right);
  }
}

static void test_long_text(void) {
  cpu_set_t set;
  char text[TNI_CPUS_TEXT];
  CPU_ZERO(&set);
  tni_cpus_text(&set, text);
  CU_ASSERT_STRING_EQUAL(text, "");
  for (size_t i = 0; i < CPU_SETSIZE; i += 3) {
    CPU_SET(i, &set);
    CPU_SET(i + (i + 1 < CPU_SETSIZE), &set);
  }
  tni_cpus_text(&set, text);
  CU_ASSERT(strlen(text) < sizeof text);
  CU_ASSERT_STRING_EQUAL(text + strlen(text) - 4, ",...");
}

/* Whatever the caller is bound to, and without binding it otherwise. */
static void test_usable(void) {
  cpu_set_t all, one, now, usable;
  size_t c = 0;
  CU_ASSERT_EQUAL_FATAL(sched_getaffinity(0, sizeof all, &all), 0);
  while (!CPU_ISSET(c, &all)) c++;
  CPU_ZERO(&one);
  CPU_SET(c, &one);
  CU_ASSERT_EQUAL(sched_setaffinity(0, sizeof one, &one), 0);
  CU_ASSERT_EQUAL(tni_cpus_usable(&usable), TN_OK);
  CU_ASSERT_EQUAL(sched_getaffinity(0, sizeof now, &now), 0);
  CU_ASSERT(CPU_EQUAL(&now, &one));
  CPU_AND(&now, &usable, &all);
  CU_ASSERT(CPU_EQUAL(&now, &all));
  CU_ASSERT_EQUAL(sched_setaffinity(0, sizeof all, &all), 0);
}

/* As the kernel tells it, in a folder of this test's. value NULL: the processor has no such file. */
static void say_capacity(const char *folder, int cpu, const char *value) {
  char path[128];
  snprintf(path, sizeof path, "%s/cpu%d", folder, cpu);
  (void)mkdir(path, 0700);
  snprintf(path, sizeof path, "%s/cpu%d/cpu_capacity", folder, cpu);
  (void)remove(path);
  if (!value) return;
  FILE *f = fopen(path, "w");
  CU_ASSERT_PTR_NOT_NULL_FATAL(f);
  fprintf(f, "%s\n", value);
  fclose(f);
}

static void forget(const char *folder, int n) {
  char path[128];
  for (int i = 0; i < n; i++) {
    say_capacity(folder, i, NULL);
    snprintf(path, sizeof path, "%s/cpu%d", folder, i);
    CU_ASSERT_EQUAL(rmdir(path), 0);
  }
  CU_ASSERT_EQUAL(rmdir(folder), 0);
}

static void test_big(void) {
  static const struct {
    const char *capacity[4];
    const char *big; /* NULL: as it was, 0-3 */
  } t[] = {{{"280", "280", "800", "1024"}, "2-3"},   {{"1024", "511", "512", "513"}, "0,2-3"},
           {{"1024", "1024", "1024", "1024"}, NULL}, {{"700", "800", "900", "1024"}, NULL},
           {{"280", NULL, "800", "1024"}, NULL},     {{"280", "x", "800", "1024"}, NULL},
           {{"280", "0", "800", "1024"}, NULL},      {{"280", "99999", "800", "1024"}, NULL},
           {{"446", "446", "200", "100"}, "0-1"}};
  char folder[] = "/tmp/tenon-cpus-XXXXXX", text[TNI_CPUS_TEXT];
  CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(folder));
  for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
    uint16_t capacity[CPU_SETSIZE] = {0};
    cpu_set_t set;
    CPU_ZERO(&set);
    for (int c = 0; c < 4; c++) {
      say_capacity(folder, c, t[i].capacity[c]);
      CPU_SET((size_t)c, &set);
    }
    const bool known = tni_cpus_capacities(folder, &set, capacity);
    CU_ASSERT(known || !t[i].big);
    for (int c = 0; known && c < 4; c++) {
      CU_ASSERT_EQUAL(capacity[c], atoi(t[i].capacity[c]));
    }
    CU_ASSERT_EQUAL(tni_cpus_keep_big(folder, &set), t[i].big != NULL);
    tni_cpus_text(&set, text);
    CU_ASSERT_STRING_EQUAL(text, t[i].big ? t[i].big : "0-3");
  }
  forget(folder, 4);
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(0, &one);
  CU_ASSERT_FALSE(tni_cpus_keep_big(folder, &one));
}

void suite_cpus(void) {
  CU_pSuite s = CU_add_suite("base: cpus", NULL, NULL);
  CU_add_test(s, "lists", test_lists);
  CU_add_test(s, "long lists", test_long_text);
  CU_add_test(s, "what can be used", test_usable);
  CU_add_test(s, "big and little", test_big);
}
