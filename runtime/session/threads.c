/* SPDX-License-Identifier: Apache-2.0
 *
 * How many threads, and where they run: the options, then the profile, then all that the process may use.
 */
#include <string.h>

#include "runtime/base/base.h"
#include "runtime/profile/profile.h"
#include "runtime/session/runtime.h"

static tn_status check_there(const cpu_set_t *cpus, const char *where, tn_error *err) {
  cpu_set_t there, both;
  char missing[TNI_CPUS_TEXT], usable[TNI_CPUS_TEXT];
  if (tni_cpus_usable(&there) != TN_OK) return tni_fail_memory(err, where);
  CPU_AND(&both, cpus, &there);
  if (CPU_EQUAL(&both, cpus)) return TN_OK;
  CPU_XOR(&both, &both, cpus);
  tni_cpus_text(&both, missing);
  tni_cpus_text(&there, usable);
  return tni_fail(err, TN_E_INVALID, where, "'cpus' names %s: there are %s that this process can use", missing, usable);
}

/* Where no core is little, or the system does not tell, threads are not bound. */
static tn_status find_big(cpu_set_t *cpus, tn_error *err) {
  if (tni_cpus_usable(cpus) != TN_OK) return tni_fail_memory(err, "cpus");
  if (!tni_cpus_keep_big(TNI_CPUS_FOLDER, cpus)) CPU_ZERO(cpus);
  return TN_OK;
}

/* The profile's are those of the machine that it is for. */
static tn_status read_cpus(tn_runtime *rt, const char *text, tn_error *err) {
  const tni_profile *p = rt->profile;
  char where[sizeof err->where] = "cpus", why[TNI_CPUS_TEXT];
  if (text ? strcmp(text, TNI_CPUS_BIG) == 0 : p->cpus_big && !rt->offline && !rt->portable)
    return find_big(&rt->cpus, err);
  if (!rt->offline && !rt->portable) rt->cpus = p->cpus;
  if (text) {
    CPU_ZERO(&rt->cpus);
    if (!tni_cpus_add(&rt->cpus, text, why)) return tni_fail(err, TN_E_INVALID, where, "'cpus' %s", why);
  } else {
    tni_place(where, sizeof where, p->file, p->cpus_line, p->cpus_column);
  }
  return CPU_COUNT(&rt->cpus) ? check_there(&rt->cpus, where, err) : TN_OK;
}

tn_status tni_runtime_pool(tn_runtime *rt, const tn_runtime_opts *o, tn_error *err) {
  const tn_status st = read_cpus(rt, o->cpus, err);
  if (st != TN_OK) return st;
  rt->pool = tni_pool_create_on(&rt->cpus, o->threads || o->cpus ? o->threads : rt->profile->threads);
  return rt->pool ? TN_OK : tni_fail_memory(err, "thread pool");
}

tn_status tn_runtime_bind_thread(const tn_runtime *rt, tn_error *err) {
  tni_error_begin(err);
  TNI_NOT_NULL(rt);
  if (!CPU_COUNT(&rt->cpus) || sched_setaffinity(0, sizeof rt->cpus, &rt->cpus) == 0) return TN_OK;
  return tni_fail(err, TN_E_UNAVAILABLE, "cpus", "the system lets no thread be bound to processors");
}
