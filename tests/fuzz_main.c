/* SPDX-License-Identifier: MIT */
/*
 * Runs a fuzz target over its corpus as a plain test: every file named, or in a folder named.
 * usage: fuzz_NAME FILE or FOLDER...
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static int run_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (!f) return 0;
    size_t n = 0, cap = 1 << 20;
    uint8_t *data = malloc(cap);
    for (size_t k; data && (k = fread(data + n, 1, cap - n, f)) > 0;) {
        n += k;
        if (n == cap) data = realloc(data, cap *= 2);
    }
    fclose(f);
    if (data) LLVMFuzzerTestOneInput(data, n);
    free(data);
    return 1;
}

int main(int argc, char **argv)
{
    int n = 0;
    for (int i = 1; i < argc; i++) {
        DIR *d = opendir(argv[i]);
        if (!d) {
            n += run_file(argv[i]);
            continue;
        }
        for (const struct dirent *e; (e = readdir(d));) {
            char path[4096];
            snprintf(path, sizeof path, "%s/%s", argv[i], e->d_name);
            if (e->d_name[0] != '.') n += run_file(path);
        }
        closedir(d);
    }
    printf("%d inputs\n", n);
    if (n) return 0;
    printf("the corpus is empty or not there\n");
    return 1;
}
