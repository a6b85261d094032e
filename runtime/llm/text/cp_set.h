/* SPDX-License-Identifier: Apache-2.0
 *
 * Sets of code points, for the classes of regexes: one bit each, so that every operation is a loop over 139 KB whatever
 * a file says. Properties are those of the regexes of PyPI's `tokenizers`.
 */
#ifndef TENON_LLM_TEXT_CP_SET_H
#define TENON_LLM_TEXT_CP_SET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TNI_CPS = 0x110000, TNI_CP_WORDS = TNI_CPS / 64 };
typedef struct tni_cp_set {
  uint64_t v[TNI_CP_WORDS];
} tni_cp_set;

tni_cp_set *tni_cp_set_create(void); /* empty; free() */
void tni_cp_set_add(tni_cp_set *s, uint32_t lo, uint32_t hi);
void tni_cp_set_drop(tni_cp_set *s, uint32_t lo, uint32_t hi);
bool tni_cp_set_has(const tni_cp_set *s, uint32_t cp);
bool tni_cp_set_has_all(const tni_cp_set *s, uint32_t lo, uint32_t hi);
void tni_cp_set_not(tni_cp_set *s);
void tni_cp_set_or(tni_cp_set *s, const tni_cp_set *b);
void tni_cp_set_and(tni_cp_set *s, const tni_cp_set *b);
/* First range at or after *at; *at is then after it. False: none. */
bool tni_cp_set_next(const tni_cp_set *s, uint32_t *at, uint32_t *lo, uint32_t *hi);
typedef enum { TNI_UNKNOWN, TNI_FOUND, TNI_NO_MEMORY } tni_found;
/* name: as in \p{NAME}; "script=", "sc=" before it are allowed; ":punct", ":word" are those of POSIX brackets.
 * TNI_UNKNOWN: no such property. */
tni_found tni_cp_set_add_property(tni_cp_set *s, const char *name, size_t n, bool negated);

/* General categories by number, TNI_CAT_LU first. */
enum {
  TNI_CAT_LU,
  TNI_CAT_LL,
  TNI_CAT_MN = 5,
  TNI_CAT_MC,
  TNI_CAT_CS = 27,
  TNI_CAT_CO,
  TNI_CAT_CN,
  TNI_CAT_PAIRS,
  TNI_CATS = TNI_CAT_PAIRS
};
extern const char tni_category_names[TNI_CATS][3];
/* Categories that are wholly in the set, one bit each. */
uint32_t tni_cp_set_categories(const tni_cp_set *s);
/* Adds the other case of each member, by lower case alone: what PCRE2 may be too old to add. */
void tni_cp_set_add_cases(tni_cp_set *s);
/* Removes from s what PCRE2 knows to be of these categories, whatever its Unicode version from 14 on. */
void tni_cp_set_drop_known(tni_cp_set *s, uint32_t categories);

#endif
