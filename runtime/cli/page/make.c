/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/cli/page/html.h"
#include "runtime/cli/page/rows.h"
#include "runtime/cli/shell/shell.h"

/* Path, size and time, so that answers are of these files only. */
static void add_stamp(page_asker *a, const char *path) {
  struct stat sb = {0};
  const size_t at = strlen(a->stamp);
  if (!path || stat(path, &sb) != 0) return;
  snprintf(a->stamp + at, sizeof a->stamp - at, " %.60s:%lld:%lld.%09ld", path, (long long)sb.st_size,
           (long long)sb.st_mtim.tv_sec, sb.st_mtim.tv_nsec);
}

/* The model's files: those of its folder whose names begin with its own, as external data has them (model.onnx_data).
 * Their sizes and times in sums, which hang on no order. */
static void add_model_stamp(page_asker *a, const char *file) {
  const char *slash = strrchr(file, '/'), *name = slash ? slash + 1 : file;
  char *folder = tni_path_folder(file);
  DIR *d = folder ? opendir(folder) : NULL;
  uint64_t n = 0, bytes = 0, times = 0;
  for (const struct dirent *e = d ? readdir(d) : NULL; e; e = readdir(d)) {
    struct stat sb;
    if (strncmp(e->d_name, name, strlen(name)) != 0) continue;
    if (fstatat(dirfd(d), e->d_name, &sb, 0) != 0 || !S_ISREG(sb.st_mode)) continue;
    n++;
    bytes += (uint64_t)sb.st_size;
    times += (uint64_t)sb.st_mtim.tv_sec * 1000000000u + (uint64_t)sb.st_mtim.tv_nsec;
  }
  if (d) closedir(d);
  free(folder);
  const size_t at = strlen(a->stamp);
  snprintf(a->stamp + at, sizeof a->stamp - at, " %.60s:%llu:%llu:%llu", file, (unsigned long long)n,
           (unsigned long long)bytes, (unsigned long long)times);
}

static tn_status find_self(page_asker *a) {
  const ssize_t n = readlink("/proc/self/exe", a->self, sizeof a->self - 1);
  if (n <= 0) return tni_fail(a->err, TN_E_IO, "/proc/self/exe", "cannot find this program: %s", strerror(errno));
  a->self[n] = '\0';
  return TN_OK;
}

static tn_status begin(page_asker *a) {
  const cli_page *p = a->with;
  char *file = NULL;
  const int n = p->work ? snprintf(a->work, sizeof a->work, "%s", p->work)
                        : snprintf(a->work, sizeof a->work, "%s.partial", p->out);
  if (n >= (int)sizeof a->work) return tni_fail(a->err, TN_E_INVALID, p->out, "'%s': too long a path", p->out);
  tn_status st = tn_model_find(p->model, NULL, &file, a->err);
  if (st != TN_OK) return st;
  snprintf(a->stamp, sizeof a->stamp, "%s", tn_version());
  add_model_stamp(a, file);
  add_stamp(a, p->profile); /* a name of one is no file */
  add_stamp(a, p->text);
  add_stamp(a, p->calibration);
  tn_free(file);
  const int why = tni_make_folder(a->work);
  if (why)
    return tni_fail(a->err, tni_errno_status(why, TN_E_IO), a->work, "cannot make '%s': %s", a->work, strerror(why));
  return find_self(a);
}

/* Nothing is worth a page where the model itself does not run. */
static tn_status need_base(const page_asker *a, const json_t *row) {
  const char *const keys[] = {a->with->text ? "eval" : "bench", "inspect"};
  for (int i = 0; i < 2; i++) {
    char id[64];
    snprintf(id, sizeof id, "f32.%s", keys[i]);
    if (!json_object_get(row, keys[i]))
      return tni_fail(a->err, TN_E_INVALID, a->with->model, "tenon %s: %s", keys[i], page_why(a, id));
  }
  return TN_OK;
}

static tn_status fill_rows(page_asker *a, json_t *rows) {
  size_t i;
  json_t *row;
  a->count = a->done;
  json_array_foreach(rows, i, row) a->count += page_row_commands(a, row);
  json_array_foreach(rows, i, row) {
    tn_status st = page_row_fill(a, row);
    if (st == TN_OK && i == 0) st = need_base(a, row);
    if (st != TN_OK) return st;
  }
  return TN_OK;
}

static tn_status write_page(const page_asker *a, const json_t *rows) {
  const char *out = a->with->out;
  cli_replaced r;
  int why = cli_replace_begin(&r, out);
  if (!why) {
    page_write(a, rows, r.f);
    why = cli_replace_end(&r, 0);
  }
  if (!why) return TN_OK;
  return tni_fail(a->err, tni_errno_status(why, TN_E_IO), out, "cannot write '%s': %s", out, strerror(why));
}

tn_status cli_page_make(const cli_page *with, json_t **figures, tn_error *err) {
  page_asker a = {.with = with, .err = err};
  tni_error_begin(err);
  tni_json_begin();
  a.commands = json_array();
  tn_status st = begin(&a);
  json_t *rows = st == TN_OK ? page_rows_plan(&a) : NULL;
  if (st == TN_OK) st = rows ? fill_rows(&a, rows) : err->code;
  if (with->progress) with->progress(NULL, a.done, a.count);
  if (st == TN_OK) st = write_page(&a, rows);
  if (st == TN_OK && tni_json_short()) st = tni_fail_memory(err, with->out);
  if (st == TN_OK && !with->work) page_remove(a.work);
  *figures = st == TN_OK ? page_figures(&a, rows) : NULL;
  json_decref(rows);
  json_decref(a.commands);
  return st;
}
