/* SPDX-License-Identifier: Apache-2.0
 *
 * The kinds of misbehaving plugins (corpus/NAME.c, or fake-engine in one of its modes) and what stops each.
 */
#ifndef TENON_TESTS_FAULTS_KINDS_H
#define TENON_TESTS_FAULTS_KINDS_H

#include <stddef.h>

/* In the order in which a plugin meets them. BY_NOTHING: nothing stops it, docs/security.md says why. */
typedef enum protection { BY_MANIFEST, BY_PROBE, BY_CALL, BY_PROCESS, BY_NOTHING } protection;

typedef struct kind {
  const char *name; /* of the file in corpus/, or of the case */
  protection by;
  const char *what;    /* for people */
  const char *says;    /* part of what is reported; "": nothing is, and the result is right all the same */
  const char *plugin;  /* NULL: name */
  const char *options; /* YAML, or NULL */
} kind;

extern const kind kinds[];
extern const size_t n_kinds;

const char *protection_name(protection by);

#endif
