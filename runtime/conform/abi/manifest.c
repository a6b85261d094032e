/* SPDX-License-Identifier: Apache-2.0
 *
 * Family abi, the part about manifests: beside the file and in it, and against the plugin's tables and claims. Only
 * these two comparisons run code of the plugin.
 */
#include <sha2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/conform/abi/parts.h"
#include "runtime/conform/drive/drive.h"
#include "runtime/graph/graph.h"
#include "runtime/plugin/plugin.h"

/* --- the manifest ------------------------------------------------------------------------------------------------ */

static void manifest_valid(tni_cf *cf, const void *arg) {
  tni_manifest m;
  tn_error err;
  tni_cf_elf e;
  uint8_t sum[SHA256_DIGEST_LENGTH];
  SHA2_CTX h;
  (void)arg;
  tni_error_init(&err);
  if (!tni_cf_manifest_of(cf, &m)) return;
  if (tni_manifest_check(&m, cf->subject->name, tni_cpu_arch(), tni_cpu_detect(), &err) != TN_OK)
    tni_cf_fail(cf, "%s: %s", err.where, err.message);
  if (!m.license) tni_cf_note(cf, "it states no license: bundles cannot say under which one it goes along");
  if (!tni_cf_open_file(cf, &e)) return;
  tni_error_init(&err);
  SHA256Init(&h);
  SHA256Update(&h, (const uint8_t *)e.map, (size_t)e.bytes);
  SHA256Final(sum, &h);
  if (tni_manifest_verify(&m, sum, &err) != TN_OK) tni_cf_fail(cf, "%s: %s", err.where, err.message);
  tni_cf_elf_close(&e);
}

/* --- the manifest inside the file -------------------------------------------------------------------------------- */

static void same_text(tni_cf *cf, const char *what, const char *a, const char *b) {
  if ((a || b) && (!a || !b || strcmp(a, b)))
    tni_cf_fail(cf, "%s: '%s' beside the file, '%s' in it", what, a ? a : "", b ? b : "");
}

static void same_list(tni_cf *cf, const char *what, const char *const *a, uint32_t na, const char *const *b,
                      uint32_t nb) {
  for (uint32_t i = 0; i < na; i++)
    if (!tni_cf_has_name(b, nb, a[i])) tni_cf_fail(cf, "%s: '%s' stands beside the file, not in it", what, a[i]);
  for (uint32_t i = 0; i < nb; i++)
    if (!tni_cf_has_name(a, na, b[i])) tni_cf_fail(cf, "%s: '%s' stands in the file, not beside it", what, b[i]);
}

static void same_version(tni_cf *cf, const char *what, tni_abi_version a, tni_abi_version b) {
  if (a.major != b.major || a.minor != b.minor)
    tni_cf_fail(cf, "%s: %u.%u beside the file, %u.%u in it", what, a.major, a.minor, b.major, b.minor);
}

/* A plugin that has both must say the same in both: which of them counts depends on how it was shipped. And the note's
 * hash, where there is one, is that of the file. */
static void manifest_note(tni_cf *cf, const void *arg) {
  char path[4200];
  const char *text;
  size_t n;
  tn_error err;
  bool has_hash;
  tni_manifest in = {0}, by = {0};
  (void)arg;
  if (!tni_cf_manifest_note(cf, &text, &n, &has_hash, &err)) {
    tni_cf_skip(cf, "the file has no manifest in it (tenon/manifest.h)");
    return;
  }
  if (!has_hash) tni_cf_note(cf, "it states no hash (scripts/manifest_sha256.py --note writes it)");
  if (err.message[0]) tni_cf_fail(cf, "%s", err.message);
  if (!tni_cf_manifest_read(cf, text, n, cf->subject->path, &in)) return;
  if (!tni_cf_manifest_path(cf, path, sizeof path)) {
    tni_cf_note(cf, "there is none beside the file");
    return;
  }
  if (!tni_cf_manifest_beside(cf, path, &by)) return;
  same_text(cf, "name", by.name, in.name);
  same_text(cf, "version", by.version, in.version);
  same_text(cf, "arch", by.arch, in.arch);
  same_text(cf, "license", by.license, in.license);
  same_version(cf, "abi min", by.abi_min, in.abi_min);
  same_version(cf, "abi max", by.abi_max, in.abi_max);
  same_list(cf, "cpu", by.cpu, by.n_cpu, in.cpu, in.n_cpu);
  same_list(cf, "libraries", by.libraries, by.n_libraries, in.libraries, in.n_libraries);
  same_list(cf, "formats", by.formats, by.n_formats, in.formats, in.n_formats);
  same_list(cf, "ops", by.ops, by.n_ops, in.ops, in.n_ops);
  same_text(cf, "confine", tni_confine_name(by.confine), tni_confine_name(in.confine));
}

/* --- the manifest against what the plugin says ------------------------------------------------------------------- */

static void manifest_tables(tni_cf *cf, const void *arg) {
  tni_manifest m;
  tni_cf_plugin *p = calloc(1, sizeof *p);
  (void)arg;
  if (!p || !tni_cf_manifest_of(cf, &m)) {
    free(p);
    return;
  }
  tn_status st = tni_cf_plugin_init(p, cf->subject);
  if (st == TN_OK) st = tni_cf_plugin_enter(p);
  if (st != TN_OK) {
    tni_cf_fail(cf, "%s: %s", p->step, p->err.message);
  } else {
    const tn_plugin *t = p->plugin;
    if (p->neg.plugin_min != m.abi_min.minor || p->neg.plugin_max != m.abi_max.minor)
      tni_cf_fail(cf, "the manifest says ABI %u.%u to %u.%u, the entry %d.%u to %d.%u", m.abi_min.major,
                  m.abi_min.minor, m.abi_max.major, m.abi_max.minor, TN_ABI_MAJOR, p->neg.plugin_min, TN_ABI_MAJOR,
                  p->neg.plugin_max);
    if (strcmp(t->version, m.version))
      tni_cf_fail(cf, "the manifest says version %s, the plugin %s", m.version, t->version);
    for (uint32_t i = 0; i < t->n_formats; i++)
      if (!tni_cf_has_name(m.formats, m.n_formats, t->formats[i]->name))
        tni_cf_fail(cf, "format '%s' is not among `formats` of the manifest", t->formats[i]->name);
    for (uint32_t i = 0; i < m.n_formats; i++) {
      bool found = false;
      for (uint32_t k = 0; k < t->n_formats; k++) found = found || !strcmp(m.formats[i], t->formats[k]->name);
      if (!found) tni_cf_fail(cf, "`formats` of the manifest has '%s', which the plugin does not have", m.formats[i]);
    }
  }
  tni_cf_plugin_finish(p);
  free(p);
}

static const char *op_of(const tni_cf_claimed *c) {
  const tni_cf_graph_row *row = tni_cf_graph_find(c->graph);
  return !row ? NULL : row->spec.op ? row->spec.op : "MatMul";
}

static bool is_claimed(const tni_cf_listing *l, const char *op) {
  for (uint32_t k = 0; k < l->n_claimed; k++)
    if (l->claimed[k].verdict != TN_NO && op_of(&l->claimed[k]) && !strcmp(op, op_of(&l->claimed[k]))) return true;
  return false;
}

/* Whether the kit's table has a graph with the operator. */
static bool is_asked(const char *op) {
  uint32_t n;
  const tni_cf_graph_row *rows = tni_cf_graph_rows(&n);
  for (uint32_t i = 0; i < n; i++)
    if (!strcmp(op, rows[i].spec.op ? rows[i].spec.op : "MatMul")) return true;
  return !strcmp(op, "TensorScatter"); /* over caches */
}

/* Operators of the plugin's own, as `ops` names them: DOMAIN.TYPE. */
static uint32_t own_ops(tni_cf *cf, const char ***names) {
  const tni_cf_ask ask = {.offline = true};
  tni_cf_host h;
  uint32_t n = 0;
  if (!tni_cf_host_open(cf, &h, &ask)) return 0;
  const tn_plugin *t = h.p.plugin;
  const uint32_t all = TN_HAS(t, tn_plugin, n_ops) ? t->n_ops : 0;
  *names = TNI_NEW_ARRAY(cf->arena, const char *, all + 1);
  for (uint32_t i = 0; *names && i < all; i++) {
    const size_t size = strlen(t->ops[i]->domain) + strlen(t->ops[i]->type) + 2;
    char *name = TNI_NEW_ARRAY(cf->arena, char, size);
    if (!name) break;
    snprintf(name, size, "%s.%s", t->ops[i]->domain, t->ops[i]->type);
    (*names)[n++] = name;
  }
  tni_cf_host_close(cf, &h);
  return n;
}

/* Bundles and lists go by the manifest: it has to name what the plugin claims. What it names and nobody claimed here
 * may need other shapes or options: a note. */
static void manifest_ops(tni_cf *cf, const void *arg) {
  tni_manifest m;
  const tni_cf_listing *l = cf->listing;
  (void)arg;
  if (!tni_cf_manifest_of(cf, &m)) return;
  if (!m.n_ops) {
    tni_cf_skip(cf, "the manifest lists no operators");
    return;
  }
  for (uint32_t i = 0; i < l->n_claimed; i++) {
    const char *op = op_of(&l->claimed[i]);
    bool before = false;
    for (uint32_t k = 0; k < i && !before; k++)
      before = l->claimed[k].verdict != TN_NO && op && op_of(&l->claimed[k]) && !strcmp(op, op_of(&l->claimed[k]));
    if (op && l->claimed[i].verdict != TN_NO && !before && !tni_cf_has_name(m.ops, m.n_ops, op))
      tni_cf_fail(cf, "it claims %s (%s), which `ops` of the manifest does not list", op, l->claimed[i].graph);
  }
  const tni_cf_over_caches over = tni_cf_abi_over_caches(cf);
  const char *const cached[] = {over.appends ? "TensorScatter" : NULL, over.attends ? "Attention" : NULL};
  for (size_t i = 0; i < 2; i++)
    if (cached[i] && !is_claimed(l, cached[i]) && !tni_cf_has_name(m.ops, m.n_ops, cached[i]))
      tni_cf_fail(cf, "it claims %s over caches, which `ops` of the manifest does not list", cached[i]);
  const char **own = NULL;
  const uint32_t n_own = own_ops(cf, &own);
  for (uint32_t i = 0; i < n_own; i++)
    if (!tni_cf_has_name(m.ops, m.n_ops, own[i]))
      tni_cf_fail(cf, "it brings the operator %s (tn_plugin.ops), which `ops` of the manifest does not list", own[i]);
  for (uint32_t i = 0; i < m.n_ops; i++) {
    bool claimed = is_claimed(l, m.ops[i]) || tni_cf_has_name(own, n_own, m.ops[i]);
    for (size_t k = 0; k < 2; k++) claimed = claimed || (cached[k] && !strcmp(m.ops[i], cached[k]));
    if (!claimed)
      tni_cf_note(cf, "`ops` of the manifest lists %s; %s", m.ops[i],
                  is_asked(m.ops[i]) ? "none of the graphs asked with it was claimed"
                                     : "no graph of the kit's table has it: no case but numbers/ops and memory/operators may ask for it");
  }
}

void tni_cf_abi_manifest_cases(const tni_cf_listing *l, tni_cf_add add, void *ctx) {
  static const tni_cf_case cases[] = {
      {"abi/manifest/valid", TNI_CF_LEVEL_ALL, TNI_CF_NO_DEVICE, manifest_valid, NULL, 0},
      {"abi/manifest/note", TNI_CF_LEVEL_ALL, TNI_CF_NO_DEVICE, manifest_note, NULL, 0},
      {"abi/manifest/tables", TNI_CF_LEVEL_ALL, TNI_CF_NO_DEVICE, manifest_tables, NULL, 0},
      {"abi/manifest/ops", TNI_CF_LEVEL_ALL, 0, manifest_ops, NULL, 0},
  };
  if (!strcmp(l->subject->path, "host")) return; /* it has no file */
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) add(ctx, &cases[i]);
}
