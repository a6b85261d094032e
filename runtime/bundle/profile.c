/* SPDX-License-Identifier: Apache-2.0
 *
 * The bundle's profile: the tree of the one that was asked for, written again with fewer plugins. Working on the tree
 * keeps every key that is not about plugins or places, also those that are younger than this file.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/bundle/internal.h"
#include "runtime/profile/profile.h"

typedef struct writer {
  FILE *f;
  const char *const *names;
  uint32_t n;
  const tni_bd *b;
} writer;

static bool is_kept_plugin(const writer *w, const char *name) {
  if (strcmp(name, "host") == 0) return true;
  for (uint32_t i = 0; i < w->n; i++)
    if (strcmp(w->names[i], name) == 0) return true;
  return false;
}

static void write_text(FILE *f, const char *s, bool plain) {
  static const char safe[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./+-";
  if (plain && *s && strspn(s, safe) == strlen(s)) {
    fputs(s, f);
    return;
  }
  fputc('"', f);
  for (; *s; s++) {
    const unsigned char c = (unsigned char)*s;
    if (c == '"' || c == '\\')
      fprintf(f, "\\%c", c);
    else if (c < 0x20 || c == 0x7f)
      fprintf(f, "\\x%02x", c);
    else
      fputc(c, f);
  }
  fputc('"', f);
}

/* `instead`: what stands for the text of the scalar `of`; of NULL: none. */
static void write_with(FILE *f, const tni_yaml *y, const tni_yaml *of, const char *instead) {
  if (y->kind == TNI_YAML_SCALAR) {
    write_text(f, y == of ? instead : y->text, y == of || y->plain);
    return;
  }
  const bool map = y->kind == TNI_YAML_MAP;
  fputc(map ? '{' : '[', f);
  for (const tni_yaml *c = y->child; c; c = c->next) {
    if (c != y->child) fputs(", ", f);
    if (map) {
      write_text(f, c->key->text, true);
      fputs(": ", f);
    }
    write_with(f, c, of, instead);
  }
  fputc(map ? '}' : ']', f);
}

static void write_node(FILE *f, const tni_yaml *y) { write_with(f, y, NULL, NULL); }

static const char *plugin_name(const tni_yaml *y) {
  const tni_yaml *name = y->kind == TNI_YAML_MAP ? tni_yaml_get(y, "name") : y;
  return name && name->kind == TNI_YAML_SCALAR ? name->text : "";
}

/* An option `format` that left the format to the plugin says what it chose (tni_bd.formats). */
static void write_plugin(const writer *w, const tni_yaml *c) {
  const char *chosen = NULL;
  for (uint32_t i = 0; i < w->b->n_names; i++)
    if (strcmp(w->b->names[i], plugin_name(c)) == 0) chosen = w->b->formats[i];
  const tni_yaml *options = c->kind == TNI_YAML_MAP ? tni_yaml_get(c, "options") : NULL;
  const tni_yaml *format = options && options->kind == TNI_YAML_MAP ? tni_yaml_get(options, "format") : NULL;
  write_with(w->f, c, chosen && format && format->kind == TNI_YAML_SCALAR ? format : NULL, chosen);
}

static void write_plugins(const writer *w, const tni_yaml *list) {
  bool any = false;
  fputs("plugins:", w->f);
  for (const tni_yaml *c = list->child; c; c = c->next) {
    if (!is_kept_plugin(w, plugin_name(c))) continue;
    fputs("\n  - ", w->f);
    write_plugin(w, c);
    any = true;
  }
  fputs(any ? "\n" : " [host]\n", w->f);
}

/* A list of names; one that nothing is left of falls to the host. */
static void write_names(const writer *w, const tni_yaml *list, const char *none) {
  bool any = false;
  fputc('[', w->f);
  for (const tni_yaml *c = list->child; c; c = c->next) {
    if (!is_kept_plugin(w, plugin_name(c))) continue;
    fputs(any ? ", " : "", w->f);
    write_text(w->f, c->text, true);
    any = true;
  }
  fprintf(w->f, "%s]", any ? "" : none);
}

static void write_phases(const writer *w, const tni_yaml *phases) {
  fputs("phases: {", w->f);
  for (const tni_yaml *c = phases->child; c; c = c->next) {
    fprintf(w->f, "%s%s: ", c == phases->child ? "" : ", ", c->key->text);
    write_names(w, c, "host");
  }
  fputs("}\n", w->f);
}

static void write_entry(const writer *w, const tni_yaml *c) {
  const char *key = c->key->text;
  if (strcmp(key, "plugins") == 0 && c->kind == TNI_YAML_SEQ) {
    write_plugins(w, c);
  } else if (strcmp(key, "phases") == 0 && c->kind == TNI_YAML_MAP) {
    write_phases(w, c);
  } else if (strcmp(key, "require") == 0 && c->kind == TNI_YAML_SEQ) {
    fputs("require: ", w->f);
    write_names(w, c, "");
    fputc('\n', w->f);
  } else if (strcmp(key, "plugin_path") != 0 && strcmp(key, "cache") != 0 && strcmp(key, "calibration") != 0) {
    fprintf(w->f, "%s: ", key);
    write_node(w->f, c);
    fputc('\n', w->f);
  }
}

static void write_all(const tni_bd *b, const writer *w, const tni_yaml *root, const char *calibration,
                      bool plugin_path) {
  fputs("# SPDX-License-Identifier: Apache-2.0\n# Made by tenon bundle.\n", w->f);
  for (const tni_yaml *c = root ? root->child : NULL; c; c = c->next) write_entry(w, c);
  if (calibration) {
    fputs("calibration: ", w->f);
    write_text(w->f, calibration, true);
    fputc('\n', w->f);
  }
  for (uint32_t i = 0; plugin_path && i < b->profile->n_plugin_path; i++) {
    fputs(i ? ", " : "plugin_path: [", w->f);
    write_text(w->f, b->profile->plugin_path[i], true);
    if (i + 1 == b->profile->n_plugin_path) fputs("]\n", w->f);
  }
}

tn_status tni_bd_profile(const tni_bd *b, const char *const *names, uint32_t n, const char *calibration,
                         bool plugin_path, char **out) {
  const char *file = b->profile->file;
  tni_yaml_doc doc = {.arena = tni_arena_create(), .file = file};
  tni_file f = {0};
  char *text = NULL;
  size_t size = 0;
  if (!doc.arena) return tni_fail_memory(b->err, file);
  tn_status st = *file ? tni_file_map(file, &f, b->err) : TN_OK;
  if (st == TN_OK && f.bytes) st = tni_yaml_parse(&doc, f.data, (size_t)f.bytes, b->err);
  FILE *mem = st == TN_OK ? open_memstream(&text, &size) : NULL;
  if (mem) {
    const writer w = {mem, names, n, b};
    write_all(b, &w, doc.root, calibration, plugin_path);
  }
  if (st == TN_OK && (!mem || fclose(mem) != 0)) st = tni_fail_memory(b->err, file);
  tni_file_unmap(&f);
  tni_arena_destroy(doc.arena);
  if (st == TN_OK)
    *out = text;
  else
    free(text);
  return st;
}
