/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/llm/template.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/llm/jinja/jinja.h"
#include "runtime/llm/text/text.h"

void tni_templates_finish(tni_templates *t) {
  for (size_t i = 0; i < t->n; i++) free(t->v[i].text);
  free(t->file);
  json_decref(t->special);
  *t = (tni_templates){0};
}

const tni_template *tni_templates_get(const tni_templates *t, const char *name, bool tools) {
  const char *const want[] = {name ? name : tools ? "tool_use" : "default", name ? NULL : "default"};
  for (size_t k = 0; k < 2 && want[k]; k++)
    for (size_t i = 0; i < t->n; i++)
      if (strcmp(t->v[i].name, want[k]) == 0) return &t->v[i];
  return NULL;
}

static tn_status add(tni_templates *t, const char *file, tni_view name, tni_view text, tn_error *err) {
  if (t->n == TNI_TEMPLATES || name.n >= TNI_TEMPLATE_NAME || text.n > TNI_JINJA_BYTES)
    return tni_fail(err, TN_E_LIMIT, file, "%s: more than %d chat templates, or one that is too long", file,
                    TNI_TEMPLATES);
  char *copy = malloc(text.n + 1);
  char *from = t->file ? t->file : strdup(file);
  if (!copy || !from) {
    free(copy);
    if (!t->file) free(from);
    return tni_fail_memory(err, file);
  }
  t->file = from;
  tni_template *x = &t->v[t->n++];
  *x = (tni_template){.text = copy, .n = text.n};
  if (text.n) memcpy(copy, text.v, text.n);
  memcpy(x->name, name.v, name.n);
  return TN_OK;
}

static const tni_view default_name = {"default", 7};

/* A file of one template; *found: it is there. */
static tn_status read_jinja(tni_templates *t, const char *path, tni_view name, bool *found, tn_error *err) {
  tni_file f;
  tn_long_error mine;
  tni_long_error_init(&mine);
  tn_status st = tni_file_read(path, &f, &mine.error);
  *found = st == TN_OK;
  if (st == TN_E_UNAVAILABLE) return TN_OK;
  if (st != TN_OK) return tni_error_pass(err, st, &mine.error);
  st = add(t, path, name, (tni_view){f.data ? (const char *)f.data : "", f.bytes}, err);
  tni_file_unmap(&f);
  return st;
}

/* additional_chat_templates/NAME.jinja beside the file at path. */
static tn_status read_additional(tni_templates *t, const char *path, tn_error *err) {
  const char *slash = strrchr(path, '/');
  char *dir = NULL, *file = NULL;
  tn_status st = TN_OK;
  bool found;
  if (asprintf(&dir, "%.*sadditional_chat_templates", slash ? (int)(slash - path + 1) : 0, path) < 0)
    return tni_fail_memory(err, path);
  DIR *d = opendir(dir);
  for (struct dirent *e; st == TN_OK && d && (e = readdir(d));) {
    const size_t n = strlen(e->d_name);
    if (n < 7 || strcmp(e->d_name + n - 6, ".jinja") != 0) continue;
    if (asprintf(&file, "%s/%s", dir, e->d_name) < 0) {
      st = tni_fail_memory(err, dir);
      break;
    }
    st = read_jinja(t, file, (tni_view){e->d_name, n - 6}, &found, err);
    free(file);
  }
  if (d) closedir(d);
  free(dir);
  return st;
}

/* "chat_template": a text, or a list of {name, template}. */
static tn_status read_key(tni_templates *t, const tni_at *root, tn_error *err) {
  tni_at a = tni_at_key(root, "chat_template");
  tni_view name = default_name, text;
  size_t n = 0;
  if (!a.v || t->n) return TN_OK;
  if (!json_is_array(a.v)) {
    const tn_status st = tni_at_string(&a, &text, err);
    return st == TN_OK ? add(t, a.file, name, text, err) : st;
  }
  tn_status st = tni_at_array(&a, TNI_TEMPLATES, &n, err);
  for (size_t i = 0; i < n && st == TN_OK; i++) {
    tni_at one = tni_at_item(&a, i), of = tni_at_key(&one, "name"), template = tni_at_key(&one, "template");
    st = tni_at_string(&of, &name, err);
    if (st == TN_OK) st = tni_at_string(&template, &text, err);
    if (st == TN_OK) st = add(t, a.file, name, text, err);
  }
  return st;
}

/* Special tokens: a text, {"content": text}, or a list of them. Those that are there already stay. */
static void read_special(tni_templates *t, const tni_at *root) {
  static const char *const keys[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                     "pad_token", "cls_token", "mask_token"};
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
    json_t *v = json_object_get(root->v, keys[i]);
    if (json_is_object(v)) v = json_object_get(v, "content");
    if (json_is_string(v) && !json_object_get(t->special, keys[i]))
      json_object_set_new(t->special, keys[i], json_incref(v));
  }
}

static tn_status read_file(tni_templates *t, const tni_folder *f, const char *name, tn_error *err) {
  char *path = tni_folder_file(f, name);
  json_t *tree = NULL;
  tn_long_error mine;
  if (!path) return tni_fail_memory(err, name);
  tni_long_error_init(&mine);
  tn_status st = tni_json_load(path, &tree, &mine.error);
  const bool missing = st == TN_E_UNAVAILABLE;
  tni_at root = tni_at_root(tree, path);
  if (st == TN_OK) st = read_key(t, &root, &mine.error);
  if (st == TN_OK) {
    tni_at model = tni_at_key(&root, "model");
    if (json_is_object(model.v)) st = read_key(t, &model, &mine.error);
    read_special(t, &root);
  }
  json_decref(tree);
  free(path);
  return st == TN_OK || missing ? TN_OK : tni_error_pass(err, st, &mine.error);
}

tn_status tni_templates_load(const tni_folder *f, tni_templates *out, tn_error *err) {
  static const char *const files[] = {"tokenizer_config.json", "special_tokens_map.json", "chat_template.json",
                                      "genai_config.json"};
  tni_templates t = {.special = json_object()};
  char *path = tni_folder_file(f, "chat_template.jinja");
  bool found = false;
  tn_status st =
      path && t.special ? read_jinja(&t, path, default_name, &found, err) : tni_fail_memory(err, "chat_template.jinja");
  if (st == TN_OK && found) st = read_additional(&t, path, err);
  free(path);
  for (size_t i = 0; st == TN_OK && i < sizeof files / sizeof *files; i++) st = read_file(&t, f, files[i], err);
  if (st != TN_OK) {
    tni_templates_finish(&t);
    return st;
  }
  *out = t;
  return TN_OK;
}
