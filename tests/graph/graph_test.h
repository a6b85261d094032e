/* SPDX-License-Identifier: Apache-2.0
 *
 * Small builders for the suites of runtime/graph, and their entry points.
 */
#ifndef TENON_TESTS_GRAPH_TEST_H
#define TENON_TESTS_GRAPH_TEST_H

#include <CUnit/Basic.h>

#include "runtime/graph/ir.h"

/* A graph with its error. */
typedef struct fixture {
  tni_graph *g;
  tn_error err;
} fixture;

void fixture_init(fixture *f);
void fixture_finish(fixture *f);
/* The value of this name, made with kind ACT when it is new; NULL gives TN_NONE. */
tn_id val(fixture *f, const char *name);
/* A float32 graph input with the dims of text ("batch, 4"), "" for rank 0, NULL for unknown rank. */
tn_id input(fixture *f, const char *name, const char *dims);
tn_id constant(fixture *f, const char *name, uint32_t dtype, uint32_t rank, const int64_t *dims, void *data);
/* Adds a node named `name`; in and out are space separated value names, "-" is an absent one. */
tn_status node(fixture *f, const char *name, const char *type, const char *in, const char *out);
tn_status node_raw(fixture *f, const char *name, const char *type, int64_t version, const char *in, const char *out,
                   const tni_raw_attr *raw, uint32_t n_raw);
/* Graph inputs and outputs by space separated names. */
void io(fixture *f, const char *in, const char *out);
/* Node by name, or TN_NONE. */
tn_id node_id(const fixture *f, const char *name);
/* Names of live nodes in order, space separated. */
const char *order_of(const fixture *f, char *buf, size_t n);

/* message + " @ " + where holds every one of the "|"-separated parts. */
int err_has(const tn_error *e, const char *parts);

tni_raw_attr raw_int(const char *name, int64_t v);
tni_raw_attr raw_float(const char *name, double v);
tni_raw_attr raw_string(const char *name, const char *s);
tni_raw_attr raw_ints(const char *name, const int64_t *v, uint64_t n);
tni_raw_attr raw_graph(const char *name, tni_graph **g);

void add_op_suite(void);
void add_attr_suite(void);
void add_build_suite(void);
void add_subgraph_suite(void);
void add_edit_suite(void);
void add_view_suite(void);
void add_dump_suite(void);
void add_dtype_suite(void);
void add_random_suite(void);
void add_memory_suite(void);
void add_state_suite(void);

#endif
