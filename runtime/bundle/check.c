/* SPDX-License-Identifier: Apache-2.0 */
#include <sha2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include <tenon/bundle.h>

#include "runtime/base/base.h"
#include "runtime/bundle/bundle.h"
#include "runtime/bundle/internal.h"

static const size_t TAIL = sizeof TNI_BUNDLE_TAIL - 1, END = sizeof TNI_BUNDLE_END - 1;

static void sha256_of(const void *p, uint64_t n, char *hex) {
  SHA2_CTX h;
  uint8_t digest[32];
  SHA256Init(&h);
  for (uint64_t at = 0; at < n; at += 1 << 20)
    SHA256Update(&h, (const uint8_t *)p + at, n - at < 1 << 20 ? (size_t)(n - at) : 1 << 20);
  SHA256Final(digest, &h);
  tni_bd_hex(digest, sizeof digest, hex);
}

/* The list's own bytes: nothing of it is parsed before they are known to be whole. */
static bool list_is_whole(const char *p, uint64_t n) {
  char hex[65];
  const size_t tail = TAIL + 64 + END;
  if (n < tail || memcmp(p + n - tail, TNI_BUNDLE_TAIL, TAIL) != 0 || memcmp(p + n - END, TNI_BUNDLE_END, END) != 0)
    return false;
  sha256_of(p, n - 64 - END, hex);
  return memcmp(p + n - 64 - END, hex, 64) == 0;
}

static void xxh_of(const tni_file *f, char *hex) {
  const XXH128_hash_t h = XXH3_128bits(f->data ? f->data : "", (size_t)f->bytes);
  snprintf(hex, 33, "%016llx%016llx", (unsigned long long)h.high64, (unsigned long long)h.low64);
}

static tn_status check_file(const char *folder, json_t *e, bool all, tn_error *err) {
  const char *path = json_string_value(json_object_get(e, "path")),
             *role = json_string_value(json_object_get(e, "role"));
  const char *sha = json_string_value(json_object_get(e, "sha256")),
             *xxh = json_string_value(json_object_get(e, "xxh128"));
  const json_int_t bytes = json_integer_value(json_object_get(e, "bytes"));
  if (!path || !role || !sha || !xxh || *path == '/')
    return tni_fail(err, TN_E_CORRUPT, folder, "the bundle's list has an entry that is none");
  char *full = tni_file_in(folder, path), hex[65];
  tni_file f;
  if (!full) return tni_fail_memory(err, path);
  tn_error why;
  tni_error_init(&why);
  tn_status st = tni_file_map(full, &f, &why);
  if (st != TN_OK) {
    st = tni_fail(err, TN_E_CORRUPT, full, "bundle: %s", why.message);
    free(full);
    return st;
  }
  if (f.bytes != (uint64_t)bytes) {
    st = tni_fail(err, TN_E_CORRUPT, full, "bundle: '%s' has %llu bytes, the list says %lld", path,
                  (unsigned long long)f.bytes, (long long)bytes);
  } else if (all) {
    sha256_of(f.data, f.bytes, hex);
    if (strcmp(hex, sha) != 0)
      st = tni_fail(err, TN_E_CORRUPT, full, "bundle: '%s' is damaged: SHA-256 %.16s..., the list says %.16s...", path,
                    hex, sha);
  } else if (strcmp(role, "packed") != 0) {
    xxh_of(&f, hex);
    if (strcmp(hex, xxh) != 0)
      st = tni_fail(err, TN_E_CORRUPT, full, "bundle: '%s' is damaged: its checksum is not the list's", path);
  }
  tni_file_unmap(&f);
  free(full);
  return st;
}

static tn_status read_list(const char *file, json_t **out, tn_error *err) {
  tni_file f;
  json_error_t je;
  tn_status st = tni_file_map(file, &f, err);
  if (st != TN_OK) return st;
  json_t *j = NULL;
  if (!f.data || !list_is_whole(f.data, f.bytes))
    st = tni_fail(err, TN_E_CORRUPT, file, "the bundle's list '%s' is damaged: its own digest is wrong", file);
  else if (!(j = json_loadb(f.data, (size_t)f.bytes, JSON_REJECT_DUPLICATES, &je)) && tni_json_no_memory(&je))
    st = tni_fail_memory(err, file);
  else if (!j)
    st = tni_fail(err, TN_E_CORRUPT, file, "the bundle's list is no JSON: line %d: %s", je.line, je.text);
  else if (json_integer_value(json_object_get(j, "tenon_bundle")) != TNI_BUNDLE_VERSION)
    st = tni_fail(err, TN_E_INCOMPATIBLE, file, "the bundle is of version %lld, this Tenon knows %d",
                  (long long)json_integer_value(json_object_get(j, "tenon_bundle")), TNI_BUNDLE_VERSION);
  tni_file_unmap(&f);
  if (st == TN_OK)
    *out = j;
  else
    json_decref(j);
  return st;
}

tn_status tn_bundle_check(const char *folder, uint32_t flags, char **json, tn_error *err) {
  tni_error_begin(err);
  char *file = folder ? tni_file_in(folder, TNI_BUNDLE_LIST) : NULL;
  json_t *j = NULL, *e;
  size_t i;
  if (!file) return tni_fail(err, folder ? TN_E_NO_MEMORY : TN_E_INVALID, "tn_bundle_check", "no folder");
  tn_status st = read_list(file, &j, err);
  json_array_foreach(json_object_get(j, "files"), i, e) if (st == TN_OK) st =
      check_file(folder, e, flags & TN_BUNDLE_ALL, err);
  if (st == TN_OK && json && !(*json = json_dumps(j, JSON_INDENT(1)))) st = tni_fail_memory(err, file);
  json_decref(j);
  free(file);
  return st;
}
