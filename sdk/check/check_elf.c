/* SPDX-License-Identifier: MIT */
/* What a shared object exports, misses and needs, read from its dynamic section.  ELF of this machine only. */
#define _GNU_SOURCE
#include "check.h"
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#ifdef __linux__
#include <elf.h>
#include <link.h>

typedef struct {
    const char *p;
    size_t n;
} image;

static const void *at(const image *m, uint64_t off, uint64_t n)
{
    return off <= m->n && n <= m->n - off ? m->p + off : NULL;
}

static void add(char ***list, size_t *n, const char *s)
{
    *list = realloc(*list, (*n + 2) * sizeof **list);
    if (!*list) fail("no memory");
    (*list)[(*n)++] = strdup(s);
    (*list)[*n] = NULL;
}

static const char *text(const image *m, const ElfW(Shdr) * strings, uint64_t i)
{
    const char *s = at(m, strings->sh_offset + i, 1);
    return s && memchr(s, 0, m->n - (size_t)(s - m->p)) ? s : "";
}

static void read_symbols(const image *m, const ElfW(Shdr) * h, const ElfW(Shdr) * strings,
                         elf_names *out, size_t *nx, size_t *nu)
{
    for (uint64_t i = 1; i < h->sh_size / sizeof(ElfW(Sym)); i++) {
        const ElfW(Sym) *s = at(m, h->sh_offset + i * sizeof *s, sizeof *s);
        if (!s) return;
        const int bind = s->st_info >> 4;
        const char *name = text(m, strings, s->st_name);
        if (s->st_shndx == SHN_UNDEF) {
            if (bind == STB_GLOBAL) add(&out->undefined, nu, name);
        } else if (bind != STB_LOCAL && (s->st_other & 3) != STV_HIDDEN) {
            add(&out->exported, nx, name);
        }
    }
}

static void read_dynamic(const image *m, const ElfW(Shdr) * h, const ElfW(Shdr) * strings,
                         elf_names *out)
{
    size_t n = 0;
    for (uint64_t i = 0; i < h->sh_size / sizeof(ElfW(Dyn)); i++) {
        const ElfW(Dyn) *d = at(m, h->sh_offset + i * sizeof *d, sizeof *d);
        if (!d || d->d_tag == DT_NULL) return;
        if (d->d_tag == DT_NEEDED) add(&out->needed, &n, text(m, strings, d->d_un.d_val));
    }
}

bool elf_read(const char *path, elf_names *out)
{
    struct stat st;
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st)) fail("cannot be read");
    void *p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
    if (p == MAP_FAILED) fail("cannot be mapped");
    const image m = {p, (size_t)st.st_size};
    const ElfW(Ehdr) *e = at(&m, 0, sizeof *e);
    if (!e || memcmp(e->e_ident, ELFMAG, SELFMAG) != 0) return false;
    const ElfW(Shdr) *h = at(&m, e->e_shoff, (uint64_t)e->e_shnum * sizeof *h);
    size_t nx = 0, nu = 0, n = 0;
    *out = (elf_names){0};
    add(&out->exported, &n, "");
    n = 0, add(&out->undefined, &n, "");
    n = 0, add(&out->needed, &n, "");
    out->exported[0] = out->undefined[0] = out->needed[0] = NULL;
    for (int i = 0; h && i < e->e_shnum; i++) {
        if (h[i].sh_link >= e->e_shnum) continue;
        if (h[i].sh_type == SHT_DYNSYM) read_symbols(&m, &h[i], &h[h[i].sh_link], out, &nx, &nu);
        if (h[i].sh_type == SHT_DYNAMIC) read_dynamic(&m, &h[i], &h[h[i].sh_link], out);
    }
    return true;
}
#else
bool elf_read(const char *path, elf_names *out)
{
    (void)path, (void)out;
    return false;
}
#endif
