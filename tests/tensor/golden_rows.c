/* SPDX-License-Identifier: MIT */
/* Reads tests/golden/methods.bin. */
#include "golden_rows.h"
#include "../test.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static unsigned char *file;
const unsigned char *golden_file, *golden_end;

void golden_load(void)
{
    char path[4096]; /* TENON_TEST_DATA: where the tests are installed */
    const char *dir = getenv("TENON_TEST_DATA");
    snprintf(path, sizeof path, "%s/methods.bin", dir ? dir : TEST_SOURCE_DIR "/tests/golden");
    FILE *f = fopen(path, "rb");
    ck_assert(f != NULL);
    fseek(f, 0, SEEK_END);
    size_t size = (size_t)ftell(f);
    rewind(f);
    file = malloc(size);
    ck_assert(fread(file, 1, size, f) == size);
    fclose(f);
    golden_file = file;
    golden_end = file + size;
}

void golden_unload(void)
{
    free(file);
    file = NULL;
    golden_file = golden_end = NULL;
}

static const unsigned char *tensor_at(const unsigned char *p, golden *g)
{
    g->dt = (tn_dtype)p[0];
    g->rank = p[1];
    g->n = 1;
    p += 2;
    for (int i = 0; i < g->rank; i++, p += 4) {
        int32_t d;
        memcpy(&d, p, 4);
        g->dims[i] = d;
        g->n *= d;
    }
    g->data = p;
    return p + (size_t)g->n * tn_dtype_size(g->dt);
}

static const unsigned char *text_at(const unsigned char *p, char *to)
{
    memcpy(to, p + 1, *p);
    to[*p] = 0;
    return p + 1 + *p;
}

const unsigned char *golden_row_at(const unsigned char *p, row *w)
{
    uint16_t np;
    p = text_at(text_at(p, w->name), w->text);
    memcpy(&np, p, 2);
    memcpy(w->p, p + 2, np * sizeof(double));
    p += 2 + np * sizeof(double);
    w->r = (method_row){.text = w->text, .p = w->p, .np = np, .nin = *p++};
    for (int i = 0; i < w->r.nin; i++) p = tensor_at(p, &w->in[i]);
    w->r.nout = *p++;
    for (int i = 0; i < w->r.nout; i++) p = tensor_at(p, &w->out[i]);
    memcpy(&w->tol, p, 4);
    return p + 4;
}

tn__scalar golden_element(const golden *g, const unsigned char *data, int64_t i)
{
    uint64_t bits = 0;
    size_t size = tn__dtype_size(g->dt);
    memcpy(&bits, data + (size_t)i * size, size);
    return tn__scalar_from_bits(g->dt, bits);
}

void golden_inputs(row *w)
{
    for (int i = 0; i < w->r.nin; i++) {
        const golden *g = &w->in[i];
        tn_data_opts o = {.size = sizeof o, .dtype = g->dt};
        w->r.in[i] = (tn_from_data)(g->data, &(tn_shape){(size_t)g->rank, g->dims}, &o);
    }
}
