/* SPDX-License-Identifier: Apache-2.0 */
#include "fake.h"
#include "tests/kit/nodes.h"

int main(void) {
  if (CU_initialize_registry() != CUE_SUCCESS) return 1;
  bool ok = ht_add_device() && ht_add_states();
  CU_basic_set_mode(CU_BRM_VERBOSE);
  if (ok) CU_basic_run_tests();
  const unsigned failed = CU_get_number_of_failures();
  CU_cleanup_registry();
  return !ok || failed != 0;
}
