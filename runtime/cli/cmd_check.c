/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/cli/cli.h"

static void refusal_text(json_t *refusals, char *buf, size_t cap) {
  const char *device;
  json_t *why;
  size_t at = 0;
  buf[0] = '\0';
  json_object_foreach(refusals, device, why) {
    int n = snprintf(buf + at, cap - at, "%s%s: %s", at ? "; " : "", device,
                     json_string_value(json_object_get(why, "text")));
    if (n < 0 || (size_t)n >= cap - at) break;
    at += (size_t)n;
  }
}

static void print_phase(json_t *phase, cli_format f, int only_unsupported) {
  static const char *const header[] = {"node", "op", "device", "format", "others refused because"};
  cli_table t;
  cli_table_init(&t, header, 5);
  size_t i;
  json_t *n;
  json_array_foreach(json_object_get(phase, "nodes"), i, n) {
    const char *device = json_string_value(json_object_get(n, "device"));
    const char *format = json_string_value(json_object_get(n, "format"));
    char why[1024], op[160];
    if (only_unsupported && device) continue;
    refusal_text(json_object_get(n, "refusals"), why, sizeof why);
    const char *domain = json_string_value(json_object_get(n, "domain"));
    snprintf(op, sizeof op, "%s%s%s-%lld", domain, *domain ? "." : "", json_string_value(json_object_get(n, "op")),
             (long long)json_integer_value(json_object_get(n, "version")));
    cli_table_add(&t, json_string_value(json_object_get(n, "name")), op, device ? device : "(none)",
                  format ? format : "", why);
  }
  cli_table_print(&t, f);
  cli_table_finish(&t);
}

static int print_check(cli *c, tn_model *m, int only_unsupported) {
  json_t *j = cli_report(c, m, TN_REPORT_CHECK);
  if (!j) return cli_fail(c, c->err.code ? c->err.code : TN_E_INTERNAL);
  long long unsupported = json_integer_value(json_object_get(j, "unsupported"));
  if (c->format == FMT_JSON) {
    json_dumpf(j, stdout, JSON_INDENT(1));
    putchar('\n');
  } else {
    print_phase(j, c->format, only_unsupported);
    json_t *decode = json_object_get(j, "decode");
    if (decode) {
      printf("\ndecode:\n");
      print_phase(decode, c->format, only_unsupported);
    }
    cli_note_placement(c, m);
  }
  json_decref(j);
  if (unsupported) cli_note("no device runs %lld nodes", unsupported);
  return unsupported ? EXIT_UNSUPPORTED : EXIT_DONE;
}

int cmd_check(int argc, const char **argv) {
  cli c = {.command = "check"};
  int only = 0, done;
  struct poptOption own[] = {{"unsupported", 0, POPT_ARG_NONE, &only, 0, "list only what nobody takes", NULL},
                             {"disable-pass", 0, POPT_ARG_STRING, &c.disable, 0, "leave these passes out, or all", "NAME,...|all"},
                             POPT_TABLEEND};
  poptContext pc;
  const char **rest;
  tn_model *m = NULL;
  int rc = cli_parse(&c, argc, argv, own, "MODEL [options]", &pc, &rest, &done);
  if (!rc && (!rest[0] || rest[1])) rc = cli_usage(&c, "one MODEL is needed");
  if (!rc) rc = cli_open(&c, 0);
  if (!rc) rc = cli_load(&c, rest[0], TN_MODEL_INSPECT, &m);
  if (!rc) rc = print_check(&c, m, only);
  tn_model_destroy(m);
  cli_finish(&c, pc);
  return rc;
}
