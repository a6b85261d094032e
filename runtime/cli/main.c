/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>

#include "runtime/cli/cli.h"

static const struct {
  const char *name;
  int (*fn)(int argc, const char **argv);
  const char *help;
} commands[] = {
    {"run", cmd_run, "generate text from a prompt"},
    {"infer", cmd_infer, "run any model once on tensors from files"},
    {"verify", cmd_verify, "compare with expected outputs or with an oracle"},
    {"check", cmd_check, "which device takes each node, and why others refused"},
    {"inspect", cmd_inspect, "inputs, outputs, dims, passes, memory"},
    {"embed", cmd_embed, "vectors of texts, and which are close to a query"},
    {"classify", cmd_classify, "classes of images; with a CLIP model, which labels fit"},
    {"plugins", cmd_plugins, "plugins, devices, formats, and why others were not loaded"},
    {"eval", cmd_eval, "perplexity of a text"},
    {"bench", cmd_bench, "speed of a language model, beside its peers"},
    {"trace", cmd_trace, "one run as a trace for Perfetto"},
    {"pack", cmd_pack, "pack weights ahead of time, and how exact they are"},
    {"conform", cmd_conform, "the vendor kit: is this plugin correct, or here is the case where it is not"},
    {"new-plugin", cmd_new_plugin, "a folder to begin a backend plugin with"},
    {"bundle", cmd_bundle, "a folder with just what a model needs on one kind of device"},
    {"calibrate", cmd_calibrate, "activation statistics on a text, for formats that need them"},
};

static int print_help(FILE *f) {
  fprintf(f, "tenon %s: runs exported ONNX models through backend plugins\n\nusage: tenon COMMAND [options]\n\n",
          tn_version());
  for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
    fprintf(f, "  %-11s %s\n", commands[i].name, commands[i].help);
  fprintf(f, "\n`tenon COMMAND --help` lists a command's options.\n");
  return f == stdout ? EXIT_DONE : EXIT_USAGE;
}

/* From what the kernel gave the process: left alone, jansson opens /dev/urandom. */
static void seed_json(void) {
  const void *random = (const void *)getauxval(AT_RANDOM);
  size_t seed = 0;
  if (random) memcpy(&seed, random, sizeof seed);
  json_object_seed(seed | 1);
}

int main(int argc, char **argv) {
  seed_json();
  if (argc < 2) return print_help(stderr);
  if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "help") == 0)
    return print_help(stdout);
  if (strcmp(argv[1], "--version") == 0) return printf("tenon %s\n", tn_version()) < 0;
  for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
    if (strcmp(argv[1], commands[i].name) == 0) return commands[i].fn(argc - 1, (const char **)argv + 1);
  fprintf(stderr, "tenon: unknown command '%s'\n\n", argv[1]);
  return print_help(stderr);
}
