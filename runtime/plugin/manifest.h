/* SPDX-License-Identifier: Apache-2.0
 *
 * NAME.yaml beside NAME.so, or the note inside it (elfnote.h): what a plugin needs, read before any of its code runs.
 * Every plugin has one.
 *
 *   name: cpu-avx2-lut          # the file's name
 *   version: 0.1.0
 *   abi: {min: "1.0", max: "1.0"}
 *   arch: x86-64                # or aarch64
 *   license: Apache-2.0
 *   cpu: [avx2, fma, f16c]      # optional: processor features (cpu.h); one that is unknown or missing is a refusal
 *   libraries: [libOpenCL.so.1] # optional: libraries that must be there (libraries.h); "a|b": one of them
 *   formats: [w4g]              # optional: weight formats, for lists
 *   ops: [MatMul, Gemm]         # optional: operators, for lists
 *   confine: driver             # optional: what its process may do where it has one of its own (walls.h): or strict
 *   sha256: 64 hex digits       # optional: of NAME.so
 *
 * docs/writing-a-plugin.md has the table of keys for vendors.
 * Errors of the text are TN_E_INVALID with file:line:column; what this machine cannot do is TN_E_INCOMPATIBLE.
 */
#ifndef TENON_PLUGIN_MANIFEST_H
#define TENON_PLUGIN_MANIFEST_H

#include <stdbool.h>

#include "runtime/base/base.h"
#include "runtime/plugin/walls.h"

typedef struct tni_abi_version {
  uint16_t major, minor;
} tni_abi_version;

typedef struct tni_manifest {
  const char *file, *name, *version, *arch, *license; /* license may be NULL */
  tni_abi_version abi_min, abi_max;
  const char *const *cpu, *const *libraries, *const *formats, *const *ops;
  uint32_t n_cpu, n_libraries, n_formats, n_ops;
  uint32_t line_name, line_abi, line_arch, line_cpu, line_sha256; /* for messages */
  uint32_t confine;                                               /* TNI_CONFINE_*; strict where it is not said */
  bool has_sha256;
  uint8_t sha256[32];
} tni_manifest;

/* All memory is a's. */
TN_MUST_CHECK tn_status tni_manifest_parse(tni_arena *a, const char *text, size_t n, const char *file,
                                           tni_manifest *out, tn_error *err);
/* Whether this host can use it: the name is `name`, the ABI ranges meet, arch is `arch`, all features lie in cpu. */
TN_MUST_CHECK tn_status tni_manifest_check(const tni_manifest *m, const char *name, const char *arch, uint64_t cpu,
                                           tn_error *err);
/* Compares the SHA-256 of the file where the manifest states one; TN_E_CORRUPT shows both. */
TN_MUST_CHECK tn_status tni_manifest_verify(const tni_manifest *m, const uint8_t sum[32], tn_error *err);

#endif
