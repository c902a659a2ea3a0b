/* SPDX-License-Identifier: MIT */
/*
 * Relocatable objects (what CPU:LLVM compiles to) into memory of this process, without a linker.
 *
 *  1. sections that are loaded: code first, then, on pages of their own, constants and a table of addresses (GOT)
 *  2. symbols: defined ones have addresses; an undefined one must be in `known` and gets a jump (stub)
 *  3. relocations of x86-64 and aarch64 that position-independent code has
 *  4. code becomes executable, the rest read-only: no page is ever writable and executable
 *
 * The bytes come from a disk cache: every offset is checked against the object before it is used, and what is
 * not known here is an error, never a guess.
 */
#define _GNU_SOURCE
#include "cpu.h"
#include <elf.h>
#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { STUB = 16, MAX_SECTIONS = 256, MAX_SYMBOLS = 4096, NAME = 72 };

struct cpu__image {
    unsigned char *base;
    size_t bytes, ncode;
    uint32_t nsym;
    struct {
        char name[NAME];
        unsigned char *at;
    } sym[];
};

typedef struct {
    const unsigned char *p;
    size_t n;
    const Elf64_Ehdr *h;
    const Elf64_Shdr *sec;
    const Elf64_Sym *sym;
    const char *names; /* of symbols */
    size_t nnames, nsym;
    unsigned char *at[MAX_SECTIONS]; /* NULL: not loaded */
    size_t off[MAX_SECTIONS];
    unsigned char *base, *stubs, *got, **addr; /* addr: by symbol */
    size_t text_bytes, bytes;
    tnp_err *e;
} obj;

#if defined(__aarch64__)
enum { HOST = EM_AARCH64 };
#else
enum { HOST = EM_X86_64 };
#endif

static tnp_rc bad(const obj *o, const char *what)
{
    return cpu__fail(o->e, TNP_E_ARG, 0, "CPU: object of %zu bytes: %s", o->n, what);
}

/* ---- functions that code may call ---- */

typedef void any_fn(void);
static any_fn *known(const char *name)
{
    static const struct {
        const char *name;
        any_fn *fn;
    } list[] = {
        {"exp2", (any_fn *)exp2},     {"log2", (any_fn *)log2},     {"sin", (any_fn *)sin},
        {"fma", (any_fn *)fma},       {"fmaf", (any_fn *)fmaf},     {"floor", (any_fn *)floor},
        {"floorf", (any_fn *)floorf}, {"trunc", (any_fn *)trunc},   {"truncf", (any_fn *)truncf},
        {"memcpy", (any_fn *)memcpy}, {"memset", (any_fn *)memset}, {"memmove", (any_fn *)memmove}};
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        if (!strcmp(list[i].name, name)) return list[i].fn;
    return NULL;
}

/* ---- step 1 ---- */

static bool inside(size_t n, uint64_t off, uint64_t len) { return off <= n && len <= n - off; }

static tnp_rc open_object(obj *o)
{
    const Elf64_Ehdr *h = o->h = (const void *)o->p;
    if (o->n < sizeof *h || memcmp(h->e_ident, ELFMAG, SELFMAG) ||
        h->e_ident[EI_CLASS] != ELFCLASS64 || h->e_ident[EI_DATA] != ELFDATA2LSB)
        return bad(o, "no 64-bit little-endian ELF file");
    if (h->e_type != ET_REL) return bad(o, "no relocatable object");
    if (h->e_machine != HOST) return bad(o, "made for another kind of processor");
    if (h->e_shentsize != sizeof *o->sec || h->e_shnum > MAX_SECTIONS || h->e_shoff % 8 ||
        !inside(o->n, h->e_shoff, (uint64_t)h->e_shnum * sizeof *o->sec))
        return bad(o, "its table of sections is damaged");
    o->sec = (const void *)(o->p + h->e_shoff);
    for (unsigned i = 0; i < h->e_shnum; i++) {
        const Elf64_Shdr *s = &o->sec[i];
        if (s->sh_type != SHT_NOBITS && s->sh_type != SHT_NULL &&
            !inside(o->n, s->sh_offset, s->sh_size))
            return bad(o, "a section lies outside it");
        if (s->sh_type != SHT_SYMTAB) continue;
        if (o->sym || s->sh_entsize != sizeof *o->sym || s->sh_offset % 8 ||
            s->sh_link >= h->e_shnum || o->sec[s->sh_link].sh_type != SHT_STRTAB)
            return bad(o, "its table of symbols is damaged");
        o->sym = (const void *)(o->p + s->sh_offset);
        o->nsym = s->sh_size / sizeof *o->sym;
        o->names = (const char *)o->p + o->sec[s->sh_link].sh_offset;
        o->nnames = o->sec[s->sh_link].sh_size;
    }
    if (!o->sym || o->nsym > MAX_SYMBOLS || !o->nnames || o->names[o->nnames - 1])
        return bad(o, "its table of symbols is damaged");
    return TNP_OK;
}

/* Unwind tables are no use to anyone here: kernels call nothing that unwinds. */
static bool loaded(const obj *o, unsigned i)
{
    const Elf64_Shdr *s = &o->sec[i], *names = &o->sec[o->h->e_shstrndx];
    if (!(s->sh_flags & SHF_ALLOC) || !s->sh_size || s->sh_type != SHT_PROGBITS) return false;
    return s->sh_name >= names->sh_size || names->sh_size - s->sh_name < 10 ||
           memcmp(o->p + names->sh_offset + s->sh_name, ".eh_frame", 10);
}

static size_t round_up(size_t n, size_t to) { return (n + to - 1) / to * to; }

static tnp_rc place(obj *o)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t w = 0;
    if (o->h->e_shstrndx >= o->h->e_shnum || o->sec[o->h->e_shstrndx].sh_type != SHT_STRTAB)
        return bad(o, "its table of sections is damaged");
    for (int code = 1; code >= 0; code--) {
        for (unsigned i = 0; i < o->h->e_shnum; i++) {
            const Elf64_Shdr *s = &o->sec[i];
            if ((s->sh_flags & SHF_ALLOC) && s->sh_size && s->sh_type == SHT_NOBITS)
                return bad(o, "it has variables");
            const int is_code = (s->sh_flags & SHF_EXECINSTR) != 0;
            if (!loaded(o, i) || is_code != code) continue;
            const uint64_t align = s->sh_addralign ? s->sh_addralign : 1;
            if (align > page || (align & (align - 1)))
                return bad(o, "a section has an alignment that cannot be");
            w = round_up(w, align);
            o->off[i] = w;
            w += s->sh_size;
        }
        w = round_up(w, 16);
        if (code) {
            o->stubs = (unsigned char *)w; /* offsets as yet */
            w += o->nsym * STUB;
            o->text_bytes = w = round_up(w, page);
        }
    }
    o->got = (unsigned char *)w;
    o->bytes = round_up(w + o->nsym * 8, page);
    void *m = mmap(NULL, o->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (m == MAP_FAILED)
        return cpu__fail(o->e, TNP_E_NOMEM, errno, "CPU: no memory for %zu bytes of code",
                         o->bytes);
    o->base = m;
    o->stubs = o->base + (uintptr_t)o->stubs;
    o->got = o->base + (uintptr_t)o->got;
    for (unsigned i = 0; i < o->h->e_shnum; i++) {
        if (!loaded(o, i)) continue;
        o->at[i] = o->base + o->off[i];
        memcpy(o->at[i], o->p + o->sec[i].sh_offset, o->sec[i].sh_size);
    }
    return TNP_OK;
}

/* ---- step 2 ---- */

static void put_stub(unsigned char *w, const void *to)
{
#if defined(__aarch64__)
    static const unsigned char code[8] = {0x50, 0, 0, 0x58, 0, 0x02, 0x1f, 0xd6};
#else
    static const unsigned char code[8] = {0xff, 0x25, 2, 0, 0, 0, 0x0f, 0x0b};
#endif
    memcpy(w, code, 8); /* jump to the address that follows */
    memcpy(w + 8, &to, 8);
}

static tnp_rc find_symbols(obj *o)
{
    for (size_t i = 1; i < o->nsym; i++) {
        const Elf64_Sym *s = &o->sym[i];
        const unsigned type = ELF64_ST_TYPE(s->st_info);
        if (s->st_name >= o->nnames) return bad(o, "a symbol's name lies outside it");
        if (type == STT_FILE || s->st_shndx == SHN_ABS) continue;
        if (s->st_shndx == SHN_UNDEF) {
            any_fn *fn = known(o->names + s->st_name);
            if (!fn)
                return cpu__fail(o->e, TNP_E_ARG, 0,
                                 "CPU: object: it wants %.60s, which is not there",
                                 o->names + s->st_name);
            o->addr[i] = o->stubs + i * STUB;
            void *to;
            memcpy(&to, &fn, sizeof to);
            put_stub(o->addr[i], to);
        } else if (s->st_shndx >= o->h->e_shnum || s->st_value > o->sec[s->st_shndx].sh_size) {
            return bad(o, "a symbol lies outside its section");
        } else if (o->at[s->st_shndx]) {
            o->addr[i] = o->at[s->st_shndx] + s->st_value;
        }
        memcpy(o->got + 8 * i, &o->addr[i], 8);
    }
    return TNP_OK;
}

/* ---- step 3: S + A, P: target and place; false: not known, or out of reach ---- */

static bool fits(int64_t v, int bits)
{
    const int64_t most = (int64_t)1 << (bits - 1);
    return v >= -most && v < most;
}

static uint64_t number(const void *p) { return (uint64_t)(uintptr_t)p; }

#if defined(__aarch64__)
/* Puts v's low `bits` bits at `at` of the instruction. */
static void patch(unsigned char *p, int64_t v, int bits, int at)
{
    uint32_t w, mask = (uint32_t)((UINT64_C(1) << bits) - 1);
    memcpy(&w, p, 4);
    w = (w & ~(mask << at)) | ((uint32_t)v & mask) << at;
    memcpy(p, &w, 4);
}

static bool low12(unsigned char *p, uint64_t to, int scale)
{
    const uint64_t v = to & 0xfff;
    patch(p, (int64_t)(v >> scale), 12, 10);
    return !(v & ((1u << scale) - 1));
}

static bool page21(unsigned char *p, uint64_t to)
{
    const int64_t v = (int64_t)((to & ~UINT64_C(0xfff)) - (number(p) & ~UINT64_C(0xfff))) >> 12;
    patch(p, v, 2, 29);
    patch(p, v >> 2, 19, 5);
    return fits(v, 21);
}

static bool relocate(unsigned char *p, size_t room, uint32_t type, uint64_t to, uint64_t got)
{
    const int64_t rel = (int64_t)(to - number(p));
    const uint32_t w = (uint32_t)rel;
    if (room < 4) return false;
    switch (type) {
    case R_AARCH64_NONE: return true;
    case R_AARCH64_ABS64:
        if (room < 8) return false;
        memcpy(p, &to, 8);
        return true;
    case R_AARCH64_PREL64:
        if (room < 8) return false;
        memcpy(p, &rel, 8);
        return true;
    case R_AARCH64_PREL32: memcpy(p, &w, 4); return fits(rel, 32);
    case R_AARCH64_CALL26:
    case R_AARCH64_JUMP26: patch(p, rel >> 2, 26, 0); return !(rel & 3) && fits(rel, 28);
    case R_AARCH64_CONDBR19: patch(p, rel >> 2, 19, 5); return !(rel & 3) && fits(rel, 21);
    case R_AARCH64_TSTBR14: patch(p, rel >> 2, 14, 5); return !(rel & 3) && fits(rel, 16);
    case R_AARCH64_ADR_PREL_LO21:
        patch(p, rel, 2, 29);
        patch(p, rel >> 2, 19, 5);
        return fits(rel, 21);
    case R_AARCH64_ADR_PREL_PG_HI21: return page21(p, to);
    case R_AARCH64_ADD_ABS_LO12_NC:
    case R_AARCH64_LDST8_ABS_LO12_NC: return low12(p, to, 0);
    case R_AARCH64_LDST16_ABS_LO12_NC: return low12(p, to, 1);
    case R_AARCH64_LDST32_ABS_LO12_NC: return low12(p, to, 2);
    case R_AARCH64_LDST64_ABS_LO12_NC: return low12(p, to, 3);
    case R_AARCH64_LDST128_ABS_LO12_NC: return low12(p, to, 4);
    case R_AARCH64_ADR_GOT_PAGE: return page21(p, got);
    case R_AARCH64_LD64_GOT_LO12_NC: return low12(p, got, 3);
    default: return false;
    }
}
#else
static bool relocate(unsigned char *p, size_t room, uint32_t type, uint64_t to, uint64_t got)
{
    const int64_t rel = (int64_t)(to - number(p)), grel = (int64_t)(got - number(p));
    const uint32_t w = (uint32_t)rel, g = (uint32_t)grel;
    if (room < 4) return false;
    switch (type) {
    case R_X86_64_NONE: return true;
    case R_X86_64_64:
        if (room < 8) return false;
        memcpy(p, &to, 8);
        return true;
    case R_X86_64_PC64:
        if (room < 8) return false;
        memcpy(p, &rel, 8);
        return true;
    case R_X86_64_PC32:
    case R_X86_64_PLT32: memcpy(p, &w, 4); return fits(rel, 32);
    case R_X86_64_GOTPCREL:
    case R_X86_64_GOTPCRELX:
    case R_X86_64_REX_GOTPCRELX: memcpy(p, &g, 4); return fits(grel, 32);
    default: return false;
    }
}
#endif

static tnp_rc relocate_section(obj *o, const Elf64_Shdr *s)
{
    if (s->sh_info >= o->h->e_shnum || s->sh_entsize != sizeof(Elf64_Rela) || s->sh_offset % 8)
        return bad(o, "its relocations are damaged");
    unsigned char *at = o->at[s->sh_info];
    const Elf64_Rela *r = (const void *)(o->p + s->sh_offset);
    const size_t room = o->sec[s->sh_info].sh_size;
    if (!at) return TNP_OK;
    for (size_t i = 0; i < s->sh_size / sizeof *r; i++) {
        const uint64_t no = ELF64_R_SYM(r[i].r_info);
        if (r[i].r_offset > room || no >= o->nsym || !o->addr[no])
            return bad(o, "a relocation names what is not loaded");
        const uint64_t add = (uint64_t)r[i].r_addend;
        /* of the table, the addend is added to the slot's address (x86-64's -4) */
        if (!relocate(at + r[i].r_offset, room - r[i].r_offset, (uint32_t)ELF64_R_TYPE(r[i].r_info),
                      number(o->addr[no]) + add, number(o->got + 8 * no) + add))
            return cpu__fail(o->e, TNP_E_ARG, (int64_t)ELF64_R_TYPE(r[i].r_info),
                             "CPU: object: a relocation of type %u is not known, or does not reach",
                             (unsigned)ELF64_R_TYPE(r[i].r_info));
    }
    return TNP_OK;
}

/* ---- step 4 and the result ---- */

static tnp_rc seal(obj *o)
{
    __builtin___clear_cache((char *)o->base, (char *)o->base + o->text_bytes);
    if ((o->text_bytes && mprotect(o->base, o->text_bytes, PROT_READ | PROT_EXEC)) ||
        mprotect(o->base + o->text_bytes, o->bytes - o->text_bytes, PROT_READ))
        return cpu__fail(o->e, TNP_E_INTERNAL, errno,
                         "CPU: compiled code may not be run here: %s: run with DEV=INTERP",
                         strerror(errno));
    return TNP_OK;
}

static tnp_rc publish(const obj *o, cpu__image **out)
{
    size_t n = 0;
    cpu__image *m = NULL;
    for (int fill = 0; fill < 2; fill++) {
        if (fill && !(m = cpu__take(sizeof *m + n * sizeof m->sym[0])))
            return cpu__fail(o->e, TNP_E_NOMEM, 0, "CPU: no host memory to load a binary");
        n = 0;
        for (size_t i = 1; i < o->nsym; i++) {
            const Elf64_Sym *s = &o->sym[i];
            const char *name = o->names + s->st_name;
            if (ELF64_ST_TYPE(s->st_info) != STT_FUNC || s->st_shndx == SHN_UNDEF || !o->addr[i] ||
                ELF64_ST_BIND(s->st_info) != STB_GLOBAL || strlen(name) >= NAME ||
                o->addr[i] >= o->base + o->text_bytes)
                continue;
            if (fill) {
                memcpy(m->sym[n].name, name, strlen(name) + 1);
                m->sym[n].at = o->addr[i];
            }
            n++;
        }
    }
    m->nsym = (uint32_t)n;
    m->base = o->base;
    m->bytes = o->bytes;
    *out = m;
    return TNP_OK;
}

bool cpu__is_object(const void *bin, size_t n)
{
    Elf64_Half type;
    if (n < sizeof(Elf64_Ehdr)) return false;
    memcpy(&type, (const char *)bin + offsetof(Elf64_Ehdr, e_type), sizeof type);
    return !memcmp(bin, ELFMAG, SELFMAG) && type == ET_REL;
}

tnp_rc cpu__image_load(const void *bin, size_t n, cpu__image **out, tnp_err *e)
{
    unsigned char *copy = cpu__take(n); /* aligned */
    obj *o = cpu__take(sizeof *o);
    tnp_rc rc = TNP_OK;
    *out = NULL;
    if (!copy || !o) {
        rc = cpu__fail(e, TNP_E_NOMEM, 0, "CPU: no host memory to load a binary");
        goto out;
    }
    memcpy(copy, bin, n);
    *o = (obj){.p = copy, .n = n, .e = e};
    rc = open_object(o);
    if (!rc && !(o->addr = cpu__take((o->nsym + 1) * sizeof *o->addr)))
        rc = cpu__fail(e, TNP_E_NOMEM, 0, "CPU: no host memory to load a binary");
    if (!rc) rc = place(o);
    if (!rc) rc = find_symbols(o);
    for (unsigned i = 0; !rc && i < o->h->e_shnum; i++)
        if (o->sec[i].sh_type == SHT_RELA) rc = relocate_section(o, &o->sec[i]);
    if (!rc) rc = seal(o);
    if (!rc) rc = publish(o, out);
    if (rc && o->base) munmap(o->base, o->bytes);
    cpu__give(o->addr);
out:
    cpu__give(o);
    cpu__give(copy);
    return rc;
}

cpu__kernel *cpu__image_find(const cpu__image *m, const char *name)
{
    for (uint32_t i = 0; i < m->nsym; i++) {
        if (strcmp(m->sym[i].name, name)) continue;
        cpu__kernel *fn;
        memcpy(&fn, &m->sym[i].at, sizeof fn);
        return fn;
    }
    return NULL;
}

void cpu__image_free(cpu__image *m)
{
    if (!m) return;
    munmap(m->base, m->bytes);
    cpu__give(m);
}
