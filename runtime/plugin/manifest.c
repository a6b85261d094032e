/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/plugin/manifest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tenon/plugin.h>

#include "runtime/plugin/cpu.h"
#include "runtime/plugin/walls.h"
#include "runtime/profile/profile.h"

enum { MAX_FEATURES = 64 };

typedef struct manifest_reader {
  tni_yaml_doc doc;
  tni_manifest *m;
  tn_error *err;
} manifest_reader;

static tn_status need_key(manifest_reader *r, const char *key, const tni_yaml **out) {
  *out = tni_yaml_get(r->doc.root, key);
  return *out ? TN_OK : tni_yaml_fail(&r->doc, r->doc.root, r->err, "the manifest has no '%s'", key);
}

static tn_status need_str(manifest_reader *r, const char *key, const char **out, uint32_t *line) {
  const tni_yaml *y;
  tn_status st = need_key(r, key, &y);
  if (st != TN_OK) return st;
  if (line) *line = y->line;
  return tni_yaml_str(&r->doc, y, key, out, r->err);
}

static tn_status read_abi_one(manifest_reader *r, const tni_yaml *map, const char *key, tni_abi_version *out) {
  const tni_yaml *y = tni_yaml_get(map, key);
  const char *text;
  if (!y) return tni_yaml_fail(&r->doc, map, r->err, "'abi' has no '%s'", key);
  tn_status st = tni_yaml_str(&r->doc, y, key, &text, r->err);
  if (st != TN_OK) return st;
  size_t a = strspn(text, "0123456789"), b = text[a] == '.' ? strspn(text + a + 1, "0123456789") : 0;
  if (!a || a > 4 || !b || b > 4 || text[a + 1 + b])
    return tni_yaml_fail(&r->doc, y, r->err, "'abi.%s' must be MAJOR.MINOR such as 1.0, not '%.32s'", key, text);
  out->major = (uint16_t)strtoul(text, NULL, 10);
  out->minor = (uint16_t)strtoul(text + a + 1, NULL, 10);
  return TN_OK;
}

static tn_status read_abi(manifest_reader *r) {
  static const char *const keys[] = {"min", "max", NULL};
  const tni_yaml *y;
  tni_manifest *m = r->m;
  tn_status st = need_key(r, "abi", &y);
  if (st == TN_OK) st = tni_yaml_want(&r->doc, y, TNI_YAML_MAP, "abi", r->err);
  if (st == TN_OK) st = tni_yaml_keys(&r->doc, y, keys, "abi", r->err);
  if (st == TN_OK) st = read_abi_one(r, y, "min", &m->abi_min);
  if (st == TN_OK) st = read_abi_one(r, y, "max", &m->abi_max);
  if (st != TN_OK) return st;
  m->line_abi = y->line;
  if (m->abi_min.major != m->abi_max.major || m->abi_min.minor > m->abi_max.minor)
    return tni_yaml_fail(&r->doc, y, r->err, "'abi' must be a range within one major version");
  return TN_OK;
}

static int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static tn_status read_sha256(manifest_reader *r) {
  const tni_yaml *y = tni_yaml_get(r->doc.root, "sha256");
  const char *text;
  if (!y) return TN_OK;
  tn_status st = tni_yaml_str(&r->doc, y, "sha256", &text, r->err);
  if (st != TN_OK) return st;
  bool ok = strlen(text) == 64;
  for (size_t i = 0; ok && i < 32; i++) {
    int hi = hex_digit(text[2 * i]), lo = hex_digit(text[2 * i + 1]);
    ok = hi >= 0 && lo >= 0;
    if (ok) r->m->sha256[i] = (uint8_t)(hi << 4 | lo);
  }
  if (!ok) return tni_yaml_fail(&r->doc, y, r->err, "'sha256' must be 64 hexadecimal digits");
  r->m->has_sha256 = true;
  r->m->line_sha256 = y->line;
  return TN_OK;
}

static tn_status read_arch(manifest_reader *r) {
  static const char *const known[] = {"x86-64", "aarch64"};
  tni_manifest *m = r->m;
  tn_status st = need_str(r, "arch", &m->arch, &m->line_arch);
  if (st != TN_OK || strcmp(m->arch, known[0]) == 0 || strcmp(m->arch, known[1]) == 0) return st;
  return tni_yaml_fail(&r->doc, tni_yaml_get(r->doc.root, "arch"), r->err,
                       "'arch' must be x86-64 or aarch64, not '%.32s'", m->arch);
}

static tn_status read_list(manifest_reader *r, const char *key, const char *const **out, uint32_t *n) {
  const tni_yaml *y = tni_yaml_get(r->doc.root, key);
  return y ? tni_yaml_strs(&r->doc, y, key, out, n, r->err) : TN_OK;
}

static tn_status read_cpu(manifest_reader *r) {
  const tni_yaml *y = tni_yaml_get(r->doc.root, "cpu");
  tn_status st = read_list(r, "cpu", &r->m->cpu, &r->m->n_cpu);
  if (st != TN_OK || !y) return st;
  r->m->line_cpu = y->line;
  const char *names[MAX_FEATURES];
  size_t n_table, n = 0;
  const tni_cpu_feature *t = tni_cpu_table(&n_table);
  for (size_t i = 0; i < n_table && n < MAX_FEATURES; i++)
    if (strcmp(t[i].arch, r->m->arch) == 0) names[n++] = t[i].name;
  for (const tni_yaml *c = y->child; c; c = c->next) {
    if (tni_cpu_find(r->m->arch, c->text)) continue;
    const char *near = tni_nearest(c->text, names, n);
    return tni_yaml_fail(&r->doc, c, r->err, "unknown %s processor feature '%.32s'%s%s%s", r->m->arch, c->text,
                         near ? ": did you mean '" : "", near ? near : "", near ? "'?" : "");
  }
  return TN_OK;
}

static tn_status read_confine(manifest_reader *r) {
  const tni_yaml *y = tni_yaml_get(r->doc.root, "confine");
  const char *text;
  if (!y) return TN_OK;
  tn_status st = tni_yaml_str(&r->doc, y, "confine", &text, r->err);
  if (st != TN_OK) return st;
  for (uint32_t i = TNI_CONFINE_STRICT; i <= TNI_CONFINE_DRIVER; i++)
    if (strcmp(text, tni_confine_name(i)) == 0) {
      r->m->confine = i;
      return TN_OK;
    }
  return tni_yaml_fail(&r->doc, y, r->err, "'confine' must be strict or driver, not '%.32s'", text);
}

static tn_status read_root(manifest_reader *r) {
  static const char *const keys[] = {"name",      "version", "abi", "arch",    "license", "cpu",
                                     "libraries", "formats", "ops", "confine", "sha256",  NULL};
  const tni_yaml *root = r->doc.root, *license;
  tni_manifest *m = r->m;
  if (!root) return tni_yaml_fail(&r->doc, NULL, r->err, "the manifest is empty");
  tn_status st = tni_yaml_want(&r->doc, root, TNI_YAML_MAP, "manifest", r->err);
  if (st == TN_OK) st = tni_yaml_keys(&r->doc, root, keys, "a plugin's manifest", r->err);
  if (st == TN_OK) st = need_str(r, "name", &m->name, &m->line_name);
  if (st == TN_OK) st = need_str(r, "version", &m->version, NULL);
  if (st == TN_OK) st = read_abi(r);
  if (st == TN_OK) st = read_arch(r);
  if (st == TN_OK && (license = tni_yaml_get(root, "license")))
    st = tni_yaml_str(&r->doc, license, "license", &m->license, r->err);
  if (st == TN_OK) st = read_cpu(r);
  if (st == TN_OK) st = read_list(r, "libraries", &m->libraries, &m->n_libraries);
  if (st == TN_OK) st = read_list(r, "formats", &m->formats, &m->n_formats);
  if (st == TN_OK) st = read_list(r, "ops", &m->ops, &m->n_ops);
  if (st == TN_OK) st = read_confine(r);
  return st == TN_OK ? read_sha256(r) : st;
}

tn_status tni_manifest_parse(tni_arena *a, const char *text, size_t n, const char *file, tni_manifest *out,
                             tn_error *err) {
  tni_manifest m = {.file = tni_arena_strdup(a, file)};
  if (!m.file) return tni_fail_memory(err, file);
  manifest_reader r = {.doc = {.arena = a, .file = m.file}, .m = &m, .err = err};
  tn_status st = tni_yaml_parse(&r.doc, text, n, err);
  if (st == TN_OK) st = read_root(&r);
  if (st == TN_OK) *out = m;
  return st;
}

static tn_status refuse_manifest(const tni_manifest *m, uint32_t line, tn_error *err, const char *fmt, ...)
    TN_PRINTF(4, 5);
static tn_status refuse_manifest(const tni_manifest *m, uint32_t line, tn_error *err, const char *fmt, ...) {
  char where[sizeof err->where];
  tni_place(where, sizeof where, m->file, line, 1);
  va_list ap;
  va_start(ap, fmt);
  tni_vfail(err, TN_E_INCOMPATIBLE, where, fmt, ap);
  va_end(ap);
  return TN_E_INCOMPATIBLE;
}

tn_status tni_manifest_check(const tni_manifest *m, const char *name, const char *arch, uint64_t cpu, tn_error *err) {
  if (strcmp(m->name, name) != 0)
    return refuse_manifest(m, m->line_name, err, "the manifest's name is '%.64s', the file's is '%.64s'", m->name,
                           name);
  if (m->abi_min.major != TN_ABI_MAJOR || m->abi_min.minor > TN_ABI_MINOR)
    return refuse_manifest(m, m->line_abi, err, "needs ABI %u.%u to %u.%u, this host has %d.%d to %d.%d",
                           m->abi_min.major, m->abi_min.minor, m->abi_max.major, m->abi_max.minor, TN_ABI_MAJOR, 0,
                           TN_ABI_MAJOR, TN_ABI_MINOR);
  if (strcmp(m->arch, arch) != 0)
    return refuse_manifest(m, m->line_arch, err, "is built for %s, this machine is %s", m->arch, arch);
  char missing[128] = "";
  for (uint32_t i = 0; i < m->n_cpu; i++) {
    const tni_cpu_feature *f = tni_cpu_find(arch, m->cpu[i]);
    if (f && (cpu & f->bit)) continue;
    size_t at = strlen(missing);
    snprintf(missing + at, sizeof missing - at, "%s%s", at ? ", " : "", m->cpu[i]);
  }
  return missing[0] ? refuse_manifest(m, m->line_cpu, err, "needs processor features that are not here: %s", missing)
                    : TN_OK;
}

tn_status tni_manifest_verify(const tni_manifest *m, const uint8_t sum[32], tn_error *err) {
  if (!m->has_sha256 || memcmp(sum, m->sha256, sizeof m->sha256) == 0) return TN_OK;
  char where[sizeof err->where];
  tni_place(where, sizeof where, m->file, m->line_sha256, 1);
  return tni_fail(err, TN_E_CORRUPT, where,
                  "SHA-256 of the plugin is %02x%02x%02x%02x..., the manifest says %02x%02x%02x%02x...: the file was "
                  "changed or is damaged",
                  sum[0], sum[1], sum[2], sum[3], m->sha256[0], m->sha256[1], m->sha256[2], m->sha256[3]);
}
