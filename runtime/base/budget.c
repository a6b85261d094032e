/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/budget.h"

bool tni_budget_bytes(tni_budget *b, uint64_t bytes) {
  if (!b) return true;
  if (b->max_bytes && bytes > b->max_bytes - (b->bytes < b->max_bytes ? b->bytes : b->max_bytes)) {
    b->refused = true;
    return false;
  }
  b->bytes += bytes;
  return true;
}

void tni_budget_give(tni_budget *b, uint64_t bytes) {
  if (b) b->bytes -= bytes;
}

bool tni_budget_steps(tni_budget *b, uint64_t steps) {
  if (!b) return true;
  const uint64_t all = __atomic_add_fetch(&b->steps, steps, __ATOMIC_RELAXED);
  return !b->max_steps || all <= b->max_steps;
}

tn_status tni_budget_take(tni_budget *b, uint64_t steps, tn_error *err) {
  if (tni_budget_steps(b, steps)) return TN_OK;
  return tni_fail(err, TN_E_LIMIT, "max_steps",
                  "loading takes more than %llu steps; `load: {max_steps: N}` in the profile allows more",
                  (unsigned long long)b->max_steps);
}

tn_status tni_budget_status(const tni_budget *b, tn_status st, const char *where, tn_error *err) {
  if (st != TN_E_NO_MEMORY || !b->refused) return st;
  tni_error_begin(err);
  return tni_fail(err, TN_E_LIMIT, where,
                  "loading '%s' takes more than %llu bytes beside its weights; `load: {max_bytes: N}` in the profile "
                  "allows more",
                  where, (unsigned long long)b->max_bytes);
}
