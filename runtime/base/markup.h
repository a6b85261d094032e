/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TENON_BASE_MARKUP_H
#define TENON_BASE_MARKUP_H

#include <stdio.h>

/* s as text of XML or HTML, in attributes too. Control characters that XML does not have become spaces. s: NULL is nothing. */
void tni_put_markup(const char *s, FILE *f);

/* s as a word of a shell: as it is where no letter of it means something there, else in quotes. */
void tni_put_word(const char *s, FILE *f);

#endif
