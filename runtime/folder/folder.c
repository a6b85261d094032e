/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/folder/folder.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "runtime/folder/listing.h"
#include "runtime/llm/text/text.h"

#define WITH_PAST "decoder_with_past_model"

static bool is_file(const char *path) {
  struct stat st;
  return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

/* DIR/NAME where that is a file; NULL: it is not. */
static tn_status file_in(const char *dir, const char *name, char **out, tn_error *err) {
  char *path = tni_file_in(dir, name);
  *out = NULL;
  if (!path) return tni_fail_memory(err, dir);
  if (is_file(path))
    *out = path;
  else
    free(path);
  return TN_OK;
}

/* The decoder that dir's genai_config.json names. A file that is not there is nobody's choice: the rules go on. */
static tn_status named_by_genai(const char *dir, char **out, tn_error *err) {
  char *file = tni_file_in(dir, "genai_config.json");
  json_t *tree = NULL;
  tn_error mine;
  tni_view name = {0};
  if (!file) return tni_fail_memory(err, dir);
  tni_error_init(&mine);
  tn_status st = is_file(file) ? tni_json_load(file, &tree, &mine) : TN_E_UNAVAILABLE;
  const bool none = st == TN_E_UNAVAILABLE;
  tni_at root = tni_at_root(tree, file), model = tni_at_key(&root, "model"), decoder = tni_at_key(&model, "decoder"),
         at = tni_at_key(&decoder, "filename");
  if (st == TN_OK && at.v) st = tni_at_string(&at, &name, &mine);
  if (st == TN_OK && at.v && strchr(name.v, '/'))
    st = tni_at_fail(&at, TN_E_INVALID, &mine, "'%.80s' is not a file beside it", name.v);
  if (st == TN_OK && at.v) st = file_in(dir, name.v, out, &mine);
  if (st != TN_OK && !none) (void)tni_fail(err, st, mine.where, "%s", mine.message);
  json_decref(tree);
  free(file);
  return none ? TN_OK : st;
}

static bool has_model(const tni_listing *list, const char *name) {
  for (size_t i = 0; i < list->n; i++)
    if (strcmp(list->names[i], name) == 0) return true;
  return false;
}

/* By the rules, in one folder. list: what is there. */
static tn_status file_meant_in(const char *dir, const tni_listing *list, char **out, tn_error *err) {
  static const char *const names[] = {"model.onnx", "decoder_model_merged.onnx"};
  tn_status st = named_by_genai(dir, out, err);
  for (size_t i = 0; st == TN_OK && !*out && i < sizeof names / sizeof *names; i++)
    st = file_in(dir, names[i], out, err);
  if (st == TN_OK && !*out && has_model(list, "encoder_model.onnx") && has_model(list, "decoder_model.onnx"))
    st = file_in(dir, "decoder_with_past_model.onnx", out, err);
  if (st != TN_OK || *out || list->n != 1) return st;
  *out = tni_file_in(dir, list->names[0]);
  return *out ? TN_OK : tni_fail_memory(err, dir);
}

static tn_status refuse_none(const char *path, tn_error *err) {
  char *foreign = tni_listing_foreign(path);
  if (!foreign)
    return tni_fail(err, TN_E_UNAVAILABLE, path, "no .onnx file in '%s' or in its folder " TNI_FOLDER_BELOW "/", path);
  const bool gguf = tni_ends_with(foreign, ".gguf");
  const tn_status st =
      tni_fail(err, TN_E_UNAVAILABLE, path,
               "no .onnx file in '%.80s'; %.60s is not ONNX: export %s (optimum-cli export onnx --model %.60s FOLDER)", path,
               foreign, gguf ? "the model it was made from" : "it", gguf ? "NAME" : path);
  free(foreign);
  return st;
}

/* "Qwen/Qwen3-0.6B": a name of the Hub rather than a path. */
static bool is_hub_name(const char *path) {
  struct stat sb;
  const char *slash = strchr(path, '/');
  if (!slash || slash == path || path[0] == '.' || path[0] == '~' || !slash[1] || strchr(slash + 1, '/')) return false;
  char *owner = strndup(path, (size_t)(slash - path));
  const bool is_there = owner && stat(owner, &sb) == 0;
  free(owner);
  return owner && !is_there;
}

static tn_status refuse_many(const char *path, const tni_listing *here, const tni_listing *below, tn_error *err) {
  char text[160];
  tni_listing_print(here, below, TNI_FOLDER_BELOW "/", text, sizeof text);
  return tni_fail(err, TN_E_INVALID, path, "%zu models; choose one (tenon: --model-file NAME): %s", here->n + below->n,
                  text);
}

static tn_status choose_named(const char *path, const char *below, const char *choice, const tni_listing *here,
                              const tni_listing *there, char **out, tn_error *err) {
  char text[128];
  tn_status st = file_in(path, choice, out, err);
  if (st == TN_OK && !*out && below) st = file_in(below, choice, out, err);
  if (st != TN_OK || *out) return st;
  if (!here->n && !there->n) return refuse_none(path, err);
  tni_listing_print(here, there, TNI_FOLDER_BELOW "/", text, sizeof text);
  return tni_fail(err, TN_E_UNAVAILABLE, path, "'%.60s' is neither there nor in " TNI_FOLDER_BELOW "/; there is %s",
                  choice, text);
}

static tn_status choose_in(const char *path, const char *below, const char *choice, char **out, tn_error *err) {
  tni_listing here = {0}, there = {0};
  tn_status st = tni_listing_read(path, &here, err);
  if (st == TN_OK && below) st = tni_listing_read(below, &there, err);
  if (st == TN_OK && choice) {
    st = choose_named(path, below, choice, &here, &there, out, err);
  } else if (st == TN_OK) {
    st = file_meant_in(path, &here, out, err);
    if (st == TN_OK && !*out && below) st = file_meant_in(below, &there, out, err);
    if (st == TN_OK && !*out) st = here.n + there.n ? refuse_many(path, &here, &there, err) : refuse_none(path, err);
  }
  tni_listing_finish(&here);
  tni_listing_finish(&there);
  return st;
}

/* path without slashes at its end: a folder. */
static tn_status choose_file(const char *path, const char *choice, char **out, tn_error *err) {
  struct stat sb;
  char *below = tni_file_in(path, TNI_FOLDER_BELOW);
  if (!below) return tni_fail_memory(err, path);
  const bool is_there = stat(below, &sb) == 0 && S_ISDIR(sb.st_mode);
  tn_status st = choose_in(path, is_there ? below : NULL, choice, out, err);
  free(below);
  return st;
}

/* "a/b" of "a/b/onnx", "." of "onnx", "../.." of "..". */
static char *one_up(const char *dir) {
  const char *slash = strrchr(dir, '/'), *last = slash ? slash + 1 : dir;
  if (strcmp(last, ".") == 0 || strcmp(last, "..") == 0) return tni_file_in(dir, "..");
  if (!slash) return strdup(".");
  return slash == dir ? strdup("/") : strndup(dir, (size_t)(slash - dir));
}

/* A folder with a tokenizer and a config is whole: what lies above belongs to something else. */
static tn_status look_above(tni_folder *f, tn_error *err) {
  static const char *const needed[2][2] = {{"tokenizer.json", NULL}, {"config.json", "genai_config.json"}};
  bool whole = true;
  for (int i = 0; i < 2; i++) {
    bool found = false;
    for (int k = 0; k < 2 && needed[i][k]; k++) {
      char *path = tni_file_in(f->dir, needed[i][k]);
      if (!path) return tni_fail_memory(err, f->dir);
      found |= is_file(path);
      free(path);
    }
    whole &= found;
  }
  if (!whole && !(f->above = one_up(f->dir))) return tni_fail_memory(err, f->dir);
  return TN_OK;
}

/* "_q4.onnx" of "decoder_model_merged_q4.onnx"; NULL: another kind of name. *stem: what stands before it. */
static const char *suffix_of(const char *model, const char **stem) {
  static const char *const stems[] = {"decoder_model_merged", WITH_PAST, "decoder_model", "model"};
  for (size_t i = 0; i < sizeof stems / sizeof *stems; i++)
    if (strncmp(model, *stem = stems[i], strlen(stems[i])) == 0) return model + strlen(stems[i]);
  *stem = "";
  return NULL;
}

/* The part of that name beside the model: of the model's own kind, else the plain one. */
static tn_status find_beside(const tni_folder *f, const char *part, const char *suffix, char **out, tn_error *err) {
  char *name = NULL;
  if (asprintf(&name, "%s%s", part, suffix ? suffix : ".onnx") < 0) return tni_fail_memory(err, f->dir);
  tn_status st = file_in(f->dir, name, out, err);
  free(name);
  return st == TN_OK && !*out && suffix ? find_beside(f, part, NULL, out, err) : st;
}

static tn_status find_parts(tni_folder *f, tn_error *err) {
  const char *slash = strrchr(f->model, '/'), *stem, *suffix = suffix_of(slash ? slash + 1 : f->model, &stem);
  tn_status st = find_beside(f, "embed_tokens", suffix, &f->embed, err);
  if (st == TN_OK && !f->embed) st = find_beside(f, "embedding", NULL, &f->embed, err);
  if (st == TN_OK && !f->embed) st = find_beside(f, "embeddings", NULL, &f->embed, err);
  if (st == TN_OK && strncmp(stem, "decoder", 7) == 0) st = find_beside(f, "encoder_model", suffix, &f->encoder, err);
  return st == TN_OK && strcmp(stem, WITH_PAST) == 0 ? find_beside(f, "decoder_model", suffix, &f->first, err) : st;
}

static tn_status find_folder(const char *path, const char *choice, tni_folder *f, tn_error *err) {
  struct stat sb;
  if (stat(path, &sb) != 0) {
    const char *why = strerror(errno);
    if (errno == ENOENT && is_hub_name(path))
      return tni_fail(err, TN_E_UNAVAILABLE, path,
                      "no folder '%.80s'; a model of that name on a hub is exported first: optimum-cli export onnx --model "
                      "%.60s FOLDER",
                      path, path);
    return tni_fail(err, TN_E_UNAVAILABLE, path, "cannot open model '%s': %s", path, why);
  }
  tn_status st = TN_OK;
  if (!S_ISDIR(sb.st_mode)) {
    if (choice)
      return tni_fail(err, TN_E_INVALID, path, "'%s' is a file: '%.60s' cannot be chosen in it", path, choice);
    f->model = strdup(path);
  } else {
    char *folder = tni_path_folder(path);
    st = folder ? choose_file(folder, choice, &f->model, err) : tni_fail_memory(err, path);
    free(folder);
  }
  if (st == TN_OK && f->model) f->dir = tni_path_folder(f->model);
  if (st == TN_OK && !f->dir) st = tni_fail_memory(err, path);
  if (st == TN_OK) st = find_parts(f, err);
  return st == TN_OK ? look_above(f, err) : st;
}

tn_status tni_folder_find(const char *path, const char *choice, tni_folder *out, tn_error *err) {
  tni_folder f = {0};
  const tn_status st = find_folder(path, choice, &f, err);
  if (st == TN_OK)
    *out = f;
  else
    tni_folder_finish(&f);
  return st;
}

void tni_folder_finish(tni_folder *f) {
  free(f->model);
  free(f->dir);
  free(f->above);
  free(f->embed);
  free(f->encoder);
  free(f->first);
  *f = (tni_folder){0};
}

char *tni_folder_file(const tni_folder *f, const char *name) {
  char *path = tni_file_in(f->dir, name);
  if (!path || !f->above || is_file(path)) return path;
  char *above = tni_file_in(f->above, name);
  if (!above) {
    free(path);
    return NULL;
  }
  const bool found = is_file(above);
  free(found ? path : above);
  return found ? above : path;
}
