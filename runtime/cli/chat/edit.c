/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/cli/chat/edit.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/cli/shell/shell.h"

bool edit_wait(void) {
  struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
  while (!cli_interrupted() && poll(&in, 1, 100) == 0) {
  }
  return !cli_interrupted();
}

#ifdef TENON_HAS_EDITING
#include <dlfcn.h>
#include <histedit.h>
#include <langinfo.h>
#include <locale.h>
#include <stddef.h>
#include <wchar.h>

enum { MOST_LINES = 1000 };

struct editor {
  void *library;
  EditLine *line;
  History *before;
  const char *const *words;
  const char *prompt;
  char *text; /* the last line */
  mbstate_t bytes;
  EditLine *(*init)(const char *, FILE *, FILE *, FILE *);
  void (*end)(EditLine *);
  const char *(*gets)(EditLine *, int *);
  int (*set)(EditLine *, int, ...), (*wide_set)(EditLine *, int, ...);
  int (*source)(EditLine *, const char *);
  void (*resize)(EditLine *);
  const LineInfo *(*typed)(EditLine *);
  int (*insert)(EditLine *, const char *);
  History *(*history_init)(void);
  void (*history_end)(History *);
  int (*history)(History *, HistEvent *, int, ...);
};

static const struct {
  const char *name;
  size_t at;
} functions[] = {
    {"el_init", offsetof(editor, init)},
    {"el_end", offsetof(editor, end)},
    {"el_gets", offsetof(editor, gets)},
    {"el_set", offsetof(editor, set)},
    {"el_wset", offsetof(editor, wide_set)},
    {"el_source", offsetof(editor, source)},
    {"el_resize", offsetof(editor, resize)},
    {"el_line", offsetof(editor, typed)},
    {"el_insertstr", offsetof(editor, insert)},
    {"history_init", offsetof(editor, history_init)},
    {"history_end", offsetof(editor, history_end)},
    {"history", offsetof(editor, history)},
};

/* Debian's name, and that of the others. */
static bool open_library(editor *e) {
  e->library = dlopen("libedit.so.2", RTLD_NOW | RTLD_LOCAL);
  if (!e->library) e->library = dlopen("libedit.so.0", RTLD_NOW | RTLD_LOCAL);
  for (size_t i = 0; e->library && i < sizeof functions / sizeof *functions; i++) {
    void *f = dlsym(e->library, functions[i].name);
    if (!f) return false;
    memcpy((char *)e + functions[i].at, &f, sizeof f);
  }
  return e->library != NULL;
}

/* libedit takes a terminal's bytes for letters of the locale. */
static bool has_letters(void) {
  if (setlocale(LC_CTYPE, "") && strcmp(nl_langinfo(CODESET), "UTF-8") == 0) return true;
  return setlocale(LC_CTYPE, "C.UTF-8") != NULL;
}

/* --- what libedit calls --- */

static editor *the_editor; /* a process has one terminal */

static char *prompt_of(EditLine *line) {
  (void)line;
  return (char *)(uintptr_t)the_editor->prompt;
}

/* One letter from the terminal. 1: it is there; 0: the end; -1: Ctrl-C, or a failure. */
static int next_letter(EditLine *line, wchar_t *out) {
  editor *e = the_editor;
  (void)line;
  for (;;) {
    char byte;
    if (!edit_wait()) return -1;
    const ssize_t n = read(STDIN_FILENO, &byte, 1);
    if (n <= 0) return (int)n;
    const size_t used = mbrtowc(out, &byte, 1, &e->bytes);
    if (used == 1 || used == 0) return 1;
    if (used == (size_t)-2) continue; /* more bytes of this letter */
    memset(&e->bytes, 0, sizeof e->bytes);
    *out = L'?';
    return 1;
  }
}

/* Completes a word that is the only one with this begin. */
static unsigned char complete(EditLine *line, int key) {
  const editor *e = the_editor;
  const LineInfo *l = e->typed(line);
  const size_t n = (size_t)(l->cursor - l->buffer);
  const char *only = NULL;
  (void)key;
  for (size_t i = 0; n && e->words[i]; i++) {
    if (strncmp(e->words[i], l->buffer, n) != 0) continue;
    if (only) return CC_REFRESH_BEEP;
    only = e->words[i];
  }
  return only && e->insert(line, only + n) == 0 ? CC_REFRESH : CC_REFRESH_BEEP;
}

/* --- the editor --- */

static bool start(editor *e, const char *const *words) {
  HistEvent ev;
  if (!open_library(e) || !has_letters()) return false;
  e->line = e->init("tenon", stdin, stderr, stderr);
  e->before = e->history_init();
  if (!e->line || !e->before) return false;
  e->words = words;
  the_editor = e;
  e->history(e->before, &ev, H_SETSIZE, MOST_LINES);
  e->history(e->before, &ev, H_SETUNIQUE, 1);
  e->set(e->line, EL_EDITOR, "emacs");
  e->set(e->line, EL_PROMPT, prompt_of);
  e->set(e->line, EL_GETCFN, next_letter);
  e->set(e->line, EL_HIST, e->history, e->before);
  /* el_set would copy the names and lose them. */
  e->wide_set(e->line, EL_ADDFN, L"tenon-complete", L"complete a command", complete);
  e->set(e->line, EL_BIND, "^I", "tenon-complete", NULL);
  e->source(e->line, NULL); /* ~/.editrc */
  return true;
}

editor *edit_open(const char *const *words) {
  const char *kind = getenv("TERM");
  if (!isatty(STDIN_FILENO) || !isatty(STDERR_FILENO) || !kind || strcmp(kind, "dumb") == 0) return NULL;
  editor *e = calloc(1, sizeof *e);
  if (e && start(e, words)) return e;
  edit_close(e);
  return NULL;
}

void edit_close(editor *e) {
  if (!e) return;
  if (e->line) e->end(e->line);
  if (e->before) e->history_end(e->before);
  /* The library stays: it keeps what it read of the terminal until the program ends. */
  free(e->text);
  free(e);
}

line_kind edit_line(editor *e, const char *prompt, char **out) {
  int n = 0;
  HistEvent ev;
  e->prompt = prompt;
  e->resize(e->line);
  const char *line = e->gets(e->line, &n);
  if (!line) return cli_interrupted() ? LINE_INTERRUPTED : LINE_END;
  size_t length = (size_t)n;
  while (length && (line[length - 1] == '\n' || line[length - 1] == '\r')) length--;
  char *text = malloc(length + 1);
  if (!text) return LINE_END;
  memcpy(text, line, length);
  text[length] = '\0';
  if (length) e->history(e->before, &ev, H_ENTER, text);
  free(e->text);
  *out = e->text = text;
  return LINE;
}
#else
editor *edit_open(const char *const *words) {
  (void)words;
  return NULL;
}

void edit_close(editor *e) { (void)e; }

line_kind edit_line(editor *e, const char *prompt, char **out) {
  (void)e, (void)prompt, (void)out;
  return LINE_END;
}
#endif
