/* SPDX-License-Identifier: MIT */
/* Private to the command: one function a subcommand; each gives the exit status. */
#ifndef TN_CLI_CLI_H
#define TN_CLI_CLI_H
#include <stdbool.h>

int cli_devices(const char *self, bool json, int seconds); /* seconds: for each plugin */
int cli_probe(
    const char *plugin); /* in a child of cli_devices: a record a device on standard output */
int cli_default(void);   /* the same for the default device's name */
int cli_env(void);
#endif
