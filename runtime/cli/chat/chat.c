/* SPDX-License-Identifier: Apache-2.0
 *
 * Lines from a terminal or a pipe, commands among them.
 */
#include "runtime/cli/chat/chat.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base/base.h"
#include "runtime/cli/chat/edit.h"
#include "runtime/cli/chat/talk.h"
#include "runtime/cli/shell/shell.h"

static const char help[] =
    "/system [TEXT]  what the model is told first; without TEXT: nothing\n"
    "/retry          another answer to the last line\n"
    "/undo           forget the last line and its answer\n"
    "/save FILE      write the conversation as JSON\n"
    "/keep FILE      the same, and what was computed in FILE.state\n"
    "/load FILE      read one\n"
    "/stats          speed, and how much of the context is used\n"
    "/help           this text\n"
    "/quit           end; Ctrl-D too\n"
    "A line that ends with \\ goes on in the next one; \"\"\" begins and ends several lines. Ctrl-C stops an answer.\n";

static const char *const words[] = {"/system ", "/retry", "/undo", "/save ", "/keep ", "/load ", "/stats", "/help", "/quit", NULL};

/* --- lines --- */

typedef struct reader {
  bool terminal;
  editor *editor; /* NULL: none */
  char *line;
  size_t cap;
} reader;

/* One line without its end, valid until the next. */
static line_kind read_line(reader *r, const char *prompt, char **out) {
  if (r->editor) return edit_line(r->editor, prompt, out);
  if (r->terminal) {
    fputs(prompt, stderr);
    fflush(stderr);
    if (!edit_wait()) return LINE_INTERRUPTED;
  }
  errno = 0;
  ssize_t n = getline(&r->line, &r->cap, stdin);
  if (n < 0) {
    const bool interrupted = errno == EINTR || cli_interrupted();
    if (interrupted) clearerr(stdin);
    return interrupted ? LINE_INTERRUPTED : LINE_END;
  }
  while (n && (r->line[n - 1] == '\n' || r->line[n - 1] == '\r')) r->line[--n] = 0;
  *out = r->line;
  return LINE;
}

/* What was typed up to where it ends: lines after a backslash, or (*quoted) between """. malloc'd at *out. */
static line_kind read_message(reader *r, char **out, bool *quoted) {
  char *line, *text = NULL;
  size_t n_text = 0;
  line_kind kind = read_line(r, "> ", &line);
  if (kind != LINE) return kind;
  FILE *all = open_memstream(&text, &n_text);
  if (!all) return LINE_END;
  bool first = true;
  *quoted = strncmp(line, "\"\"\"", 3) == 0;
  if (*quoted) line += 3;
  for (;; first = false) {
    size_t n = strlen(line);
    const bool closes = *quoted && n >= 3 && strcmp(line + n - 3, "\"\"\"") == 0,
               more = *quoted ? !closes : n && line[n - 1] == '\\';
    if (closes) n -= 3;
    if (!*quoted && more) n--;
    /* Quotes in lines of their own are no lines of the text. */
    if (!(*quoted && n == 0 && (first || closes))) {
      if (ftell(all) > 0) fputc('\n', all);
      fwrite(line, 1, n, all);
    }
    if (!more || (kind = read_line(r, ". ", &line)) != LINE) break;
  }
  fclose(all);
  *out = text;
  if (kind != LINE_INTERRUPTED) return LINE;
  free(text);
  return kind;
}

/* --- commands --- */

/* What follows the word, without white space around it; NULL: another word. */
static const char *after(const char *line, const char *word) {
  const size_t n = strlen(word);
  if (strncmp(line, word, n) != 0 || (line[n] && line[n] != ' ')) return NULL;
  return line + n + strspn(line + n, " ");
}

static tn_status answered(talk *t, tn_status st) {
  if (st == TN_E_CANCELLED) cli_forget_interrupt();
  if (st == TN_OK && t->last.reason == TN_STOP_CONTEXT)
    t->with->note("stopped: the context of %lld tokens is full", (long long)tn_lm_context(t->lm));
  if (st == TN_OK) talk_stats(t, false);
  if (st == TN_E_CANCELLED) t->with->note("stopped");
  return st;
}

static tn_status need_file(talk *t, const char *path, tn_status (*use)(talk *t, const char *path)) {
  return *path ? use(t, path) : talk_error(t, TN_E_INVALID, "chat", "a FILE is needed");
}

/* False: the end was asked for. */
static bool obey(talk *t, const char *line, tn_status *st) {
  const char *rest;
  *st = TN_OK;
  if (after(line, "/quit") || after(line, "/exit")) return false;
  if ((rest = after(line, "/system"))) {
    talk_system(t, *rest ? rest : NULL);
  } else if (after(line, "/retry")) {
    *st = answered(t, talk_retry(t));
  } else if (after(line, "/undo")) {
    if (!talk_undo(t)) *st = talk_error(t, TN_E_INVALID, "chat", "nothing was said yet");
  } else if ((rest = after(line, "/save"))) {
    *st = need_file(t, rest, talk_save);
  } else if ((rest = after(line, "/keep"))) {
    *st = need_file(t, rest, talk_keep);
  } else if ((rest = after(line, "/load"))) {
    *st = need_file(t, rest, talk_load);
  } else if (after(line, "/stats")) {
    talk_stats(t, true);
  } else if (after(line, "/help")) {
    t->with->say("%s", help);
  } else {
    *st = talk_error(t, TN_E_INVALID, "chat", "there is no '%.40s'; /help lists what there is", line);
  }
  return true;
}

/* At a terminal somebody reads what went wrong and goes on; of a pipe, the first line that fails is the end. */
static int converse(talk *t) {
  reader r = {.terminal = isatty(STDIN_FILENO), .editor = edit_open(words)};
  char *text = NULL;
  bool on = true, quoted = false;
  int rc = EXIT_DONE;
  if (r.terminal) t->with->say("/help lists the commands. Ctrl-D ends.\n");
  while (on) {
    const line_kind kind = read_message(&r, &text, &quoted);
    if (kind == LINE_END) break;
    if (kind == LINE_INTERRUPTED) {
      cli_forget_interrupt();
      fputc('\n', stderr);
      continue;
    }
    tn_status st = TN_OK;
    tni_error_begin(t->with->err);
    if (*text == '/' && !quoted)
      on = obey(t, text, &st);
    else if (*text)
      st = answered(t, talk_say(t, text));
    free(text);
    text = NULL;
    if (st == TN_E_CANCELLED && !r.terminal) rc = EXIT_INT;
    if (st != TN_OK && st != TN_E_CANCELLED) rc = t->with->fail(t->with->user, st);
    if (rc && (!r.terminal || st == TN_E_DEVICE_LOST || st == TN_E_NO_MEMORY)) break;
    rc = EXIT_DONE;
    if (!cli_streams_flush()) break;
  }
  if (r.terminal) fputc('\n', stderr);
  edit_close(r.editor);
  free(r.line);
  return rc;
}

int cli_converse(const cli_chat *with) {
  talk t;
  const tn_status st = talk_start(&t, with);
  const int rc = st == TN_OK ? converse(&t) : with->fail(with->user, st);
  talk_finish(&t);
  return rc;
}
