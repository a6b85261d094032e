/* SPDX-License-Identifier: Apache-2.0
 *
 * What calls of tiles_sme.S leave of the caller's: registers that the ABI has it keep, the floating-point status, and
 * what another function has in ZA. Processors with SME only.
 */
#include "tests/kernels/harness.h"
#if defined(__aarch64__)
#include "plugins/cpu-neon-lut/kernels/tiles_sme.h"

static bool has_sme(void) { return tni_cm_cpu_features() & TNI_CPU_SME; }

static int32_t sums[16][16];
static const int8_t ones[64] = {1, 1, 1, 1, 1, 1, 1, 1};
static void call(void) { tni_arm_smopa(ones, ones, sums); }

/* d8 .. d15 and the status, before and after. */
static void registers_are_kept(void) {
  if (!has_sme()) return;
  static double in[8] = {1, 2, 3, 4, 5, 6, 7, 8}, out[8];
  uint64_t status = 0x10, after = 0; /* the cumulative bit of inexact */
  __asm__ volatile(
      "ldp d8, d9, [%[in]]\n ldp d10, d11, [%[in], #16]\n ldp d12, d13, [%[in], #32]\n ldp d14, d15, [%[in], #48]\n"
      "msr fpsr, %[status]\n mov x19, %[out]\n mov x0, %[x]\n mov x1, %[x]\n mov x2, %[sums]\n bl tni_arm_smopa\n"
      "stp d8, d9, [x19]\n stp d10, d11, [x19, #16]\n stp d12, d13, [x19, #32]\n stp d14, d15, [x19, #48]\n"
      "mrs x19, fpsr\n mov %[after], x19\n"
      : [after] "=r"(after)
      : [in] "r"(in), [out] "r"(out), [x] "r"(ones), [sums] "r"(sums), [status] "r"(status)
      : "x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12", "x13", "x14", "x15", "x16",
        "x17", "x19", "x30", "memory", "cc", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11",
        "v12", "v13", "v14", "v15", "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27",
        "v28", "v29", "v30", "v31");
  CU_ASSERT(!memcmp(in, out, sizeof in));
  CU_ASSERT_EQUAL(after, status);
}

static uint64_t streaming_length(void) {
  register uint64_t bytes __asm__("x0");
  __asm__ volatile(".inst 0x04bf5820" : "=r"(bytes)); /* rdsvl x0, #1 */
  return bytes;
}

/* What TPIDR2_EL0 leads to. */
typedef struct saved_za {
  void *buffer;
  uint16_t slices;
  uint8_t reserved[6];
} saved_za;

/* ZA of another function that has it lie there: saved where TPIDR2_EL0 says, and the register is 0 then. */
static void another_functions_za_is_saved(void) {
  if (!has_sme()) return;
  static uint8_t za[64 * 64], saved[64 * 64 + 64];
  const uint64_t bytes = streaming_length();
  uint64_t left = 1;
  for (size_t i = 0; i < sizeof za; i++) za[i] = (uint8_t)(i * 7 + i / 251);
  memset(saved, 0xa5, sizeof saved);
  const saved_za block = {.buffer = saved, .slices = (uint16_t)bytes};
  __asm__ volatile(
      ".inst 0xd503457f\n" /* smstart za */
      "mov x9, %[za]\n mov w12, #0\n"
      "1: .inst 0xe1000120\n" /* ldr za[w12, 0], [x9] */
      "add x9, x9, %[bytes]\n add w12, w12, #1\n cmp x12, %[bytes]\n b.lo 1b\n"
      "msr S3_3_C13_C0_5, %[block]\n" /* TPIDR2_EL0 */
      :
      : [za] "r"(za), [bytes] "r"(bytes), [block] "r"(&block)
      : "x9", "x12", "memory", "cc");
  call();
  __asm__ volatile("mrs %0, S3_3_C13_C0_5" : "=r"(left));
  CU_ASSERT_EQUAL(left, 0);
  CU_ASSERT(!memcmp(saved, za, bytes * bytes));
  for (size_t i = bytes * bytes; i < sizeof saved; i++) CU_ASSERT_FATAL(saved[i] == 0xa5);
}

int add_sme_suite(void) {
  CU_TestInfo tests[] = {{"registers_are_kept", registers_are_kept},
                         {"another_functions_za_is_saved", another_functions_za_is_saved},
                         CU_TEST_INFO_NULL};
  CU_SuiteInfo suites[] = {{"sme", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
  return CU_register_suites(suites) == CUE_SUCCESS;
}
#else
int add_sme_suite(void) { return true; }
#endif
