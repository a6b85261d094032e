/* SPDX-License-Identifier: Apache-2.0
 *
 * A plugin's first load in a child (tenon-helper probe), confined as its manifest says, with the system calls of
 * `driver` (docs/security.md): load, entry, enumerate, open, close, shutdown, end of the
 * process. What a child can find out about a plugin costs its life, not the host's: a signal, an exit, a hang, and what
 * it leaves changed behind (procstate.h) is misconduct; a status that a plugin returns is an answer.
 *
 * On the channel, one JSON object a line. The host says what to load; the child answers
 *   {"walls": {"stand", "landlock"}}         first: what confines it (walls.h)
 *   {"at": "enumerate"}                      before it calls the plugin, so that the host knows where it ended
 *   {"misconduct": "enumerate leaves ..."}   and ends
 *   {"refused": {"status", "vendor", "where", "message", "profile"}} or {"passed": {"devices": n}}
 * and ends with TNI_PROBE_EXIT once everything that runs at a process's end has run.
 */
#ifndef TENON_PLUGIN_PROBE_H
#define TENON_PLUGIN_PROBE_H

#include "runtime/plugin/opening.h"

/* A path need not be UTF-8, as JSON is: each of its bytes is sent as the character of that number. malloc'd; NULL
 * without memory, and of NULL. */
char *tni_probe_text_of_path(const char *path);
/* The path again. */
char *tni_probe_path_of_text(const char *text);

enum { TNI_PROBE_EXIT = 42, TNI_PROBE_MS = 30000, TNI_PROBE_LINE = 1 << 20 };

/* What is to be probed. */
typedef struct tni_probe_what {
  const char *name, *folder, *so;
  const char *profile_file;          /* for messages about options */
  const tni_profile_plugin *section; /* its options; may be NULL */
  uint32_t confine;                  /* TNI_CONFINE_*: its manifest's */
} tni_probe_what;

typedef struct tni_probe_result {
  bool misconduct;      /* false with a status that is not OK: the plugin's (or the profile's) own refusal */
  bool profile_mistake; /* the refusal is about the profile's options */
  double ms;
  tni_walls walls; /* what confined it, as the child said before it loaded the plugin */
} tni_probe_result;

/* TN_OK: it can be loaded. Else err says what happened with the plugin's name: misconduct is TN_E_INTERNAL. A helper
 * that cannot be started, or ends or takes TNI_PROBE_MS before it calls the plugin, is TN_E_UNAVAILABLE and no
 * misconduct. */
TN_MUST_CHECK tn_status tni_probe_run(const tni_registry_opts *o, const tni_probe_what *what, tni_probe_result *out,
                                      tn_error *err);


#endif
