/* SPDX-License-Identifier: Apache-2.0
 *
 * Which files of a model's folder are read by anything: the model and its external data, tokenizer and configurations,
 * the calibration that the profile names. The rest is listed as left out.
 */
#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "runtime/bundle/internal.h"
#include "runtime/folder/folder.h"
#include "runtime/profile/profile.h"

static bool is_file(const char *path) {
  struct stat st;
  return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

/* `from`, which is taken, as model/NAME where it is a file. */
static tn_status copy_one(tni_bd *b, char *from, const char *name, const char *role) {
  char *to = tni_bd_text(b, "model/%s", name);
  tn_status st = from && to ? TN_OK : tni_fail_memory(b->err, name);
  if (st == TN_OK && is_file(from)) st = tni_bd_copy(b, from, to, role, false);
  free(from);
  return st;
}

static tn_status copy_companion(void *ctx, const char *path, const char *name) {
  tni_bd *b = ctx;
  char *to = tni_bd_text(b, "model/%s", name);
  return to ? tni_bd_copy(b, path, to, strncmp(name, "tok", 3) == 0 ? "tokenizer" : "config", false)
            : tni_fail_memory(b->err, name);
}

/* The model's own files: import->paths are FOLDER/LOCATION, the model first. */
static tn_status copy_graph(tni_bd *b, const tn_model *m, const char *folder) {
  const size_t n = strlen(folder);
  tn_status st = copy_one(b, tni_file_in(folder, m->name), m->name, "model");
  for (uint32_t i = 1; st == TN_OK && i < m->import->n_files; i++) {
    const char *path = m->import->paths[i];
    const char *name = strncmp(path, folder, n) == 0 && path[n] == '/' ? path + n + 1 : path;
    st = tni_stays_inside(name)
             ? copy_one(b, tni_file_in(folder, name), name, "model")
             : tni_fail(b->err, TN_E_INVALID, path, "external data '%s' is not in the model's folder", path);
  }
  return st;
}

static bool is_weights(const char *name) {
  const size_t n = strlen(name);
  return n > 5 && strcmp(name + n - 5, ".onnx") == 0;
}

static int by_name(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

/* below: a folder in it that is listed for itself, or NULL. */
static void list_left(tni_bd *b, const char *folder, const char *below) {
  enum { MOST = 256 };
  const char *names[MOST];
  uint32_t n = 0;
  DIR *d = opendir(folder);
  if (!d) tni_bd_missed(b, errno);
  for (struct dirent *e; d && n < MOST && (e = readdir(d));) {
    char *to = tni_bd_text(b, "model/%s", e->d_name);
    if (e->d_name[0] == '.' || !to || tni_bd_find(b, to)) continue;
    if ((below && strcmp(e->d_name, below) == 0) || tni_bd_find_in(b, to)) continue;
    if ((names[n] = tni_bd_text(b, "%s", e->d_name))) n++;
  }
  if (d) closedir(d);
  qsort(names, n, sizeof *names, by_name);
  for (uint32_t i = 0; i < n; i++)
    tni_bd_leave(b, names[i], is_weights(names[i]) ? "another model" : "of the model's folder; nothing reads it");
}

/* What is typed after run.sh without a command. */
static const char *command_of(const tni_bd *b, const tn_model *m) {
  if (tni_bd_find(b, "model/tokenizer.json") && tn_model_has_cache((tn_model *)m)) return "run";
  if (tni_bd_find(b, "model/preprocessor_config.json")) return "classify";
  return tni_bd_find(b, "model/tokenizer.json") ? "embed" : "infer";
}

static tn_status copy_calibration(tni_bd *b, const tn_model *m) {
  if (!m->calib) return TN_OK;
  b->calibration = "calibration.yaml";
  return tni_bd_copy(b, m->calib->file, b->calibration, "calibration", false);
}

tn_status tni_bd_model(tni_bd *b, const tn_model *m) {
  struct stat sb;
  const bool whole = stat(b->o.model, &sb) == 0 && S_ISDIR(sb.st_mode);
  tni_folder f;
  tn_status st = tni_folder_find(m->path, NULL, &f, b->err);
  if (st != TN_OK) return st;
  st = copy_graph(b, m, f.dir);
  if (st == TN_OK && whole) st = tni_folder_companions(&f, copy_companion, b, b->err);
  if (st == TN_OK) st = copy_calibration(b, m);
  if (st == TN_OK && whole) {
    const char *slash = strrchr(f.dir, '/');
    list_left(b, f.dir, NULL);
    if (strcmp(slash ? slash + 1 : f.dir, TNI_FOLDER_BELOW) == 0) list_left(b, b->o.model, TNI_FOLDER_BELOW);
  }
  b->model = whole ? "model" : tni_bd_text(b, "model/%s", m->name);
  b->command = command_of(b, m);
  tni_folder_finish(&f);
  return st;
}
