/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/plugin/elfnote.h"

#include <elf.h>
#include <sha2.h>
#include <string.h>
#include <tenon/manifest.h>

static Elf64_Phdr segment_at(const tni_file *f, uint32_t i) {
  Elf64_Ehdr h;
  Elf64_Phdr p;
  memcpy(&h, f->data, sizeof h);
  memcpy(&p, (const char *)f->data + h.e_phoff + i * sizeof p, sizeof p);
  return p;
}

static uint32_t count_segments(const tni_file *f) {
  Elf64_Ehdr h;
  memcpy(&h, f->data, sizeof h);
  return h.e_phnum;
}

/* One note at `at` of [at, end), all within the file; *next is where the following one begins. */
static bool read_note(const tni_file *f, uint64_t at, uint64_t end, uint64_t *next, tni_elfnote *out) {
  static const char owner[] = TN_MANIFEST_OWNER;
  Elf64_Nhdr h;
  const char *base = f->data;
  if (end - at < sizeof h) return false;
  memcpy(&h, base + at, sizeof h);
  const uint64_t name = at + sizeof h, desc = name + (((uint64_t)h.n_namesz + 3) & ~UINT64_C(3));
  const uint64_t after = desc + (((uint64_t)h.n_descsz + 3) & ~UINT64_C(3));
  if (after > end) return false;
  *next = after;
  if (h.n_type != TN_MANIFEST_TYPE || h.n_namesz != sizeof owner || memcmp(base + name, owner, sizeof owner) != 0)
    return true;
  if (h.n_descsz <= TN_MANIFEST_HASH_BYTES) return false;
  static const uint8_t none[TN_MANIFEST_HASH_BYTES] = {0};
  const size_t room = h.n_descsz - TN_MANIFEST_HASH_BYTES;
  *out = (tni_elfnote){.yaml = base + desc + TN_MANIFEST_HASH_BYTES,
                       .hash_at = desc,
                       .has_hash = memcmp(base + desc, none, sizeof none) != 0};
  out->n_yaml = strnlen(out->yaml, room);
  return true;
}

bool tni_elfnote_find(const tni_file *f, tni_elfnote *out) {
  *out = (tni_elfnote){.yaml = NULL};
  for (uint32_t i = 0; i < count_segments(f); i++) {
    const Elf64_Phdr p = segment_at(f, i);
    if (p.p_type != PT_NOTE || p.p_offset > f->bytes || p.p_filesz > f->bytes - p.p_offset) continue;
    for (uint64_t at = p.p_offset, end = p.p_offset + p.p_filesz; at < end && !out->yaml;)
      if (!read_note(f, at, end, &at, out)) break;
    if (out->yaml) return true;
  }
  return false;
}

/* ----------------------------------------------------------------------------------------------------------- hash */

/* Bytes [from, from + n) of the file that count as zeros. */
typedef struct hole {
  uint64_t from, n;
} hole;

static void hash_range(SHA2_CTX *c, const tni_file *f, uint64_t at, uint64_t n, const hole *holes, size_t n_holes) {
  static const uint8_t zeros[64] = {0};
  while (n) {
    uint64_t take = n;
    bool in = false;
    for (size_t i = 0; i < n_holes; i++) {
      const hole *h = &holes[i];
      if (at >= h->from && at < h->from + h->n) {
        in = true;
        if (h->from + h->n - at < take) take = h->from + h->n - at;
      } else if (at < h->from && h->from - at < take) {
        take = h->from - at;
      }
    }
    SHA256Update(c, in ? zeros : (const uint8_t *)f->data + at, (size_t)take);
    at += take;
    n -= take;
  }
}

void tni_elfnote_sum(const tni_file *f, const tni_elfnote *n, uint8_t sum[SHA256_DIGEST_LENGTH]) {
  const hole holes[] = {{offsetof(Elf64_Ehdr, e_shoff), sizeof(Elf64_Off)},
                        {offsetof(Elf64_Ehdr, e_shentsize), 3 * sizeof(Elf64_Half)},
                        {n ? n->hash_at : 0, n ? TN_MANIFEST_HASH_BYTES : 0}};
  enum { HOLES = sizeof holes / sizeof *holes };
  Elf64_Ehdr h;
  SHA2_CTX c;
  memcpy(&h, f->data, sizeof h);
  SHA256Init(&c);
  hash_range(&c, f, 0, sizeof h, holes, HOLES);
  hash_range(&c, f, h.e_phoff, (uint64_t)h.e_phnum * sizeof(Elf64_Phdr), holes, HOLES);
  for (uint32_t i = 0; i < h.e_phnum; i++) {
    const Elf64_Phdr p = segment_at(f, i);
    if (p.p_type == PT_LOAD) hash_range(&c, f, p.p_offset, p.p_filesz, holes, HOLES);
  }
  SHA256Final(sum, &c);
}

tn_status tni_elfnote_verify(const tni_file *f, const tni_elfnote *n, const char *path, tn_error *err) {
  uint8_t sum[SHA256_DIGEST_LENGTH];
  const uint8_t *want = (const uint8_t *)f->data + n->hash_at;
  if (!n->has_hash) return TN_OK;
  tni_elfnote_sum(f, n, sum);
  if (memcmp(sum, want, sizeof sum) == 0) return TN_OK;
  return tni_fail(
      err, TN_E_CORRUPT, path,
      "SHA-256 of what is loaded of the plugin is %02x%02x%02x%02x..., its note says %02x%02x%02x%02x...: the "
      "file was changed or is damaged",
      sum[0], sum[1], sum[2], sum[3], want[0], want[1], want[2], want[3]);
}
