/* SPDX-License-Identifier: Apache-2.0
 *
 * Family abi, the part that reads files: what the loader will do with the plugin, and what its manifest says of it. No
 * code of the plugin runs in these cases, but for the two that compare the manifest with its tables.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "runtime/conform/abi.h"
#include "runtime/conform/graphs.h"
#include "runtime/conform/sofile.h"
#include "runtime/graph/op.h"
#include "runtime/plugin/cpu.h"
#include "runtime/plugin/manifest.h"

static bool open_file(tni_cf *cf, tni_cf_elf *e) {
  const char *why = tni_cf_elf_open(cf->subject->path, e);
  if (why) tni_cf_fail(cf, "%s: %s", cf->subject->path, why);
  return !why;
}

/* --- the file ---------------------------------------------------------------------------------------------------- */

/* Other names could collide with another plugin's or the application's. */
static void one_symbol(tni_cf *cf, const void *arg) {
  tni_cf_elf e;
  (void)arg;
  if (!open_file(cf, &e)) return;
  if (!e.entry) tni_cf_fail(cf, "%s is not exported", TN_ENTRY_SYMBOL);
  for (uint32_t i = 0; i < e.n_exported && i < TNI_CF_ELF_NAMES; i++)
    if (strcmp(e.exported[i], TN_ENTRY_SYMBOL))
      tni_cf_fail(cf, "%s is exported: only %s may be (compile with -fvisibility=hidden)", e.exported[i],
                  TN_ENTRY_SYMBOL);
  if (e.n_exported > TNI_CF_ELF_NAMES) tni_cf_fail(cf, "%u symbols are exported", e.n_exported);
  tni_cf_elf_close(&e);
}

static bool has(const char *const *names, size_t n, const char *name) {
  for (size_t i = 0; i < n; i++)
    if (names[i] && !strcmp(names[i], name)) return true;
  return false;
}

/* What compilers put there themselves: the start files' pair, processor detection, sanitizers and profiles. Priorities
 * up to 100 are the compiler's, whatever the function is called. */
static bool by_compiler(const char *name) {
  static const char *const known[] = {"frame_dummy", "__do_global_dtors_aux", "init_have_lse_atomics",
                                      "__cpu_indicator_init", "__init_cpu_features"};
  static const char *const starts[] = {"_sub_I_00", "_sub_D_00", "asan.", "tsan.", "msan.", "sancov.", "__llvm_"};
  for (size_t i = 0; i < sizeof starts / sizeof *starts; i++)
    if (!strncmp(name, starts[i], strlen(starts[i]))) return true;
  return has(known, sizeof known / sizeof *known, name);
}

static void look_at_calls(tni_cf *cf, const tni_cf_elf_calls *c, const char *what) {
  uint64_t unknown = 0;
  for (uint64_t i = 0; i < c->n && i < TNI_CF_ELF_NAMES; i++) {
    if (c->name[i] && c->name[i][0]) {
      if (!by_compiler(c->name[i])) tni_cf_fail(cf, "%s runs when the file is %s", c->name[i], what);
    } else {
      unknown++;
    }
  }
  /* Stripped: the start files have one. */
  if (unknown > 1) tni_cf_fail(cf, "%llu functions run when the file is %s", (unsigned long long)unknown, what);
}

/* Code that runs before the host has looked at anything, and after it has let go. */
static void constructors(tni_cf *cf, const void *arg) {
  tni_cf_elf e;
  (void)arg;
  if (!open_file(cf, &e)) return;
  look_at_calls(cf, &e.init, "loaded");
  look_at_calls(cf, &e.fini, "unloaded");
  tni_cf_elf_close(&e);
}

/* A symbol that is missing must show when the plugin is loaded, not in the middle of a text. */
static void linking(tni_cf *cf, const void *arg) {
  tni_cf_elf e;
  (void)arg;
  if (!open_file(cf, &e)) return;
  if (!e.now) tni_cf_fail(cf, "symbols are bound lazily: link with -Wl,-z,now");
  if (e.text_relocations) tni_cf_fail(cf, "it has text relocations: compile with -fPIC");
  if (e.executable_stack) tni_cf_fail(cf, "it asks for an executable stack: link with -Wl,-z,noexecstack");
  if (e.writable_code) tni_cf_fail(cf, "a segment is both writable and executable");
  if (e.runpath) tni_cf_fail(cf, "it carries a library path (RPATH or RUNPATH), which names folders of its build");
  tni_cf_elf_close(&e);
}

/* --- the manifest ------------------------------------------------------------------------------------------------ */

static bool read_text(const char *path, char **text, size_t *n) {
  FILE *f = fopen(path, "rb");
  *text = NULL;
  *n = 0;
  if (!f) return false;
  const size_t cap = 1 << 16;
  if ((*text = malloc(cap))) *n = fread(*text, 1, cap, f);
  fclose(f);
  return *text != NULL;
}

/* The manifest beside the file. False: said so. */
static bool manifest_of(tni_cf *cf, tni_manifest *m) {
  char path[4200];
  char *text;
  size_t n;
  tn_error err;
  const char *so = cf->subject->path;
  const size_t len = strlen(so);
  snprintf(path, sizeof path, "%.*s.yaml", (int)(len > 3 && !strcmp(so + len - 3, ".so") ? len - 3 : len), so);
  tni_error_init(&err);
  if (!read_text(path, &text, &n)) {
    tni_cf_fail(cf, "%s: there is no manifest beside the plugin", path);
    return false;
  }
  const tn_status st = tni_manifest_parse(cf->arena, text, n, tni_arena_strdup(cf->arena, path), m, &err);
  free(text);
  if (st != TN_OK) tni_cf_fail(cf, "%s: %s", err.where[0] ? err.where : path, err.message);
  return st == TN_OK;
}

static void manifest_valid(tni_cf *cf, const void *arg) {
  tni_manifest m;
  tn_error err;
  tni_cf_elf e;
  (void)arg;
  tni_error_init(&err);
  if (!manifest_of(cf, &m)) return;
  if (tni_manifest_check(&m, cf->subject->name, tni_cpu_arch(), tni_cpu_detect(), &err) != TN_OK)
    tni_cf_fail(cf, "%s: %s", err.where, err.message);
  if (!m.license) tni_cf_note(cf, "it states no license: bundles cannot say under which one it goes along");
  if (!open_file(cf, &e)) return;
  tni_error_init(&err);
  if (tni_manifest_verify(&m, e.map, e.bytes, &err) != TN_OK) tni_cf_fail(cf, "%s: %s", err.where, err.message);
  tni_cf_elf_close(&e);
}

/* Whatever else is needed must be said: a package has to bring it. */
static void needed(tni_cf *cf, const void *arg) {
  static const char *const system[] = {"libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "librt.so.1",
                                       "libgcc_s.so.1", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1",
                                       /* Android's */
                                       "libc.so", "libm.so", "libdl.so", "liblog.so",
                                       /* of a build under test */
                                       "libasan.so.8", "libasan.so.6", "libubsan.so.1", "libtsan.so.2", "libtsan.so.0"};
  tni_cf_elf e;
  tni_manifest m = {0};
  (void)arg;
  if (!open_file(cf, &e)) return;
  const bool said = manifest_of(cf, &m);
  for (uint32_t i = 0; i < e.n_needed && i < TNI_CF_ELF_NAMES; i++)
    if (!has(system, sizeof system / sizeof *system, e.needed[i]) &&
        !(said && has(m.libraries, m.n_libraries, e.needed[i])))
      tni_cf_fail(cf, "it needs %s, which is neither the C library nor among `libraries` of its manifest", e.needed[i]);
  if (e.n_needed > TNI_CF_ELF_NAMES) tni_cf_fail(cf, "it needs %u libraries", e.n_needed);
  tni_cf_elf_close(&e);
}

/* --- the manifest against what the plugin says ------------------------------------------------------------------- */

static void manifest_tables(tni_cf *cf, const void *arg) {
  tni_manifest m;
  tni_cf_plugin *p = calloc(1, sizeof *p);
  (void)arg;
  if (!p || !manifest_of(cf, &m)) {
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
      if (!has(m.formats, m.n_formats, t->formats[i]->name))
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

/* Bundles and lists go by the manifest: it has to name what the plugin claims. What it names and nobody claimed here
 * may need other shapes or options: a note. */
static void manifest_ops(tni_cf *cf, const void *arg) {
  tni_manifest m;
  const tni_cf_listing *l = cf->listing;
  (void)arg;
  if (!manifest_of(cf, &m)) return;
  if (!m.n_ops) {
    tni_cf_skip(cf, "the manifest lists no operators");
    return;
  }
  for (uint32_t i = 0; i < l->n_claimed; i++) {
    const char *op = op_of(&l->claimed[i]);
    bool before = false;
    for (uint32_t k = 0; k < i && !before; k++)
      before = l->claimed[k].verdict != TN_NO && op && op_of(&l->claimed[k]) && !strcmp(op, op_of(&l->claimed[k]));
    if (op && l->claimed[i].verdict != TN_NO && !before && !has(m.ops, m.n_ops, op))
      tni_cf_fail(cf, "it claims %s (%s), which `ops` of the manifest does not list", op, l->claimed[i].graph);
  }
  for (uint32_t i = 0; i < m.n_ops; i++) {
    bool claimed = false;
    for (uint32_t k = 0; k < l->n_claimed && !claimed; k++)
      claimed = l->claimed[k].verdict != TN_NO && op_of(&l->claimed[k]) && !strcmp(m.ops[i], op_of(&l->claimed[k]));
    if (!claimed)
      tni_cf_note(cf, "`ops` of the manifest lists %s; none of the graphs asked with it was claimed", m.ops[i]);
  }
}

void tni_cf_abi_file_cases(const tni_cf_listing *l, tni_cf_add add, void *ctx) {
  static const tni_cf_case cases[] = {
      {"abi/file/one-symbol", TNI_CF_LEVEL_ALL, TNI_CF_NO_DEVICE, one_symbol, NULL, 0},
      {"abi/file/constructors", TNI_CF_LEVEL_ALL, TNI_CF_NO_DEVICE, constructors, NULL, 0},
      {"abi/file/linking", TNI_CF_LEVEL_ALL, TNI_CF_NO_DEVICE, linking, NULL, 0},
      {"abi/file/needed", TNI_CF_LEVEL_ALL, TNI_CF_NO_DEVICE, needed, NULL, 0},
      {"abi/manifest/valid", TNI_CF_LEVEL_ALL, TNI_CF_NO_DEVICE, manifest_valid, NULL, 0},
      {"abi/manifest/tables", TNI_CF_LEVEL_ALL, TNI_CF_NO_DEVICE, manifest_tables, NULL, 0},
      {"abi/manifest/ops", TNI_CF_LEVEL_ALL, 0, manifest_ops, NULL, 0},
  };
  if (!strcmp(l->subject->path, "host")) return; /* it has no file */
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) add(ctx, &cases[i]);
}
