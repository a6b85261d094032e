/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/place/devices.h"

#include <stdlib.h>

tn_status tni_runtime_cancelled(const tn_runtime *rt, const char *what, tn_error *err) {
  if (!__atomic_load_n(&rt->cancel, __ATOMIC_RELAXED)) return TN_OK;
  return tni_fail(err, TN_E_CANCELLED, what, "loading was cancelled");
}

struct tni_left {
  struct tni_left *next;
  void *p;
};

void tni_runtime_leave(tn_runtime *rt, void *p) {
  struct tni_left *l = p ? malloc(sizeof *l) : NULL;
  if (!l) return;
  l->p = p;
  l->next = __atomic_load_n(&rt->left, __ATOMIC_RELAXED);
  while (!__atomic_compare_exchange_n(&rt->left, &l->next, l, true, __ATOMIC_RELEASE, __ATOMIC_RELAXED)) continue;
}

void tni_runtime_free_left(tn_runtime *rt) {
  while (rt->left) {
    struct tni_left *l = rt->left;
    rt->left = l->next;
    free(l->p);
    free(l);
  }
}
