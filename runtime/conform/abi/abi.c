/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/conform/abi/abi.h"

#include "runtime/conform/abi/parts.h"

void tni_cf_abi_cases(const tni_cf_listing *l, tni_cf_add add, void *ctx) {
  tni_cf_abi_file_cases(l, add, ctx);
  tni_cf_abi_manifest_cases(l, add, ctx);
  tni_cf_abi_entry_cases(l, add, ctx);
  tni_cf_abi_calls_cases(l, add, ctx);
  tni_cf_abi_state_cases(l, add, ctx);
  tni_cf_abi_lives_cases(l, add, ctx);
}
