/* SPDX-License-Identifier: Apache-2.0
 *
 * What is free, from made trees: meminfo, and limits of cgroups up to the root.
 */
#include <CUnit/Basic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "runtime/base/base.h"
#include "runtime/cli/cli.h"

static char root[64];

static void put(const char *path, const char *text) {
  char full[512];
  snprintf(full, sizeof full, "%s/%s", root, path);
  *strrchr(full, '/') = '\0';
  CU_ASSERT_EQUAL_FATAL(tni_make_folder(full), 0);
  full[strlen(full)] = '/';
  FILE *f = fopen(full, "w");
  CU_ASSERT_PTR_NOT_NULL_FATAL(f);
  fputs(text, f);
  fclose(f);
}

static uint64_t with(const char *cgroup) {
  put("proc/self/cgroup", cgroup);
  return cli_free_memory(root).all;
}

static void test_groups(void) {
  const uint64_t mib = 1 << 20;
  put("proc/meminfo", "MemTotal:  9000000 kB\nMemFree: 5 kB\nMemAvailable:    4096000 kB\n");
  CU_ASSERT_EQUAL(with("11:memory:/old\n"), 4000 * mib); /* version 1 alone */
  CU_ASSERT_EQUAL(with("0::/nowhere\n"), 4000 * mib);
  put("sys/fs/cgroup/a/b/memory.max", "max\n");
  put("sys/fs/cgroup/a/b/memory.current", "1048576\n");
  CU_ASSERT_EQUAL(with("0::/a/b\n"), 4000 * mib);
  put("sys/fs/cgroup/a/memory.max", "104857600\n"); /* 100 MiB, of the one above */
  put("sys/fs/cgroup/a/memory.current", "62914560\n");
  CU_ASSERT_EQUAL(with("1:cpu:/x\n0::/a/b\n"), 40 * mib);
  put("sys/fs/cgroup/a/memory.stat", "anon 9\ninactive_file 10485760\nactive_file 20971520\n");
  CU_ASSERT_EQUAL(with("0::/a/b\n"), 70 * mib);  /* pages of files are given back */
  put("sys/fs/cgroup/memory.max", "73400320\n"); /* the root of a container */
  put("sys/fs/cgroup/memory.current", "41943040\n");
  CU_ASSERT_EQUAL(with("0::/a/b\n"), 30 * mib);
  CU_ASSERT_EQUAL(with("0::/\n"), 30 * mib);
  put("sys/fs/cgroup/a/b/memory.max", "1048576\n"); /* full */
  put("sys/fs/cgroup/a/b/memory.current", "2097152\n");
  CU_ASSERT_EQUAL(with("0::/a/b\n"), 0);
}

#ifndef __SANITIZE_ADDRESS__
static void test_limit(void) {
  struct rlimit old, now;
  CU_ASSERT_EQUAL_FATAL(getrlimit(RLIMIT_DATA, &old), 0);
  CU_ASSERT_EQUAL(cli_free_memory(root).own, UINT64_MAX);
  put("proc/self/status", "Name: x\nVmData:\t  102400 kB\n");
  now = old;
  now.rlim_cur = 1 << 30;
  CU_ASSERT_EQUAL_FATAL(setrlimit(RLIMIT_DATA, &now), 0);
  CU_ASSERT_EQUAL(cli_free_memory(root).own, (1024 - 100) * (uint64_t)(1 << 20));
  CU_ASSERT_EQUAL(setrlimit(RLIMIT_DATA, &old), 0);
}
#endif

int main(void) {
  strcpy(root, "/tmp/tenon-free-XXXXXX");
  if (!mkdtemp(root) || CU_initialize_registry() != CUE_SUCCESS) return 1;
  CU_pSuite s = CU_add_suite("free memory", NULL, NULL);
  CU_add_test(s, "cgroups up to the root", test_groups);
#ifndef __SANITIZE_ADDRESS__ /* its own mappings are over every limit */
  CU_add_test(s, "--max-memory", test_limit);
#endif
  CU_basic_set_mode(CU_BRM_VERBOSE);
  CU_basic_run_tests();
  const int failed = CU_get_number_of_failures() > 0;
  CU_cleanup_registry();
  char command[96];
  snprintf(command, sizeof command, "rm -r '%s'", root);
  return system(command) != 0 || failed;
}
