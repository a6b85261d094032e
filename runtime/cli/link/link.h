/* SPDX-License-Identifier: Apache-2.0
 *
 * The door of runtime/cli/link: the program of `tenon bundle --static`, linked from its static parts.
 */
#ifndef TENON_CLI_LINK_H
#define TENON_CLI_LINK_H

#include <tenon/tenon.h>

/* Where a program for --static comes from. */
typedef struct cli_link {
  const char *program;                       /* the tenon that LIBDIR/tenon/static stands beside */
  const char *plugin_dir;                    /* LIBDIR/tenon/plugins, or NULL */
  const char *compiler;                      /* NULL: cc */
  bool whole;                                /* the C library is linked in too */
  void (*used)(void *ctx, const char *file); /* called with each archive */
  void *ctx;
} cli_link;
/* Links `out`, the program with these plugins inside. TN_E_UNAVAILABLE: no compiler, or the parts are not installed. */
tn_status cli_link_static(const cli_link *from, const char *const *plugins, uint32_t n, const char *out, tn_error *err);

#endif
