/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/cli/page/ask.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/base/markup.h"
#include "runtime/cli/shell/shell.h"

extern char **environ;

void page_say(page_words *w, const char *const *words) {
  for (; *words && w->n + 1 < PAGE_WORDS; words++) w->v[w->n++] = *words;
  w->v[w->n] = NULL;
}

static int remove_one(const char *path, const struct stat *sb, int type, struct FTW *f) {
  (void)sb;
  (void)type;
  (void)f;
  (void)remove(path);
  return 0;
}

void page_remove(const char *folder) { (void)nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS); }

/* --- what is kept --- */

static void path_of(const page_asker *a, const char *id, const char *ending, char *out) {
  snprintf(out, PAGE_PATH, "%s/%s%s", a->work, id, ending);
}

static json_t *read_json(const char *path) {
  tni_file f;
  tn_error ignored;
  tni_error_init(&ignored);
  if (tni_file_read(path, &f, &ignored) != TN_OK) return NULL;
  json_t *j = f.bytes ? json_loadb(f.data, f.bytes, 0, NULL) : NULL;
  tni_file_unmap(&f);
  return j;
}

static json_t *words_json(const page_words *w) {
  json_t *list = json_array();
  for (size_t i = 0; i < w->n; i++) json_array_append_new(list, json_string(w->v[i]));
  return list;
}

/* What was kept of this question, with its "answer"; NULL: another one was asked, or none. */
static json_t *kept(const page_asker *a, const char *id, const page_words *words) {
  char path[PAGE_PATH];
  path_of(a, id, ".json", path);
  json_t *j = read_json(path), *asked = words_json(words);
  const char *stamp = json_string_value(json_object_get(j, "stamp"));
  const bool same = j && stamp && strcmp(stamp, a->stamp) == 0 && json_equal(json_object_get(j, "words"), asked) &&
                    json_is_object(json_object_get(j, "answer"));
  json_decref(asked);
  if (same) return j;
  json_decref(j);
  return NULL;
}

/* With the options that every command is given. */
static page_words whole(const page_asker *a, const page_words *words) {
  page_words all = *words;
  page_say(&all, a->with->shared);
  page_say(&all, (const char *const[]){"--format", "json", NULL});
  return all;
}

bool page_known(page_asker *a, const char *id, const page_words *words) {
  const page_words all = whole(a, words);
  json_t *j = kept(a, id, &all);
  json_decref(j);
  return j != NULL;
}

static tn_status keep(page_asker *a, const char *id, const page_words *words, json_t *answer) {
  char path[PAGE_PATH];
  cli_replaced r;
  path_of(a, id, ".json", path);
  json_t *j = json_pack("{s:s, s:o, s:O}", "stamp", a->stamp, "words", words_json(words), "answer", answer);
  int why = cli_replace_begin(&r, path);
  if (!why) why = cli_replace_end(&r, j && json_dumpf(j, r.f, JSON_INDENT(1)) == 0 ? 0 : errno ? errno : EIO);
  json_decref(j);
  return why ? tni_fail(a->err, tni_errno_status(why, TN_E_IO), path, "cannot write '%s': %s", path, strerror(why)) : TN_OK;
}

/* --- a process --- */

/* A handler of signals calls this. */
static void stop_child(void *pid) { (void)kill(-*(pid_t *)pid, SIGINT); }

/* Exit code, 128 after a signal, or -errno. */
static int run_child(page_asker *a, const page_words *words, const char *out, const char *err) {
  const char *argv[PAGE_WORDS + 1] = {a->self};
  pid_t pid = 0;
  int status = 0;
  for (size_t i = 0; i < words->n; i++) argv[i + 1] = words->v[i];
  const int to = open(out, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600),
            log = open(err, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
  int e = to < 0 || log < 0 ? errno : tni_spawn_apart(&pid, argv, environ, to, log);
  if (to >= 0) close(to);
  if (log >= 0) close(log);
  if (e) return -e;
  cli_cancel_by(stop_child, &pid);
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
  cli_cancel_by(NULL, NULL);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

/* The last line of what it said, without what is after its end. */
static json_t *last_words(const char *path, int rc) {
  char line[512] = "", code[64];
  FILE *f = fopen(path, "r");
  for (char more[512]; f && fgets(more, sizeof more, f);)
    if (more[0] != '\n' && strncmp(more, "Try: ", 5) != 0) snprintf(line, sizeof line, "%s", more);
  if (f) fclose(f);
  line[strcspn(line, "\n")] = '\0';
  snprintf(code, sizeof code, "exit code %d", rc);
  json_t *j = line[0] ? json_string(line) : NULL;
  return j ? j : json_string(code);
}

/* Reports list every node, which no page shows. */
static void trim(json_t *answer) {
  json_object_del(answer, "nodes");
  json_object_del(json_object_get(answer, "decode"), "nodes");
}

/* *why: in words. */
static tn_status ask_child(page_asker *a, const char *id, const page_words *words, json_t **answer, json_t **why) {
  char out[PAGE_PATH], log[PAGE_PATH];
  path_of(a, id, ".out", out);
  path_of(a, id, ".log", log);
  const int rc = run_child(a, words, out, log);
  if (rc < 0) return tni_fail(a->err, tni_errno_status(-rc, TN_E_IO), a->self, "cannot run '%s': %s", a->self, strerror(-rc));
  json_t *j = read_json(out), *error = json_object_get(json_object_get(j, "error"), "message");
  if (cli_interrupted() || rc == EXIT_INT) {
    json_decref(j);
    return tni_fail(a->err, TN_E_CANCELLED, id, "stopped at '%s'", id);
  }
  if (error)
    *why = json_incref(error);
  else if (!j || (rc != EXIT_DONE && rc != EXIT_CHECK))
    *why = last_words(log, rc);
  (void)unlink(out);
  (void)unlink(log);
  if (*why) {
    json_decref(j);
    return TN_OK;
  }
  trim(j);
  *answer = j;
  return keep(a, id, words, j);
}

/* --- as a shell takes it --- */

static char *line_of(const page_words *w) {
  char *text = NULL;
  size_t n = 0;
  FILE *f = open_memstream(&text, &n);
  if (!f) return NULL;
  fputs("tenon", f);
  for (size_t i = 0; i < w->n; i++) {
    fputc(' ', f);
    tni_put_word(w->v[i], f);
  }
  return fclose(f) == 0 ? text : NULL;
}

const char *page_why(const page_asker *a, const char *id) {
  size_t i;
  json_t *c;
  json_array_foreach(a->commands, i, c) {
    if (strcmp(json_string_value(json_object_get(c, "id")), id) == 0)
      return json_string_value(json_object_get(c, "why"));
  }
  return NULL;
}

tn_status page_ask(page_asker *a, const char *id, const page_words *words, json_t **answer) {
  const page_words all = whole(a, words);
  json_t *why = NULL;
  *answer = NULL;
  if (cli_interrupted()) return tni_fail(a->err, TN_E_CANCELLED, id, "stopped before '%s'", id);
  if (a->with->progress) a->with->progress(id, a->done++, a->count);
  json_t *before = kept(a, id, &all);
  tn_status st = TN_OK;
  if (before)
    *answer = json_incref(json_object_get(before, "answer"));
  else
    st = ask_child(a, id, &all, answer, &why);
  json_decref(before);
  char *line = line_of(&all);
  json_t *c = json_pack("{s:s, s:o}", "id", id, "line", json_string(line ? line : ""));
  if (why) json_object_set_new(c, "why", why);
  json_array_append_new(a->commands, c);
  free(line);
  if (st == TN_OK && tni_json_short()) st = tni_fail_memory(a->err, id);
  if (st != TN_OK) {
    json_decref(*answer);
    *answer = NULL;
  }
  return st;
}
