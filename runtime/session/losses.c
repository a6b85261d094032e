/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/session/losses.h"

#include <stdio.h>
#include <string.h>

#include "runtime/plugin/process/process.h"

/* Processes that are gone count whether or not anybody has met them. */
static void look_at_processes(tn_runtime *rt) {
  for (uint32_t d = 0; d < rt->n_devs; d++)
    if (rt->devs[d].process && tni_isolate_pid(rt->devs[d].plugin) == 0) tni_devlock_lose(rt->devs[d].lock);
}

static bool is_required(const tn_runtime *rt, const char *name) {
  for (uint32_t i = 0; i < rt->profile->n_require; i++)
    if (strcmp(rt->profile->require[i], name) == 0) return true;
  return false;
}

/* Devices that are lost and were not told of before: says so once each. *required: one that the profile cannot do
 * without. */
uint32_t tni_losses_tell(tn_runtime *rt, const tn_error *err, const char **required) {
  uint32_t n = 0;
  look_at_processes(rt);
  for (uint32_t d = 0; d < rt->n_devs; d++) {
    const tni_dev *dev = &rt->devs[d];
    if (!tni_devlock_lost(dev->lock)) continue;
    if (is_required(rt, dev->name)) *required = dev->name;
    if (dev->lock->told) continue;
    dev->lock->told = true;
    n++;
    char line[400], why[256];
    if (!dev->process || !tni_isolate_why(dev->plugin, why, sizeof why))
      snprintf(why, sizeof why, "%s", err->code ? err->message : "it did not answer");
    snprintf(line, sizeof line, "plugin '%s' is lost (%s); what follows goes on without it", dev->name, why);
    const char *copy = tni_arena_strdup(rt->arena, line);
    if (copy) rt->last_loss = copy;
    rt->n_losses++;
    tni_log_line(&rt->log, TN_LOG_WARN, "%s", line);
  }
  return n;
}

void tni_losses_note(tn_runtime *rt, const tn_error *err) {
  const char *required = NULL;
  pthread_mutex_lock(&rt->failing);
  (void)tni_losses_tell(rt, err, &required);
  pthread_mutex_unlock(&rt->failing);
}

bool tni_losses_refuse(tn_error *err, const char *why) {
  tni_error_append(err, "; %.200s", why);
  return false;
}

bool tni_losses_required(tn_error *err, const char *name) {
  char why[160];
  snprintf(why, sizeof why, "the profile requires '%s', so nothing goes on without it", name);
  return tni_losses_refuse(err, why);
}

bool tni_losses_retry(tn_runtime *rt, tn_status *st, tn_error *err) {
  const char *required = NULL;
  pthread_mutex_lock(&rt->failing);
  const uint32_t n = tni_losses_tell(rt, err, &required);
  pthread_mutex_unlock(&rt->failing);
  if (*st != TN_OK && required) {
    if (*st != TN_E_DEVICE_LOST) {
      tni_error_begin(err);
      tni_fail(err, TN_E_DEVICE_LOST, required, "plugin '%s' is lost", required);
    }
    *st = TN_E_DEVICE_LOST;
    return tni_losses_required(err, required);
  }
  if (*st != TN_E_DEVICE_LOST || !n) return false;
  tni_error_begin(err);
  return true;
}

uint32_t tn_runtime_losses(const tn_runtime *pub, const char **last) {
  tn_runtime *rt = (tn_runtime *)(uintptr_t)pub;
  if (!rt) return 0;
  pthread_mutex_lock(&rt->failing);
  const uint32_t n = rt->n_losses;
  if (last) *last = rt->last_loss;
  pthread_mutex_unlock(&rt->failing);
  return n;
}

bool tni_files_failed(const tn_model *m, tn_status *st, tn_error *err) {
  tn_long_error why;
  tni_long_error_init(&why);
  if (*st == TN_E_CANCELLED || tni_files_check(m, TNI_WATCH_CONTENT, &why.error) == TN_OK) return false;
  tni_error_begin(err);
  *st = tni_error_pass(err, TN_E_IO, &why.error);
  return true;
}
