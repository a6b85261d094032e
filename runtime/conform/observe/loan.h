/* SPDX-License-Identifier: Apache-2.0
 *
 * What is passed into a call lives for the call: copies of it that are taken away when the call is over. Whoever still
 * reads them then is stopped by a fault, and tni_cf_loan_at says of which call they were.
 */
#ifndef TENON_CONFORM_OBSERVE_LOAN_H
#define TENON_CONFORM_OBSERVE_LOAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct tni_cf_loan {
  uint8_t *map, *at, *end; /* the pages; the next free byte; the first byte of the page that may never be touched */
  const char *call;
} tni_cf_loan;

/* Room for `bytes`, and 160 for each of up to 16 pieces. call: a literal. False without memory: nothing is lent then. */
bool tni_cf_loan_begin(tni_cf_loan *l, const char *call, size_t bytes);
/* A copy of n bytes at p, aligned to 16; NULL where p is NULL, or where the room is used up. */
void *tni_cf_loan_copy(tni_cf_loan *l, const void *p, size_t n);
/* The call is over. */
void tni_cf_loan_end(tni_cf_loan *l);

/* The call that p was lent to, and was taken back from; NULL: none of the last ones. From a signal handler too. */
const char *tni_cf_loan_at(const void *p);

/* Memory that may not be touched any more, for as long as the process lives. what: a literal, for the finding. */
void tni_cf_loan_gone(const void *p, size_t bytes, const char *what);
/* What lay at p, or NULL. From a signal handler too. */
const char *tni_cf_loan_gone_at(const void *p);

#endif
