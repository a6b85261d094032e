/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "runtime/folder/folder.h"
#include "runtime/llm/text/text.h"

#define TEMPLATES "additional_chat_templates"

/* What llm and tasks open, by name. */
static const char *const names[] = {"tokenizer.json",
                                    "tokenizer_config.json",
                                    "config.json",
                                    "generation_config.json",
                                    "genai_config.json",
                                    "special_tokens_map.json",
                                    "chat_template.jinja",
                                    "chat_template.json",
                                    "modules.json",
                                    "sentence_bert_config.json",
                                    "preprocessor_config.json"};

typedef struct visit {
  const tni_folder *f;
  tni_companion_fn fn;
  void *ctx;
  tn_error *err;
} visit;

static tn_status give(const visit *v, const char *name) {
  struct stat sb;
  char *path = tni_folder_file(v->f, name);
  if (!path) return tni_fail_memory(v->err, name);
  const tn_status st = stat(path, &sb) == 0 && S_ISREG(sb.st_mode) ? v->fn(v->ctx, path, name) : TN_OK;
  free(path);
  return st;
}

static int is_template(const struct dirent *e) {
  const size_t n = strlen(e->d_name);
  return n > 6 && e->d_name[0] != '.' && strcmp(e->d_name + n - 6, ".jinja") == 0;
}

static int by_bytes(const struct dirent **a, const struct dirent **b) { return strcmp((*a)->d_name, (*b)->d_name); }

/* additional_chat_templates/NAME.jinja, which llm looks for beside chat_template.jinja. */
static tn_status give_templates(const visit *v) {
  struct dirent **list = NULL;
  char *beside = tni_folder_file(v->f, "chat_template.jinja"), *slash = beside ? strrchr(beside, '/') : NULL;
  if (slash) *slash = 0;
  char *dir = slash ? tni_file_in(beside, TEMPLATES) : NULL;
  tn_status st = dir ? TN_OK : tni_fail_memory(v->err, TEMPLATES);
  const int n = dir ? scandir(dir, &list, is_template, by_bytes) : 0;
  for (int i = 0; i < n; i++) {
    char *name = tni_file_in(TEMPLATES, list[i]->d_name);
    if (st == TN_OK) st = name ? give(v, name) : tni_fail_memory(v->err, TEMPLATES);
    free(name);
    free(list[i]);
  }
  free(list);
  free(dir);
  free(beside);
  return st;
}

/* The poolings of sentence-transformers: modules.json names folders with a config.json each. A file that says nothing
 * of that is none of ours. */
static tn_status give_modules(const visit *v) {
  char *file = tni_folder_file(v->f, "modules.json");
  json_t *list = NULL, *m;
  size_t i;
  if (!file) return tni_fail_memory(v->err, "modules.json");
  tn_status st = tni_json_load(file, &list, NULL);
  st = st == TN_E_NO_MEMORY ? tni_fail_memory(v->err, file) : TN_OK;
  json_array_foreach(list, i, m) {
    const char *path = json_string_value(json_object_get(m, "path"));
    if (st != TN_OK || !path || !tni_stays_inside(path)) continue;
    char *name = tni_file_in(path, "config.json");
    st = name ? give(v, name) : tni_fail_memory(v->err, file);
    free(name);
  }
  json_decref(list);
  free(file);
  return st;
}

tn_status tni_folder_companions(const tni_folder *f, tni_companion_fn fn, void *ctx, tn_error *err) {
  const visit v = {f, fn, ctx, err};
  tn_status st = TN_OK;
  for (size_t i = 0; st == TN_OK && i < sizeof names / sizeof *names; i++) st = give(&v, names[i]);
  if (st == TN_OK) st = give_templates(&v);
  return st == TN_OK ? give_modules(&v) : st;
}
