/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/cpus.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

/* Digits of a number below CPU_SETSIZE; one that is not below is CPU_SETSIZE. NULL: there is none. */
static const char *read_number(const char *text, size_t *out) {
  const size_t n = strspn(text, "0123456789");
  *out = 0;
  for (size_t i = 0; i < n && *out < CPU_SETSIZE; i++) *out = *out * 10 + (size_t)(text[i] - '0');
  if (*out > CPU_SETSIZE) *out = CPU_SETSIZE;
  return n ? text + n : NULL;
}

static bool add_range(cpu_set_t *set, size_t first, size_t last, char why[TNI_CPUS_TEXT]) {
  if (last >= CPU_SETSIZE || first >= CPU_SETSIZE) {
    snprintf(why, TNI_CPUS_TEXT, "names a processor above %d", CPU_SETSIZE - 1);
    return false;
  }
  if (last < first) {
    snprintf(why, TNI_CPUS_TEXT, "has a range that ends before it begins: %zu-%zu", first, last);
    return false;
  }
  for (size_t i = first; i <= last; i++) {
    if (CPU_ISSET(i, set)) {
      snprintf(why, TNI_CPUS_TEXT, "names processor %zu twice", i);
      return false;
    }
    CPU_SET(i, set);
  }
  return true;
}

bool tni_cpus_add(cpu_set_t *set, const char *text, char why[TNI_CPUS_TEXT]) {
  const char *p = text;
  for (;;) {
    size_t first, last;
    p += strspn(p, " ");
    p = read_number(p, &first);
    last = first;
    if (p && *p == '-') p = read_number(p + 1, &last);
    if (p) p += strspn(p, " ");
    if (!p || (*p && *p != ',')) break;
    if (!add_range(set, first, last, why)) return false;
    if (!*p++) return true;
  }
  snprintf(why, TNI_CPUS_TEXT, "takes processors and ranges of them such as 0,2-3, or big, not '%.32s'", text);
  return false;
}

void tni_cpus_text(const cpu_set_t *set, char buf[TNI_CPUS_TEXT]) {
  enum { ENTRY = 16 };
  size_t at = 0;
  buf[0] = '\0';
  for (size_t i = 0; i < CPU_SETSIZE; i++) {
    if (!CPU_ISSET(i, set)) continue;
    size_t last = i;
    while (last + 1 < CPU_SETSIZE && CPU_ISSET(last + 1, set)) last++;
    if (at + ENTRY > TNI_CPUS_TEXT) {
      snprintf(buf + at, TNI_CPUS_TEXT - at, ",...");
      return;
    }
    at += (size_t)snprintf(buf + at, TNI_CPUS_TEXT - at, last > i ? "%s%zu-%zu" : "%s%zu", at ? "," : "", i, last);
    i = last;
  }
}

/* A thread of its own, so that nobody else's binding changes. */
static void *ask_affinity(void *out) {
  cpu_set_t all;
  memset(&all, 0xff, sizeof all);
  (void)sched_setaffinity(0, sizeof all, &all); /* refused: it has what the caller has */
  CPU_ZERO((cpu_set_t *)out);
  (void)sched_getaffinity(0, sizeof all, out);
  return NULL;
}

tn_status tni_cpus_usable(cpu_set_t *out) {
  pthread_t t;
  if (pthread_create(&t, NULL, ask_affinity, out) != 0) return TN_E_NO_MEMORY;
  pthread_join(t, NULL);
  return TN_OK;
}

/* 0: it is not said. */
static uint16_t read_capacity(const char *folder, size_t cpu) {
  char path[256];
  unsigned value = 0;
  snprintf(path, sizeof path, "%s/cpu%zu/cpu_capacity", folder, cpu);
  FILE *f = fopen(path, "re");
  if (!f) return 0;
  if (fscanf(f, "%5u", &value) != 1 || value > UINT16_MAX) value = 0;
  fclose(f);
  return (uint16_t)value;
}

bool tni_cpus_capacities(const char *folder, const cpu_set_t *of, uint16_t *out) {
  uint16_t first = 0;
  bool differ = false;
  for (size_t i = 0; i < CPU_SETSIZE; i++) {
    if (!CPU_ISSET(i, of)) continue;
    out[i] = read_capacity(folder, i);
    if (!out[i]) return false;
    if (!first) first = out[i];
    differ |= out[i] != first;
  }
  return differ;
}

bool tni_cpus_keep_big(const char *folder, cpu_set_t *set) {
  uint16_t capacity[CPU_SETSIZE] = {0}, most = 0;
  bool left_out = false;
  if (!tni_cpus_capacities(folder, set, capacity)) return false;
  for (size_t i = 0; i < CPU_SETSIZE; i++) most = capacity[i] > most ? capacity[i] : most;
  for (size_t i = 0; i < CPU_SETSIZE; i++) {
    if (!CPU_ISSET(i, set) || 2 * capacity[i] >= most) continue;
    CPU_CLR(i, set);
    left_out = true;
  }
  return left_out;
}
