/* SPDX-License-Identifier: Apache-2.0
 *
 * Lines that are typed at a terminal: moved in, completed, taken from those before. By libedit, which is opened when a
 * conversation begins; where it is not there, the terminal's own editing has to do.
 */
#ifndef TENON_CLI_CHAT_EDIT_H
#define TENON_CLI_CHAT_EDIT_H

#include <stdbool.h>

typedef enum line_kind { LINE, LINE_END, LINE_INTERRUPTED } line_kind;

typedef struct editor editor;

/* words: what Tab completes at the begin of a line, in order, the last NULL; they outlive the editor. NULL: there is no
 * libedit, or nobody types and looks. */
editor *edit_open(const char *const *words);
void edit_close(editor *e); /* NULL: nothing */
/* One line without its end at *out, valid until the next. LINE_INTERRUPTED: Ctrl-C. */
line_kind edit_line(editor *e, const char *prompt, char **out);
/* A terminal gives whole lines. False: Ctrl-C, whenever it came. */
bool edit_wait(void);

#endif
