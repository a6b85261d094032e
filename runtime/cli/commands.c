/* SPDX-License-Identifier: Apache-2.0
 *
 * The commands, and what is answered without one: help, the version, the man page, completion.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/cli/cli.h"

static const cli_command commands[] = {
    {"run", cmd_run},       {"chat", cmd_chat},           {"serve", cmd_serve},         {"infer", cmd_infer},
    {"verify", cmd_verify}, {"check", cmd_check},         {"inspect", cmd_inspect},
    {"embed", cmd_embed},   {"classify", cmd_classify},   {"plugins", cmd_plugins},
    {"eval", cmd_eval},     {"bench", cmd_bench},         {"trace", cmd_trace},
    {"pack", cmd_pack},     {"conform", cmd_conform},     {"new-plugin", cmd_new_plugin},
    {"bundle", cmd_bundle}, {"calibrate", cmd_calibrate}, {"quantize", cmd_quantize},
    {"report", cmd_report},
};
enum { COMMANDS = sizeof commands / sizeof *commands };

static const cli_command *find_command(const char *name) {
  for (size_t i = 0; i < COMMANDS; i++)
    if (strcmp(name, commands[i].name) == 0) return &commands[i];
  return NULL;
}

static const char about[] = "runs exported ONNX models through backend plugins";

static int print_help(FILE *f) {
  fprintf(f, "tenon %s: %s\n\nUsage: tenon COMMAND [options]\n\n", tn_version(), about);
  for (size_t i = 0; i < COMMANDS; i++) fprintf(f, "  %-11s %s\n", commands[i].name, cli_summary(commands[i].name));
  fprintf(f,
          "\n`tenon help COMMAND` lists a command's options. `tenon --version` says which Tenon this is.\n"
          "`tenon help man` writes a man page, `tenon help bash` a script that completes commands and options.\n");
  return f == stdout ? EXIT_DONE : EXIT_USAGE;
}

static int show_command(const cli_command *command, const char *how) {
  const char *argv[] = {command->name, "--show", how, NULL};
  return command->run(3, argv);
}

static int print_man(void) {
  printf(
      ".TH TENON 1 \"\" \"tenon %s\"\n.SH NAME\ntenon \\- %s\n.SH SYNOPSIS\n.B tenon\n\\fICOMMAND\\fR [options]\n"
      ".SH COMMANDS\n",
      tn_version(), about);
  for (size_t i = 0; i < COMMANDS; i++) show_command(&commands[i], "man");
  printf(
      ".SH OPTIONS OF EVERY COMMAND\nSee `tenon %s \\-\\-help`.\n.SH EXIT STATUS\n"
      "0 done; 1 a check failed; 2 usage; 3 bad input; 4 unsupported; 5 a plugin or device failed; 6 the output could "
      "not be written; 130 interrupted; 141 the pipe was closed; 143 SIGTERM.\n",
      commands[0].name);
  return EXIT_DONE;
}

/* Options by command, in a case statement. */
static int print_completion(void) {
  printf("# bash completion for tenon: . <(tenon help bash)\n_tenon() {\n  local words\n  case ${COMP_WORDS[1]} in\n");
  for (size_t i = 0; i < COMMANDS; i++) {
    printf("  %s) words='", commands[i].name);
    show_command(&commands[i], "words");
    printf("' ;;\n");
  }
  printf("  help) words='man bash");
  for (size_t i = 0; i < COMMANDS; i++) printf(" %s", commands[i].name);
  printf("' ;;\n  *) words='help");
  for (size_t i = 0; i < COMMANDS; i++) printf(" %s", commands[i].name);
  printf(
      "' ;;\n  esac\n  [ \"$COMP_CWORD\" -gt 1 ] && [ \"${2:0:1}\" != - ] && [ \"${COMP_WORDS[1]}\" != help ] && return\n"
      "  COMPREPLY=($(compgen -W \"$words\" -- \"$2\"))\n}\ncomplete -o default -F _tenon tenon\n");
  return EXIT_DONE;
}

static int refuse_command(const char *name, int argc, const char **argv) {
  const char *words[COMMANDS + 1];
  cli c = {.command = NULL};
  for (size_t i = 0; i < COMMANDS; i++) words[i] = commands[i].name;
  words[COMMANDS] = "help";
  const char *near = opts_near(name, words, COMMANDS + 1);
  tn_long_error_init(&c.whole);
  cli_find_json(&c, argc, argv);
  if (near) return cli_usage(&c, "there is no command '%.80s': did you mean '%s'?", name, near);
  return cli_usage(&c, "there is no command '%.80s'", name);
}

/* tenon help [COMMAND|man|bash] */
static int help_on(int argc, const char **argv) {
  if (argc < 3) return print_help(stdout);
  if (strcmp(argv[2], "man") == 0) return print_man();
  if (strcmp(argv[2], "bash") == 0) return print_completion();
  const cli_command *command = find_command(argv[2]);
  if (!command) return refuse_command(argv[2], argc, argv);
  const char *help[] = {command->name, "--help", NULL};
  return command->run(2, help);
}

static bool is_one_of(const char *word, const char *a, const char *b) { return !strcmp(word, a) || !strcmp(word, b); }

int cli_dispatch(int argc, const char **argv) {
  if (argc < 2) return print_help(stderr);
  if (is_one_of(argv[1], "--version", "-V")) return printf("tenon %s\n", tn_version()) < 0;
  if (is_one_of(argv[1], "--help", "-h")) return print_help(stdout);
  if (strcmp(argv[1], "help") == 0) return help_on(argc, argv);
  const cli_command *command = find_command(argv[1]);
  if (!command) return refuse_command(argv[1], argc, argv);
  return command->run(argc - 1, argv + 1);
}
