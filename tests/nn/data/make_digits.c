/* SPDX-License-Identifier: MIT */
/* Writes a small data set in MNIST's files into a folder: a bright block whose place is the label, and noise. */
#include <stdint.h>
#include <stdio.h>

static uint32_t state = 1;
static unsigned rnd(unsigned n)
{
    state = state * 1664525u + 1013904223u;
    return (state >> 16) % n;
}

static void put32(FILE *f, unsigned v)
{
    for (int s = 24; s >= 0; s -= 8) fputc((int)(v >> s & 255), f);
}

static int write_set(const char *folder, const char *name, unsigned n)
{
    char path[600];
    snprintf(path, sizeof path, "%s/%s-images-idx3-ubyte", folder, name);
    FILE *x = fopen(path, "wb");
    snprintf(path, sizeof path, "%s/%s-labels-idx1-ubyte", folder, name);
    FILE *y = fopen(path, "wb");
    if (!x || !y) return 1;
    put32(x, 0x803), put32(x, n), put32(x, 28), put32(x, 28);
    put32(y, 0x801), put32(y, n);
    for (unsigned i = 0; i < n; i++) {
        const int label = (int)rnd(10), top = 4 + label / 5 * 12, left = 2 + label % 5 * 5;
        fputc(label, y);
        for (int r = 0; r < 28; r++)
            for (int c = 0; c < 28; c++)
                fputc(r >= top && r < top + 6 && c >= left && c < left + 4 ? 255 : (int)rnd(60), x);
    }
    return fclose(x) | fclose(y);
}

int main(int argc, char **argv)
{
    return argc != 2 || write_set(argv[1], "train", 2000) || write_set(argv[1], "t10k", 1000);
}
