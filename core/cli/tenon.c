/* SPDX-License-Identifier: MIT */
/* The command `tenon`: what there is on this machine and how the library is set. */
#include "cli/cli.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>

static int usage(FILE *to)
{
    fputs("usage: tenon COMMAND\n"
          "  devices [--json] [--wait SECONDS]\n"
          "                     every device of every plugin, and why a plugin has none; each is "
          "asked in\n"
          "                     a process of its own and given up after 20 seconds\n"
          "  env                every variable: value, default, when it acts, meaning\n"
          "  version            the version of the library\n",
          to);
    return to == stdout ? 0 : 2;
}

static int devices(int argc, char **argv)
{
    bool json = false;
    long seconds = 20;
    for (int i = 2; i < argc; i++) {
        char *end;
        if (!strcmp(argv[i], "--json")) {
            json = true;
        } else if (!strcmp(argv[i], "--wait") && i + 1 < argc) {
            seconds = strtol(argv[++i], &end, 10);
            if (*end || seconds < 1 || seconds > 3600) return usage(stderr);
        } else
            return usage(stderr);
    }
    return cli_devices(argv[0], json, (int)seconds);
}

int main(int argc, char **argv)
{
    const char *command = argc > 1 ? argv[1] : "", *arg = argc > 2 ? argv[2] : "";
    if (!strcmp(command, "devices") && argc == 4 && !strcmp(arg, "--probe"))
        return cli_probe(argv[3]);
    if (!strcmp(command, "devices") && argc == 3 && !strcmp(arg, "--default")) return cli_default();
    if (!strcmp(command, "devices")) return devices(argc, argv);
    if (!strcmp(command, "env") && argc == 2) return cli_env();
    if ((!strcmp(command, "version") || !strcmp(command, "--version")) && argc == 2) {
        puts(tn_version());
        return 0;
    }
    if (!strcmp(command, "help") || !strcmp(command, "--help") || !strcmp(command, "-h"))
        return usage(stdout);
    if (argc > 1) fprintf(stderr, "tenon: no such command: %s %s\n", command, arg);
    return usage(stderr);
}
