/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory is bounded and refused, as it is to a process with --max-memory; refusals must end in a status.
 */
/* Visible: gcc's runtime is a library of its own and looks the name up. */
__attribute__((visibility("default"))) const char *__asan_default_options(void);
const char *__asan_default_options(void) {
  return "allocator_may_return_null=1:max_allocation_size_mb=256:soft_rss_limit_mb=1500:detect_stack_use_after_return="
         "0";
}
