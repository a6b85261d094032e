/* SPDX-License-Identifier: Apache-2.0
 *
 * One command of this program, run in a process of its own; what it gave is kept in the work folder.
 */
#ifndef TENON_CLI_PAGE_ASK_H
#define TENON_CLI_PAGE_ASK_H

#include <stdbool.h>

#include "runtime/base/base.h"
#include "runtime/base/json.h"
#include "runtime/cli/page/page.h"

enum { PAGE_WORDS = 48, PAGE_PATH = 4096 };

/* A command's words; what they point to lives longer. */
typedef struct page_words {
  const char *v[PAGE_WORDS];
  size_t n;
} page_words;

typedef struct page_asker {
  const cli_page *with;
  char work[PAGE_PATH - 256]; /* the folder */
  char self[PAGE_PATH];       /* this program */
  char stamp[512];            /* of the files that answers are of */
  json_t *commands;           /* list of {"id", "line", "why"}: what was run, in order */
  int done, count;
  tn_error *err;
} page_asker;

/* Words, the last one NULL. */
void page_say(page_words *w, const char *const *words);
/* id: names the command on the page and its file in the work folder. *answer: the object that it printed, the caller's;
 * NULL: it failed, "why" of the command says how. TN_E_CANCELLED, TN_E_NO_MEMORY, TN_E_IO. */
TN_MUST_CHECK tn_status page_ask(page_asker *a, const char *id, const page_words *words, json_t **answer);
/* The same question was answered before. */
bool page_known(page_asker *a, const char *id, const page_words *words);
/* Why the command of this id failed; NULL: it did not, or was not run. */
const char *page_why(const page_asker *a, const char *id);
/* A folder with all that is in it. */
void page_remove(const char *folder);

#endif
