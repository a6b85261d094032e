/* SPDX-License-Identifier: Apache-2.0
 *
 * What a bundle says of itself: run.sh, bundle.spdx.json (SPDX 2.3) and bundle.json, whose last entry is the SHA-256 of
 * all bytes before it.
 */
#include <errno.h>
#include <sha2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "runtime/base/base.h"
#include "runtime/base/markup.h"
#include "runtime/bundle/bundle.h"
#include "runtime/bundle/internal.h"

void tni_bd_hex(const uint8_t *p, size_t n, char *out) {
  static const char digits[] = "0123456789abcdef";
  for (size_t i = 0; i < n; i++) {
    out[2 * i] = digits[p[i] >> 4];
    out[2 * i + 1] = digits[p[i] & 15];
  }
  out[2 * n] = '\0';
}

/* --- run.sh ------------------------------------------------------------------------------------------------------- */

static const char script_head[] =
    "#!/bin/sh\n"
    "# SPDX-License-Identifier: Apache-2.0\n"
    "# run.sh [COMMAND] [options]: runs the model of this folder. Made by tenon bundle.\n"
    "# The program compares every file with bundle.json before it uses it. What runs before it can do so is compared "
    "here.\n"
    "fail() { echo \"run.sh: $*\" >&2; exit 3; }\n"
    "case $0 in */*) here=${0%/*} ;; *) here=. ;; esac\n"
    "here=$(CDPATH= cd \"$here\" && pwd -P) || fail \"cannot find its folder\"\n";

static bool is_code(const tni_bd_file *f) { return strcmp(f->role, "program") == 0 || strcmp(f->role, "library") == 0; }

static void write_script(const tni_bd *b, FILE *f) {
  fputs(script_head, f);
  fputs("want='", f);
  bool any = false;
  for (uint32_t i = 0; i < b->n_files; i++) {
    const tni_bd_file *e = &b->files[i];
    if (is_code(e))
      fprintf(f, "%s%u %llu %s", any ? "\n" : "", e->sums.crc, (unsigned long long)e->sums.bytes, e->path);
    any = any || is_code(e);
  }
  fputs("'\ngot=$(cd \"$here\" && LC_ALL=C cksum", f);
  for (uint32_t i = 0; i < b->n_files; i++)
    if (is_code(&b->files[i])) fprintf(f, " %s", b->files[i].path);
  fputs(
      ") || fail \"a file of $here is missing, or cksum is\"\n"
      "[ \"$got\" = \"$want\" ] || fail \"the program or a library in $here is damaged\"\n"
      "LD_LIBRARY_PATH=$here/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}\n"
      "export LD_LIBRARY_PATH\n",
      f);
  fprintf(f, "case ${1-} in '' | -[!-]* | --[!hv]*) set -- %s \"$@\" ;; esac\n", b->command);
  fputs(
      "case $1 in plugins | -* | help) exec \"$here/bin/tenon\" \"$@\" ;; esac\n"
      "command=$1\n"
      "shift\n"
      "exec \"$here/bin/tenon\" \"$command\" \"$here\"/",
      f);
  tni_put_word(b->model, f);
  fputs(" \"$@\"\nfail \"is damaged\"\n", f);
}

tn_status tni_bd_script(tni_bd *b) {
  char *text = NULL;
  size_t n = 0;
  FILE *f = open_memstream(&text, &n);
  if (f) write_script(b, f);
  if (!f || fclose(f) != 0) {
    free(text);
    return tni_fail_memory(b->err, "run.sh");
  }
  tn_status st = tni_bd_write(b, "run.sh", text, n, "script", true);
  free(text);
  return st;
}

/* --- SPDX --------------------------------------------------------------------------------------------------------- */

static json_t *checksum_json(const char *algorithm, const uint8_t *p, size_t n) {
  char hex[65];
  tni_bd_hex(p, n, hex);
  return json_pack("{s:s, s:s}", "algorithm", algorithm, "checksumValue", hex);
}

static json_t *spdx_file(const tni_bd_file *f, uint32_t i) {
  char id[40], name[512];
  const bool ours = !f->package && strcmp(f->role, "model") != 0 && strcmp(f->role, "packed") != 0 &&
                    strcmp(f->role, "compiled") != 0 && strcmp(f->role, "tokenizer") != 0 && strcmp(f->role, "config") != 0;
  snprintf(id, sizeof id, "SPDXRef-File-%u", i);
  snprintf(name, sizeof name, "./%s", f->path);
  return json_pack("{s:s, s:s, s:[o, o], s:s, s:s}", "fileName", name, "SPDXID", id, "checksums",
                   checksum_json("SHA1", f->sums.sha1, 20), checksum_json("SHA256", f->sums.sha256, 32),
                   "licenseConcluded", ours ? "Apache-2.0" : "NOASSERTION", "copyrightText", "NOASSERTION");
}

/* SHA-1 of the sorted SHA-1s of the files, as SPDX 2.3 asks for (7.9). */
static int by_sha1(const void *a, const void *b) { return strcmp(a, b); }
static json_t *verification_json(tni_bd *b) {
  char(*sums)[41] = calloc(b->n_files + 1, sizeof *sums), hex[41] = "";
  tni_bd_sums all = {0};
  char *path = tni_file_in(b->stage, ".sha1s");
  for (uint32_t i = 0; sums && i < b->n_files; i++) tni_bd_hex(b->files[i].sums.sha1, 20, sums[i]);
  if (sums) qsort(sums, b->n_files, sizeof *sums, by_sha1);
  FILE *f = path && sums ? fopen(path, "w") : NULL;
  for (uint32_t i = 0; f && i < b->n_files; i++) fputs(sums[i], f);
  const bool whole = f && tni_close_written(f) == 0 && tni_bd_sum(path, &all, NULL) == TN_OK;
  if (whole) tni_bd_hex(all.sha1, 20, hex);
  if (!whole) tni_bd_missed(b, path && sums ? EIO : ENOMEM);
  if (path) (void)remove(path);
  free(path);
  free(sums);
  return json_pack("{s:s}", "packageVerificationCodeValue", hex);
}

static void add_package(tni_bd *b, json_t *packages, json_t *relations, const char *package, const char *how) {
  char id[160];
  const char *version = tni_bd_version(b, package);
  snprintf(id, sizeof id, "SPDXRef-Package-%.100s", package);
  for (char *p = id; *p; p++)
    if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-", *p)) *p = '-';
  size_t i;
  json_t *p;
  json_array_foreach(packages, i, p) if (strcmp(json_string_value(json_object_get(p, "SPDXID")), id) == 0) return;
  json_array_append_new(packages, json_pack("{s:s, s:s, s:s, s:b, s:s, s:s, s:s, s:s}", "name", package, "SPDXID", id,
                                            "versionInfo", version ? version : "unknown", "filesAnalyzed", 0,
                                            "downloadLocation", "NOASSERTION", "licenseConcluded", "NOASSERTION",
                                            "licenseDeclared", "NOASSERTION", "copyrightText", "NOASSERTION"));
  json_array_append_new(relations, json_pack("{s:s, s:s, s:s}", "spdxElementId", "SPDXRef-Bundle", "relationshipType",
                                             how, "relatedSpdxElement", id));
}

static json_t *spdx_json(tni_bd *b, const char *created, const char *space) {
  json_t *files = json_array(), *packages = json_array(), *ids = json_array();
  json_t *relations = json_pack("[{s:s, s:s, s:s}]", "spdxElementId", "SPDXRef-DOCUMENT", "relationshipType",
                                "DESCRIBES", "relatedSpdxElement", "SPDXRef-Bundle");
  for (uint32_t i = 0; i < b->n_files; i++) {
    json_t *f = spdx_file(&b->files[i], i);
    json_array_append(ids, json_object_get(f, "SPDXID"));
    json_array_append_new(files, f);
  }
  json_array_append_new(
      packages,
      json_pack("{s:s, s:s, s:s, s:s, s:b, s:o, s:s, s:s, s:s, s:o}", "name", "tenon-bundle", "SPDXID",
                "SPDXRef-Bundle", "versionInfo", tn_version(), "downloadLocation", "NOASSERTION", "filesAnalyzed", 1,
                "packageVerificationCode", verification_json(b), "licenseConcluded", "NOASSERTION", "licenseDeclared",
                "NOASSERTION", "copyrightText", "NOASSERTION", "hasFiles", ids));
  for (uint32_t i = 0; i < b->n_files; i++)
    if (b->files[i].package) add_package(b, packages, relations, b->files[i].package, "CONTAINS");
  for (uint32_t i = 0; i < b->n_packages; i++) add_package(b, packages, relations, b->packages[i], "STATIC_LINK");
  char creator[64];
  snprintf(creator, sizeof creator, "Tool: tenon-%s", tn_version());
  return json_pack("{s:s, s:s, s:s, s:s, s:s, s:{s:s, s:[s]}, s:o, s:o, s:o}", "spdxVersion", "SPDX-2.3", "dataLicense",
                   "CC0-1.0", "SPDXID", "SPDXRef-DOCUMENT", "name", "tenon-bundle", "documentNamespace", space,
                   "creationInfo", "created", created, "creators", creator, "packages", packages, "files", files,
                   "relationships", relations);
}

tn_status tni_bd_spdx(tni_bd *b) {
  SHA2_CTX all;
  uint8_t digest[32];
  char hex[65], space[128], created[32];
  struct tm tm;
  const time_t when = b->o.created ? (time_t)b->o.created : 315532800;
  SHA256Init(&all);
  for (uint32_t i = 0; i < b->n_files; i++) {
    SHA256Update(&all, (const uint8_t *)b->files[i].path, strlen(b->files[i].path) + 1);
    SHA256Update(&all, b->files[i].sums.sha256, 32);
  }
  SHA256Final(digest, &all);
  tni_bd_hex(digest, 32, hex);
  snprintf(space, sizeof space, "urn:tenon:bundle:%s", hex);
  if (!gmtime_r(&when, &tm) || !strftime(created, sizeof created, "%Y-%m-%dT%H:%M:%SZ", &tm))
    return tni_fail(b->err, TN_E_INVALID, "created", "the time of the bundle is none");
  json_t *j = spdx_json(b, created, space);
  char *text = j ? json_dumps(j, JSON_INDENT(1)) : NULL;
  json_decref(j);
  if (!text) return tni_fail_memory(b->err, "bundle.spdx.json");
  tn_status st = tni_bd_write(b, "bundle.spdx.json", text, strlen(text), "spdx", false);
  free(text);
  return st;
}

/* --- bundle.json -------------------------------------------------------------------------------------------------- */

static json_t *file_json(const tni_bd_file *f) {
  char sha[65], xxh[33];
  tni_bd_hex(f->sums.sha256, 32, sha);
  snprintf(xxh, sizeof xxh, "%016llx%016llx", (unsigned long long)f->sums.xxh[1], (unsigned long long)f->sums.xxh[0]);
  return json_pack("{s:s, s:s, s:I, s:s, s:s}", "path", f->path, "role", f->role, "bytes", (json_int_t)f->sums.bytes,
                   "sha256", sha, "xxh128", xxh);
}

static json_t *files_json(const tni_bd *b) {
  json_t *files = json_array();
  for (uint32_t i = 0; i < b->n_files; i++) json_array_append_new(files, file_json(&b->files[i]));
  return files;
}

static json_t *plugins_json(const tni_bd *b) {
  json_t *list = json_array();
  for (uint32_t i = 0; i < b->n_names; i++)
    json_array_append_new(
        list, json_pack("{s:s, s:i, s:b}", "name", b->names[i], "nodes", (int)b->nodes[i], "linked", (int)b->linked));
  return list;
}

tn_status tni_bd_list(tni_bd *b) {
  json_t *j =
      json_pack("{s:i, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:o, s:o}", "tenon_bundle", TNI_BUNDLE_VERSION, "tenon",
                tn_version(), "arch", b->arch, "command", b->command, "model", b->model, "profile", "profile.yaml",
                "plugin_dir", "plugins", "packed", "packed", "plugins", plugins_json(b), "files", files_json(b));
  char *text = j ? json_dumps(j, JSON_INDENT(1)) : NULL, *whole = NULL, hex[65];
  SHA2_CTX h;
  uint8_t digest[32];
  json_decref(j);
  if (!text) return tni_fail_memory(b->err, TNI_BUNDLE_LIST);
  text[strlen(text) - 2] = '\0'; /* "\n}" */
  const int n = asprintf(&whole, "%s%s", text, TNI_BUNDLE_TAIL);
  free(text);
  if (n < 0) return tni_fail_memory(b->err, TNI_BUNDLE_LIST);
  SHA256Init(&h);
  SHA256Update(&h, (const uint8_t *)whole, (size_t)n);
  SHA256Final(digest, &h);
  tni_bd_hex(digest, 32, hex);
  char *full = tni_bd_text(b, "%s%s%s", whole, hex, TNI_BUNDLE_END);
  free(whole);
  return full ? tni_bd_write(b, TNI_BUNDLE_LIST, full, strlen(full), "list", false)
              : tni_fail_memory(b->err, TNI_BUNDLE_LIST);
}

json_t *tni_bd_report(const tni_bd *b) {
  return json_pack("{s:s, s:s, s:s, s:s, s:I, s:I, s:o, s:o, s:O}", "folder", b->o.folder, "arch",
                   b->arch ? b->arch : "", "profile", b->profile ? b->profile->name : "", "command",
                   b->command ? b->command : "", "total_bytes", (json_int_t)tni_bd_total(b), "max_bytes",
                   (json_int_t)b->o.max_bytes, "plugins", plugins_json(b), "files", files_json(b), "left_out",
                   b->left_out);
}
