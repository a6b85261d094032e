/* SPDX-License-Identifier: Apache-2.0
 *
 * Names of processor features as manifests write them ("avx2", "dotprod"), and which of them this machine has. A
 * feature counts only where the operating system saves its registers too.
 */
#ifndef TENON_PLUGIN_CPU_H
#define TENON_PLUGIN_CPU_H

#include <stddef.h>
#include <stdint.h>

typedef struct tni_cpu_feature {
  const char *name, *arch; /* "x86-64", "aarch64" */
  uint64_t bit;            /* within its architecture */
} tni_cpu_feature;

/* Architecture of this build. */
const char *tni_cpu_arch(void);
/* Bits of this machine, of its own architecture. */
uint64_t tni_cpu_detect(void);
const tni_cpu_feature *tni_cpu_table(size_t *n);
/* NULL: unknown for that architecture. */
const tni_cpu_feature *tni_cpu_find(const char *arch, const char *name);

#endif
