/* SPDX-License-Identifier: Apache-2.0
 *
 * tenon/manifest.h: a plugin's manifest inside the plugin.
 *
 * Where only lib*.so files are shipped (phones), no NAME.yaml can lie beside NAME.so. TN_MANIFEST puts the same text into an
 * ELF note of the file, which the host reads without running any of its code and which `strip` leaves:
 *
 *   TN_MANIFEST("name: my-npu\n" "version: 1.2.0\n" "abi: {min: \"1.0\", max: \"1.1\"}\n" "arch: aarch64\n")
 *
 * once per plugin, outside of functions. The keys are those of NAME.yaml (docs/writing-a-plugin.md, "Keys of the
 * manifest") but sha256: the note has 32 bytes for it in front of the text, zero when compiled (no hash is checked
 * then), filled at the end of the build by `scripts/manifest_sha256.py --note FILE...` of the source tree
 * (docs/security.md says what is hashed, for tools of your own). A NAME.yaml beside the file goes before the note's
 * text; the note's hash is checked all the same.
 *
 * The note: section .note.tenon, owner "Tenon", type 1, descriptor = 32 bytes of SHA-256, then the text up to a zero byte.
 */
#ifndef TENON_MANIFEST_H
#define TENON_MANIFEST_H

#include <stdint.h>

#define TN_MANIFEST_OWNER "Tenon"
#define TN_MANIFEST_TYPE 1
#define TN_MANIFEST_HASH_BYTES 32

/* text: a string literal. */
#define TN_MANIFEST(text)                                                                                             \
  struct tn_manifest_note {                                                                                           \
    uint32_t owner_bytes, descriptor_bytes, type;                                                                     \
    char owner[8];                                                                                                    \
    uint8_t sha256[TN_MANIFEST_HASH_BYTES];                                                                           \
    char yaml[(sizeof(text) + 3) / 4 * 4];                                                                            \
  };                                                                                                                  \
  extern __attribute__((visibility("hidden"))) const struct tn_manifest_note tn_manifest_note_;                       \
  __attribute__((used, aligned(4), section(".note.tenon"))) const struct tn_manifest_note tn_manifest_note_ = {       \
      sizeof TN_MANIFEST_OWNER, TN_MANIFEST_HASH_BYTES + (sizeof(text) + 3) / 4 * 4, TN_MANIFEST_TYPE,                \
      TN_MANIFEST_OWNER, {0}, text};

#endif
